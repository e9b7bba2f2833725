//! Changes that are told together.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use heureka_model::Wall;

use crate::log::Told;

/// Bytes of texts told together; the change that goes beyond is the last. Bounds what an unread subscriber holds.
pub(crate) const BYTES: usize = 64 << 10;

/// Changes with which a frame is worth a message of its own.
const LARGE: usize = 64;

/// About what a change takes beside its texts.
const CHANGE: usize = 1 << 10;

/// Changes of different keys in the order of the log. Readers of the same selection near the head share one, and its
/// encoded form with it.
#[derive(Debug, Default)]
pub struct Frame {
    /// The changes, at most one per key.
    pub changes: Vec<Arc<Told>>,
    /// When the oldest of them was committed.
    pub committed: Option<Wall>,
    bytes: usize,
    encoded: OnceLock<Option<Bytes>>,
}

impl Frame {
    /// All changes in a wire's form, which whoever asks first makes; nothing when they are no single message. One wire
    /// tells changes, so `encode` always gives the same.
    pub fn encoded(&self, encode: impl FnOnce(&Self) -> Option<Bytes>) -> Option<Bytes> {
        self.encoded.get_or_init(|| encode(self)).clone()
    }

    /// Whether it is worth a message of its own.
    #[must_use]
    pub fn is_large(&self) -> bool {
        self.changes.len() >= LARGE || self.bytes >= BYTES / 2
    }

    /// About what it takes in memory, its encoded form included.
    pub(super) fn weight(&self) -> u64 {
        (3 * self.bytes + self.changes.len() * CHANGE) as u64
    }

    /// Changes that come from no single place in the log.
    pub(crate) fn of(changes: Vec<Arc<Told>>) -> Self {
        let bytes = changes.iter().map(|told| told.text_size()).sum();
        Self { changes, bytes, ..Self::default() }
    }

    pub(super) fn is_full(&self, max: usize) -> bool {
        self.changes.len() >= max || self.bytes >= BYTES
    }

    /// Adds a change, the first of whose causes was committed at that time.
    pub(super) fn push(&mut self, told: Option<Arc<Told>>, committed: Wall) {
        if let Some(told) = told {
            self.bytes += told.text_size();
            self.committed = Some(self.committed.map_or(committed, |earlier| earlier.min(committed)));
            self.changes.push(told);
        }
    }
}
