//! One subscription.

use std::collections::HashSet;
use std::sync::Arc;

use foldhash::fast::FixedState;
use heureka_model::{
    Action, Change, ChangeKind, Now, Registration, RemovalReason, Selectors, SetDigest, Wall,
};

use super::AppNames;
use super::tally::Tally;
use super::vector::covers_record;
use crate::Registry;
use crate::log::{Recent, Told};
use crate::record::{Life, Record};
use crate::replication::Position;

/// Keys examined per poll at most, matching or not.
const SHARE: usize = 512;

/// Changes behind which a subscriber stops hearing of every one and reads the index, each changed key once. What it
/// then hears of keys that do not match is more than the ring would tell, so it is worth it for many changes only.
const LAG: u64 = 1024;

/// Bytes of texts told per poll; the one that goes beyond is the last. Bounds what an unread subscriber holds.
const BYTES: usize = 64 << 10;

/// Where a subscription starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// With everything that is there.
    Full,
    /// With what changed after this revision. The caller has checked it against the floor.
    After(u64),
    /// With the writes that the vector, sorted by boot, does not cover: the subscriber was told the others by another
    /// server. The caller has checked that this one took in all of them and remembers every removal since.
    Since(Arc<[Position]>),
    /// With everything that is there of these applications, and with what changed after the revision in any: of the
    /// others the subscriber holds what was there at some moment since.
    Apps(Arc<AppNames>, u64),
    /// With the next change.
    Live,
}

/// A cursor into the log with a filter.
#[derive(Debug)]
pub struct Subscription {
    selectors: Selectors,
    /// Everything up to here was examined.
    position: u64,
    /// Up to here the ring's old records are not what the subscriber holds.
    seam: u64,
    /// Up to here removals are left out, since the subscriber started with nothing.
    fresh: u64,
    /// Up to here only the index is read: it tells each key once, as it is.
    catch_up: u64,
    /// The subscriber holds the whole set once it is told everything, so that a fingerprint means something.
    complete: bool,
    /// What the subscriber held at first, until it was told the rest.
    knows: Option<Knows>,
    /// Where the subscriber stands for the floor: a pass from zero counts as standing at the head it took first.
    safe: u64,
    lost: bool,
    tally: Option<Tally>,
}

/// What a subscriber holds of what was there when it started.
#[derive(Debug)]
struct Knows {
    what: Known,
    /// Head at the start.
    until: u64,
}

#[derive(Debug)]
enum Known {
    /// The writes that a vector covers.
    Writes(Arc<[Position]>),
    /// All but these applications, as they were at a revision.
    AllBut(Arc<AppNames>, u64),
}

/// What a subscription has to tell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// Changes, at most one per key.
    pub changes: Vec<Arc<Told>>,
    /// Revision up to which everything is told once these changes are.
    pub revision: u64,
    /// When the oldest of these changes was committed.
    pub committed: Option<Wall>,
    /// The subscription is where it can get for now; wait for the next head.
    pub at_head: bool,
    bytes: usize,
}

impl Subscription {
    /// A subscription.
    #[must_use]
    pub fn new(registry: &Registry, selectors: Selectors, start: Start) -> Self {
        let head = registry.head();
        let (position, fresh) = match &start {
            Start::Full => (0, head),
            Start::After(revision) => ((*revision).min(head), 0),
            Start::Since(_) => (0, 0),
            Start::Apps(_, revision) => (0, (*revision).min(head)),
            Start::Live => (head, 0),
        };
        // A live start holds nothing, a resumed one what it held then: neither is what the ring calls old.
        Self {
            selectors,
            position,
            seam: head,
            fresh,
            catch_up: head,
            complete: start != Start::Live,
            safe: if matches!(start, Start::Since(_)) { head } else { position.max(fresh) },
            knows: Knows::of(start, head),
            lost: false,
            tally: None,
        }
    }

    /// The next changes, at most `max` of them and about 64 KiB, one change at least. The work is bounded even when
    /// nothing matches: a batch may be empty and not yet `at_head`.
    pub fn poll(&mut self, registry: &Registry, max: usize, now: Now) -> Batch {
        let bound = self.bound(registry);
        let mut batch = Batch { revision: self.position, ..Batch::default() };
        if bound.saturating_sub(self.position) > LAG {
            self.catch_up = bound;
        }
        if self.position < bound && !self.lost {
            let behind = self.position < self.catch_up;
            if behind || !self.poll_ring(registry, bound, max, now, &mut batch) {
                self.poll_index(registry, bound, max, now, &mut batch);
            }
        }
        batch.revision = self.position;
        batch.at_head = self.position >= bound;
        batch
    }

    /// Revision up to which everything was told.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Fingerprint of the subscribed set, once it is known for the very position that the subscriber was told.
    /// When it is not, the next polls stop at a revision where it is; ask again when they are `at_head`. There is
    /// none for a subscriber that started with [`Start::Live`].
    pub fn digest(&mut self, registry: &Registry) -> Option<SetDigest> {
        // Below the seam the subscriber may lack what moved on while the index was read.
        if !self.complete || self.position < self.seam {
            return None;
        }
        if self.tally.is_none_or(|tally| tally.revision < self.position) {
            self.tally = Some(Tally::take(registry, &self.selectors));
        }
        self.tally.filter(|tally| tally.revision == self.position).map(|tally| tally.digest)
    }

    /// Forgetting has overtaken the position: what was missed cannot be told any more, start again.
    #[must_use]
    pub fn is_lost(&self, registry: &Registry) -> bool {
        self.lost || registry.floor() > self.safe || !self.remembered(registry)
    }

    /// Whether nothing was forgotten of what is still to be told to a subscriber that knows some writes.
    fn remembered(&self, registry: &Registry) -> bool {
        match &self.knows {
            Some(Knows { what: Known::Writes(vector), .. }) => registry.remembers_since(vector),
            _ => true,
        }
    }

    fn bound(&self, registry: &Registry) -> u64 {
        let ahead = self.tally.filter(|tally| tally.revision > self.position);
        ahead.map_or_else(|| registry.head(), |tally| tally.revision)
    }

    /// Reads on in the ring; false when it does not reach back to the position.
    fn poll_ring(
        &mut self,
        registry: &Registry,
        bound: u64,
        max: usize,
        now: Now,
        batch: &mut Batch,
    ) -> bool {
        let mut keys = HashSet::with_hasher(FixedState::default());
        let start = self.position;
        let alone = bound - start == 1;
        for _ in 0..SHARE {
            if self.position == bound || batch.is_full(max) {
                break;
            }
            let Some(recent) = registry.recent(self.position + 1) else { break };
            let covered = self.covers(&recent.new);
            // One change per key and batch: the key's next one opens the next batch. By key, not by slot: a key that
            // was forgotten in between comes back in another.
            if covered && !alone && !keys.insert(recent.key_hash()) {
                break;
            }
            let told = self.judge(&recent, covered, registry, now);
            batch.push(told, &recent.new);
            self.position += 1;
            self.safe = self.safe.max(self.position);
        }
        self.position > start
    }

    fn covers(&self, record: &Record) -> bool {
        let app = record.app();
        self.selectors.covers_app(&app.namespace.name, &app.name)
    }

    fn judge(&mut self, recent: &Recent, covered: bool, registry: &Registry, now: Now) -> Option<Arc<Told>> {
        let matches = |view: &Arc<Registration>| self.selectors.matches(view);
        let old = covered && recent.old_view().is_some_and(matches);
        let view = if covered { recent.new_view(|| registry.renewed(recent.slot, now)) } else { None };
        let new = view.is_some_and(matches);
        self.count(recent, old, new);
        if !covered {
            return None;
        }
        if recent.revision <= self.seam {
            let change = self.untracked(recent.revision, &recent.new, view.filter(|_| new).cloned());
            return change.map(|change| Arc::new(Told::new(change)));
        }
        let kind = match (old, new) {
            (false, false) => return None,
            (false, true) => ChangeKind::Added,
            (true, true) => ChangeKind::Modified,
            (true, false) => left(&recent.new),
        };
        let view = view.filter(|_| new);
        Some(recent.told(kind, || change(kind, recent.revision, &recent.new, view.cloned())))
    }

    fn count(&mut self, recent: &Recent, old: bool, new: bool) {
        match &mut self.tally {
            Some(tally) if recent.revision == tally.revision + 1 => tally.advance(recent, old, new),
            _ => {}
        }
    }

    fn poll_index(&mut self, registry: &Registry, bound: u64, max: usize, now: Now, batch: &mut Batch) {
        let mut left_at = None;
        let visit = |revision: u64, slot: u32, record: Record| {
            if left_at.is_none() && batch.is_full(max) {
                left_at = Some(revision);
            }
            if left_at.is_none() {
                batch.push(self.examine(registry, revision, slot, &record, now), &record);
            }
        };
        let walked = registry.log.walk(&registry.slots, self.position, bound, SHARE, visit);
        if registry.floor() > self.safe || !self.remembered(registry) {
            self.lost = true;
            batch.changes.clear();
            return;
        }
        self.position = left_at.map_or(walked.position, |left| left - 1);
        self.knows.take_if(|knows| knows.until <= self.position);
        self.safe = self.safe.max(self.position);
        // A change under way may have moved a key out of the reader's sight before it shows in the head.
        self.seam = registry.log.settled_head();
    }

    fn examine(
        &self,
        registry: &Registry,
        revision: u64,
        slot: u32,
        record: &Record,
        now: Now,
    ) -> Option<Arc<Told>> {
        if !self.covers(record) || self.knows.as_ref().is_some_and(|knows| knows.holds(revision, record)) {
            return None;
        }
        let view = record.is_live().then(|| record.registration(revision, registry.renewed(slot, now)));
        let matching = view.filter(|view| self.selectors.matches(view)).map(Arc::new);
        self.untracked(revision, record, matching).map(|change| Arc::new(Told::of_now(change, now)))
    }

    /// What is told when nothing is known of what the subscriber holds.
    fn untracked(
        &self,
        revision: u64,
        record: &Record,
        matching: Option<Arc<Registration>>,
    ) -> Option<Change> {
        let kind = match &matching {
            Some(_) if revision <= self.fresh || record.head().action == Action::Added => ChangeKind::Added,
            Some(_) => ChangeKind::Modified,
            None if revision > self.fresh && self.selectors.covers_key(record.key().as_ref()) => left(record),
            None => return None,
        };
        Some(change(kind, revision, record, matching))
    }
}

impl Knows {
    fn of(start: Start, head: u64) -> Option<Self> {
        let what = match start {
            Start::Since(vector) => Known::Writes(vector),
            Start::Apps(names, revision) => Known::AllBut(names, revision),
            Start::Full | Start::After(_) | Start::Live => return None,
        };
        Some(Self { what, until: head })
    }

    /// Whether the subscriber holds what is told of a key, or something newer.
    fn holds(&self, revision: u64, record: &Record) -> bool {
        match &self.what {
            Known::Writes(vector) => covers_record(vector, record),
            Known::AllBut(names, known) => {
                let app = record.app();
                revision <= *known && !names.contains(&app.namespace.name, &app.name)
            }
        }
    }
}

impl Batch {
    fn is_full(&self, max: usize) -> bool {
        self.changes.len() >= max || self.bytes >= BYTES
    }

    fn push(&mut self, told: Option<Arc<Told>>, record: &Record) {
        if let Some(told) = told {
            self.bytes += told.text_size();
            let at = record.head().updated;
            self.committed = Some(self.committed.map_or(at, |earlier| earlier.min(at)));
            self.changes.push(told);
        }
    }
}

fn change(
    kind: ChangeKind,
    revision: u64,
    record: &Record,
    registration: Option<Arc<Registration>>,
) -> Change {
    let key = registration.as_ref().map_or_else(|| record.key(), |told| told.instance.key.clone());
    Change { kind, key, version: record.version(), revision, registration }
}

/// A key leaves the set because its instance went, or because it matches no more.
fn left(record: &Record) -> ChangeKind {
    ChangeKind::Removed(match record.head().life {
        Life::Live => RemovalReason::FilteredOut,
        Life::Cancelled => RemovalReason::Cancelled,
        Life::Expired => RemovalReason::Expired,
    })
}
