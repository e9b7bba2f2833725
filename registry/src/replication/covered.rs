//! Whose writes are here: per life of a server, the clock up to which every write is taken in.

use std::collections::BTreeMap;

use super::Position;
use crate::Registry;

/// Lives of servers remembered. With each restart one more comes; the one that wrote longest ago goes.
const LIVES: usize = 32;

/// The writes of other servers that are taken in.
#[derive(Debug, Default)]
pub(crate) struct Covered(BTreeMap<u64, u64>);

impl Covered {
    pub(crate) fn raise(&mut self, position: Position) {
        let clock = self.0.entry(position.boot).or_default();
        *clock = position.clock.max(*clock);
        while self.0.len() > LIVES {
            let oldest = self.0.iter().min_by_key(|(_, clock)| **clock).map(|(boot, _)| *boot);
            oldest.and_then(|boot| self.0.remove(&boot));
        }
    }

    fn list(&self) -> impl Iterator<Item = Position> {
        self.0.iter().map(|(boot, clock)| Position { boot: *boot, clock: *clock })
    }
}

impl Registry {
    /// Whose writes are here: for each life of a server its clock up to which every write is taken in, this
    /// server's own included, by boot.
    #[must_use]
    pub fn covered(&self) -> Vec<Position> {
        let (_, clock) = self.log.hold().position();
        let mut covered: Vec<_> = self.covered.lock().list().collect();
        covered.push(Position { boot: self.boot(), clock });
        covered.sort_unstable_by_key(|position| position.boot);
        covered
    }

    pub(crate) fn cover(&self, position: Position) {
        if position.boot != self.boot() {
            self.covered.lock().raise(position);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_only_rise_and_the_life_that_wrote_longest_ago_is_forgotten() {
        let mut covered = Covered::default();
        covered.raise(Position { boot: 1, clock: 5 });
        covered.raise(Position { boot: 1, clock: 3 });
        assert_eq!(covered.list().collect::<Vec<_>>(), [Position { boot: 1, clock: 5 }]);
        for boot in 2..=LIVES as u64 + 1 {
            covered.raise(Position { boot, clock: boot + 10 });
        }
        assert_eq!(covered.list().count(), LIVES);
        assert!(covered.list().all(|position| position.boot != 1));
    }
}
