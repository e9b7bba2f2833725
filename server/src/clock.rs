//! The only place that reads time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use heureka_model::{Clock, Mono, Now, Wall};

/// How far the wall clock may part from what was told before it is followed.
///
/// Both clocks are cut to milliseconds at different moments of one, so their difference wobbles by one. Times that
/// are worked out from it (the last renewal) would then differ from read to read.
const WOBBLE_MS: u64 = 2;

/// The machine's two clocks.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
    /// Wall time at the start, as far as is known; moves when the wall clock is set.
    anchor_ms: AtomicU64,
}

/// Measures how long something takes.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl SystemClock {
    /// A clock whose monotonic side starts at zero here.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this file is where time is read")]
    pub fn new() -> Self {
        Self { start: Instant::now(), anchor_ms: AtomicU64::new(wall_ms()) }
    }

    /// Wall time at this point of the monotonic clock.
    fn wall(&self, mono: Mono, measured_ms: u64) -> Wall {
        let told = self.anchor_ms.load(Ordering::Relaxed).saturating_add(mono.0);
        if told.abs_diff(measured_ms) <= WOBBLE_MS {
            return Wall(told);
        }
        self.anchor_ms.store(measured_ms.saturating_sub(mono.0), Ordering::Relaxed);
        Wall(measured_ms)
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    /// Both clocks. The wall clock may step in either direction without any effect on the monotonic one; before
    /// 1970 it reads as 1970.
    fn now(&self) -> Now {
        let mono = Mono::default().plus(self.start.elapsed());
        Now { mono, wall: self.wall(mono, wall_ms()) }
    }
}

#[expect(clippy::disallowed_methods, reason = "this file is where time is read")]
fn wall_ms() -> u64 {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Wall::default().plus(wall).0
}

impl Stopwatch {
    /// Starts measuring.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this file is where time is read")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Seconds since the start.
    #[must_use]
    pub fn seconds(self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monotonic_time_never_runs_back() {
        let clock = SystemClock::new();
        let readings: Vec<_> = (0..1000).map(|_| clock.now().mono).collect();
        assert!(readings.is_sorted());
    }

    #[test]
    fn the_clocks_keep_their_distance_until_the_wall_clock_is_set() {
        let clock = SystemClock { start: SystemClock::new().start, anchor_ms: AtomicU64::new(1_000_000) };
        for wobble in [0, 1, 2] {
            assert_eq!(clock.wall(Mono(50), 1_000_050 + wobble), Wall(1_000_050));
            assert_eq!(clock.wall(Mono(50), 1_000_050 - wobble), Wall(1_000_050));
        }
        assert_eq!(clock.wall(Mono(60), 2_000_000), Wall(2_000_000), "set ahead");
        assert_eq!(clock.wall(Mono(70), 2_000_011), Wall(2_000_010));
        assert_eq!(clock.wall(Mono(80), 40), Wall(40), "set back, before the server's start");
    }

    #[test]
    fn wall_time_is_of_this_century() {
        assert!(SystemClock::new().now().wall > Wall(1_700_000_000_000));
    }
}
