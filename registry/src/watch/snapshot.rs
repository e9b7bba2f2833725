//! What a selection held at one revision, for all who start with everything at about the same time.

use std::sync::Arc;

use super::frame::Frame;
use super::room::{Budget, Room};
use crate::Registry;
use crate::sync::Mutex;

/// Changes since, with which a snapshot is still worth more than a new one.
const AGE: u64 = 1024;

/// Pages of the index up to one revision, each made by the first reader who comes to it and kept for as long as others
/// are on their way. A key that moves before its page is made stands in none: it is told with what changed since.
#[derive(Debug)]
pub(super) struct Snapshot {
    /// Everything later is told as a change, removals too.
    pub(super) head: u64,
    pages: Mutex<Vec<(Page, Room)>>,
    budget: Arc<Budget>,
}

#[derive(Clone, Debug)]
pub(super) struct Page {
    pub(super) after: u64,
    pub(super) upto: u64,
    pub(super) frame: Arc<Frame>,
}

impl Snapshot {
    pub(super) fn at(head: u64, budget: Arc<Budget>) -> Self {
        Self { head, pages: Mutex::default(), budget }
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
        let known = pages.binary_search_by_key(&after, |(page, _)| page.after).map(|at| &pages[at].0);
        if let Some(page) = known.ok().filter(|page| page.frame.changes.len() <= max) {
            return Some(page.clone());
        }
        let page = make()?;
        let is_next = pages.last().map_or(0, |(last, _)| last.upto) == after;
        // One count is the caller's subscription, one the caller itself.
        let has_others = Arc::strong_count(self) > 2;
        if is_next
            && has_others
            && let Some(room) = self.budget.take(page.frame.weight())
        {
            pages.push((page.clone(), room));
        }
        Some(page)
    }
}
