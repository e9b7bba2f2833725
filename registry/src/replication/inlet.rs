//! What came in on a stream, and what is answered to it.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::time::Duration;

use foldhash::fast::FixedState;
use heureka_model::{InstanceKey, Now, Wall};

use super::replicator::{Replicator, is_broken};
use super::{Adoption, Applied, Frame, Merged, Outgoing, Position, Records, Renewals, Reported};
use crate::Refused;
use crate::leases::{Heard, Sign};
use crate::seeded::{Bug, planted};
use crate::store::KeyHash;

/// Short names on one stream; more than a server has instances.
const HANDLES: usize = 4 << 20;

/// Answers waiting on a stream that takes none. What is left out is found by the next digest.
const REPLIES: usize = 256;

/// A clock further ahead is remarkable.
const REMARKABLE: Duration = Duration::from_hours(24);

/// The receiving half of a stream.
pub(super) struct Inlet {
    /// Life of the server at the other end.
    boot: u64,
    handles: HashMap<u32, KeyHash, FixedState>,
    replies: VecDeque<Frame>,
    /// Position in the peer's log to acknowledge.
    ack: Option<u64>,
}

impl Inlet {
    pub(super) fn new(boot: u64) -> Self {
        Self { boot, handles: HashMap::default(), replies: VecDeque::new(), ack: None }
    }

    pub(super) fn boot(&self) -> u64 {
        self.boot
    }

    /// Puts a frame among those that go out next.
    pub(super) fn answer(&mut self, frame: Frame) {
        if self.replies.len() < REPLIES {
            self.replies.push_back(frame);
        }
    }

    pub(super) fn reply(&mut self) -> Option<Frame> {
        let acked = self.ack.take().map(|revision| Frame::Ack(Applied { boot: self.boot, revision }));
        acked.or_else(|| self.replies.pop_front())
    }

    /// Takes records in. `trusting` says that instances are believed that nobody heard from lately.
    pub(super) fn records(&mut self, shared: &Replicator, trusting: bool, records: Records, now: Now) {
        let adoption = if trusting { Adoption::Any } else { Adoption::Fresh };
        let clock = |record: &Outgoing| record.state.owner.written.clock;
        let bad = records.records.iter().any(|record| is_broken(clock(record), now));
        let taken = if planted(Bug::FrameDropped) && bad { Vec::new() } else { records.records };
        for record in taken {
            take(shared, record, adoption, now);
        }
        let sound = |position: &Position| !is_broken(position.clock, now);
        let own = records.covered.map(|clock| Position { boot: self.boot, clock });
        own.into_iter().filter(sound).for_each(|position| shared.registry.cover(position));
        records.vector.into_iter().filter(sound).for_each(|position| shared.registry.adopt(position));
        if records.revision > 0 {
            shared.table().apply(Applied { boot: self.boot, revision: records.revision });
            self.ack = self.ack.max(Some(records.revision));
        }
    }

    /// Takes reports in. Of an instance that is not known here nothing is kept: the next report makes up for it.
    pub(super) fn reports(&self, shared: &Replicator, reports: Vec<Reported>, now: Now) {
        for Reported { key, report, age } in reports {
            if let Err(Refused::Invalid(_)) = shared.registry.report_from_peer(key.as_ref(), report, age, now)
            {
                shared.counters.rejected.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Takes signs of life in, and asks for what is not known here.
    pub(super) fn renewals(&mut self, shared: &Replicator, renewals: &Renewals, now: Now) {
        let registry = &shared.registry;
        let mut unknown: Vec<InstanceKey> = Vec::new();
        for binding in &renewals.bindings {
            let hash = registry.index.hash(binding.key.as_ref());
            if self.handles.len() < HANDLES || self.handles.contains_key(&binding.handle) {
                self.handles.insert(binding.handle, hash);
            }
            if registry.slot_of(binding.key.as_ref()).is_none() {
                unknown.push(binding.key.clone());
            }
        }
        for beat in &renewals.beats {
            let Some(hash) = self.handles.get(&beat.handle) else {
                shared.counters.rejected.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            let sign = Sign { at: registry.heard_at(beat.age, now), heard: Heard::Peer, beaten: true };
            if registry.advance(*hash, sign) {
                shared.counters.renewals.fetch_add(1, Ordering::Relaxed);
            }
        }
        if !unknown.is_empty() {
            self.answer(Frame::Want(unknown));
        }
    }
}

fn take(shared: &Replicator, record: Outgoing, adoption: Adoption, now: Now) {
    let counters = &shared.counters;
    let clock = record.state.owner.written.clock.max(record.state.overlay_stamp.clock);
    if is_broken(clock, now) {
        counters.rejected.fetch_add(1, Ordering::Relaxed);
        return;
    }
    if Wall(clock >> 16) > now.wall.plus(REMARKABLE) {
        counters.clock_ahead.fetch_add(1, Ordering::Relaxed);
    }
    let counter = match shared.registry.merge(record, adoption, now) {
        Ok(Merged::Known) => return,
        Ok(Merged::Taken) => &counters.taken,
        Ok(Merged::Revived) => &counters.revived,
        Ok(Merged::Lapsed) => &counters.lapsed,
        Err(_) => &counters.refused,
    };
    counter.fetch_add(1, Ordering::Relaxed);
}
