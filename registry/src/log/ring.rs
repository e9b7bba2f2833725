//! The last changes with what was before, for readers near the head.

use std::sync::{Arc, OnceLock};

use heureka_model::{Change, ChangeKind, Registration, Version, Wall, instance_hash};

use super::told::Told;
use crate::record::Record;
use crate::sync::Mutex;

/// Bytes of records kept at most; a few huge instances shorten the ring, and readers behind it use the index.
const BYTES: u64 = 8 << 20;

/// Changes whose decoded form is kept for the next reader. Readers at the head are within a few of each other.
const DECODED: u64 = 256;

/// One slot a revision modulo the number of slots. Written by the holder of the sequencer, read by anyone.
pub(crate) struct Ring(Box<[Mutex<Option<Entry>>]>);

struct Entry {
    revision: u64,
    slot: u32,
    old: Option<Record>,
    new: Record,
    views: Option<Arc<Views>>,
}

/// What the holder of the sequencer keeps of the ring.
#[derive(Default)]
pub(crate) struct Window {
    oldest: u64,
    bytes: u64,
}

/// A change as a reader sees it.
#[derive(Clone)]
pub(crate) struct Recent {
    pub(crate) slot: u32,
    /// Revision of this change.
    pub(crate) revision: u64,
    /// What the key held before; also a tombstone, or nothing.
    pub(crate) old: Option<Record>,
    /// What it holds since.
    pub(crate) new: Record,
    views: Arc<Views>,
}

/// What readers make of a change, once for all of them.
#[derive(Default)]
struct Views {
    old: OnceLock<Arc<Registration>>,
    new: OnceLock<Arc<Registration>>,
    key_hash: OnceLock<u64>,
    /// As it is told to those for whom the key entered, changed or left.
    told: [OnceLock<Arc<Told>>; 3],
}

impl Ring {
    /// A ring of so many changes.
    pub(crate) fn new(changes: usize) -> Self {
        Self((0..changes).map(|_| Mutex::default()).collect())
    }

    /// Adds the newest change and returns what it displaces, to be freed outside the sequencer.
    pub(crate) fn push(
        &self,
        window: &mut Window,
        revision: u64,
        slot: u32,
        old: Option<Record>,
        new: Record,
    ) -> Displaced {
        let mut displaced = Displaced::default();
        window.bytes += size(old.as_ref(), &new);
        window.oldest = window.oldest.max(1);
        let entry = Entry { revision, slot, old, new, views: None };
        displaced.take(window, self.at(revision).lock().replace(entry));
        window.oldest = window.oldest.max((revision + 1).saturating_sub(self.0.len() as u64));
        while window.bytes > BYTES && window.oldest < revision {
            displaced.take(window, self.at(window.oldest).lock().take());
            window.oldest += 1;
        }
        if let Some(aged) = revision.checked_sub(DECODED) {
            displaced.views = self.at(aged).lock().as_mut().and_then(|entry| entry.views.take());
        }
        displaced
    }

    /// The change of that revision, if the ring still holds it.
    pub(crate) fn get(&self, revision: u64) -> Option<Recent> {
        let mut entry = self.at(revision).lock();
        let entry = entry.as_mut().filter(|entry| entry.revision == revision)?;
        Some(Recent {
            slot: entry.slot,
            revision,
            old: entry.old.clone(),
            new: entry.new.clone(),
            views: Arc::clone(entry.views.get_or_insert_default()),
        })
    }

    fn at(&self, revision: u64) -> &Mutex<Option<Entry>> {
        &self.0[revision as usize % self.0.len()]
    }
}

/// Records that left the ring.
#[derive(Default)]
pub(crate) struct Displaced {
    /// The one that nearly every change displaces; a list would allocate inside the sequencer.
    first: Option<Entry>,
    others: Vec<Entry>,
    views: Option<Arc<Views>>,
}

impl Displaced {
    fn take(&mut self, window: &mut Window, entry: Option<Entry>) {
        if let Some(entry) = entry {
            window.bytes = window.bytes.saturating_sub(size(entry.old.as_ref(), &entry.new));
            self.others.extend(self.first.replace(entry));
        }
    }
}

impl Recent {
    /// The live instance before the change, decoded once for all readers.
    pub(crate) fn old_view(&self) -> Option<&Arc<Registration>> {
        let old = self.old.as_ref().filter(|old| old.is_live())?;
        Some(self.views.old.get_or_init(|| Arc::new(old.registration(self.revision, Wall(0)))))
    }

    /// The live instance since the change, decoded once for all readers.
    pub(crate) fn new_view(&self, renewed: impl FnOnce() -> Wall) -> Option<&Arc<Registration>> {
        self.new
            .is_live()
            .then(|| self.views.new.get_or_init(|| Arc::new(self.new.registration(self.revision, renewed()))))
    }
}

impl Recent {
    /// Tells the keys of changes apart, as [`Told::key_hash`] does.
    pub(crate) fn key_hash(&self) -> u64 {
        *self.views.key_hash.get_or_init(|| instance_hash(self.new.key().as_ref(), &Version::default()))
    }

    /// The change as it is told for this reason; for one reason `make` always gives the same.
    pub(crate) fn told(&self, kind: ChangeKind, make: impl FnOnce() -> Change) -> Arc<Told> {
        let place = match kind {
            ChangeKind::Added => 0,
            ChangeKind::Modified => 1,
            ChangeKind::Removed(_) => 2,
        };
        Arc::clone(self.views.told[place].get_or_init(|| Arc::new(Told::new(make()))))
    }
}

fn size(old: Option<&Record>, new: &Record) -> u64 {
    old.map_or(0, Record::size) + new.size()
}
