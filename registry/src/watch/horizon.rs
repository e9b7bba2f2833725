//! Which removals are remembered no more, by who made them: what a reader has to know already that another server
//! told.

use std::collections::BTreeMap;

use heureka_model::Stamp;

use super::vector::covers;
use crate::Registry;
use crate::replication::Position;

/// Lives of servers of which a forgotten removal is noted; years of restarts.
const LIVES: usize = 256;

/// Per life of a server, the last removal that is not remembered.
#[derive(Debug, Default)]
pub(crate) struct Horizon {
    clocks: BTreeMap<u64, u64>,
    /// There were too many lives to note: nobody knows enough.
    is_closed: bool,
}

impl Horizon {
    /// Notes that removals up to this one may be forgotten.
    pub(crate) fn raise(&mut self, stamp: Stamp) {
        let clock = self.clocks.entry(stamp.boot).or_default();
        *clock = stamp.clock.max(*clock);
        if self.clocks.len() > LIVES {
            self.is_closed = true;
            self.clocks.clear();
        }
    }

    fn is_within(&self, vector: &[Position]) -> bool {
        let known = |(boot, clock): (&u64, &u64)| covers(vector, Stamp { clock: *clock, boot: *boot });
        !self.is_closed && self.clocks.iter().all(known)
    }
}

impl Registry {
    /// Whether whoever knows the writes that `vector` covers, sorted by boot, can be told every removal since: none
    /// was forgotten that it does not cover.
    #[must_use]
    pub fn remembers_since(&self, vector: &[Position]) -> bool {
        self.horizon.lock().is_within(vector)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(boot: u64, clock: u64) -> Stamp {
        Stamp { clock, boot }
    }

    #[test]
    fn a_reader_has_to_know_every_forgotten_removal() {
        let mut horizon = Horizon::default();
        assert!(horizon.is_within(&[]), "nothing was forgotten");
        horizon.raise(stamp(1, 5));
        horizon.raise(stamp(1, 3));
        horizon.raise(stamp(2, 7));
        let reader = |one, two| [Position { boot: 1, clock: one }, Position { boot: 2, clock: two }];
        let table = [(5, 7, true), (9, 9, true), (4, 7, false), (5, 6, false)];
        for (one, two, expected) in table {
            assert_eq!(horizon.is_within(&reader(one, two)), expected, "{one} and {two}");
        }
        assert!(!horizon.is_within(&reader(9, 9)[..1]), "it knows nothing of the second");
    }

    #[test]
    fn beyond_a_number_of_lives_nobody_knows_enough() {
        let mut horizon = Horizon::default();
        (1..=LIVES as u64).for_each(|boot| horizon.raise(stamp(boot, 1)));
        let all: Vec<_> = (1..=LIVES as u64 + 1).map(|boot| Position { boot, clock: 9 }).collect();
        assert!(horizon.is_within(&all));
        horizon.raise(stamp(LIVES as u64 + 1, 1));
        assert!(!horizon.is_within(&all));
    }
}
