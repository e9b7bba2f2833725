//! Heartbeats that carry an older stamp than the stored record: two in a row mean that the record behind them is
//! the one that lives, whatever its clock says.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use heureka_model::Wall;
use parking_lot::Mutex;

/// Consecutive heartbeats with one lower stamp, by slot. Nearly always empty.
#[derive(Default)]
pub(crate) struct LowerBeats {
    counts: Mutex<HashMap<u32, (Wall, u8)>>,
    /// Spares the renewals of everybody else the lock.
    len: AtomicUsize,
}

impl LowerBeats {
    /// Counts one more for this stamp, from one if the stamp is another than last time; how many that makes.
    pub(crate) fn count(&self, slot: u32, stamp: Wall) -> u8 {
        let mut counts = self.counts.lock();
        let entry = counts.entry(slot).or_insert((stamp, 0));
        *entry = if entry.0 == stamp { (stamp, entry.1.saturating_add(1)) } else { (stamp, 1) };
        let count = entry.1;
        self.len.store(counts.len(), Ordering::Release);
        count
    }

    pub(crate) fn of(&self, slot: u32, stamp: Wall) -> u8 {
        if self.len.load(Ordering::Acquire) == 0 {
            return 0;
        }
        self.counts.lock().get(&slot).filter(|(counted, _)| *counted == stamp).map_or(0, |(_, count)| *count)
    }

    pub(crate) fn clear(&self, slot: u32) {
        if self.len.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut counts = self.counts.lock();
        counts.remove(&slot);
        self.len.store(counts.len(), Ordering::Release);
    }
}
