//! The core's log, driven as its funnel drives it.

use std::sync::Arc;

use heureka_model::{KeyHasher, KeyRef, Status};

use crate::log::{Entry, Log, Stamps, Sums};
use crate::record::{Body, Draft, Head};
use crate::store::{App, Slots};
use crate::sync::{Mutex, MutexGuard};

/// Changes that the ring holds.
const RING: usize = 2;

/// A log over a few keys, each alone in its shard and in the slot of its number.
pub struct Ledger {
    log: Log,
    slots: Slots,
    app: Arc<App>,
    shards: Vec<Mutex<()>>,
}

/// What a pass met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Met {
    /// Revision at which it stood.
    pub revision: u64,
    /// Slot that holds the key.
    pub slot: u32,
    /// Content.
    pub content: u64,
    /// It is not a tombstone.
    pub live: bool,
}

/// A pass through the log's index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pass {
    /// What was met, in order.
    pub met: Vec<Met>,
    /// Everything up to here was examined.
    pub position: u64,
    /// Something above the start was forgotten meanwhile, so the pass may have missed its removal.
    pub lost: bool,
}

impl Ledger {
    /// A log of `keys` keys, at most four. Key `k` stands at revision `k + 1` with content `k`.
    ///
    /// # Panics
    /// With more keys than slots.
    #[must_use]
    pub fn new(keys: u32) -> Self {
        let ledger = Self {
            log: Log::new(1, RING),
            slots: Slots::new(),
            app: Arc::default(),
            shards: (0..keys).map(|_| Mutex::default()).collect(),
        };
        for key in 0..keys {
            ledger.slots.take().expect("there are four slots");
            ledger.change(key, u64::from(key));
        }
        ledger
    }

    /// Writes new content; the revision that it got.
    pub fn change(&self, key: u32, content: u64) -> u64 {
        let _shard = self.shard(key);
        self.commit(key, content, true)
    }

    /// Turns a key into a tombstone; its revision.
    pub fn remove(&self, key: u32, content: u64) -> u64 {
        let _shard = self.shard(key);
        self.commit(key, content, false)
    }

    /// Forgets a tombstone, then gives its slot to a new key, as the core's free list would.
    pub fn reuse(&self, key: u32, tombstone: u64, content: u64) -> u64 {
        let _shard = self.shard(key);
        self.log.forget(&self.slots, key, tombstone);
        self.commit(key, content, true)
    }

    /// Forgets a tombstone.
    pub fn forget(&self, key: u32, tombstone: u64) {
        let _shard = self.shard(key);
        self.log.forget(&self.slots, key, tombstone);
    }

    /// Last revision that readers may count on.
    #[must_use]
    pub fn head(&self) -> u64 {
        self.log.head()
    }

    /// Reads on from `start` until `budget` keys are met or the head of this moment is reached, as a
    /// subscription does.
    #[must_use]
    pub fn pass(&self, start: u64, budget: usize) -> Pass {
        let bound = self.log.head();
        self.pass_to(start, bound, budget)
    }

    /// Reads on from `start` to `bound`, a head that was read before.
    #[must_use]
    pub fn pass_to(&self, start: u64, bound: u64, budget: usize) -> Pass {
        let mut met = Vec::new();
        let walked = self.log.walk(&self.slots, start, bound, budget, |revision, slot, record| {
            met.push(Met { revision, slot, content: record.content(), live: record.is_live() });
        });
        Pass { met, position: walked.position, lost: self.log.floor() > start }
    }

    /// The change of that revision, while the ring of recent changes holds it.
    #[must_use]
    pub fn recent(&self, revision: u64) -> Option<Met> {
        let recent = self.log.recent(revision)?;
        let Met { content, live, .. } =
            Met { revision, slot: recent.slot, content: recent.new.content(), live: recent.new.is_live() };
        Some(Met { revision: recent.revision, slot: recent.slot, content, live })
    }

    /// Head and number of live keys, read as one.
    #[must_use]
    pub fn sums(&self) -> (u64, u64) {
        let held = self.log.hold();
        let live = self.app.tally.lock().counts.total();
        (held.head(), u64::from(live))
    }

    fn shard(&self, key: u32) -> MutexGuard<'_, ()> {
        self.shards[key as usize].lock()
    }

    fn commit(&self, slot: u32, content: u64, live: bool) -> u64 {
        let key = KeyHasher::new(KeyRef { namespace: "", app: "", id: "" });
        let old = self.slots.record(slot).filter(|(_, record)| record.is_live());
        let old = old.map(|(_, record)| (key.at(&record.version()), record.status()));
        let (head, app) = (Head::new(live), Arc::clone(&self.app));
        let draft = Draft(Body { head, app, id: slot, content, status: Status::Up });
        let entry = Entry { slot, draft, stamps: Stamps::default(), sums: Sums { key, old } };
        self.log.commit(&self.slots, entry, 0).revision
    }
}
