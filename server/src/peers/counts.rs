//! What is counted about peers as it happens.

use std::sync::atomic::{AtomicU64, Ordering};

use super::refusal::Refusal;

/// Counts since the start.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    refused: [AtomicU64; Refusal::ALL.len()],
    skipped: AtomicU64,
    ack_degraded: AtomicU64,
}

impl Counts {
    /// A stream was refused or ended for this reason, on either side.
    pub(super) fn refused(&self, refusal: Refusal) {
        self.refused[refusal as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Entries of frames were left out.
    pub(super) fn skipped(&self, count: u64) {
        self.skipped.fetch_add(count, Ordering::Relaxed);
    }

    /// A write was answered although no peer had it in time.
    pub(super) fn ack_degraded(&self) {
        self.ack_degraded.fetch_add(1, Ordering::Relaxed);
    }

    /// Streams refused or ended for a reason.
    pub(crate) fn of(&self, refusal: Refusal) -> u64 {
        self.refused[refusal as usize].load(Ordering::Relaxed)
    }

    /// Entries of frames left out.
    pub(crate) fn all_skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    /// Writes answered before a peer had them.
    pub(crate) fn all_ack_degraded(&self) -> u64 {
        self.ack_degraded.load(Ordering::Relaxed)
    }
}
