//! The server's own pauses. The lease clock leaves them out, so that nobody's lease runs out while nobody could
//! renew; how old a sign of life truly is counts them in, since other servers went on.

use std::collections::VecDeque;
use std::time::Duration;

use heureka_model::Mono;

/// Pauses remembered. Of signs of life before the oldest only the later pauses are known.
const REMEMBERED: usize = 64;

/// Pauses in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    /// Lease time at which one began, and all that was paused before it.
    begun: VecDeque<(Mono, Duration)>,
    total: Duration,
}

impl Pauses {
    /// Notes a pause that began at lease time `begun`.
    pub(crate) fn note(&mut self, begun: Mono, length: Duration) {
        if self.begun.len() == REMEMBERED {
            self.begun.pop_front();
        }
        self.begun.push_back((begun, self.total));
        self.total += length;
    }

    /// The monotonic time at which it was `lease` on the lease clock.
    pub(crate) fn true_time(&self, lease: Mono) -> Mono {
        let after = self.begun.iter().find(|(begun, _)| lease <= *begun);
        lease.plus(after.map_or(self.total, |(_, before)| *before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_heard_before_a_pause_is_as_old_as_the_pause_makes_it() {
        let mut pauses = Pauses::default();
        assert_eq!(pauses.true_time(Mono(500)), Mono(500));
        pauses.note(Mono(1000), Duration::from_millis(300));
        pauses.note(Mono(2000), Duration::from_millis(50));
        let times = [500, 1000, 1001, 2000, 2001].map(|lease| pauses.true_time(Mono(lease)).0);
        assert_eq!(times, [500, 1000, 1301, 2300, 2351]);
    }

    #[test]
    fn only_so_many_are_remembered() {
        let mut pauses = Pauses::default();
        for begun in 0..1000 {
            pauses.note(Mono(begun * 10), Duration::from_millis(1));
        }
        assert_eq!(pauses.begun.len(), REMEMBERED);
        assert_eq!(pauses.true_time(Mono(9991)), Mono(10991));
    }
}
