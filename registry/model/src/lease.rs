//! What an owner promises (terms) and what the server saw (times).

use std::time::Duration;

use crate::Wall;

/// Shortest lease and renewal interval that a server grants.
pub const LEASE_MIN: Duration = Duration::from_secs(1);
/// Longest lease and renewal interval that a server grants.
pub const LEASE_MAX: Duration = Duration::from_hours(24);

/// Terms of a lease, in milliseconds as the wires need them: never outside [`LEASE_MIN`] to [`LEASE_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseTerms {
    renewal_interval_ms: u32,
    duration_ms: u32,
}

impl LeaseTerms {
    /// Terms as wanted, each clamped to what a server grants. The answer to a registration tells them back.
    #[must_use]
    pub fn clamped(renewal_interval: Duration, duration: Duration) -> Self {
        Self { renewal_interval_ms: clamped_ms(renewal_interval), duration_ms: clamped_ms(duration) }
    }

    /// How often the owner renews.
    #[must_use]
    pub fn renewal_interval(self) -> Duration {
        Duration::from_millis(u64::from(self.renewal_interval_ms))
    }

    /// How long the lease lives without a renewal.
    #[must_use]
    pub fn duration(self) -> Duration {
        Duration::from_millis(u64::from(self.duration_ms))
    }
}

impl Default for LeaseTerms {
    /// Eureka's: 30 s and 90 s.
    fn default() -> Self {
        Self { renewal_interval_ms: 30_000, duration_ms: 90_000 }
    }
}

fn clamped_ms(duration: Duration) -> u32 {
    u32::try_from(duration.clamp(LEASE_MIN, LEASE_MAX).as_millis()).unwrap_or(u32::MAX)
}

/// What the server saw of a lease. Evidence, not state: no part of a version or a digest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseTimes {
    /// First registration of this life of the instance.
    pub registered: Wall,
    /// Last renewal, or the registration when there was none.
    pub renewed: Wall,
    /// First time the instance was UP.
    pub service_up: Option<Wall>,
    /// Cancel or expiry; set on removed instances only.
    pub evicted: Option<Wall>,
    /// Last change that this server saw.
    pub updated: Wall,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_clamped_to_what_a_server_grants() {
        let terms = LeaseTerms::clamped(Duration::ZERO, Duration::from_hours(48));
        assert_eq!(terms.renewal_interval(), LEASE_MIN);
        assert_eq!(terms.duration(), LEASE_MAX);
    }
}
