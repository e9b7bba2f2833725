//! One subscription.

use std::ops::Deref;
use std::sync::Arc;

use heureka_model::{Action, Change, ChangeKind, Now, Registration, Selectors, SetDigest};
use tokio::sync::watch;

use super::ToldApps;
use super::frame::Frame;
use super::interest::{Interest, Missing, SHARE, Wanted, change, left};
use super::interests::Membership;
use super::snapshot::{Page, Snapshot};
use super::step::Step;
use super::vector::covers_record;
use crate::Registry;
use crate::log::Told;
use crate::record::Record;
use crate::replication::Position;
use crate::seeded::{Bug, planted};

/// Changes behind which a subscriber stops hearing of every one and reads the index, each changed key once. What it
/// then hears of keys that do not match is more than the ring would tell, so it is worth it for many changes only.
const LAG: u64 = 1024;

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
    Apps(Arc<ToldApps>, u64),
    /// With the next change.
    Live,
}

/// A fingerprint for which every instance of a selection has to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakesLong;

/// A cursor into the log with a filter.
#[derive(Debug)]
pub struct Subscription {
    interest: Membership,
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
    /// The subscriber may hold what this server did not tell it.
    knows_others: bool,
    /// What the subscriber held at first, until it was told the rest.
    knows: Option<Knows>,
    /// Where the subscriber stands for the floor: a pass from zero counts as standing at the head it took first.
    safe: u64,
    lost: bool,
    /// What it reads first, when it started with everything.
    snapshot: Option<Arc<Snapshot>>,
    /// Revision at which the next polls stop, since the fingerprint is known there.
    stop: Option<u64>,
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
    AllBut(Arc<ToldApps>, u64),
}

/// Where a subscription stands.
#[derive(Debug)]
pub struct Place {
    interest: Arc<Interest>,
    position: u64,
}

/// What a subscription has to tell.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Revision up to which everything is told once these changes are.
    pub revision: u64,
    /// The subscription is where it can get for now; wait for the next head.
    pub at_head: bool,
    /// The changes.
    pub frame: Arc<Frame>,
}

impl Subscription {
    /// A subscription.
    #[must_use]
    pub fn new(registry: &Registry, selectors: Selectors, start: Start) -> Self {
        let head = registry.head();
        let interest = registry.interests.join(selectors, || registry.head());
        let snapshot = (start == Start::Full).then(|| interest.snapshot(registry));
        let (position, fresh) = match &start {
            Start::Full => (0, snapshot.as_ref().map_or(head, |snapshot| snapshot.head)),
            Start::After(revision) => ((*revision).min(head), 0),
            Start::Since(_) => (0, 0),
            // What the subscriber holds already needs no look.
            Start::Apps(told, revision) if told.is_empty() => ((*revision).min(head), (*revision).min(head)),
            Start::Apps(_, revision) => (0, (*revision).min(head)),
            Start::Live => (head, 0),
        };
        // A live start holds nothing, a resumed one what it held then: neither is what the ring calls old.
        Self {
            interest,
            position,
            seam: head,
            fresh,
            catch_up: head,
            complete: start != Start::Live,
            knows_others: !matches!(start, Start::Full | Start::Apps(..)),
            safe: if matches!(start, Start::Since(_)) { head } else { position.max(fresh) },
            knows: Knows::of(start, head),
            lost: false,
            snapshot,
            stop: None,
        }
    }

    /// The next changes, at most `max` of them and about 64 KiB, one change at least. The work is bounded even when
    /// nothing matches: a batch may be empty and not yet `at_head`.
    pub fn poll(&mut self, registry: &Registry, max: usize, now: Now) -> Batch {
        let bound = self.bound(registry);
        if bound.saturating_sub(self.position) > LAG {
            self.catch_up = bound;
        }
        self.skip(registry, bound);
        let frame = if self.position < bound && !self.lost {
            self.read(registry, bound, max, now)
        } else {
            Arc::default()
        };
        Batch { revision: self.position, at_head: self.position >= bound, frame }
    }

    /// Tells revisions of changes that may concern the subscriber, and wakes it for self-preservation. A receiver that
    /// is slow hears of the last one only.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.interest.changes()
    }

    /// Goes on to where nothing that concerns the subscriber is to be told, and says where that is.
    pub fn pass(&mut self, registry: &Registry) -> u64 {
        let bound = self.bound(registry);
        self.skip(registry, bound);
        self.position
    }

    /// Revision up to which everything was told.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The same, for comparison with others.
    #[must_use]
    pub fn place(&self) -> Place {
        Place { interest: self.interest.shared(), position: self.position }
    }

    /// Fingerprint of the subscribed set, once it is known for the very position that the subscriber was told.
    /// When it is not, the next polls stop at a revision where it is; ask again when they are `at_head`. There is
    /// none for a subscriber that started with [`Start::Live`].
    pub fn digest(&mut self, registry: &Registry) -> Option<SetDigest> {
        self.fingerprint(registry, true).ok().flatten()
    }

    /// The same at once.
    ///
    /// # Errors
    /// Every instance would have to be looked at for it, or somebody is about to: use [`Subscription::digest`] where
    /// there is time.
    pub fn digest_at_hand(&mut self, registry: &Registry) -> Result<Option<SetDigest>, TakesLong> {
        self.fingerprint(registry, false)
    }

    fn fingerprint(&mut self, registry: &Registry, has_time: bool) -> Result<Option<SetDigest>, TakesLong> {
        // Below the seam the subscriber may lack what moved on while the index was read.
        if !self.complete || self.position < self.seam {
            return Ok(None);
        }
        match self.interest.digest(registry, self.position, has_time) {
            Ok(digest) => Ok(Some(digest)),
            Err(Missing::Reading) => Err(TakesLong),
            Err(Missing::Ahead(revision)) => {
                self.stop = Some(revision);
                Ok(None)
            }
        }
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
        // All who were woken together read as far, so that they are told the same.
        let told = Some(registry.interests.told());
        let further = |revision: &u64| *revision > self.position;
        self.stop.filter(further).or(told.filter(further)).unwrap_or_else(|| registry.head())
    }

    /// Passes over what does not concern the subscriber.
    fn skip(&mut self, registry: &Registry, bound: u64) {
        if self.position < self.seam.max(self.catch_up) {
            return;
        }
        let unchanged = self.interest.unchanged_until(registry, self.position).min(bound);
        self.advance(unchanged.max(self.position));
    }

    fn read(&mut self, registry: &Registry, bound: u64, max: usize, now: Now) -> Arc<Frame> {
        self.snapshot.take_if(|snapshot| snapshot.head <= self.position);
        if let Some(snapshot) = self.snapshot.clone() {
            let make = || self.walk(registry, snapshot.head, max, now);
            let page = snapshot.page(self.position, max, make);
            let frame = self.tell(registry, page);
            if planted(Bug::FollowsLate) && self.position >= snapshot.head {
                self.advance(bound);
            }
            return frame;
        }
        if self.position < self.catch_up {
            return self.read_index(registry, bound, max, now);
        }
        let known = if self.position < self.seam {
            self.read_to_seam(registry, bound, max, now)
        } else {
            self.read_ring(registry, bound, max, now)
        };
        known.unwrap_or_else(|| self.read_index(registry, bound, max, now))
    }

    /// Reads on in the ring with all who share the selection; nothing when it does not reach back to the position.
    fn read_ring(&mut self, registry: &Registry, bound: u64, max: usize, now: Now) -> Option<Arc<Frame>> {
        let wanted = Wanted { position: self.position, bound, max, knows_others: self.knows_others };
        let passage = self.interest.passage(registry, wanted, now)?;
        self.advance(passage.upto);
        Some(passage.frame)
    }

    /// Reads on in the ring where its old records are not what the subscriber holds.
    fn read_to_seam(&mut self, registry: &Registry, bound: u64, max: usize, now: Now) -> Option<Arc<Frame>> {
        let tell = |step: &Step| {
            let last = &step.last;
            let view = self.interest.view_since(last, || registry.renewed(last.slot, now));
            let change = self.untracked(last.revision, &last.new, view.cloned());
            change.map(|change| Arc::new(Told::new(change)))
        };
        let passage = self.interest.read(registry, self.position..bound.min(self.seam), max, tell)?;
        self.advance(passage.upto);
        Some(passage.frame)
    }

    fn read_index(&mut self, registry: &Registry, bound: u64, max: usize, now: Now) -> Arc<Frame> {
        let page = self.walk(registry, bound, max, now);
        self.tell(registry, page)
    }

    /// Reads on in the index; nothing when it may have forgotten what was to be told.
    fn walk(&self, registry: &Registry, bound: u64, max: usize, now: Now) -> Option<Page> {
        let (mut frame, mut left_at) = (Frame::default(), None);
        let visit = |revision: u64, slot: u32, record: Record| {
            if left_at.is_none() && frame.is_full(max) {
                left_at = Some(revision);
            }
            if left_at.is_none() {
                frame.push(self.examine(registry, revision, slot, &record, now), record.head().updated);
            }
        };
        let walked = registry.log.walk(&registry.slots, self.position, bound, SHARE, visit);
        let upto = left_at.map_or(walked.position, |left| left - 1);
        let forgot = registry.floor() > self.safe || !self.remembered(registry);
        (!forgot).then(|| Page { after: self.position, upto, frame: Arc::new(frame) })
    }

    fn tell(&mut self, registry: &Registry, page: Option<Page>) -> Arc<Frame> {
        let Some(page) = page else {
            self.lost = true;
            return Arc::default();
        };
        self.advance(page.upto);
        self.knows.take_if(|knows| knows.until <= self.position);
        // A change under way may have moved a key out of the reader's sight before it shows in the head.
        self.seam = registry.log.settled_head();
        page.frame
    }

    fn advance(&mut self, position: u64) {
        self.position = position;
        self.safe = self.safe.max(position);
    }

    fn examine(
        &self,
        registry: &Registry,
        revision: u64,
        slot: u32,
        record: &Record,
        now: Now,
    ) -> Option<Arc<Told>> {
        if !self.interest.covers(record)
            || self.knows.as_ref().is_some_and(|knows| knows.holds(revision, record))
        {
            return None;
        }
        let view = record.is_live().then(|| record.registration(revision, registry.renewed(slot, now)));
        let matching = view.filter(|view| self.interest.selectors.matches(view)).map(Arc::new);
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
            None if revision > self.fresh && self.interest.selectors.covers_key(record.key().as_ref()) => {
                left(record)
            }
            None => return None,
        };
        Some(change(kind, revision, record, matching))
    }
}

impl Knows {
    fn of(start: Start, head: u64) -> Option<Self> {
        let what = match start {
            Start::Since(vector) => Known::Writes(vector),
            Start::Apps(told, revision) => Known::AllBut(told, revision),
            Start::Full | Start::After(_) | Start::Live => return None,
        };
        Some(Self { what, until: head })
    }

    /// Whether the subscriber holds what is told of a key, or something newer.
    fn holds(&self, revision: u64, record: &Record) -> bool {
        match &self.what {
            Known::Writes(vector) => covers_record(vector, record),
            Known::AllBut(told, known) => revision <= *known && !told.tell(record.key().as_ref()),
        }
    }
}

impl Place {
    /// Whether nothing lies between two places that concerns the selection, which is the same for both: whoever was told
    /// everything up to one of them was told everything up to the other. It may be denied for a while where it is so.
    #[must_use]
    pub fn is_level(&self, other: &Self, registry: &Registry) -> bool {
        let (first, last) = (self.position.min(other.position), self.position.max(other.position));
        Arc::ptr_eq(&self.interest, &other.interest) && self.interest.unchanged_until(registry, first) >= last
    }
}

impl Deref for Batch {
    type Target = Frame;

    fn deref(&self) -> &Frame {
        &self.frame
    }
}
