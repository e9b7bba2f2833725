//! Changes that are told together.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use heureka_model::Wall;

use crate::log::Told;
use crate::record::Record;

/// Bytes of texts told together; the change that goes beyond is the last. Bounds what an unread subscriber holds.
const BYTES: usize = 64 << 10;

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

    pub(super) fn is_full(&self, max: usize) -> bool {
        self.changes.len() >= max || self.bytes >= BYTES
    }

    pub(super) fn push(&mut self, told: Option<Arc<Told>>, record: &Record) {
        if let Some(told) = told {
            self.bytes += told.text_size();
            let at = record.head().updated;
            self.committed = Some(self.committed.map_or(at, |earlier| earlier.min(at)));
            self.changes.push(told);
        }
    }
}
