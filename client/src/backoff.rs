//! Waits between attempts.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(30);

/// Waits that double from 0.1 s to a longest one, each drawn evenly from nothing to its bound, so that clients that
/// lost the same server do not come back together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    bound: Duration,
    longest: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self::up_to(LONGEST)
    }
}

impl Backoff {
    /// Waits of at most `longest`, and never more than 30 s.
    pub(crate) fn up_to(longest: Duration) -> Self {
        let longest = longest.min(LONGEST);
        Self { bound: FIRST.min(longest), longest }
    }

    /// The next wait, for a random `share` between 0 and 1.
    pub(crate) fn next(&mut self, share: f64) -> Duration {
        self.next_within(Duration::ZERO, share)
    }

    /// The next wait, drawn from nothing to `told` where that is more than the own bound.
    pub(crate) fn next_within(&mut self, told: Duration, share: f64) -> Duration {
        let wait = self.bound.max(told).mul_f64(share.clamp(0.0, 1.0));
        self.bound = (self.bound * 2).min(self.longest);
        wait
    }

    /// All is well: the next wait is a short one.
    pub(crate) fn reset(&mut self) {
        *self = Self::up_to(self.longest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound() {
        let mut backoff = Backoff::default();
        let waits: Vec<u128> = (0..11).map(|_| backoff.next(1.0).as_millis()).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]);
    }

    #[test]
    fn a_shorter_bound_is_kept_after_a_reset_too() {
        let mut backoff = Backoff::up_to(Duration::from_millis(150));
        for _ in 0..2 {
            assert_eq!([1.0, 1.0, 1.0].map(|share| backoff.next(share).as_millis()), [100, 150, 150]);
            backoff.reset();
        }
    }

    #[test]
    fn a_wider_bound_that_was_told_is_taken_once() {
        let mut backoff = Backoff::default();
        let waits =
            [500, 0, 50].map(|told| backoff.next_within(Duration::from_millis(told), 1.0).as_millis());
        assert_eq!(waits, [500, 200, 400]);
    }

    #[test]
    fn a_wait_is_a_share_of_its_bound() {
        assert_eq!(Backoff::default().next(0.0), Duration::ZERO);
        assert_eq!(Backoff::default().next(0.5), Duration::from_millis(50));
        assert_eq!(Backoff::default().next(7.0), FIRST);
    }
}
