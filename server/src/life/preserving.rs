//! Which way of self-preservation is in force: the configured one, an operator's for a time, or none while the
//! server is catching up.

use std::time::Duration;

use heureka_model::{Mono, Now, Wall};
use heureka_registry::Removals;
use parking_lot::Mutex;

/// What an operator set, until it ends.
#[derive(Debug, Default)]
pub struct Preserving(Mutex<Option<Set>>);

#[derive(Clone, Debug)]
struct Set {
    until: Mono,
    in_force: InForce,
}

/// An operator's way while it lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InForce {
    /// The way.
    pub removals: Removals,
    /// When the configured one returns.
    pub until: Wall,
    /// Why it was set.
    pub reason: String,
}

impl Preserving {
    /// Sets a way for a time; it takes the place of an earlier one.
    pub fn set(&self, removals: Removals, ttl: Duration, reason: String, now: Now) {
        let in_force = InForce { removals, until: now.wall.plus(ttl), reason };
        *self.0.lock() = Some(Set { until: now.mono.plus(ttl), in_force });
    }

    /// Brings the configured way back.
    pub fn clear(&self) {
        *self.0.lock() = None;
    }

    /// What an operator set and is in force.
    #[must_use]
    pub fn in_force(&self, now: Mono) -> Option<InForce> {
        let mut set = self.0.lock();
        if set.as_ref().is_some_and(|set| now >= set.until) {
            *set = None;
            tracing::info!("the configured self-preservation is in force again");
        }
        set.as_ref().map(|set| set.in_force.clone())
    }

    /// The way in force instead of the configured one. A server that is catching up removes nobody, since renewals
    /// may go to others that it does not hear yet.
    #[must_use]
    pub fn removals(&self, catching_up: bool, now: Mono) -> Removals {
        let set = self.in_force(now).map(|set| set.removals);
        if catching_up { Removals::Frozen } else { set.unwrap_or_default() }
    }
}

#[cfg(test)]
mod tests {
    use heureka_registry::PreservationMode;

    use super::*;

    const OFF: Removals = Removals::As(PreservationMode::Off);

    fn at(second: u64) -> Now {
        Now { mono: Mono(second * 1000), wall: Wall(1_000_000 + second * 1000) }
    }

    #[test]
    fn the_configured_way_returns_after_the_time() {
        let preserving = Preserving::default();
        assert_eq!(preserving.removals(false, Mono(0)), Removals::Configured);
        preserving.set(OFF, Duration::from_secs(60), "test".into(), at(10));
        let in_force = preserving.in_force(at(69).mono).unwrap();
        assert_eq!((in_force.removals, in_force.until, &*in_force.reason), (OFF, at(70).wall, "test"));
        assert_eq!(preserving.removals(false, at(70).mono), Removals::Configured);
    }

    #[test]
    fn the_last_word_counts() {
        let preserving = Preserving::default();
        preserving.set(OFF, Duration::from_secs(60), "one".into(), at(0));
        preserving.set(Removals::Frozen, Duration::from_secs(5), "two".into(), at(1));
        assert_eq!(preserving.removals(false, at(2).mono), Removals::Frozen);
        preserving.clear();
        assert_eq!(preserving.removals(false, at(2).mono), Removals::Configured);
    }

    #[test]
    fn a_server_that_catches_up_removes_nobody_whatever_an_operator_set() {
        let preserving = Preserving::default();
        assert_eq!(preserving.removals(true, Mono(0)), Removals::Frozen);
        preserving.set(OFF, Duration::from_secs(60), "test".into(), at(0));
        assert_eq!(preserving.removals(true, Mono(0)), Removals::Frozen);
        assert_eq!(preserving.removals(false, Mono(0)), OFF);
    }
}
