//! Whose writes are here: per life of a server, the clock up to which every write is taken in.

use std::collections::BTreeMap;

use heureka_model::{Now, Stamp};

use super::Position;
use super::replicator::is_broken;
use crate::Registry;

/// Lives of servers remembered. With each restart one more comes; the one that wrote longest ago goes.
const LIVES: usize = 32;

/// The writes of other servers that are taken in.
#[derive(Debug, Default)]
pub(crate) struct Covered(BTreeMap<u64, Life>);

/// What is known of one life of a server.
#[derive(Clone, Copy, Debug, Default)]
struct Life {
    /// Every write up to this clock is taken in.
    clock: u64,
    /// The last write that was met, whether or not those before it were.
    met: u64,
}

impl Covered {
    pub(crate) fn raise(&mut self, position: Position) {
        let life = self.0.entry(position.boot).or_default();
        life.clock = position.clock.max(life.clock);
        self.bound();
    }

    /// Notes a write that was met.
    pub(crate) fn meet(&mut self, stamp: Stamp) {
        let life = self.0.entry(stamp.boot).or_default();
        life.met = stamp.clock.max(life.met);
        self.bound();
    }

    fn bound(&mut self) {
        while self.0.len() > LIVES {
            let oldest =
                self.0.iter().min_by_key(|(_, life)| life.clock.max(life.met)).map(|(boot, _)| *boot);
            oldest.and_then(|boot| self.0.remove(&boot));
        }
    }

    fn list(&self) -> impl Iterator<Item = Position> {
        let covered = self.0.iter().filter(|(_, life)| life.clock > 0);
        covered.map(|(boot, life)| Position { boot: *boot, clock: life.clock })
    }

    /// The same writes, named by the last of them that was met. A clock moves on without a write, and two servers
    /// need not have heard how far; the last write is the same for both.
    fn named(&self) -> impl Iterator<Item = Position> {
        let name = |(boot, life): (&u64, &Life)| Position { boot: *boot, clock: life.clock.min(life.met) };
        self.0.iter().map(name).filter(|position| position.clock > 0)
    }

    fn clock(&self, boot: u64) -> u64 {
        self.0.get(&boot).map_or(0, |life| life.clock)
    }
}

/// Which writes a reader of the log knows once it was told everything up to a revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// For each life of a server its clock up to which every write is known, by boot.
    pub vector: Vec<Position>,
    /// Revision up to which they stand in the log.
    pub revision: u64,
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

    /// What whoever has read the log to its head knows, in a form that means the same on every server of the cluster:
    /// clocks are those of writes. Lives of which no write is known are left out.
    #[must_use]
    pub fn standing(&self) -> Standing {
        // The log is read afterwards: what is covered stands in it by then.
        let mut vector: Vec<_> = self.covered.lock().named().collect();
        let (revision, clock) = self.log.hold().written();
        if clock > 0 {
            vector.push(Position { boot: self.boot(), clock });
        }
        vector.sort_unstable_by_key(|position| position.boot);
        Standing { vector, revision }
    }

    /// Whether every write that `vector` covers is taken in here.
    #[must_use]
    pub fn has_taken_in(&self, vector: &[Position]) -> bool {
        let (_, own) = self.log.hold().position();
        let covered = self.covered.lock();
        let clock = |boot| if boot == self.boot() { own } else { covered.clock(boot) };
        vector.iter().all(|position| clock(position.boot) >= position.clock)
    }

    pub(crate) fn cover(&self, position: Position) {
        if position.boot != self.boot() {
            self.covered.lock().raise(position);
        }
    }

    /// Takes over how far another server's knowledge reaches, together with all that it knows. Removals that it had
    /// forgotten by then are not known here.
    pub(crate) fn adopt(&self, position: Position) {
        let stamp = Stamp { clock: position.clock, boot: position.boot };
        self.meet(stamp);
        self.cover(position);
        self.horizon.lock().raise(stamp);
    }

    /// Hears what a server knows that is about to tell what it has: what it removed and forgot before this server
    /// first heard of it stays unknown here.
    pub(super) fn greet(&self, boot: u64, knows: &[Position], now: Now) {
        let is_known = self.covered.lock().clock(boot) > 0;
        let own = knows.iter().find(|position| position.boot == boot && !is_broken(position.clock, now));
        if let Some(position) = own.filter(|_| !is_known && boot != self.boot()) {
            let stamp = Stamp { clock: position.clock, boot };
            self.meet(stamp);
            self.horizon.lock().raise(stamp);
        }
    }

    /// Notes a write that another server made.
    pub(crate) fn meet(&self, stamp: Stamp) {
        if stamp.clock > 0 && stamp.boot != self.boot() {
            self.covered.lock().meet(stamp);
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

    #[test]
    fn what_is_covered_is_named_by_its_last_write() {
        let mut covered = Covered::default();
        let named = |covered: &Covered| covered.named().map(|position| position.clock).collect::<Vec<_>>();
        covered.raise(Position { boot: 1, clock: 5 });
        assert!(named(&covered).is_empty(), "the clock moved without a write");
        covered.meet(Stamp { clock: 3, boot: 1 });
        assert_eq!(named(&covered), [3]);
        covered.meet(Stamp { clock: 9, boot: 1 });
        assert_eq!(named(&covered), [5], "one that came ahead of others covers nothing");
        covered.meet(Stamp { clock: 9, boot: 2 });
        assert_eq!(named(&covered), [5]);
        assert_eq!((covered.clock(1), covered.clock(2), covered.clock(3)), (5, 0, 0));
    }
}
