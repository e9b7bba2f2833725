//! The hybrid logical clock: wall time where it moves on, a counter where it does not.

use heureka_model::Stamp;

/// Bits of the counter below the milliseconds.
const COUNTER_BITS: u32 = 16;

/// Clock of one life of the server. Two lives never give the same stamp, whatever the wall clock does.
pub(crate) struct HybridClock {
    last: u64,
    /// The last clock given.
    given: u64,
    boot: u64,
}

impl HybridClock {
    pub(crate) fn new(boot: u64) -> Self {
        Self { last: 0, given: 0, boot }
    }

    /// A stamp above every one before.
    pub(crate) fn next(&mut self, wall_ms: u64) -> Stamp {
        self.last = (wall_ms << COUNTER_BITS).max(self.last + 1);
        self.given = self.last;
        Stamp { clock: self.last, boot: self.boot }
    }

    /// The last clock given; 0 before the first.
    pub(crate) fn given(&self) -> u64 {
        self.given
    }

    /// The last clock given or seen.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Stays ahead of a clock that somebody else showed.
    pub(crate) fn observe(&mut self, clock: u64) {
        self.last = self.last.max(clock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_grow_even_while_the_wall_clock_goes_back() {
        let mut clock = HybridClock::new(9);
        let first = clock.next(1000);
        let second = clock.next(500);
        assert!(second > first);
        clock.observe(second.clock + 1000);
        assert_eq!(clock.given(), second.clock);
        assert!(clock.next(1000).clock > second.clock + 1000);
        assert_eq!(clock.given(), clock.last());
    }
}
