//! The façade: what callers may ask.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use heureka_model::{
    Instance, KeyRef, Mono, Now, Overlay, Registration, Stamp, Status, StatusOverride, Wall,
};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::admission::{self, Admission, Stored};
use crate::apply::{Held, Key, OwnerWrite, Renewal, Texts, Write};
use crate::beats::LowerBeats;
use crate::events::{Cause, Event, Events};
use crate::leases::LeaseView;
use crate::log::{History, Log};
use crate::record::{Flat, Life, OverlayNote, Record, Usage};
use crate::store::{Apps, Index, KeyHash, Slots};
use crate::tick::Ticker;
use crate::timers::Timers;
use crate::{
    Beat, Cancelled, Claim, Config, MetadataPatch, Origin, Refused, RegisterMode, Registered, Renewed, Seeds,
    SetOverride, Surface,
};

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
    pub(crate) protection: watch::Sender<bool>,
}

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
    pub(crate) renewals: AtomicU64,
    pub(crate) expired: AtomicU64,
    pub(crate) after_cancel: AtomicU64,
    pub(crate) stamps_ahead: AtomicU64,
    pub(crate) collisions: AtomicU64,
    /// Milliseconds that the server was paused, taken off the lease clock.
    pub(crate) paused_ms: AtomicU64,
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

    pub(crate) fn tuned(config: Config, seeds: Seeds, tuning: Tuning, now: Now) -> Self {
        Self {
            boot: seeds.boot,
            index: Index::new(seeds.hash, tuning.hash_mask),
            slots: Slots::new(),
            apps: Apps::default(),
            log: Log::new(seeds.boot, tuning.ring),
            usage: Arc::default(),
            counters: Counters::default(),
            events: Events::default(),
            timers: Mutex::default(),
            lower_beats: LowerBeats::default(),
            history: Mutex::new(History::new(config.delta_window)),
            ticker: Mutex::new(Ticker::new(seeds.shuffle, now)),
            protection: watch::Sender::new(false),
            config,
        }
    }

    /// Registers or refreshes an instance, which the caller has validated. See `docs/leases.md` for who wins.
    ///
    /// # Errors
    /// [`Refused::Stale`] when another writer holds the version, [`Refused::Exists`] under
    /// [`RegisterMode::CreateOnly`], [`Refused::Full`].
    pub fn register(
        &self,
        mut instance: Instance,
        claim: Claim,
        mode: RegisterMode,
        origin: &Origin,
        now: Now,
    ) -> Result<Registered, Refused> {
        let key = instance.key.clone();
        self.with_key(key.as_ref(), now, |key| {
            self.keep_status(key, &mut instance, claim);
            let flat = Flat::of(&instance);
            let admission = self.admit(key, &instance, &flat, claim);
            let live = key.live().is_ok();
            if live && mode == RegisterMode::CreateOnly && admission != Admission::Renew {
                return Err(Refused::Exists);
            }
            let applied = self.admitted(key, &instance, &flat, (admission, claim), origin)?;
            let created = applied && !live;
            key.held().map(|held| registered(held, created, applied)).ok_or(Refused::NotFound)
        })
    }

    /// Renews a lease: one look-up and one store while nothing is compared. A `status` that differs from the
    /// owner's stored one is a write of the owner's record.
    ///
    /// # Errors
    /// [`Refused::NotFound`], also over REST for an instance whose owner reported UNKNOWN;
    /// [`Refused::Outdated`] when the caller knows a newer record, with the lease renewed all the same;
    /// [`Refused::Conflict`] when a peer knows an older one.
    pub fn renew(
        &self,
        key: KeyRef<'_>,
        beat: Beat,
        status: Option<Status>,
        origin: &Origin,
        now: Now,
    ) -> Result<Renewed, Refused> {
        let hash = self.index.hash(key);
        let renewed = self.index.read(hash, |slots| {
            let slot = slots.iter().find(|slot| self.slots.lease(*slot).belongs_to(hash.fingerprint));
            slot.map(|slot| self.beat(slot, hash, beat, origin, now))
        });
        let renewed = renewed.unwrap_or(Err(Refused::NotFound))?;
        if let Some(status) = status {
            self.report_status(key, status, origin, now)?;
        }
        Ok(renewed)
    }

    /// Removes an instance and remembers it, also one that nobody knows, so that a late registration loses.
    ///
    /// # Errors
    /// [`Refused::Stale`] when another writer holds the version; [`Refused::Full`] when an unknown key finds no
    /// room to be remembered.
    pub fn cancel(
        &self,
        key: KeyRef<'_>,
        claim: Claim,
        origin: &Origin,
        now: Now,
    ) -> Result<Cancelled, Refused> {
        self.with_key(key, now, |key| {
            let stored = key.held().map(stored);
            let highest = self.counters.highest_owner.load(Ordering::Relaxed);
            let owner = admission::cancel(stored.as_ref(), claim, highest, now.wall)?;
            let existed = key.live().is_ok();
            if let Some(owner) = owner {
                self.write_cancel(key, owner, claim, origin)?;
            }
            let version = key.held().map_or_else(Default::default, |held| held.record.version());
            Ok(Cancelled { existed: existed && key.live().is_err(), version })
        })
    }

    /// Writes the operator's overlay. Over REST, where the original renews the lease, so does this; and a status
    /// that readers see already is not recorded, as there.
    ///
    /// # Errors
    /// [`Refused::NotFound`].
    pub fn set_override(
        &self,
        key: KeyRef<'_>,
        set: SetOverride,
        origin: &Origin,
        now: Now,
    ) -> Result<Registration, Refused> {
        self.with_key(key, now, |key| {
            let record = key.live()?.record.clone();
            let idle = is_rest(origin) && record.overlay().status.is_none() && record.status() == set.status;
            let note = overlay_note(set, now);
            let same = record.head().overlay.as_ref().is_some_and(|held| held.overlay == note.overlay);
            if is_rest(origin) {
                key.renew();
            }
            if !idle && !same {
                key.write(&Write::overlay(Some(note), Renewal::Keep, Cause::OverrideSet), origin)?;
            }
            key.registration().ok_or(Refused::NotFound)
        })
    }

    /// Ends the operator's overlay, if there is one; `fallback` then becomes the owner's status.
    ///
    /// # Errors
    /// [`Refused::NotFound`].
    pub fn clear_override(
        &self,
        key: KeyRef<'_>,
        fallback: Option<Status>,
        origin: &Origin,
        now: Now,
    ) -> Result<Registration, Refused> {
        self.with_key(key, now, |key| {
            let record = key.live()?.record.clone();
            if is_rest(origin) {
                key.renew();
            }
            if record.overlay() != Overlay::default() {
                let mut write = Write::overlay(Some(no_overlay()), Renewal::Keep, Cause::OverrideCleared);
                write.owner = fallback
                    .filter(|status| *status != record.head().status)
                    .map(|status| OwnerWrite::after(&record, status));
                key.write(&write, origin)?;
            }
            key.registration().ok_or(Refused::NotFound)
        })
    }

    /// Changes metadata as the next write of the owner's record. A patch that changes nothing is no write.
    ///
    /// # Errors
    /// [`Refused::NotFound`], [`Refused::VersionMismatch`], [`Refused::Invalid`] when the result is too large.
    pub fn update_metadata(
        &self,
        key: KeyRef<'_>,
        patch: MetadataPatch,
        origin: &Origin,
        now: Now,
    ) -> Result<Registration, Refused> {
        self.with_key(key, now, |key| {
            let record = key.live()?.record.clone();
            let stored = record.version();
            if patch.if_version.is_some_and(|wanted| wanted != stored) {
                return Err(Refused::VersionMismatch { stored });
            }
            if is_rest(origin) {
                key.renew();
            }
            let mut instance = record.instance();
            apply_patch(&mut instance, patch);
            instance.validate(&self.config.limits)?;
            let flat = Flat::of(&instance);
            if !record.same_content(&flat, instance.status) {
                let owner = OwnerWrite::after(&record, instance.status);
                let write = Write::owner(owner, Life::Live, Renewal::Keep, Cause::MetadataChanged);
                key.write(&Write { texts: Texts::Of(&flat), ..write }, origin)?;
            }
            key.registration().ok_or(Refused::NotFound)
        })
    }

    /// Id of this life of the server.
    #[must_use]
    pub fn boot(&self) -> u64 {
        self.boot
    }

    /// Settings in force.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The last changes with their causes, newest first.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        self.events.list()
    }

    /// The lease clock: the monotonic one without the server's own pauses.
    pub(crate) fn lease_now(&self, now: Now) -> Mono {
        Mono(now.mono.0.saturating_sub(self.counters.paused_ms.load(Ordering::Relaxed)))
    }

    /// Wall time of a slot's last renewal.
    pub(crate) fn renewed(&self, slot: u32, now: Now) -> Wall {
        let age = |view: LeaseView| self.lease_now(now).since(view.renewed);
        self.slots.lease(slot).view().map_or(now.wall, |view| now.wall.minus(age(view)))
    }

    pub(crate) fn renew_slot(&self, slot: u32, hash: KeyHash, now: Now) -> bool {
        let renewed = self.slots.lease(slot).renew(hash.fingerprint, self.lease_now(now));
        if renewed {
            self.counters.renewals.fetch_add(1, Ordering::Relaxed);
        }
        renewed
    }

    /// Whether one more key may come.
    pub(crate) fn room(&self) -> Result<(), Refused> {
        let bytes = self.counters.bytes.load(Ordering::Relaxed) + self.usage.bytes.load(Ordering::Relaxed);
        if bytes < self.config.max_bytes { Ok(()) } else { Err(Refused::Full) }
    }

    pub(crate) fn weigh(&self, old: Option<&Record>, new: &Record) {
        self.counters.bytes.fetch_add(new.size(), Ordering::Relaxed);
        self.counters.bytes.fetch_sub(old.map_or(0, Record::size), Ordering::Relaxed);
    }

    pub(crate) fn count_lives(&self, old: Option<&Record>, new: &Record) {
        let count = |record: &Record| {
            if record.is_live() { &self.counters.live } else { &self.counters.tombstones }
        };
        if let Some(old) = old {
            count(old).fetch_sub(1, Ordering::Relaxed);
        }
        count(new).fetch_add(1, Ordering::Relaxed);
    }

    /// How long a removal is remembered.
    pub(crate) fn remembered(&self, removed: &Record) -> Duration {
        let longest = Duration::from_millis(self.counters.longest_lease_ms.load(Ordering::Relaxed));
        let overridden = removed.head().life == Life::Expired && removed.overlay() != Overlay::default();
        let outlives = if overridden { self.config.override_outlives } else { Duration::ZERO };
        self.config.tombstone_ttl.max(2 * longest).max(2 * removed.terms().duration()).max(outlives)
    }

    fn beat(
        &self,
        slot: u32,
        hash: KeyHash,
        beat: Beat,
        origin: &Origin,
        now: Now,
    ) -> Result<Renewed, Refused> {
        let lease = self.slots.lease(slot);
        let view = lease.view().ok_or(Refused::NotFound)?;
        if view.is_unknown() && is_rest(origin) {
            return Err(Refused::NotFound);
        }
        if !self.renew_slot(slot, hash, now) {
            return Err(Refused::NotFound);
        }
        if beat != Beat::Plain {
            self.compare(slot, beat, now)?;
        }
        let override_status = view.is_overridden().then(|| self.slots.record(slot)).flatten();
        let override_status = override_status.and_then(|(_, record)| record.overlay().status);
        Ok(Renewed { override_status: override_status.map(|set| set.status), next: view.interval() })
    }

    /// Compares what a renewal tells with the stored record.
    fn compare(&self, slot: u32, beat: Beat, now: Now) -> Result<(), Refused> {
        let Some((revision, record)) = self.slots.record(slot) else { return Err(Refused::NotFound) };
        let known = record.head().dirty;
        match beat {
            Beat::Plain => Ok(()),
            Beat::Writer(writer) if writer.version > record.head().owner => Err(Refused::Outdated),
            Beat::Writer(_) => Ok(()),
            Beat::Stamp(stamp) | Beat::PeerStamp(stamp) if Some(stamp) > known => Err(Refused::Outdated),
            Beat::PeerStamp(stamp) if Some(stamp) < known => {
                Err(Refused::Conflict(Box::new(record.registration(revision, self.renewed(slot, now)))))
            }
            Beat::Stamp(stamp) if Some(stamp) < known => {
                self.lower_beats.count(slot, stamp);
                Ok(())
            }
            Beat::Stamp(_) | Beat::PeerStamp(_) => {
                self.lower_beats.clear(slot);
                Ok(())
            }
        }
    }

    fn report_status(
        &self,
        key: KeyRef<'_>,
        status: Status,
        origin: &Origin,
        now: Now,
    ) -> Result<(), Refused> {
        self.with_key(key, now, |key| {
            let record = key.live()?.record.clone();
            if record.head().status == status {
                return Ok(());
            }
            let owner = OwnerWrite::after(&record, status);
            key.write(&Write::owner(owner, Life::Live, Renewal::Keep, Cause::StatusReported), origin)
        })
    }

    /// The original keeps UP and `OUT_OF_SERVICE` against the owner's own change between the two.
    fn keep_status(&self, key: &Key<'_>, instance: &mut Instance, claim: Claim) {
        let settled = |status| matches!(status, Status::Up | Status::OutOfService);
        if self.config.eureka_rule4
            && claim == Claim::Stamp
            && let Ok(held) = key.live()
            && settled(held.record.head().status)
            && settled(instance.status)
        {
            instance.status = held.record.head().status;
        }
    }

    fn admit(&self, key: &Key<'_>, instance: &Instance, flat: &Flat<'_>, claim: Claim) -> Admission {
        let now = key.now().wall;
        let stamp = instance.last_dirty;
        let compared = key.held().map(|held| Stored {
            same_content: held.record.same_content(flat, instance.status),
            same_address: held.record.is_live() && same_address(&held.record.instance(), instance),
            lower_beats: stamp.map_or(0, |stamp| self.lower_beats.of(held.slot, stamp)),
            ..stored(held)
        });
        if claim == Claim::Stamp
            && let Some(compared) = &compared
        {
            self.count_oddities(compared, stamp, now);
        }
        admission::register(compared.as_ref(), claim, stamp, now)
    }

    fn count_oddities(&self, stored: &Stored, stamp: Option<Wall>, now: Wall) {
        if stored.life == Life::Cancelled {
            self.counters.after_cancel.fetch_add(1, Ordering::Relaxed);
        }
        let known = stored.dirty.unwrap_or_default();
        if stored.life == Life::Live
            && stamp.is_some_and(|stamp| stamp < known)
            && admission::is_ahead(known, now)
        {
            self.counters.stamps_ahead.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Carries an admission out; tells whether the caller's record is the stored one now.
    fn admitted(
        &self,
        key: &mut Key<'_>,
        instance: &Instance,
        flat: &Flat<'_>,
        (admission, claim): (Admission, Claim),
        origin: &Origin,
    ) -> Result<bool, Refused> {
        let owner = match admission {
            Admission::Accept { owner } => owner,
            Admission::Renew => {
                key.renew();
                key.raise_dirty(instance.last_dirty);
                return Ok(true);
            }
            Admission::Late { renew } => {
                if renew {
                    key.renew();
                }
                return Ok(false);
            }
            Admission::Refuse(refused) => return Err(refused),
        };
        self.counters.highest_owner.fetch_max(owner, Ordering::Relaxed);
        let renewal = Renewal::At(self.lease_now(key.now()));
        let cause = if key.live().is_ok() { Cause::Updated } else { Cause::Registered };
        let owner = OwnerWrite::of(instance, owner, incarnation(claim));
        let write = Write::owner(owner, Life::Live, renewal, cause);
        key.write(&Write { texts: Texts::Of(flat), overlay: self.outlived(key), ..write }, origin)?;
        Ok(true)
    }

    /// The end of an overlay whose instance expired too long ago to keep it.
    fn outlived(&self, key: &Key<'_>) -> Option<Option<OverlayNote>> {
        let record = &key.held().filter(|held| held.record.head().life == Life::Expired)?.record;
        let ended = record.head().updated.plus(self.config.override_outlives) < key.now().wall;
        (ended && record.overlay() != Overlay::default()).then(|| Some(no_overlay()))
    }

    fn write_cancel(
        &self,
        key: &mut Key<'_>,
        owner: u64,
        claim: Claim,
        origin: &Origin,
    ) -> Result<(), Refused> {
        let before = key.held().map(|held| held.record.clone());
        let head = before.as_ref().map(Record::head);
        let owner = OwnerWrite {
            owner,
            incarnation: match claim {
                Claim::Writer(writer) => admission::fold(writer.incarnation),
                _ => head.map_or(0, |head| head.incarnation),
            },
            dirty: head.and_then(|head| head.dirty),
            status: head.map_or(Status::Unknown, |head| head.status),
        };
        let overlay = before.filter(|record| record.head().overlay.is_some()).map(|_| Some(no_overlay()));
        let write = Write::owner(owner, Life::Cancelled, Renewal::Keep, Cause::Cancelled);
        key.write(&Write { overlay, ..write }, origin)
    }
}

fn stored(held: &Held) -> Stored {
    let head = held.record.head();
    Stored {
        life: head.life,
        version: held.record.version(),
        incarnation: head.incarnation,
        dirty: head.dirty,
        same_content: false,
        same_address: false,
        lower_beats: 0,
    }
}

fn registered(held: &Held, created: bool, applied: bool) -> Registered {
    Registered {
        created,
        applied,
        version: held.record.version(),
        terms: held.record.terms(),
        override_status: held.record.overlay().status.map(|set| set.status),
    }
}

fn same_address(one: &Instance, other: &Instance) -> bool {
    one.host_name == other.host_name
        && one.ip_address == other.ip_address
        && one.port == other.port
        && one.secure_port == other.secure_port
}

fn incarnation(claim: Claim) -> u64 {
    match claim {
        Claim::Writer(writer) => admission::fold(writer.incarnation),
        Claim::Next | Claim::Stamp | Claim::PeerStamp => 0,
    }
}

fn is_rest(origin: &Origin) -> bool {
    matches!(origin, Origin::Client { surface: Surface::Rest, .. })
}

fn overlay_note(set: SetOverride, now: Now) -> OverlayNote {
    let status = StatusOverride { status: set.status, until: set.ttl.map(|ttl| now.wall.plus(ttl)) };
    OverlayNote {
        stamp: Stamp::default(),
        overlay: Overlay { status: Some(status), drain: set.drain },
        ends: set.ttl.map(|ttl| now.mono.plus(ttl)),
    }
}

/// What stands in the operator's register after its end: the stamp orders it against a late copy of what was.
pub(crate) fn no_overlay() -> OverlayNote {
    OverlayNote { stamp: Stamp::default(), overlay: Overlay::default(), ends: None }
}

fn apply_patch(instance: &mut Instance, patch: MetadataPatch) {
    if patch.replace_all {
        instance.metadata.clear();
    }
    for key in &patch.remove {
        instance.metadata.remove(key);
    }
    instance.metadata.extend(patch.set);
}
