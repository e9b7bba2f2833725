//! The compacted log: every key once, at its last change.
//!
//! One sequencer gives each change its revision, swaps the record into its cell and moves the key to the end of
//! the index, as one step. Readers take no part in it: they read the index from a revision on and believe a cell
//! only while it still carries the revision at which they found it.

mod clock;
mod history;
mod ring;
mod segments;
mod told;

use heureka_model::{KeyHasher, SetDigest, Stamp, Status};
use tokio::sync::watch;

use crate::record::{Draft, Record};
use crate::store::Slots;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering};

use clock::HybridClock;
pub(crate) use history::History;
pub(crate) use ring::Recent;
use ring::{Displaced, Ring, Window};
use segments::Segments;
pub(crate) use segments::Walked;
pub use told::Told;

/// Lock order: shard → sequencer → cell, ring slot, sums → segment directory. Readers take one of the last at
/// a time.
pub(crate) struct Log {
    sequencer: Mutex<Sequencer>,
    segments: Segments,
    ring: Ring,
    head: AtomicU64,
    floor: AtomicU64,
    heads: watch::Sender<u64>,
}

/// The one place where order is made.
pub(crate) struct Sequencer {
    head: u64,
    clock: HybridClock,
    window: Window,
}

/// A change that was decided and waits for its revision.
pub(crate) struct Entry {
    pub(crate) slot: u32,
    pub(crate) draft: Draft,
    /// Registers to stamp with this server's clock; merged ones come stamped.
    pub(crate) stamps: Stamps,
    pub(crate) sums: Sums,
}

/// What the sums need to know of a change, worked out before the sequencer is taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sums {
    /// The key of the change.
    pub(crate) key: KeyHasher,
    /// Hash and status of the live instance before it.
    pub(crate) old: Option<(u64, Status)>,
}

/// Which registers of a record a write of this server changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamps {
    pub(crate) owner: bool,
    pub(crate) overlay: bool,
}

/// A change that took place.
pub(crate) struct Committed {
    pub(crate) revision: u64,
    pub(crate) new: Record,
    /// Freed by whoever drops this, outside the sequencer.
    _old: Option<Record>,
    _displaced: Displaced,
}

impl Log {
    pub(crate) fn new(boot: u64, ring: usize) -> Self {
        Self {
            sequencer: Mutex::new(Sequencer {
                head: 0,
                clock: HybridClock::new(boot),
                window: Window::default(),
            }),
            segments: Segments::default(),
            ring: Ring::new(ring),
            head: AtomicU64::new(0),
            floor: AtomicU64::new(0),
            heads: watch::Sender::new(0),
        }
    }

    /// Gives `entry` the next revision. The caller holds the key's shard lock.
    pub(crate) fn commit(&self, slots: &Slots, entry: Entry, wall_ms: u64) -> Committed {
        let Entry { slot, mut draft, stamps, sums } = entry;
        let mut sequencer = self.sequencer.lock();
        sequencer.stamp(&mut draft, stamps, wall_ms);
        let new = draft.finish();
        let revision = sequencer.head + 1;
        let (old_revision, old) = swap(slots, slot, revision, &new);
        self.segments.store(revision, slot);
        if old_revision != 0 {
            self.segments.clear(old_revision, revision);
        }
        count(sums, &new, revision);
        let displaced = self.ring.push(&mut sequencer.window, revision, slot, old.clone(), new.clone());
        sequencer.head = revision;
        self.head.store(revision, Ordering::Release);
        drop(sequencer);
        Committed { revision, new, _old: old, _displaced: displaced }
    }

    /// Forgets what a slot holds. The caller holds the key's shard lock and has seen `revision` in it.
    pub(crate) fn forget(&self, slots: &Slots, slot: u32, revision: u64) -> Option<Record> {
        let sequencer = self.sequencer.lock();
        self.floor.fetch_max(revision, Ordering::AcqRel);
        let mut cell = slots.cell(slot).lock();
        cell.revision = 0;
        let record = cell.record.take();
        drop(cell);
        self.segments.clear(revision, sequencer.head);
        record
    }

    /// Tells waiting readers the newest head. Called after the locks of a change are released.
    pub(crate) fn announce(&self) {
        let head = self.head();
        self.heads.send_if_modified(|told| {
            let newer = head > *told;
            *told = head.max(*told);
            newer
        });
    }

    /// Wakes readers that wait for a head, for news that is no change.
    pub(crate) fn wake(&self) {
        self.heads.send_modify(|_| {});
    }

    pub(crate) fn heads(&self) -> watch::Receiver<u64> {
        self.heads.subscribe()
    }

    pub(crate) fn head(&self) -> u64 {
        self.head.load(Ordering::Acquire)
    }

    /// The head once the change under way, if there is one, is complete.
    pub(crate) fn settled_head(&self) -> u64 {
        self.sequencer.lock().head
    }

    pub(crate) fn floor(&self) -> u64 {
        self.floor.load(Ordering::Acquire)
    }

    /// Keeps this server's clock ahead of one that a peer showed.
    pub(crate) fn observe(&self, stamp: Stamp) {
        self.sequencer.lock().clock.observe(stamp.clock);
    }

    pub(crate) fn recent(&self, revision: u64) -> Option<Recent> {
        self.ring.get(revision)
    }

    /// Visits the current record of each key whose last change lies above `after` and at or below `bound`,
    /// examining about `budget` keys. A key that moves meanwhile is met at its new place or not at all.
    pub(crate) fn walk(
        &self,
        slots: &Slots,
        after: u64,
        bound: u64,
        budget: usize,
        mut visit: impl FnMut(u64, u32, Record),
    ) -> Walked {
        self.segments.walk(after, bound, budget, |revision, slot| {
            if let Some((current, record)) = slots.record(slot)
                && current == revision
            {
                visit(revision, slot, record);
            }
        })
    }

    /// Stops all changes while the guard lives. For readings that must belong to one revision; keep it short.
    pub(crate) fn hold(&self) -> Held<'_> {
        Held(self.sequencer.lock())
    }
}

/// The log at rest.
pub(crate) struct Held<'a>(MutexGuard<'a, Sequencer>);

impl Held<'_> {
    pub(crate) fn head(&self) -> u64 {
        self.0.head
    }

    /// The head and the clock that no later change of this server goes below.
    pub(crate) fn position(&self) -> (u64, u64) {
        (self.0.head, self.0.clock.last())
    }

    /// The head and the clock of this server's last write.
    pub(crate) fn written(&self) -> (u64, u64) {
        (self.0.head, self.0.clock.given())
    }
}

impl Sequencer {
    fn stamp(&mut self, draft: &mut Draft, stamps: Stamps, wall_ms: u64) {
        if stamps == Stamps::default() {
            return;
        }
        let stamp = self.clock.next(wall_ms);
        let head = draft.head();
        if stamps.owner {
            head.written = stamp;
        }
        if stamps.overlay
            && let Some(note) = &mut head.overlay
        {
            note.stamp = stamp;
        }
    }
}

fn swap(slots: &Slots, slot: u32, revision: u64, new: &Record) -> (u64, Option<Record>) {
    let mut cell = slots.cell(slot).lock();
    let old_revision = std::mem::replace(&mut cell.revision, revision);
    (old_revision, cell.record.replace(new.clone()))
}

/// Brings the sums of the application and its namespace to the new record.
fn count(sums: Sums, new: &Record, revision: u64) {
    let added = new.is_live().then(|| (sums.key.at(&new.version()), new.status()));
    let bring = |tally: &mut SetDigest| {
        if let Some((hash, status)) = sums.old {
            tally.remove(hash, status);
        }
        if let Some((hash, status)) = added {
            tally.add(hash, status);
        }
    };
    let app = new.app();
    bring(&mut app.tally.lock());
    bring(&mut app.namespace.tally.lock());
    app.revision.store(revision, Ordering::Release);
}
