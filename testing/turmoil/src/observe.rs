//! A look at every server several times a second: what it shows, since when, and whether it lost what it must keep.

use heureka_history::Recorder;
use heureka_model::{InstanceKey, Status, Version};

use crate::ledger::{Book, Owner, Shrink, key};
use crate::plan::{self, Fault, Kind, Plan, SERVERS};
use crate::server::{Life, Slot};

/// A removal may be told so long after a server lacked the instance: a stop and the silence after which a watcher goes
/// to another server.
const LATE: u64 = 30_000;

/// Instances with which losing most of them says something.
const ENOUGH: usize = 3;

/// What a server shows of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    version: Version,
    status: Status,
    /// The last sign of life that it knows of, in virtual milliseconds.
    renewed: u64,
}

/// What was seen at the last look.
pub(crate) struct Observer {
    keys: Vec<InstanceKey>,
    kinds: Vec<Kind>,
    lease: u64,
    faults: Vec<Fault>,
    /// Boot of each server, and what it showed of each key.
    last: Vec<(u64, Vec<Option<Seen>>)>,
    /// Removals that faults excuse.
    pub(crate) excused: u64,
}

impl Observer {
    pub(crate) fn new(plan: &Plan) -> Self {
        let count = plan.owners.len();
        Self {
            keys: (0..count).map(key).collect(),
            kinds: plan.owners.iter().map(|owner| owner.kind).collect(),
            lease: plan.lease * 1_000,
            faults: plan.faults.clone(),
            last: vec![(0, vec![None; count]); SERVERS],
            excused: 0,
        }
    }

    pub(crate) fn look(&mut self, at: u64, slots: &[Slot], book: &Book, recorder: &Recorder) {
        for (server, slot) in slots.iter().enumerate() {
            let Some(life) = slot.borrow().life.clone() else { continue };
            if self.last[server].0 != life.boot() {
                self.last[server] = (life.boot(), vec![None; self.keys.len()]);
            }
            for key in 0..self.keys.len() {
                self.compare(at, server, &life, key, book, recorder);
            }
        }
        told(at, book);
        shrank(book);
    }

    fn compare(&mut self, at: u64, server: usize, life: &Life, key: usize, book: &Book, recorder: &Recorder) {
        let shown = self.seen(at, life, key);
        let before = std::mem::replace(&mut self.last[server].1[key], shown);
        let what = |seen: &Option<Seen>| seen.map(|seen| (seen.version, seen.status));
        if what(&before) != what(&shown) {
            let text = match shown {
                Some(seen) => format!("n{server} shows {} {:?}", seen.status.as_str(), seen.version.parts()),
                None => format!("n{server} shows k{key} no more"),
            };
            book.borrow_mut().note(at, Some(key), text);
        }
        let was_away =
            before.zip(shown).is_some_and(|(before, shown)| is_revived(before.version, shown.version));
        if (shown.is_none() || was_away) && life.serves_readers() {
            book.borrow_mut().owners[key].lacked = at;
        }
        if let Some(before) = before.filter(|_| shown.is_none()) {
            // Whatever the reason, what was written before is not expected to be there.
            recorder.forgot(self.keys[key].clone());
            book.borrow_mut().owners[key].removed = Some(at);
            self.removed(at, server, key, before, book);
        }
    }

    fn seen(&self, at: u64, life: &Life, key: usize) -> Option<Seen> {
        let live = life.running.core().get(self.keys[key].as_ref(), life.now(at))?;
        let renewed = life.at(live.times.renewed);
        Some(Seen { version: live.version, status: live.status(), renewed })
    }

    /// Whoever renews is removed by nobody, where the servers reach each other.
    fn removed(&mut self, at: u64, server: usize, key: usize, before: Seen, book: &Book) {
        let mut book = book.borrow_mut();
        if !self.must_stay(at, key, &book.owners[key]) {
            return;
        }
        let others = self.last.iter().filter_map(|(_, keys)| keys[key]).map(|seen| seen.renewed);
        let renewed = others.chain([before.renewed]).max().unwrap_or(0);
        if renewed + self.lease / 2 < at {
            return;
        }
        if plan::at_peace(&self.faults, at) {
            let text = format!("n{server} removed it {} ms after its owner renewed it", at - renewed);
            book.breach("who renews stays", at, Some(key), text);
        } else {
            self.excused += 1;
        }
    }

    fn must_stay(&self, at: u64, key: usize, owner: &Owner) -> bool {
        let stray = self.kinds[key] == Kind::Eureka && owner.has_strays(at);
        owner.is_there_for(1_000, at) && !stray
    }
}

/// Whether the same writes of owner and operator stand in a newer version: the instance was removed in between, and that
/// was undone.
fn is_revived(before: Version, after: Version) -> bool {
    let writes = |version: Version| {
        let [owner, _, _, clock, boot] = version.parts();
        [owner, clock, boot]
    };
    before != after && writes(before) == writes(after)
}

/// Whoever keeps its lease is not told to be gone, unless a server lacked it. Servers are looked at from time to time
/// only, so the look after the removal decides.
fn told(at: u64, book: &Book) {
    let mut book = book.borrow_mut();
    for removal in std::mem::take(&mut book.removals) {
        let owner = &book.owners[removal.key];
        if owner.is_there_for(LATE, at) && owner.lacked + LATE < at {
            let text = format!("w{} was told that it is gone, and no server lacked it", removal.watcher);
            book.breach("no removal is made up", removal.at, Some(removal.key), text);
        }
    }
}

/// Most of what a cache holds does not go at once while its owners keep it, unless a server that went on running removed
/// it. A server that came back with less is what a cache has to doubt.
fn shrank(book: &Book) {
    let mut book = book.borrow_mut();
    for Shrink { at, cache, before, lost } in std::mem::take(&mut book.shrinks) {
        let is_removed =
            |owner: &&usize| book.owners[**owner].removed.is_some_and(|removed| removed + LATE > at);
        let living = lost.len() - lost.iter().filter(is_removed).count();
        if before.len() >= ENOUGH && living * 2 > before.len() {
            let text = format!("c{cache} lost {lost:?} of {before:?} at once");
            book.breach("a cache keeps those who live", at, None, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use heureka_model::Stamp;

    use super::*;

    #[test]
    fn a_newer_stamp_on_the_same_writes_is_a_revival() {
        let stamp = |clock| Stamp { clock, boot: 1 };
        let version =
            |owner, written, overlay| Version { owner, written: stamp(written), overlay: stamp(overlay) };
        let before = version(7, 1, 3);
        let table = [((7, 1, 3), false), ((7, 2, 3), true), ((8, 2, 3), false), ((7, 2, 4), false)];
        for ((owner, written, overlay), revived) in table {
            assert_eq!(is_revived(before, version(owner, written, overlay)), revived);
        }
    }
}
