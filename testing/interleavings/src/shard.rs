//! A lease under the lock of its key's shard, as the core's index, renewals and sweep use it.

use std::time::Duration;

use heureka_model::{LeaseTerms, Mono};

use crate::leases::{Heard, Lease, LeaseFlags, Sign};
use crate::sync::RwLock;

const FLAGS: LeaseFlags = LeaseFlags { overridden: false, down: false, unknown: false };

/// A shard with one key, whose lease is in the only slot.
pub struct Shard {
    /// Whether the key leads to the slot.
    known: RwLock<bool>,
    lease: Lease,
    fingerprint: u32,
}

/// Answer to a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The lease holds from now on.
    Accepted,
    /// Nobody is there.
    NotFound,
}

impl Shard {
    /// A key with a lease of so many seconds from time 0.
    #[must_use]
    pub fn new(fingerprint: u32, seconds: u64) -> Self {
        let shard = Self { known: RwLock::default(), lease: Lease::default(), fingerprint };
        shard.register(fingerprint, seconds, 0);
        shard
    }

    /// Arms the slot's lease for a key.
    pub fn register(&self, fingerprint: u32, seconds: u64, now_ms: u64) {
        let mut known = self.known.write();
        self.arm(fingerprint, seconds, now_ms);
        *known = fingerprint == self.fingerprint;
    }

    /// Arms the slot's lease for a key of another shard, whose lock is not this one.
    pub fn register_elsewhere(&self, fingerprint: u32, seconds: u64, now_ms: u64) {
        self.arm(fingerprint, seconds, now_ms);
    }

    /// Renews the key as the core does: under the shard's read lock to the end.
    pub fn renew(&self, now_ms: u64) -> Renewal {
        let known = self.known.read();
        let renewed = *known
            && self.lease.belongs_to(self.fingerprint)
            && self.lease.renew(self.fingerprint, Mono(now_ms), Heard::Owner);
        if renewed { Renewal::Accepted } else { Renewal::NotFound }
    }

    /// Sweeps as the core does: a candidate without a lock, a second look under the write lock. Tells whether
    /// the key was removed.
    pub fn sweep(&self, now_ms: u64) -> bool {
        if !self.is_lapsed(now_ms) {
            return false;
        }
        let mut known = self.known.write();
        if !*known || !self.is_lapsed(now_ms) {
            return false;
        }
        self.lease.disarm();
        *known = false;
        true
    }

    /// Takes the key away whatever its lease says.
    pub fn cancel(&self) {
        let mut known = self.known.write();
        self.lease.disarm();
        *known = false;
    }

    /// When the lease in the slot was last renewed and whether that was by a renewal; nothing without a lease.
    #[must_use]
    pub fn lease(&self) -> Option<(u64, bool)> {
        self.lease.view().map(|view| (view.renewed.0, view.beaten))
    }

    fn arm(&self, fingerprint: u32, seconds: u64, now_ms: u64) {
        let duration = Duration::from_secs(seconds);
        let terms = LeaseTerms::clamped(duration / 3, duration);
        let sign = Sign { at: Mono(now_ms), heard: Heard::Owner, beaten: false };
        self.lease.arm(fingerprint, terms, FLAGS, sign);
    }

    fn is_lapsed(&self, now_ms: u64) -> bool {
        self.lease.view().is_some_and(|view| view.is_expired(Mono(now_ms).since(view.renewed), false))
    }
}
