//! The last changes with their causes, for explanations. Not a log: nothing is built from it.

use std::cmp::Reverse;
use std::collections::VecDeque;

use heureka_model::{InstanceKey, KeyRef, RemovalReason, Status, Wall};
use parking_lot::Mutex;

use crate::Origin;
use crate::record::Life;

/// Events kept of each kind.
const EVENTS: usize = 1000;

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

/// A bounded ring of events for each kind; the oldest go first. They hold names and no records, so that nothing that is
/// forgotten elsewhere stays because of them.
#[derive(Default)]
pub(crate) struct Events([Mutex<VecDeque<Event>>; 3]);

impl Events {
    pub(crate) fn note(&self, event: Event) {
        let mut events = self.0[event.kind as usize].lock();
        let oldest = if events.len() == EVENTS { events.pop_front() } else { None };
        events.push_back(event);
        drop(events);
        drop(oldest);
    }

    /// The events after a revision, newest first.
    pub(crate) fn after(&self, revision: u64) -> Vec<Event> {
        self.those(|event| event.revision > revision)
    }

    /// The events of a key, newest first.
    pub(crate) fn of(&self, key: KeyRef<'_>) -> Vec<Event> {
        self.those(|event| event.key.as_ref() == key)
    }

    /// Two writers may note in another order than they were numbered, so all are looked at.
    fn those(&self, wanted: impl Fn(&Event) -> bool) -> Vec<Event> {
        let of = |ring: &Mutex<VecDeque<Event>>| -> Vec<Event> {
            ring.lock().iter().filter(|event| wanted(event)).cloned().collect()
        };
        let mut events: Vec<Event> = self.0.iter().flat_map(of).collect();
        events.sort_unstable_by_key(|event| Reverse(event.revision));
        events
    }
}

/// Why an instance is not there any more.
pub(crate) fn removal(life: Life) -> Option<RemovalReason> {
    match life {
        Life::Live => None,
        Life::Cancelled => Some(RemovalReason::Cancelled),
        Life::Expired => Some(RemovalReason::Expired),
    }
}
