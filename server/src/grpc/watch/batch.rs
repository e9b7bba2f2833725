//! A message of changes while it is collected.

use std::collections::HashSet;

use heureka_model::{Change, Version, Wall, instance_hash};
use heureka_proto::convert::timestamp;
use heureka_proto::v1;
use prost::Message as _;

use crate::grpc::lists::{ENTRY_OVERHEAD, MAX_MESSAGE};

/// A change as it goes out.
pub(super) struct Told {
    pub(super) revision: u64,
    key: u64,
    bytes: usize,
    committed: Option<Wall>,
    change: v1::Change,
}

impl Told {
    /// `committed` is the time of the oldest change that was read together with this one.
    pub(super) fn new(change: Change, committed: Option<Wall>) -> Self {
        let revision = change.revision;
        let key = instance_hash(change.key.as_ref(), &Version::default());
        let change = v1::Change::from(change);
        Self { revision, key, bytes: change.encoded_len() + ENTRY_OVERHEAD, committed, change }
    }
}

/// Changes of different keys, few and small enough for one message.
pub(super) struct Batch {
    changes: Vec<v1::Change>,
    keys: HashSet<u64>,
    max: usize,
    bytes: usize,
    revision: u64,
    committed: Option<Wall>,
}

impl Batch {
    pub(super) fn new(max: usize) -> Self {
        Self { changes: Vec::new(), keys: HashSet::new(), max, bytes: 0, revision: 0, committed: None }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether one more change fits. The first always does; a second one of the same key never.
    pub(super) fn has_room(&self, told: &Told) -> bool {
        self.is_empty()
            || self.len() < self.max
                && self.bytes + told.bytes <= MAX_MESSAGE
                && !self.keys.contains(&told.key)
    }

    pub(super) fn push(&mut self, told: Told) {
        self.bytes += told.bytes;
        self.revision = told.revision;
        self.keys.insert(told.key);
        self.committed = match (self.committed, told.committed) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        self.changes.push(told.change);
    }

    pub(super) fn message(self) -> v1::ChangeBatch {
        v1::ChangeBatch {
            changes: self.changes,
            revision: self.revision,
            commit_time: self.committed.map(timestamp),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use heureka_model::{
        ChangeKind, Instance, InstanceKey, LeaseTimes, Overlay, Registration, RemovalReason,
    };

    use super::*;

    fn removed(id: &str, revision: u64, committed: u64) -> Told {
        let key = InstanceKey { namespace: String::new(), app: "WEB".into(), id: id.into() };
        let kind = ChangeKind::Removed(RemovalReason::Expired);
        let change = Change { kind, key, version: Version::default(), revision, registration: None };
        Told::new(change, Some(Wall(committed)))
    }

    fn added(id: &str, value: usize) -> Told {
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
        Told::new(Change { kind, key, version: Version::default(), revision: 1, registration }, None)
    }

    #[test]
    fn a_key_stands_in_a_message_once() {
        let mut batch = Batch::new(10);
        batch.push(removed("a", 1, 5));
        assert!(batch.has_room(&removed("b", 2, 5)));
        assert!(!batch.has_room(&removed("a", 2, 5)));
    }

    #[test]
    fn a_message_ends_at_its_number_of_changes_and_at_a_mebibyte() {
        let mut batch = Batch::new(1);
        assert!(batch.has_room(&removed("a", 1, 5)));
        batch.push(removed("a", 1, 5));
        assert!(!batch.has_room(&removed("b", 2, 5)));

        let mut batch = Batch::new(10);
        batch.push(added("a", 600 << 10));
        assert!(!batch.has_room(&added("b", 600 << 10)));
        assert!(batch.has_room(&added("b", 300 << 10)));
        batch.push(added("b", 300 << 10));
        assert!(batch.message().encoded_len() <= MAX_MESSAGE);
    }

    #[test]
    fn a_message_tells_its_last_revision_and_its_oldest_commit() {
        let mut batch = Batch::new(10);
        batch.push(removed("a", 3, 9));
        batch.push(removed("b", 7, 8));
        let message = batch.message();
        assert_eq!((message.revision, message.commit_time), (7, Some(timestamp(Wall(8)))));
    }
}
