//! A message of changes while it is collected.

use std::collections::HashSet;

use bytes::Bytes;
use heureka_model::{Change, Registration, Version, Wall, instance_hash};
use heureka_proto::convert::timestamp;
use heureka_proto::served;
use prost::Message as _;

use crate::grpc::lists::ENTRY_OVERHEAD;

/// Bytes at which a message ends; a larger change stands in one alone. It bounds what waits for a client that
/// does not read.
pub(super) const MAX_MESSAGE: usize = 64 << 10;

/// A change as it waits for its message. Until then it shares its instance with the log.
pub(super) struct Told {
    pub(super) revision: u64,
    key: u64,
    /// Size in a message; a lower bound until the change is converted.
    bytes: usize,
    committed: Option<Wall>,
    form: Form,
}

enum Form {
    Read(Box<Change>),
    Converted(Box<served::Change>),
}

impl Told {
    /// `committed` is the time of the oldest change that was read together with this one.
    pub(super) fn new(change: Change, committed: Option<Wall>) -> Self {
        let key = instance_hash(change.key.as_ref(), &Version::default());
        let bytes = change.registration.as_ref().map_or(0, |registration| registration.instance.text_size());
        Self { revision: change.revision, key, bytes, committed, form: Form::Read(Box::new(change)) }
    }

    fn converted(self, encode: impl FnOnce(&Registration) -> Bytes) -> Self {
        let Form::Read(change) = self.form else { return self };
        let change = served::Change::new(*change, encode);
        let bytes = change.encoded_len() + ENTRY_OVERHEAD;
        Self { bytes, form: Form::Converted(Box::new(change)), ..self }
    }

    fn into_change(self, encode: impl FnOnce(&Registration) -> Bytes) -> served::Change {
        match self.form {
            Form::Read(change) => served::Change::new(*change, encode),
            Form::Converted(change) => *change,
        }
    }
}

/// Changes of different keys, few and small enough for one message.
pub(super) struct Batch {
    changes: Vec<served::Change>,
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

    /// Whether nothing more fits, whatever comes.
    pub(super) fn is_full(&self) -> bool {
        self.len() >= self.max || self.bytes >= MAX_MESSAGE
    }

    /// Takes one more change in, or gives back what does not fit. The first always does; a second one of the same
    /// key never. `encode` gives the bytes of an instance.
    pub(super) fn offer(&mut self, told: Told, encode: impl Fn(&Registration) -> Bytes) -> Option<Told> {
        // Asked before as well, so that a large change is not converted long before its message.
        if !self.has_room(&told) {
            return Some(told);
        }
        let told = told.converted(&encode);
        if !self.has_room(&told) {
            return Some(told);
        }
        self.push(told, encode);
        None
    }

    fn has_room(&self, told: &Told) -> bool {
        self.is_empty()
            || self.len() < self.max
                && self.bytes + told.bytes <= MAX_MESSAGE
                && !self.keys.contains(&told.key)
    }

    fn push(&mut self, told: Told, encode: impl FnOnce(&Registration) -> Bytes) {
        self.bytes += told.bytes;
        self.revision = told.revision;
        self.keys.insert(told.key);
        self.committed = match (self.committed, told.committed) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        self.changes.push(told.into_change(encode));
    }

    pub(super) fn message(self) -> served::ChangeBatch {
        served::ChangeBatch {
            changes: self.changes,
            revision: self.revision,
            commit_time: self.committed.map(timestamp),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use heureka_model::{ChangeKind, Instance, InstanceKey, LeaseTimes, Overlay, RemovalReason};
    use heureka_proto::convert::encoded;

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

    fn encode(registration: &Registration) -> Bytes {
        encoded(registration.clone())
    }

    /// Whether the change went into the batch.
    fn fits(batch: &mut Batch, told: Told) -> bool {
        batch.offer(told, encode).is_none()
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
                assert!(batch.message().encoded_len() <= MAX_MESSAGE);
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
        let back = batch.offer(added("a", 500 << 10), encode).unwrap();
        assert!(matches!(back.form, Form::Read(_)), "it shares its instance until its message comes");
    }

    #[test]
    fn a_message_tells_its_last_revision_and_its_oldest_commit() {
        let mut batch = Batch::new(10);
        assert!(fits(&mut batch, removed("a", 3, 9)));
        assert!(fits(&mut batch, removed("b", 7, 8)));
        let message = batch.message();
        assert_eq!((message.revision, message.commit_time), (7, Some(timestamp(Wall(8)))));
    }
}
