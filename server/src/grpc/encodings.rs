//! Instances in their encoded form, made once for all who are told of them.

use std::array;

use bytes::Bytes;
use heureka_model::Registration;
use heureka_proto::convert::encoded;
use heureka_registry::AppCache;
use parking_lot::Mutex;
use std::sync::Arc;

/// Changes whose instance is kept encoded. Watchers at the head are within a few of each other.
const RECENT: usize = 64;
/// Larger instances are encoded for each watcher: what is kept stays below 4 MiB.
const LARGEST: usize = 64 << 10;
/// Bytes of whole applications that are kept.
const APPLICATIONS: usize = 8 << 20;

/// What is kept.
pub(super) struct Encodings {
    /// By revision, modulo their number.
    recent: [Mutex<(u64, Bytes)>; RECENT],
    /// By namespace and name, in the order of their keys.
    pub(super) applications: AppCache<(String, String), Arc<[Bytes]>>,
}

impl Encodings {
    pub(super) fn new() -> Self {
        let recent = array::from_fn(|_| Mutex::default());
        Self { recent, applications: AppCache::new(APPLICATIONS) }
    }

    /// An instance as it has been since the revision that it carries. It is kept if that is one of the last before
    /// `head`, so that a reader of old changes does not displace what readers at the head share.
    pub(super) fn instance(&self, registration: &Registration, head: u64) -> Bytes {
        let revision = registration.revision;
        if head.saturating_sub(revision) >= RECENT as u64 {
            return encoded(registration.clone());
        }
        let mut kept = self.recent[revision as usize % RECENT].lock();
        if kept.0 == revision {
            return kept.1.clone();
        }
        let bytes = encoded(registration.clone());
        if bytes.len() <= LARGEST {
            *kept = (revision, bytes.clone());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use heureka_model::{Instance, InstanceKey, LeaseTimes, Overlay, Version};

    use super::*;

    fn registration(revision: u64, note: usize) -> Registration {
        let key = InstanceKey { namespace: String::new(), app: "WEB".into(), id: "n1".into() };
        let mut instance = Instance::new(key);
        instance.metadata.insert("note".into(), "n".repeat(note));
        let (overlay, version, times) = (Overlay::default(), Version::default(), LeaseTimes::default());
        Registration { instance, overlay, version, times, revision }
    }

    #[test]
    fn an_instance_is_encoded_once_near_the_head() {
        let encodings = Encodings::new();
        let first = encodings.instance(&registration(100, 3), 100);
        let again = encodings.instance(&registration(100, 3), 163);
        assert_eq!(first.as_ptr(), again.as_ptr());
        assert_eq!(first, encoded(registration(100, 3)));
    }

    #[test]
    fn every_revision_has_its_own_bytes() {
        let encodings = Encodings::new();
        for revision in 1..500 {
            let told = registration(revision, revision as usize % 7);
            assert_eq!(encodings.instance(&told, revision + revision % 90), encoded(told));
        }
    }

    #[test]
    fn a_reader_of_old_changes_and_a_large_instance_displace_nothing() {
        let encodings = Encodings::new();
        let kept = encodings.instance(&registration(100, 3), 100);
        encodings.instance(&registration(36, 5), 100);
        encodings.instance(&registration(164, LARGEST), 164);
        assert_eq!(encodings.instance(&registration(100, 3), 101).as_ptr(), kept.as_ptr());
    }
}
