//! The only place that reads time.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use heureka_model::{Clock, Mono, Now, Wall};

/// The machine's two clocks.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

/// Measures how long something takes.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl SystemClock {
    /// A clock whose monotonic side starts at zero here.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this file is where time is read")]
    pub fn new() -> Self {
        Self { start: Instant::now() }
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
    #[expect(clippy::disallowed_methods, reason = "this file is where time is read")]
    fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Now { mono: Mono::default().plus(self.start.elapsed()), wall: Wall::default().plus(wall) }
    }
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
    fn wall_time_is_of_this_century() {
        assert!(SystemClock::new().now().wall > Wall(1_700_000_000_000));
    }
}
