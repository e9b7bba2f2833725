//! What is due when, apart from leases: ends of overrides and of what is remembered of removals.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use heureka_model::{Mono, Stamp};

/// Appointments in order. One that its key has outlived is kept and found void when due.
#[derive(Default)]
pub(crate) struct Timers {
    soon: BinaryHeap<Reverse<(Mono, Due)>>,
    /// Apart, so that the oldest removal is at hand when there are too many.
    forget: BinaryHeap<Reverse<(Mono, Due)>>,
    /// Appointments left when the void ones were last dropped.
    kept: usize,
}

/// Appointments that are not worth a look at all of them.
const FEW: usize = 10_000;

/// What happens then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    /// The delta window of a removal closes: only key and version are kept.
    Strip { slot: u32, revision: u64 },
    /// The removal is forgotten.
    Forget { slot: u32, revision: u64 },
    /// An override ends by itself, if it is still the one of that stamp.
    OverrideEnds { slot: u32, stamp: Stamp },
}

impl Timers {
    pub(crate) fn set(&mut self, at: Mono, due: Due) {
        self.soon.push(Reverse((at, due)));
    }

    pub(crate) fn forget(&mut self, at: Mono, slot: u32, revision: u64) {
        self.forget.push(Reverse((at, Due::Forget { slot, revision })));
    }

    /// Whether there are so many more than were valid last that a look at all of them pays.
    pub(crate) fn is_crowded(&self) -> bool {
        self.soon.len() + self.forget.len() > FEW + 2 * self.kept
    }

    /// Drops the appointments that are not `valid`.
    pub(crate) fn retain(&mut self, valid: impl Fn(Due) -> bool) {
        self.soon.retain(|Reverse((_, due))| valid(*due));
        self.forget.retain(|Reverse((_, due))| valid(*due));
        self.kept = self.soon.len() + self.forget.len();
    }

    /// An appointment that has come.
    pub(crate) fn next(&mut self, now: Mono) -> Option<Due> {
        pop(&mut self.soon, now).or_else(|| pop(&mut self.forget, now))
    }

    /// The removal that would be forgotten next, due or not.
    pub(crate) fn next_forgotten(&mut self) -> Option<Due> {
        self.forget.pop().map(|Reverse((_, due))| due)
    }
}

fn pop(heap: &mut BinaryHeap<Reverse<(Mono, Due)>>, now: Mono) -> Option<Due> {
    let Reverse((at, due)) = heap.peek()?;
    let due = (*at <= now).then_some(*due)?;
    heap.pop();
    Some(due)
}
