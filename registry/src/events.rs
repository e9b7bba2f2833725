//! The last changes with their causes, for explanations. Not a log: nothing is built from it.

use std::collections::VecDeque;

use heureka_model::{InstanceKey, KeyRef, RemovalReason, Status, Wall};
use parking_lot::Mutex;

use crate::Origin;
use crate::apply::is_key;
use crate::record::{Life, Record};

/// Events kept of each kind.
const EVENTS: usize = 1000;

/// Bytes of their records kept of each kind at most; a few huge instances shorten what is remembered.
const BYTES: u64 = 4 << 20;

/// What a change did to the set of instances. Each kind is remembered apart, so that a busy one displaces no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// An instance came, or its owner registered it again with other content.
    Registration,
    /// An instance went, or one that was not there was cancelled.
    Removal,
    /// Something changed about an instance that stayed.
    Change,
}

/// Why a key changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Registered while no instance had the key.
    Registered,
    /// Registered again with other content.
    Updated,
    /// The owner reported another status with a renewal.
    StatusReported,
    /// Metadata changed by its own call.
    MetadataChanged,
    /// An operator's override was set.
    OverrideSet,
    /// An operator's override was cleared.
    OverrideCleared,
    /// An operator's override ran out.
    OverrideEnded,
    /// Cancelled.
    Cancelled,
    /// Its lease ran out.
    Expired,
    /// A peer's newer record came in.
    Merged,
    /// A peer's eviction was undone, since this server heard from the instance within its lease.
    Revived,
}

/// One change, remembered for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Key that changed.
    pub key: InstanceKey,
    /// Revision of the change.
    pub revision: u64,
    /// What it did to the set.
    pub kind: EventKind,
    /// Why.
    pub cause: Cause,
    /// Why the instance went; nothing for those that came or stayed.
    pub removal: Option<RemovalReason>,
    /// Status since then, or the last one of an instance that went.
    pub status: Status,
    /// Who.
    pub origin: Origin,
    /// When, on this server's wall clock.
    pub at: Wall,
}

/// A bounded ring of events for each kind; the oldest go first. The key is read out of the record only when asked for.
#[derive(Default)]
pub(crate) struct Events([Mutex<Ring>; 3]);

#[derive(Default)]
struct Ring {
    events: VecDeque<Noted>,
    bytes: u64,
}

#[derive(Clone)]
pub(crate) struct Noted {
    pub(crate) record: Record,
    pub(crate) revision: u64,
    pub(crate) kind: EventKind,
    pub(crate) cause: Cause,
    pub(crate) origin: Origin,
    pub(crate) at: Wall,
}

impl Events {
    pub(crate) fn note(&self, event: Noted) {
        let displaced = self.0[event.kind as usize].lock().push(event);
        // Records are freed outside the lock.
        drop(displaced);
    }

    /// The events after a revision, newest first.
    pub(crate) fn after(&self, revision: u64) -> Vec<Event> {
        told(self.0.iter().flat_map(|ring| ring.lock().after(revision)).collect())
    }

    /// The events of a key, newest first.
    pub(crate) fn of(&self, key: KeyRef<'_>) -> Vec<Event> {
        let mut noted: Vec<Noted> = self.0.iter().flat_map(|ring| ring.lock().after(0)).collect();
        noted.retain(|noted| is_key(&noted.record, key));
        told(noted)
    }
}

impl Ring {
    /// Adds the newest event and returns those that go for it.
    fn push(&mut self, event: Noted) -> Vec<Noted> {
        self.bytes += event.record.size();
        self.events.push_back(event);
        let mut displaced = Vec::new();
        while self.events.len() > EVENTS || (self.bytes > BYTES && self.events.len() > 1) {
            let Some(oldest) = self.events.pop_front() else { break };
            self.bytes -= oldest.record.size();
            displaced.push(oldest);
        }
        displaced
    }

    /// Two writers may note in another order than they were numbered, so all are looked at.
    fn after(&self, revision: u64) -> Vec<Noted> {
        self.events.iter().filter(|noted| noted.revision > revision).cloned().collect()
    }
}

impl Noted {
    fn told(&self) -> Event {
        Event {
            key: self.record.key(),
            revision: self.revision,
            kind: self.kind,
            cause: self.cause,
            removal: removal(self.record.head().life),
            status: self.record.status(),
            origin: self.origin.clone(),
            at: self.at,
        }
    }
}

fn told(mut noted: Vec<Noted>) -> Vec<Event> {
    noted.sort_unstable_by_key(|noted| std::cmp::Reverse(noted.revision));
    noted.iter().map(Noted::told).collect()
}

fn removal(life: Life) -> Option<RemovalReason> {
    match life {
        Life::Live => None,
        Life::Cancelled => Some(RemovalReason::Cancelled),
        Life::Expired => Some(RemovalReason::Expired),
    }
}
