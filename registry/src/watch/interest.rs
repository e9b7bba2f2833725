//! Readers of the same selection, for whom a change is looked at once.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Weak};

use heureka_model::{Change, ChangeKind, Now, Registration, RemovalReason, Selectors, SetDigest, Wall};
use tokio::sync::watch;

use super::frame::Frame;
use super::room::Room;
use super::snapshot::Snapshot;
use super::step::{Step, Steps};
use super::tally::Tally;
use crate::Registry;
use crate::log::{Recent, Told};
use crate::record::{Life, Record};
use crate::seeded::{Bug, planted, torn};
use crate::sync::{AtomicBool, Mutex, Ordering};

/// Keys examined at a time at most, matching or not.
pub(super) const SHARE: usize = 512;

/// Changes in a shared frame at most.
const CHANGES: usize = 256;

/// Frames that are kept for the next reader. Readers at the head are within a few of each other.
const KEPT: usize = 8;

/// A selection and what its readers share.
#[derive(Debug)]
pub(super) struct Interest {
    pub(super) selectors: Selectors,
    /// Revision of the last change that may concern it, as far as readers were woken.
    concerned: watch::Sender<u64>,
    /// It has several readers, so that something is worth keeping.
    shared: AtomicBool,
    passages: Mutex<VecDeque<(Passage, Room)>>,
    tallies: Mutex<Tallies>,
    snapshot: Mutex<Weak<Snapshot>>,
}

/// What the log says of a selection from one revision to another.
#[derive(Clone, Debug)]
pub(super) struct Passage {
    after: u64,
    /// First change that may concern the selection; the end when there is none.
    first: u64,
    pub(super) upto: u64,
    /// It ends because it is as long as it may be.
    is_cut: bool,
    /// It is for readers who may hold what this server did not tell them.
    knows_others: bool,
    pub(super) frame: Arc<Frame>,
}

/// What a reader asks for who was told everything up to a position.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pub(super) position: u64,
    /// Revision to read to at most.
    pub(super) bound: u64,
    /// Changes at most.
    pub(super) max: usize,
    /// It may hold what this server did not tell it.
    pub(super) knows_others: bool,
}

/// Fingerprints of the selection.
#[derive(Debug, Default)]
struct Tallies {
    /// The one that follows the log.
    newest: Option<Tally>,
    /// Those that were taken ahead of a reader, who is on the way there.
    ahead: VecDeque<Tally>,
}

/// What stands between a reader and a fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// It is known at this revision, to which the reader has to go on.
    Ahead(u64),
    /// Every instance has to be looked at, or somebody does so.
    Reading,
}

impl Interest {
    pub(super) fn new(selectors: Selectors) -> Self {
        Self {
            selectors,
            concerned: watch::Sender::new(0),
            shared: AtomicBool::new(false),
            passages: Mutex::default(),
            tallies: Mutex::default(),
            snapshot: Mutex::default(),
        }
    }

    /// Whether it has several readers. What was kept for others goes with them.
    pub(super) fn share(&self, shared: bool) {
        self.shared.store(shared, Ordering::Relaxed);
        if !shared {
            self.passages.lock().clear();
        }
    }

    /// A change that may concern it was made: its readers wake.
    pub(super) fn concern(&self, revision: u64) {
        self.concerned.send_if_modified(|last| {
            let is_later = *last < revision;
            *last = revision.max(*last);
            is_later
        });
    }

    /// Wakes its readers for news that is no change.
    pub(super) fn wake(&self) {
        self.concerned.send_modify(|_| {});
    }

    /// Tells revisions of changes that may concern it. A receiver that is slow hears of the last one only.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.concerned.subscribe()
    }

    /// What a reader is told who starts with everything: the snapshot that others are reading, or a new one.
    pub(super) fn snapshot(&self, registry: &Registry) -> Arc<Snapshot> {
        let mut snapshot = self.snapshot.lock();
        if let Some(known) = snapshot.upgrade().filter(|known| known.serves(registry)) {
            return known;
        }
        let new = Arc::new(Snapshot::at(registry.head(), Arc::clone(registry.interests.budget())));
        *snapshot = Arc::downgrade(&new);
        new
    }

    /// What a reader is told next; nothing when the ring does not reach back to its position. Looked at once for all
    /// whom it serves.
    pub(super) fn passage(&self, registry: &Registry, wanted: Wanted, now: Now) -> Option<Passage> {
        let mut passages = self.passages.lock();
        let mut kept = passages.iter().map(|(passage, _)| passage);
        if let Some(known) = kept.find(|passage| passage.serves(wanted)) {
            return Some(known.clone());
        }
        let Wanted { position, bound, max, knows_others } = wanted;
        let tell = |step: &Step| self.judge(step, knows_others, registry, now);
        let passage = self.read(registry, position..bound, max.min(CHANGES), tell)?;
        let passage = Passage { knows_others, ..passage };
        passages.truncate(KEPT - 1);
        if self.shared.load(Ordering::Relaxed)
            && let Some(room) = registry.interests.budget().take(passage.frame.weight())
        {
            passages.push_front((passage.clone(), room));
        }
        Some(passage)
    }

    /// Reads the ring after the first and up to the last of these revisions, as far as one frame goes; `tell` says
    /// what is told of a key whose changes may concern the selection.
    pub(super) fn read(
        &self,
        registry: &Registry,
        revisions: Range<u64>,
        max: usize,
        tell: impl Fn(&Step) -> Option<Arc<Told>>,
    ) -> Option<Passage> {
        let Range { start: after, end: bound } = revisions;
        let (mut steps, mut first, mut upto) = (Steps::default(), None, after);
        while upto < bound && upto - after < SHARE as u64 && !steps.is_full(max) {
            let Some(recent) = registry.recent(upto + 1) else { break };
            if self.covers(&recent.new) {
                if steps.are_forgotten_by(&recent) {
                    break;
                }
                first.get_or_insert(recent.revision);
                steps.add(recent);
            }
            upto += 1;
        }
        let mut frame = Frame::default();
        steps.iter().for_each(|step| frame.push(tell(step), step.committed()));
        let (first, frame) = (first.unwrap_or(upto), Arc::new(frame));
        let passage = Passage { after, first, upto, is_cut: upto < bound, knows_others: true, frame };
        (upto > after).then_some(passage)
    }

    pub(super) fn covers(&self, record: &Record) -> bool {
        let app = record.app();
        self.selectors.covers_app(&app.namespace.name, &app.name)
    }

    fn judge(&self, step: &Step, knows_others: bool, registry: &Registry, now: Now) -> Option<Arc<Told>> {
        let last = &step.last;
        let old = step.first().old_view().filter(|old| self.selectors.matches(old));
        let view = self.view_since(last, || registry.renewed(last.slot, now));
        let kind = match (old.is_some(), view.is_some()) {
            (false, false) if knows_others && self.removes_unseen(step) => left(&last.new),
            (false, false) => return None,
            (false, true) => ChangeKind::Added,
            (true, true) => ChangeKind::Modified,
            (true, false) if planted(Bug::LeavingUntold) => return None,
            (true, false) => left(&last.new),
        };
        let view = || view.map(|view| torn(old, view));
        Some(last.told(kind, || change(kind, last.revision, &last.new, view())))
    }

    /// A removal of what was not here is told all the same to a reader who came from another server: it may hold it,
    /// and nothing else would tell it that this is over.
    fn removes_unseen(&self, step: &Step) -> bool {
        let was_here = step.first().old.as_ref().is_some_and(Record::is_live);
        let new = &step.last.new;
        !was_here && !new.is_live() && self.selectors.covers_key(new.key().as_ref())
    }

    /// What the selection holds of a key since a change.
    pub(super) fn view_since<'a>(
        &self,
        recent: &'a Recent,
        renewed: impl FnOnce() -> Wall,
    ) -> Option<&'a Arc<Registration>> {
        recent.new_view(renewed).filter(|view| self.selectors.matches(view))
    }

    /// Up to where nothing that concerns the selection follows `position`, as far as readers were woken.
    pub(super) fn unchanged_until(&self, registry: &Registry, position: u64) -> u64 {
        // In this order: who is told of a revision has been woken for what lies below it.
        let told = registry.interests.told();
        if *self.concerned.borrow() <= position { told.max(position) } else { position }
    }

    /// Fingerprint of the selection at `position`. Where all instances had to be looked at one by one for it, that is
    /// done only when the caller has the time.
    pub(super) fn digest(
        &self,
        registry: &Registry,
        position: u64,
        has_time: bool,
    ) -> Result<SetDigest, Missing> {
        let mut tallies =
            if has_time { self.tallies.lock() } else { self.tallies.try_lock().ok_or(Missing::Reading)? };
        if let Some(tally) = tallies.ahead.iter().find(|tally| tally.revision == position) {
            return Ok(tally.digest);
        }
        if !self.follow(&mut tallies, registry, position) {
            if !has_time && !self.selectors.is_by_app() {
                return Err(Missing::Reading);
            }
            tallies.newest = Some(Tally::take(registry, &self.selectors));
        }
        tallies.at(position)
    }

    /// Brings the newest tally to `position`, unless it stands beyond; false when it cannot be brought there.
    fn follow(&self, tallies: &mut Tallies, registry: &Registry, position: u64) -> bool {
        let Some(tally) = &mut tallies.newest else { return false };
        if position <= self.unchanged_until(registry, tally.revision) {
            tally.revision = tally.revision.max(position);
        }
        while tally.revision < position {
            let Some(recent) = registry.recent(tally.revision + 1) else { return false };
            let covered = self.covers(&recent.new);
            let matches = |view: &&Arc<Registration>| covered && self.selectors.matches(view);
            let (old, new) = (recent.old_view().filter(matches), recent.new_view(|| Wall(0)).filter(matches));
            tally.advance(recent.revision, old, new);
        }
        true
    }
}

impl Passage {
    /// Whether this reader is told exactly this next.
    fn serves(&self, wanted: Wanted) -> bool {
        (self.after..self.first).contains(&wanted.position)
            && (self.upto == wanted.bound || self.is_cut && self.upto < wanted.bound)
            && self.frame.changes.len() <= wanted.max
            && self.knows_others == wanted.knows_others
    }
}

impl Tallies {
    fn at(&mut self, position: u64) -> Result<SetDigest, Missing> {
        let newest = self.newest.expect("invariant: taken or followed before it is asked for");
        if newest.revision == position {
            return Ok(newest.digest);
        }
        if self.ahead.front().is_none_or(|known| known.revision != newest.revision) {
            self.ahead.truncate(KEPT - 1);
            self.ahead.push_front(newest);
        }
        Err(Missing::Ahead(newest.revision))
    }
}

pub(super) fn change(
    kind: ChangeKind,
    revision: u64,
    record: &Record,
    registration: Option<Arc<Registration>>,
) -> Change {
    let key = registration.as_ref().map_or_else(|| record.key(), |told| told.instance.key.clone());
    Change { kind, key, version: record.version(), revision, registration }
}

/// A key leaves the set because its instance went, or because it matches no more.
pub(crate) fn left(record: &Record) -> ChangeKind {
    ChangeKind::Removed(match record.head().life {
        Life::Live => RemovalReason::FilteredOut,
        Life::Cancelled => RemovalReason::Cancelled,
        Life::Expired => RemovalReason::Expired,
    })
}
