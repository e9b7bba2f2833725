//! A message of changes while it is collected.

use std::collections::HashSet;

use bytes::Bytes;
use foldhash::fast::FixedState;
use heureka_model::Wall;
use heureka_proto::convert::timestamp;
use heureka_proto::{served, v1};
use heureka_registry::{Frame, Told};
use prost::Message as _;

use crate::grpc::lists::ENTRY_OVERHEAD;

/// Bytes at which a message ends; a larger change stands in one alone. It bounds what waits for a client that
/// does not read.
pub(super) const MAX_MESSAGE: usize = 64 << 10;

/// An encoded change as it waits for its message.
pub(super) struct Waiting {
    pub(super) revision: u64,
    key_hash: u64,
    committed: Option<Wall>,
    bytes: Bytes,
}

impl Waiting {
    /// `committed` is the time of the oldest change that was read together with this one.
    pub(super) fn new(told: &Told, committed: Option<Wall>) -> Self {
        Self { revision: told.revision, key_hash: told.key_hash(), committed, bytes: encoded(told) }
    }
}

fn encoded(told: &Told) -> Bytes {
    told.encoded(|change| {
        let mut wire = v1::Change::from(change.clone());
        wire.instance.iter_mut().for_each(|instance| instance.suspect = told.is_overdue());
        wire.encode_to_vec().into()
    })
}

/// A message of all changes of a frame, if they fit into one.
pub(super) fn whole(frame: &Frame) -> Option<Bytes> {
    let message = served::ChangeBatch {
        changes: frame.changes.iter().map(|told| encoded(told)).collect(),
        revision: frame.changes.last()?.revision,
        commit_time: frame.committed.map(timestamp),
    };
    let fits = message.changes.len() == 1 || message.encoded_len() <= MAX_MESSAGE;
    fits.then(|| message.encode_to_vec().into())
}

/// Changes of different keys, few and small enough for one message.
pub(super) struct Batch {
    changes: Vec<Bytes>,
    keys: HashSet<u64, FixedState>,
    max: usize,
    bytes: usize,
    revision: u64,
    committed: Option<Wall>,
}

impl Batch {
    pub(super) fn new(max: usize) -> Self {
        Self { changes: Vec::new(), keys: HashSet::default(), max, bytes: 0, revision: 0, committed: None }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether nothing more fits, whatever comes.
    pub(super) fn is_full(&self) -> bool {
        self.len() >= self.max || self.bytes >= MAX_MESSAGE
    }

    /// Takes one more change in, or gives back what does not fit. The first always does; a second one of the same
    /// key never.
    pub(super) fn offer(&mut self, change: Waiting) -> Option<Waiting> {
        let size = change.bytes.len() + ENTRY_OVERHEAD;
        if !self.is_empty() && (self.is_full() || self.bytes + size > MAX_MESSAGE) {
            return Some(change);
        }
        if !self.keys.insert(change.key_hash) {
            return Some(change);
        }
        self.bytes += size;
        self.revision = change.revision;
        self.committed = match (self.committed, change.committed) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        self.changes.push(change.bytes);
        None
    }

    /// The encoded message.
    pub(super) fn message(self) -> Bytes {
        let message = served::ChangeBatch {
            changes: self.changes,
            revision: self.revision,
            commit_time: self.committed.map(timestamp),
        };
        message.encode_to_vec().into()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use heureka_model::{
        Change, ChangeKind, Instance, InstanceKey, LeaseTimes, Overlay, Registration, RemovalReason, Version,
    };

    use super::*;

    fn removed(id: &str, revision: u64, committed: u64) -> Waiting {
        let key = InstanceKey { namespace: String::new(), app: "WEB".into(), id: id.into() };
        let kind = ChangeKind::Removed(RemovalReason::Expired);
        let change = Change { kind, key, version: Version::default(), revision, registration: None };
        Waiting::new(&Told::new(change), Some(Wall(committed)))
    }

    fn added(id: &str, value: usize) -> Waiting {
        let key = InstanceKey { namespace: String::new(), app: "WEB".into(), id: id.into() };
        let mut instance = Instance::new(key.clone());
        instance.metadata.insert("k".into(), "v".repeat(value));
        let registration = Registration {
            instance,
            overlay: Overlay::default(),
            version: Version::default(),
            times: LeaseTimes::default(),
            revision: 1,
        };
        let kind = ChangeKind::Added;
        let registration = Some(Arc::new(registration));
        let change = Change { kind, key, version: Version::default(), revision: 1, registration };
        Waiting::new(&Told::new(change), None)
    }

    /// Whether the change went into the batch.
    fn fits(batch: &mut Batch, change: Waiting) -> bool {
        batch.offer(change).is_none()
    }

    #[test]
    fn a_key_stands_in_a_message_once() {
        let mut batch = Batch::new(10);
        assert!(fits(&mut batch, removed("a", 1, 5)));
        assert!(fits(&mut batch, removed("b", 2, 5)));
        assert!(!fits(&mut batch, removed("a", 3, 5)));
    }

    #[test]
    fn a_message_ends_at_its_number_of_changes() {
        let mut batch = Batch::new(1);
        assert!(!batch.is_full());
        assert!(fits(&mut batch, removed("a", 1, 5)));
        assert!(batch.is_full() && !fits(&mut batch, removed("b", 2, 5)));
    }

    #[test]
    fn a_message_ends_at_its_size_to_the_byte() {
        let (mut least_refused, mut most_taken) = (usize::MAX, 0);
        for value in (32 << 10) - 400..(32 << 10) + 400 {
            let mut batch = Batch::new(10);
            assert!(fits(&mut batch, added("a", 32 << 10)));
            if fits(&mut batch, added("b", value)) {
                most_taken = value;
                assert!(batch.message().len() <= MAX_MESSAGE);
            } else {
                least_refused = least_refused.min(value);
            }
        }
        assert_eq!(least_refused, most_taken + 1);
    }

    #[test]
    fn a_change_larger_than_a_message_stands_alone() {
        let mut batch = Batch::new(10);
        assert!(fits(&mut batch, added("a", 500 << 10)));
        assert!(batch.is_full() && !fits(&mut batch, removed("b", 2, 5)));
        let mut batch = Batch::new(10);
        assert!(fits(&mut batch, removed("b", 2, 5)));
        assert!(!fits(&mut batch, added("a", 500 << 10)));
    }

    #[test]
    fn a_message_tells_its_last_revision_and_its_oldest_commit() {
        let mut batch = Batch::new(10);
        assert!(fits(&mut batch, removed("a", 3, 9)));
        assert!(fits(&mut batch, removed("b", 7, 8)));
        let message = served::ChangeBatch::decode(batch.message()).unwrap();
        assert_eq!((message.revision, message.commit_time), (7, Some(timestamp(Wall(8)))));
    }
}
