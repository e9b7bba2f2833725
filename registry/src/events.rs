//! The last changes with their causes, for explanations. Not a log: nothing is built from it.

use std::collections::VecDeque;

use heureka_model::{InstanceKey, Wall};
use parking_lot::Mutex;

use crate::Origin;
use crate::record::Record;

/// Events kept.
const EVENTS: usize = 1024;

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
    /// Why.
    pub cause: Cause,
    /// Who.
    pub origin: Origin,
    /// When, on this server's wall clock.
    pub at: Wall,
}

/// A bounded ring of events; the oldest go first. The key is read out of the record only when asked for.
#[derive(Default)]
pub(crate) struct Events(Mutex<VecDeque<Noted>>);

pub(crate) struct Noted {
    pub(crate) record: Record,
    pub(crate) revision: u64,
    pub(crate) cause: Cause,
    pub(crate) origin: Origin,
    pub(crate) at: Wall,
}

impl Events {
    pub(crate) fn note(&self, event: Noted) {
        let mut events = self.0.lock();
        let oldest = if events.len() == EVENTS { events.pop_front() } else { None };
        events.push_back(event);
        drop(events);
        drop(oldest);
    }

    /// The events, newest first.
    pub(crate) fn list(&self) -> Vec<Event> {
        let event = |noted: &Noted| Event {
            key: noted.record.key(),
            revision: noted.revision,
            cause: noted.cause,
            origin: noted.origin.clone(),
            at: noted.at,
        };
        self.0.lock().iter().rev().map(event).collect()
    }
}
