//! When a snapshot that would empty most of a set is believed.
//!
//! A server that has just been restarted knows nobody yet, and says so truthfully. Whoever obeys loses every
//! provider at once although all of them are alive. So such a snapshot waits beside the set until there is reason
//! to believe it.

use std::time::Duration;

use heureka_proto::v1;
use tokio::time::Instant;

use crate::set::Set;

/// Digests that have to agree in a row.
const AGREEING: u32 = 2;

/// What the server said of itself when the snapshot began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Life of the server.
    pub(crate) boot: u64,
    /// It counts as complete: neither leaving, nor in a state that this client does not know.
    pub(crate) is_ready: bool,
}

/// A snapshot that waits.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// What the server holds, kept up to date.
    pub(crate) set: Set,
    pub(crate) origin: Origin,
    since: Instant,
    /// Time that the missing ones get to come back.
    patience: Duration,
    agreeing: u32,
}

impl From<Option<&v1::ResponseHeader>> for Origin {
    fn from(header: Option<&v1::ResponseHeader>) -> Self {
        let ready = [v1::ServerMode::Normal, v1::ServerMode::SelfPreservation];
        header.map_or_else(Self::default, |header| Self {
            boot: header.boot,
            is_ready: ready.contains(&header.mode()),
        })
    }
}

/// Whether a set from which so many go would lose more than half.
pub(crate) fn shrinks(held: &Set, missing: usize) -> bool {
    missing * 2 > held.len()
}

impl Waiting {
    /// `since` is when the first of several snapshots in a row began to wait. A server that told what is `held`
    /// and lives on knows who is gone. Another one may just not have heard of them: they get as long as their
    /// leases would have lasted.
    pub(crate) fn new(held: &Set, told_by: Origin, set: Set, origin: Origin, since: Instant) -> Self {
        let longest = held.missing_in(&set).map(|missing| missing.instance.lease.duration()).max();
        let patience = if origin.boot == told_by.boot { None } else { longest };
        Self { set, origin, since, patience: patience.unwrap_or_default(), agreeing: 0 }
    }

    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    /// A digest came that agrees with the waiting set, or does not.
    pub(crate) fn compared(&mut self, agrees: bool) {
        self.agreeing = if agrees { self.agreeing + 1 } else { 0 };
    }

    /// Whether the snapshot is to be believed: nobody is missing any more, or the server is ready, two digests
    /// agreed and the missing ones had their time, or it waited for `longest`.
    pub(crate) fn is_over(&self, held: &Set, longest: Duration, now: Instant) -> bool {
        let waited = now.saturating_duration_since(self.since);
        let proved = self.origin.is_ready && self.agreeing >= AGREEING && waited >= self.patience;
        proved || waited >= longest || held.missing_in(&self.set).next().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::registration;

    const HOUR: Duration = Duration::from_hours(1);
    const LEASE: Duration = Duration::from_secs(90);
    const READY: Origin = Origin { boot: 1, is_ready: true };
    const RESTARTED: Origin = Origin { boot: 2, is_ready: true };

    fn set(ids: &[&str]) -> Set {
        let mut set = Set::default();
        ids.iter().for_each(|id| drop(set.insert(registration(id, 1))));
        set
    }

    #[test]
    fn more_than_half_has_to_be_missing() {
        let held = set(&["a", "b", "c", "d"]);
        let table = [
            (set(&["a", "b", "c", "d"]), false),
            (set(&["a", "b"]), false),
            (set(&["a"]), true),
            (set(&[]), true),
            (set(&["x", "y", "z", "v"]), true),
        ];
        for (new, expected) in table {
            assert_eq!(shrinks(&held, held.missing_in(&new).count()), expected, "{new:?}");
        }
        assert!(!shrinks(&set(&[]), 0));
    }

    #[test]
    fn belief_takes_a_ready_server_two_digests_and_time() {
        let (held, start) = (set(&["a", "b"]), Instant::now());
        let unready = Origin { is_ready: false, ..READY };
        let table = [
            (READY, 2, Duration::ZERO, true),
            (READY, 1, HOUR / 2, false),
            (unready, 9, HOUR / 2, false),
            (unready, 0, HOUR, true),
            (RESTARTED, 9, LEASE - Duration::from_millis(1), false),
            (RESTARTED, 2, LEASE, true),
            (RESTARTED, 1, LEASE, false),
        ];
        for (origin, agreeing, waited, expected) in table {
            let mut waiting = Waiting::new(&held, READY, set(&[]), origin, start);
            (0..agreeing).for_each(|_| waiting.compared(true));
            assert_eq!(
                waiting.is_over(&held, HOUR, start + waited),
                expected,
                "{origin:?} after {agreeing} and {waited:?}"
            );
        }
    }

    #[test]
    fn digests_agree_in_a_row() {
        let (held, start) = (set(&["a"]), Instant::now());
        let mut waiting = Waiting::new(&held, READY, set(&[]), READY, start);
        [true, false, true].into_iter().for_each(|agrees| waiting.compared(agrees));
        assert!(!waiting.is_over(&held, HOUR, start));
        waiting.compared(true);
        assert!(waiting.is_over(&held, HOUR, start));
    }

    #[test]
    fn it_is_over_when_everybody_is_back() {
        let (held, start) = (set(&["a"]), Instant::now());
        let mut waiting = Waiting::new(&held, READY, set(&[]), RESTARTED, start);
        assert!(!waiting.is_over(&held, HOUR, start));
        waiting.set.insert(registration("a", 2));
        assert!(waiting.is_over(&held, HOUR, start));
    }

    #[test]
    fn a_server_in_a_state_that_is_not_known_is_not_ready() {
        let table = [(0, false), (1, true), (2, true), (3, false), (4, false), (99, false)];
        for (mode, is_ready) in table {
            let header = v1::ResponseHeader { boot: 7, mode, ..Default::default() };
            assert_eq!(Origin::from(Some(&header)), Origin { boot: 7, is_ready }, "mode {mode}");
        }
        assert!(!Origin::from(None).is_ready);
    }
}
