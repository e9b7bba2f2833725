//! The two clocks. Leases run on the monotonic one, the wires show the other; neither is read here.

use std::time::Duration;

/// A point on the server's monotonic clock, in milliseconds since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mono(pub u64);

/// A point on the wall clock, in milliseconds since the Unix epoch. Never used to time a lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wall(pub u64);

/// One reading of both clocks, taken once per request and passed down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Monotonic clock.
    pub mono: Mono,
    /// Wall clock.
    pub wall: Wall,
}

/// Whoever reads the clocks: the process itself, or a test that moves them by hand.
pub trait Clock: Send + Sync + 'static {
    /// Both clocks at this moment.
    fn now(&self) -> Now;
}

impl Mono {
    /// The point `duration` later, at the end of time if there is none.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(millis(duration)))
    }

    /// Time from `earlier` to here; zero when `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl Wall {
    /// The point `duration` later, at the end of time if there is none.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(millis(duration)))
    }

    /// The point `duration` earlier, at the epoch if there is none.
    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(millis(duration)))
    }
}

/// Whole milliseconds; durations beyond 500 million years saturate.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
