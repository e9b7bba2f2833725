//! What a selection held at one revision, for all who start with everything at about the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::frame::Frame;
use crate::Registry;

/// Bytes of pages that all snapshots together keep.
const KEPT: u64 = 64 << 20;

/// Changes since, with which a snapshot is still worth more than a new one.
const AGE: u64 = 1024;

/// Pages of the index up to one revision, each made by the first reader who comes to it and kept for as long as others
/// are on their way. A key that moves before its page is made stands in none: it is told with what changed since.
#[derive(Debug)]
pub(super) struct Snapshot {
    /// Everything later is told as a change, removals too.
    pub(super) head: u64,
    pages: Mutex<Vec<Page>>,
    /// Bytes of this one's pages, and of all.
    bytes: AtomicU64,
    kept: Arc<AtomicU64>,
}

#[derive(Clone, Debug)]
pub(super) struct Page {
    pub(super) after: u64,
    pub(super) upto: u64,
    pub(super) frame: Arc<Frame>,
}

impl Snapshot {
    pub(super) fn at(head: u64, kept: Arc<AtomicU64>) -> Self {
        Self { head, pages: Mutex::default(), bytes: AtomicU64::new(0), kept }
    }

    /// Whether it is of use to who starts now.
    pub(super) fn serves(&self, registry: &Registry) -> bool {
        registry.floor() <= self.head && registry.head().saturating_sub(self.head) <= AGE
    }

    /// The page that follows a position, with `max` changes at most. One that is made is kept when others will read it.
    pub(super) fn page(
        self: &Arc<Self>,
        after: u64,
        max: usize,
        make: impl FnOnce() -> Option<Page>,
    ) -> Option<Page> {
        let mut pages = self.pages.lock();
        let known = pages.binary_search_by_key(&after, |page| page.after);
        if let Some(page) = known.ok().map(|at| &pages[at]).filter(|page| page.frame.changes.len() <= max) {
            return Some(page.clone());
        }
        let page = make()?;
        let is_next = pages.last().map_or(0, |last| last.upto) == after;
        // One count is the caller's subscription, one the caller itself.
        let has_others = Arc::strong_count(self) > 2;
        if is_next && has_others && self.has_room(page.frame.weight()) {
            pages.push(page.clone());
        }
        Some(page)
    }

    fn has_room(&self, bytes: u64) -> bool {
        let before = self.kept.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes > KEPT {
            self.kept.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        true
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.kept.fetch_sub(self.bytes.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}
