//! How long to wait before the next try.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);
/// A connection that held for so long was a good one.
const HEALTHY: Duration = Duration::from_secs(30);

/// Waits that double up to five seconds, each drawn anew from zero to its length, so that servers which lost each
/// other at the same moment do not try at the same moment.
pub(super) struct Backoff {
    tries: u32,
    random: SmallRng,
}

impl Backoff {
    pub(super) fn new(seed: u64) -> Self {
        Self { tries: 0, random: SmallRng::seed_from_u64(seed) }
    }

    /// The wait after a try that held for `held`.
    pub(super) fn after(&mut self, held: Duration) -> Duration {
        if held >= HEALTHY {
            self.tries = 0;
        }
        let longest = FIRST.saturating_mul(1 << self.tries.min(10)).min(LONGEST);
        self.tries = self.tries.saturating_add(1);
        longest.mul_f64(self.random.random_range(0.0..=1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_five_seconds_and_fall_only_after_health() {
        let longest = |backoff: &Backoff| {
            let waits = (0..200).map(|seed| {
                let mut same = Backoff { tries: backoff.tries, ..Backoff::new(seed) };
                same.after(Duration::ZERO)
            });
            waits.max().unwrap()
        };
        let mut backoff = Backoff::new(1);
        let mut before = Duration::ZERO;
        for _ in 0..6 {
            let most = longest(&backoff);
            assert!(most > before && most <= LONGEST, "{most:?}");
            before = most;
            backoff.after(Duration::from_secs(29));
        }
        backoff.after(Duration::from_secs(29));
        assert!(longest(&backoff) > Duration::from_secs(4));
        backoff.after(HEALTHY);
        assert!(longest(&backoff) <= 2 * FIRST);
    }
}
