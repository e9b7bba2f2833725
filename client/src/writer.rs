//! The order of this process's own writes.

use std::collections::HashMap;

use bytes::Bytes;
use heureka_model::{InstanceKey, Wall};
use heureka_proto::v1;

/// Who writes, and what was written. Versions start from the wall clock, so that they outrank those of an earlier
/// life even on a server that never saw it, and continue from what servers return, so that a wrong clock does not
/// matter for long.
#[derive(Debug)]
pub(crate) struct Writer {
    incarnation: Bytes,
    /// Greatest version used or returned.
    last: u64,
    first: bool,
    acknowledged: HashMap<InstanceKey, u64>,
}

impl Writer {
    pub(crate) fn new(incarnation: [u8; 16]) -> Self {
        let incarnation = Bytes::copy_from_slice(&incarnation);
        Self { incarnation, last: 0, first: true, acknowledged: HashMap::new() }
    }

    /// The next write.
    pub(crate) fn next(&mut self, now: Wall) -> v1::Writer {
        self.last = self.last.saturating_add(1).max(now.0);
        v1::Writer { incarnation: self.incarnation.clone(), version: self.last, first: self.first }
    }

    /// The last acknowledged write of `key`, as a renewal states it.
    pub(crate) fn renewal(&self, key: &InstanceKey) -> Option<v1::Writer> {
        let version = *self.acknowledged.get(key)?;
        Some(v1::Writer { incarnation: self.incarnation.clone(), version, first: self.first })
    }

    /// The server stores this version of `key` now.
    pub(crate) fn acknowledge(&mut self, key: &InstanceKey, owner: u64) {
        self.raise(owner);
        self.first = false;
        self.acknowledged.insert(key.clone(), owner);
    }

    /// The instance is gone.
    pub(crate) fn forget(&mut self, key: &InstanceKey, owner: u64) {
        self.raise(owner);
        self.first = false;
        self.acknowledged.remove(key);
    }

    /// Somebody else holds this version: the next one has to be greater.
    pub(crate) fn raise(&mut self, owner: u64) {
        self.last = self.last.max(owner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> InstanceKey {
        InstanceKey { namespace: String::new(), app: "WEB".into(), id: "n1".into() }
    }

    #[test]
    fn versions_rise_above_whatever_was_returned() {
        let mut writer = Writer::new([7; 16]);
        let first = writer.next(Wall(7));
        assert_eq!(first.version, 7);
        assert!(first.first && first.incarnation.len() == 16);
        writer.acknowledge(&key(), 1000);
        let second = writer.next(Wall(8));
        assert_eq!((second.version, second.first), (1001, false));
        writer.raise(5);
        assert_eq!(writer.next(Wall(0)).version, 1002);
        assert_eq!(writer.next(Wall(5000)).version, 5000);
    }

    #[test]
    fn a_renewal_states_the_acknowledged_version_only() {
        let mut writer = Writer::new([7; 16]);
        assert_eq!(writer.renewal(&key()), None);
        writer.acknowledge(&key(), 1000);
        writer.next(Wall(0));
        assert_eq!(writer.renewal(&key()).unwrap().version, 1000);
        writer.forget(&key(), 1001);
        assert_eq!(writer.renewal(&key()), None);
    }
}
