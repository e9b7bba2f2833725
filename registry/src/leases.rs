//! Leases: a few words beside each other, written by renewals and looked at by the sweep.

use std::time::Duration;

use heureka_model::{LeaseTerms, Mono};

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Bit of the renewal word: at least one renewal came since the registration.
const BEATEN: u64 = 1;
/// Bits of the renewal word that say by whom the last sign of life came.
const HEARD_SHIFT: u32 = 1;
const HEARD: u64 = 0b11;
/// Where the moment begins.
const TIME_SHIFT: u32 = 3;

/// Flag: an operator's override is in force, so the answer to a renewal must look at the record.
const OVERRIDDEN: u32 = 1;
/// Flag: the owner reported DOWN, so self-preservation does not hold this lease.
const DOWN: u32 = 2;
/// Flag: the owner does not know its status.
const UNKNOWN: u32 = 4;

/// The lease of a slot. Exact to the millisecond.
///
/// Armed, disarmed and expired under the shard's write lock; renewed under its read lock by one store.
///
/// Alone in half a cache line, so that a renewal touches one line and not two.
#[derive(Default)]
#[repr(align(32))]
pub(crate) struct Lease {
    /// Moment of the last sign of life plus one, beside by whom it came and [`BEATEN`]; 0 when there is no
    /// lease. Of two words the one with the later sign of life is the greater.
    renewed: AtomicU64,
    duration_ms: AtomicU32,
    interval_ms: AtomicU32,
    fingerprint: AtomicU32,
    flags: AtomicU32,
}

/// By whom a sign of life came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Heard {
    /// Nobody: the lease began when this server found the instance in its store. It lets the owner come back, and
    /// tells nobody that the instance lives.
    Nobody,
    /// Another server of the cluster passed it on.
    Peer,
    /// A Eureka server passed it on.
    Eureka,
    /// The owner told this server.
    Owner,
}

/// A sign of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sign {
    /// The moment at which it was heard.
    pub(crate) at: Mono,
    pub(crate) heard: Heard,
    /// It is a renewal, or came after one.
    pub(crate) beaten: bool,
}

/// What a record says of its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeaseFlags {
    pub(crate) overridden: bool,
    pub(crate) down: bool,
    pub(crate) unknown: bool,
}

/// One reading of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeaseView {
    pub(crate) renewed: Mono,
    pub(crate) heard: Heard,
    pub(crate) beaten: bool,
    duration_ms: u32,
    interval_ms: u32,
    flags: u32,
}

impl Lease {
    /// Starts or restarts the lease.
    pub(crate) fn arm(&self, fingerprint: u32, terms: LeaseTerms, flags: LeaseFlags, sign: Sign) {
        self.fingerprint.store(fingerprint, Ordering::Relaxed);
        self.duration_ms.store(terms.duration().as_millis() as u32, Ordering::Relaxed);
        self.interval_ms.store(terms.renewal_interval().as_millis() as u32, Ordering::Relaxed);
        self.flags.store(flags.bits(), Ordering::Relaxed);
        self.renewed.store(sign.word(), Ordering::Release);
    }

    /// Ends the lease.
    pub(crate) fn disarm(&self) {
        self.renewed.store(0, Ordering::Release);
    }

    /// Renews the lease of the key with this fingerprint, or says that it has none.
    pub(crate) fn renew(&self, fingerprint: u32, now: Mono, heard: Heard) -> bool {
        if !self.belongs_to(fingerprint) {
            return false;
        }
        self.renewed.store(Sign { at: now, heard, beaten: true }.word(), Ordering::Release);
        true
    }

    /// Takes in a sign of life that somebody else saw, if the lease is that key's and knows no later one. An owner
    /// may renew meanwhile, which is always later.
    pub(crate) fn advance(&self, fingerprint: u32, sign: Sign) -> bool {
        let mut known = self.renewed.load(Ordering::Relaxed);
        while known != 0 && self.fingerprint.load(Ordering::Relaxed) == fingerprint {
            let beaten = sign.beaten || known & BEATEN != 0;
            let later = Sign { beaten, ..sign }.word();
            if later >> TIME_SHIFT <= known >> TIME_SHIFT {
                return false;
            }
            match self.renewed.compare_exchange_weak(known, later, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(current) => known = current,
            }
        }
        false
    }

    /// Fingerprint of the key whose lease it is or was.
    pub(crate) fn fingerprint(&self) -> u32 {
        self.fingerprint.load(Ordering::Relaxed)
    }

    /// Whether the slot holds a lease of the key with this fingerprint.
    pub(crate) fn belongs_to(&self, fingerprint: u32) -> bool {
        self.renewed.load(Ordering::Relaxed) != 0 && self.fingerprint.load(Ordering::Relaxed) == fingerprint
    }

    /// The lease, when there is one.
    pub(crate) fn view(&self) -> Option<LeaseView> {
        let renewed = self.renewed.load(Ordering::Acquire);
        if renewed == 0 {
            return None;
        }
        Some(LeaseView {
            renewed: Mono((renewed >> TIME_SHIFT) - 1),
            heard: Heard::of(renewed),
            beaten: renewed & BEATEN != 0,
            duration_ms: self.duration_ms.load(Ordering::Relaxed),
            interval_ms: self.interval_ms.load(Ordering::Relaxed),
            flags: self.flags.load(Ordering::Relaxed),
        })
    }
}

impl LeaseFlags {
    fn bits(self) -> u32 {
        let bit = |set: bool, bit: u32| if set { bit } else { 0 };
        bit(self.overridden, OVERRIDDEN) | bit(self.down, DOWN) | bit(self.unknown, UNKNOWN)
    }
}

impl LeaseView {
    /// The last sign of life.
    pub(crate) fn sign(&self) -> Sign {
        Sign { at: self.renewed, heard: self.heard, beaten: self.beaten }
    }

    /// How long the lease lives after a renewal. The original counts a renewed lease twice.
    pub(crate) fn duration_ms(&self, double: bool) -> u64 {
        let factor = if double && self.beaten { 2 } else { 1 };
        u64::from(self.duration_ms) * factor
    }

    /// Whether the lease has run out, when so much of it has passed. It still holds at its last millisecond.
    pub(crate) fn is_expired(&self, passed: Duration, double: bool) -> bool {
        passed.as_millis() > u128::from(self.duration_ms(double))
    }

    pub(crate) fn interval(&self) -> Duration {
        Duration::from_millis(u64::from(self.interval_ms))
    }

    pub(crate) fn interval_ms(&self) -> u32 {
        self.interval_ms
    }

    pub(crate) fn is_overridden(&self) -> bool {
        self.flags & OVERRIDDEN != 0
    }

    pub(crate) fn is_down(&self) -> bool {
        self.flags & DOWN != 0
    }

    pub(crate) fn is_unknown(&self) -> bool {
        self.flags & UNKNOWN != 0
    }
}

impl Heard {
    fn of(word: u64) -> Self {
        match word >> HEARD_SHIFT & HEARD {
            0 => Self::Nobody,
            1 => Self::Peer,
            2 => Self::Eureka,
            _ => Self::Owner,
        }
    }
}

impl Sign {
    fn word(self) -> u64 {
        (self.at.0 + 1) << TIME_SHIFT | (self.heard as u64) << HEARD_SHIFT | u64::from(self.beaten)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAGS: LeaseFlags = LeaseFlags { overridden: false, down: false, unknown: false };

    fn sign(at: u64, heard: Heard, beaten: bool) -> Sign {
        Sign { at: Mono(at), heard, beaten }
    }

    fn armed(now: u64) -> Lease {
        let lease = Lease::default();
        let terms = LeaseTerms::clamped(Duration::from_secs(1), Duration::from_secs(3));
        lease.arm(7, terms, FLAGS, sign(now, Heard::Owner, false));
        lease
    }

    fn lapses(lease: &Lease, at: u64, double: bool) -> bool {
        let view = lease.view().unwrap();
        view.is_expired(Mono(at).since(view.renewed), double)
    }

    #[test]
    fn a_lease_lasts_exactly_its_duration_renewed_or_not() {
        let lease = armed(0);
        assert!(!lapses(&lease, 3000, false));
        assert!(lapses(&lease, 3001, false));
        assert!(lease.renew(7, Mono(2000), Heard::Owner));
        assert!(!lapses(&lease, 5000, false));
        assert!(lapses(&lease, 5001, false));
    }

    #[test]
    fn the_original_counts_a_renewed_lease_twice() {
        let lease = armed(0);
        assert!(lapses(&lease, 3001, true));
        lease.renew(7, Mono(1000), Heard::Owner);
        assert!(!lapses(&lease, 7000, true));
        assert!(lapses(&lease, 7001, true));
    }

    #[test]
    fn neither_a_stranger_nor_an_ended_lease_is_renewed() {
        let lease = armed(0);
        assert!(!lease.renew(8, Mono(1), Heard::Owner));
        lease.disarm();
        assert!(!lease.renew(7, Mono(1), Heard::Owner));
        assert_eq!(lease.view(), None);
    }

    #[test]
    fn a_sign_of_life_from_elsewhere_counts_when_it_is_later() {
        let lease = armed(1000);
        assert!(!lease.advance(7, sign(1000, Heard::Peer, true)), "nothing new");
        assert!(lease.advance(7, sign(2000, Heard::Peer, false)));
        let view = lease.view().unwrap();
        assert_eq!((view.renewed, view.heard, view.beaten), (Mono(2000), Heard::Peer, false));
        assert!(lease.renew(7, Mono(2500), Heard::Owner));
        assert!(!lease.advance(7, sign(2400, Heard::Eureka, true)), "the owner spoke since");
        assert!(lease.advance(7, sign(2600, Heard::Eureka, false)));
        let view = lease.view().unwrap();
        assert_eq!((view.renewed, view.heard, view.beaten), (Mono(2600), Heard::Eureka, true));
        assert!(!lease.advance(8, sign(9000, Heard::Peer, true)), "another key's");
        lease.disarm();
        assert!(!lease.advance(7, sign(9000, Heard::Peer, true)), "an ended lease");
    }
}
