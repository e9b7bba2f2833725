//! How the store is, for operators and metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use heureka_model::Wall;
use parking_lot::Mutex;

/// Figures of the store, shared with whoever shows them.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    rows: AtomicU64,
    revision: AtomicU64,
    written: AtomicU64,
    errors: AtomicU64,
    skipped: AtomicU64,
    set_aside: AtomicU64,
    last_write: Mutex<Option<Wall>>,
    last_error: Mutex<Option<Failed>>,
}

/// A write that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    /// When.
    pub(crate) at: Wall,
    /// Why.
    pub(crate) error: String,
}

impl Figures {
    /// Rows in the file.
    pub(crate) fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Revision up to which the file is written.
    pub(crate) fn revision(&self) -> u64 {
        self.revision.load(Ordering::Relaxed)
    }

    /// Rows written since the start.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Writes that failed since the start.
    pub(crate) fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// Rows of a file that could not be read and were left out.
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    /// Files that could not be used and were set aside.
    pub(crate) fn set_aside(&self) -> u64 {
        self.set_aside.load(Ordering::Relaxed)
    }

    /// When a write last succeeded.
    pub(crate) fn last_write(&self) -> Option<Wall> {
        *self.last_write.lock()
    }

    /// The last write that failed.
    pub(crate) fn last_error(&self) -> Option<Failed> {
        self.last_error.lock().clone()
    }

    pub(super) fn loaded(&self, rows: u64, revision: u64) {
        self.rows.store(rows, Ordering::Relaxed);
        self.revision.store(revision, Ordering::Relaxed);
    }

    pub(super) fn wrote(&self, rows: u64, written: u64, revision: u64, at: Wall) {
        self.loaded(rows, revision);
        self.written.fetch_add(written, Ordering::Relaxed);
        *self.last_write.lock() = Some(at);
    }

    pub(super) fn failed(&self, error: String, at: Wall) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        *self.last_error.lock() = Some(Failed { at, error });
    }

    pub(super) fn skip(&self, rows: u64) {
        self.skipped.fetch_add(rows, Ordering::Relaxed);
    }

    pub(super) fn put_aside(&self) {
        self.set_aside.fetch_add(1, Ordering::Relaxed);
    }
}
