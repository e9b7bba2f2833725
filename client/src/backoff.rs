//! Waits between attempts.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(30);

/// Waits that double from 0.1 s to 30 s, each drawn evenly from nothing to its bound, so that clients that lost
/// the same server do not come back together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    bound: Duration,
}

impl Backoff {
    pub(crate) fn new() -> Self {
        Self { bound: FIRST }
    }

    /// The next wait, for a random `share` between 0 and 1.
    pub(crate) fn next(&mut self, share: f64) -> Duration {
        let wait = self.bound.mul_f64(share.clamp(0.0, 1.0));
        self.bound = (self.bound * 2).min(LONGEST);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound() {
        let mut backoff = Backoff::new();
        let waits: Vec<u128> = (0..11).map(|_| backoff.next(1.0).as_millis()).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]);
    }

    #[test]
    fn a_wait_is_a_share_of_its_bound() {
        assert_eq!(Backoff::new().next(0.0), Duration::ZERO);
        assert_eq!(Backoff::new().next(0.5), Duration::from_millis(50));
        assert_eq!(Backoff::new().next(7.0), FIRST);
    }
}
