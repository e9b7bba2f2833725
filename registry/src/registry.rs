//! The façade. What callers may ask stands in one file per verb: `register`, `renew`, `cancel`, `overrides`,
//! `metadata`, `reads`, `tick`, `watch`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use heureka_model::{KeyRef, Mono, Now, Overlay, Wall};
use parking_lot::Mutex;

use crate::apply::is_key;
use crate::beats::LowerBeats;
use crate::early::Early;
use crate::events::{Event, Events};
use crate::leases::{LeaseView, Sign};
use crate::log::{History, Log};
use crate::pauses::LeaseClock;
use crate::readings::Readings;
use crate::record::{Life, Record, Usage};
use crate::replication::{Acks, Covered};
use crate::seeded::{self, Bug, planted};
use crate::store::{Apps, Index, KeyHash, Slots};
use crate::tick::Ticker;
use crate::timers::Timers;
use crate::views::Pools;
use crate::watch::{Horizon, Interests};
use crate::{Config, Origin, Refused, Removals, Seeds};

/// A registry of instances. Shared by reference among any number of threads.
pub struct Registry {
    pub(crate) config: Config,
    boot: u64,
    pub(crate) index: Index,
    pub(crate) slots: Slots,
    pub(crate) apps: Apps,
    pub(crate) log: Log,
    pub(crate) usage: Arc<Usage>,
    pub(crate) counters: Counters,
    pub(crate) events: Events,
    pub(crate) timers: Mutex<Timers>,
    pub(crate) lower_beats: LowerBeats,
    pub(crate) history: Mutex<History>,
    pub(crate) ticker: Mutex<Ticker>,
    pub(crate) protecting: AtomicBool,
    pub(crate) removals: Mutex<Removals>,
    pub(crate) lease_clock: LeaseClock,
    pub(crate) covered: Mutex<Covered>,
    pub(crate) horizon: Mutex<Horizon>,
    pub(crate) interests: Arc<Interests>,
    pub(crate) readings: Readings,
    pub(crate) pools: Arc<Pools>,
    pub(crate) acks: Acks,
    pub(crate) early: Early,
    /// Revision of the last change that did not come from a peer.
    pub(crate) entered: AtomicU64,
}

/// What a key costs beside its record: slot, lease, place in both indexes, appointments. Measured.
pub(crate) const KEY_BYTES: u64 = 140;

/// Sizes that no operator sets, but tests do, to reach the rare paths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tuning {
    /// Bits of the key hashes that count.
    pub(crate) hash_mask: u64,
    /// Changes kept with what was before.
    pub(crate) ring: usize,
}

impl Default for Tuning {
    fn default() -> Self {
        Self { hash_mask: u64::MAX, ring: 8192 }
    }
}

/// What is counted as it happens.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) live: AtomicU64,
    pub(crate) tombstones: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// Bytes that removed instances take, their applications included.
    pub(crate) removed_bytes: AtomicU64,
    pub(crate) renewals: AtomicU64,
    pub(crate) expired: AtomicU64,
    pub(crate) after_cancel: AtomicU64,
    pub(crate) stamps_ahead: AtomicU64,
    pub(crate) endpoints_replaced: AtomicU64,
    pub(crate) collisions: AtomicU64,
    /// Reports of owners that readers were told of at once, that waited for their turn, and that were refused.
    pub(crate) reports_accepted: AtomicU64,
    pub(crate) reports_capped: AtomicU64,
    pub(crate) reports_refused: AtomicU64,
    /// Instances whose removal a peer decided, since the last tick.
    pub(crate) peer_expired: AtomicU64,
    /// Expired instances that are there again, since the last tick.
    pub(crate) returned: AtomicU64,
    /// Longest lease seen at the last tick, in milliseconds.
    pub(crate) longest_lease_ms: AtomicU64,
    /// Highest owner version seen.
    pub(crate) highest_owner: AtomicU64,
}

impl Registry {
    /// An empty registry.
    #[must_use]
    pub fn new(config: Config, seeds: Seeds, now: Now) -> Self {
        Self::tuned(config, seeds, Tuning::default(), now)
    }

    pub(crate) fn tuned(mut config: Config, seeds: Seeds, tuning: Tuning, now: Now) -> Self {
        config.eureka_double_lease |= planted(Bug::LeaseDoubled);
        let stamped = if planted(Bug::StampsReused) { 1 } else { seeds.boot };
        Self {
            boot: seeds.boot,
            index: Index::new(seeds.hash, tuning.hash_mask),
            slots: Slots::new(),
            apps: Apps::default(),
            log: Log::new(stamped, seeded::ring().unwrap_or(tuning.ring)),
            usage: Arc::default(),
            counters: Counters::default(),
            events: Events::default(),
            timers: Mutex::default(),
            lower_beats: LowerBeats::default(),
            history: Mutex::new(History::new(config.delta_window)),
            ticker: Mutex::new(Ticker::new(seeds.shuffle, now)),
            protecting: AtomicBool::new(false),
            removals: Mutex::default(),
            lease_clock: LeaseClock::new(now.mono),
            covered: Mutex::default(),
            horizon: Mutex::default(),
            interests: Arc::default(),
            readings: Readings::default(),
            pools: Arc::default(),
            acks: Acks::default(),
            early: Early::default(),
            entered: AtomicU64::new(0),
            config,
        }
    }

    /// Id of this life of the server.
    #[must_use]
    pub fn boot(&self) -> u64 {
        self.boot
    }

    /// Removes lapsed leases in another way than configured, until told otherwise.
    pub fn set_removals(&self, removals: Removals) {
        *self.removals.lock() = removals;
    }

    /// Revision of the last change that entered the cluster here: what a peer has to reach for all of them to be on
    /// two servers.
    #[must_use]
    pub fn entered(&self) -> u64 {
        self.entered.load(Ordering::Acquire)
    }

    /// Tells how far the peers have followed.
    #[must_use]
    pub fn acks(&self) -> &Acks {
        &self.acks
    }

    /// Settings in force.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The last changes with their causes, newest first.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        self.events_after(0)
    }

    /// Those after a revision, newest first. At most 1,000 of each kind are remembered.
    #[must_use]
    pub fn events_after(&self, revision: u64) -> Vec<Event> {
        self.events.after(revision)
    }

    /// Those of a key, newest first.
    #[must_use]
    pub fn events_of(&self, key: KeyRef<'_>) -> Vec<Event> {
        self.events.of(key)
    }

    /// The moment at which what comes now is heard.
    pub(crate) fn moment(&self, now: Now) -> Mono {
        self.lease_clock.moment(now.mono)
    }

    /// Whether a lease has run out, this server's pauses left out.
    pub(crate) fn is_expired(&self, lease: &LeaseView, now: Now) -> bool {
        let passed = self.lease_clock.read(now.mono).since(lease.renewed);
        lease.is_expired(passed, self.config.eureka_double_lease)
    }

    /// How long this server has stood still in all.
    pub(crate) fn paused(&self, now: Now) -> Duration {
        self.lease_clock.paused(now.mono)
    }

    /// The moment at which something was heard that is `age` old.
    pub(crate) fn heard_at(&self, age: Duration, now: Now) -> Mono {
        let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        Mono(self.moment(now).0.saturating_sub(age))
    }

    /// How old a sign of life is, this server's pauses included.
    pub(crate) fn age(&self, heard: Mono, now: Now) -> Duration {
        self.moment(now).since(heard)
    }

    /// Wall time of a slot's last renewal.
    pub(crate) fn renewed(&self, slot: u32, now: Now) -> Wall {
        let age = |view: LeaseView| self.age(view.renewed, now);
        self.slots.lease(slot).view().map_or(now.wall, |view| now.wall.minus(age(view)))
    }

    /// The slot of a key while anything is known of it.
    pub(crate) fn slot_of(&self, key: KeyRef<'_>) -> Option<u32> {
        let is_it = |slot: &u32| self.slots.record(*slot).is_some_and(|(_, record)| is_key(&record, key));
        self.index.read(self.index.hash(key), |slots| slots.iter().find(is_it))
    }

    /// Takes in a sign of life of a key that somebody else saw, if it is later than what is known.
    pub(crate) fn advance(&self, hash: KeyHash, sign: Sign) -> bool {
        let lease = |slot| self.slots.lease(slot);
        let advanced = self
            .index
            .read(hash, |slots| slots.iter().any(|slot| lease(slot).advance(hash.fingerprint, sign)));
        self.counters.renewals.fetch_add(u64::from(advanced), Ordering::Relaxed);
        advanced
    }

    pub(crate) fn renew_slot(&self, slot: u32, hash: KeyHash, origin: &Origin, now: Now) -> bool {
        let renewed = self.slots.lease(slot).renew(hash.fingerprint, self.moment(now), origin.heard());
        if renewed {
            self.counters.renewals.fetch_add(1, Ordering::Relaxed);
        }
        renewed
    }

    /// Bytes of everything known of any key.
    pub(crate) fn bytes(&self) -> u64 {
        let counters = &self.counters;
        let keys = counters.live.load(Ordering::Relaxed) + counters.tombstones.load(Ordering::Relaxed);
        counters.bytes.load(Ordering::Relaxed)
            + self.usage.bytes.load(Ordering::Relaxed)
            + self.apps.bytes()
            + keys * KEY_BYTES
    }

    /// Whether one more key may come.
    pub(crate) fn room(&self) -> Result<(), Refused> {
        if self.bytes() < self.config.max_bytes { Ok(()) } else { Err(Refused::Full) }
    }

    /// Keeps the weight of all records, and apart from it that of removed ones.
    pub(crate) fn weigh(&self, old: Option<&Record>, new: Option<&Record>) {
        let counters = &self.counters;
        if let Some(new) = new {
            counters.bytes.fetch_add(new.size(), Ordering::Relaxed);
            counters.removed_bytes.fetch_add(removed_bytes(new), Ordering::Relaxed);
        }
        if let Some(old) = old {
            counters.bytes.fetch_sub(old.size(), Ordering::Relaxed);
            counters.removed_bytes.fetch_sub(removed_bytes(old), Ordering::Relaxed);
        }
    }

    /// Keeps count of instances and of what is remembered of removed ones.
    pub(crate) fn count_lives(&self, old: Option<&Record>, new: &Record) {
        let count = |record: &Record| {
            if record.is_live() { &self.counters.live } else { &self.counters.tombstones }
        };
        if let Some(old) = old {
            count(old).fetch_sub(1, Ordering::Relaxed);
            let returned = old.head().life == Life::Expired && new.is_live();
            self.counters.returned.fetch_add(u64::from(returned), Ordering::Relaxed);
        }
        count(new).fetch_add(1, Ordering::Relaxed);
    }

    /// How long a removal is remembered.
    pub(crate) fn remembered(&self, removed: &Record) -> Duration {
        if planted(Bug::ShortMemory) {
            return Duration::from_secs(30);
        }
        if planted(Bug::CancelForgotten) && removed.head().life == Life::Cancelled {
            return Duration::ZERO;
        }
        let longest = Duration::from_millis(self.counters.longest_lease_ms.load(Ordering::Relaxed));
        let overridden = removed.head().life == Life::Expired && removed.overlay() != Overlay::default();
        let outlives = if overridden { self.config.override_outlives } else { Duration::ZERO };
        self.config.tombstone_ttl.max(2 * longest).max(2 * removed.terms().duration()).max(outlives)
    }
}

fn removed_bytes(record: &Record) -> u64 {
    if record.is_live() { 0 } else { record.size() + KEY_BYTES + record.app().size() }
}
