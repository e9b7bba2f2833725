//! The one funnel. Every mutation of a key happens here, under the key's shard lock, and becomes one change of
//! the log; nothing else writes a cell, arms a lease or moves a sum.

use std::sync::atomic::Ordering;
use std::time::Duration;

use heureka_model::{Action, KeyHasher, KeyRef, Now, Registration, Stamp, Status, Wall, same_text};

use crate::events::{Cause, Event, EventKind, removal};
use crate::leases::{Heard, LeaseFlags, Sign};
use crate::log::{Entry, Stamps, Sums};
use crate::record::{Draft, Flat, Head, Life, OverlayNote, Record};
use crate::store::{Candidates, KeyHash};
use crate::timers::Due;
use crate::{Origin, Refused, Registry};

/// How much further than its window the Eureka delta may reach, since it looks at whole ticks.
const SLACK: Duration = Duration::from_secs(5);

/// A key while its shard is locked.
pub(crate) struct Key<'a> {
    registry: &'a Registry,
    key: KeyRef<'a>,
    hash: KeyHash,
    candidates: &'a mut Candidates,
    held: Option<Held>,
    now: Now,
}

/// What is stored of the key.
#[derive(Clone)]
pub(crate) struct Held {
    pub(crate) slot: u32,
    pub(crate) revision: u64,
    pub(crate) record: Record,
}

/// What a change writes.
pub(crate) struct Write<'a> {
    pub(crate) texts: Texts<'a>,
    pub(crate) life: Life,
    pub(crate) owner: Option<OwnerWrite>,
    /// The overlay from now on; outer nothing leaves it as it is.
    pub(crate) overlay: Option<Option<OverlayNote>>,
    pub(crate) renewal: Renewal,
    /// What another server wrote, taken over as it stands there.
    pub(crate) taken: Option<Taken>,
    pub(crate) cause: Cause,
}

/// What comes with a write of the owner's register that another server made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    /// Position of its write to the owner's register.
    pub(crate) written: Stamp,
    /// When this life of the instance began.
    pub(crate) registered: Wall,
    pub(crate) service_up: Wall,
}

impl Taken {
    /// What came with the write that made a record.
    pub(crate) fn of(record: &Record) -> Self {
        let Head { written, registered, service_up, .. } = *record.head();
        Self { written, registered, service_up }
    }
}

/// Where the texts of the new record come from.
pub(crate) enum Texts<'a> {
    /// As they are.
    Kept,
    /// An instance, flattened.
    Of(&'a Flat<'a>),
}

/// What a change writes to the owner's register.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnerWrite {
    pub(crate) owner: u64,
    pub(crate) incarnation: u64,
    pub(crate) dirty: Option<Wall>,
    pub(crate) status: Status,
}

/// What a change does to the lease of a live instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// Nothing: an operator is no sign of life.
    Keep,
    /// The owner spoke.
    Sign(Sign),
}

impl Registry {
    /// Runs `f` alone on a key, then tells readers if it changed.
    pub(crate) fn with_key<R>(&self, key: KeyRef<'_>, now: Now, f: impl FnOnce(&mut Key<'_>) -> R) -> R {
        let hash = self.index.hash(key);
        let result = self.index.write(hash, |candidates| {
            let held = self.find(candidates, key);
            f(&mut Key { registry: self, key, hash, candidates, held, now })
        });
        self.log.announce();
        result
    }

    fn find(&self, candidates: &Candidates, key: KeyRef<'_>) -> Option<Held> {
        candidates.iter().find_map(|slot| {
            let (revision, record) = self.slots.record(slot)?;
            is_key(&record, key).then_some(Held { slot, revision, record })
        })
    }
}

/// Whether a record is of that key.
pub(crate) fn is_key(record: &Record, key: KeyRef<'_>) -> bool {
    let app = record.app();
    same_text(&app.name, key.app) && same_text(&app.namespace.name, key.namespace) && record.has_id(key.id)
}

impl Key<'_> {
    pub(crate) fn name(&self) -> KeyRef<'_> {
        self.key
    }

    pub(crate) fn now(&self) -> Now {
        self.now
    }

    pub(crate) fn held(&self) -> Option<&Held> {
        self.held.as_ref()
    }

    /// The live record.
    pub(crate) fn live(&self) -> Result<&Held, Refused> {
        self.held.as_ref().filter(|held| held.record.is_live()).ok_or(Refused::NotFound)
    }

    /// The stored record as readers see it.
    pub(crate) fn registration(&self) -> Option<Registration> {
        let held = self.held.as_ref()?;
        Some(held.record.registration(held.revision, self.registry.renewed(held.slot, self.now)))
    }

    /// Renews the lease as far as it is not written by a change anyway.
    pub(crate) fn renew(&self, origin: &Origin) {
        if let Some(held) = self.held.as_ref().filter(|held| held.record.is_live()) {
            self.registry.renew_slot(held.slot, self.hash, origin, self.now);
        }
    }

    /// The later of a sign of life and the one that is known: of the lease, or from before the key was.
    pub(crate) fn later(&self, sign: Sign) -> Sign {
        let view = self.held.as_ref().and_then(|held| self.registry.slots.lease(held.slot).view());
        let known = view.map(|view| view.sign());
        let early = || self.registry.early.take(self.hash);
        let known = known.or_else(|| Some(Sign { at: early()?, heard: Heard::Owner, beaten: true }));
        known.filter(|known| known.at > sign.at).unwrap_or(sign)
    }

    /// Takes in a sign of life that somebody else saw.
    pub(crate) fn advance(&self, sign: Sign) {
        if let Some(held) = &self.held {
            self.registry.slots.lease(held.slot).advance(self.hash.fingerprint, sign);
        }
    }

    /// Raises the owner's stamp without a new version: no reader acts on it.
    pub(crate) fn raise_dirty(&mut self, dirty: Option<Wall>) {
        let Some(held) = self.held.as_mut().filter(|held| dirty > held.record.head().dirty) else { return };
        let head = Head { dirty, ..held.record.head().clone() };
        let raised = held.record.with_head(head).finish();
        self.registry.slots.cell(held.slot).lock().record = Some(raised.clone());
        held.record = raised;
    }

    /// Makes the change. Refused only when a new key finds no room.
    pub(crate) fn write(&mut self, write: &Write<'_>, origin: &Origin) -> Result<(), Refused> {
        let old = self.held.clone();
        if old.is_none() {
            self.registry.room()?;
        }
        let slot = match &old {
            Some(held) => held.slot,
            None => self.registry.slots.take().ok_or(Refused::Full)?,
        };
        let draft = self.draft(write, old.as_ref(), origin);
        self.commit(slot, draft, write, old.as_ref(), origin);
        Ok(())
    }

    /// Forgets a removed instance, if it is still the one of that revision.
    pub(crate) fn forget(&mut self, revision: u64) {
        let Some(held) = self.held.take_if(|held| held.revision == revision && !held.record.is_live()) else {
            return;
        };
        let registry = self.registry;
        // First, so that whoever misses the removal finds it here.
        registry.horizon.lock().raise(held.record.head().written);
        registry.log.forget(&registry.slots, held.slot, revision);
        self.candidates.remove(held.slot);
        registry.slots.give_back(held.slot);
        registry.counters.tombstones.fetch_sub(1, Ordering::Relaxed);
        registry.weigh(Some(&held.record), None);
        registry.apps.leave(held.record.app());
    }

    /// Reduces a removed instance to its key and version, if it is still the one of that revision.
    pub(crate) fn strip(&mut self, revision: u64) {
        let Some(held) =
            self.held.as_mut().filter(|held| held.revision == revision && !held.record.is_live())
        else {
            return;
        };
        let flat = Flat::of_id(self.key.id);
        let app = held.record.app();
        let (template, residue) = app.templates.fit(app, &flat, &self.registry.usage);
        let head = Head { template, ..held.record.head().clone() };
        let stripped = Draft::new(head, &residue).finish();
        self.registry.weigh(Some(&held.record), Some(&stripped));
        self.registry.slots.cell(held.slot).lock().record = Some(stripped.clone());
        held.record = stripped;
    }

    fn draft(&self, write: &Write<'_>, old: Option<&Held>, origin: &Origin) -> Draft {
        match (&write.texts, old) {
            (Texts::Kept, Some(held)) => held.record.with_head(self.head(
                write,
                Some(&held.record),
                held.record.head().clone(),
                origin,
            )),
            (Texts::Of(flat), _) => self.laid_out(flat, write, old, origin),
            (Texts::Kept, None) => self.laid_out(&Flat::of_id(self.key.id), write, old, origin),
        }
    }

    fn laid_out(&self, flat: &Flat<'_>, write: &Write<'_>, old: Option<&Held>, origin: &Origin) -> Draft {
        let apps = &self.registry.apps;
        let app = match old {
            Some(held) => held.record.app().clone(),
            None => apps.enter(self.key.namespace, self.key.app),
        };
        let (template, residue) = app.templates.fit(&app, flat, &self.registry.usage);
        let before = match old {
            Some(held) => Head { template, ..held.record.head().clone() },
            None => Head::new(template, self.now.wall),
        };
        Draft::new(self.head(write, old.map(|held| &held.record), before, origin), &residue)
    }

    fn head(&self, write: &Write<'_>, old: Option<&Record>, before: Head, origin: &Origin) -> Head {
        let was_live = old.is_some_and(Record::is_live);
        let mut head = before;
        if let Some(owner) = write.owner {
            head.owner = owner.owner;
            head.incarnation = owner.incarnation;
            head.dirty = owner.dirty;
            head.status = owner.status;
            head.written = write.taken.map_or(head.written, |taken| taken.written);
            head.owner_by = origin.heard();
        }
        if let Some(note) = &write.overlay {
            head.overlay = note.map(Box::new);
            head.overlay_by = origin.heard();
        }
        head.updated = self.now.wall;
        head.life = write.life;
        head.action = match (was_live, write.life) {
            (_, Life::Cancelled | Life::Expired) => Action::Deleted,
            (true, Life::Live) => Action::Modified,
            (false, Life::Live) => Action::Added,
        };
        head.begin(was_live, self.now.wall);
        if let Some(taken) = write.taken.filter(|_| write.owner.is_some()) {
            head.registered = taken.registered;
            head.service_up = taken.service_up;
        }
        head
    }

    fn commit(&mut self, slot: u32, draft: Draft, write: &Write<'_>, old: Option<&Held>, origin: &Origin) {
        let registry = self.registry;
        let was_live = old.is_some_and(|held| held.record.is_live());
        let is_live = write.life == Life::Live;
        let sums = Sums {
            key: KeyHasher::new(self.key),
            old: old
                .as_ref()
                .filter(|_| was_live)
                .map(|held| (KeyHasher::new(self.key).at(&held.record.version()), held.record.status())),
        };
        let stamps = write.stamps();
        if is_live && !was_live {
            draft.app().add(slot, &registry.slots);
        }
        let committed =
            registry.log.commit(&registry.slots, Entry { slot, draft, stamps, sums }, self.now.wall.0);
        if origin.heard() > Heard::Peer {
            registry.entered.fetch_max(committed.revision, Ordering::AcqRel);
        }
        let record = committed.new.clone();
        if was_live && !is_live {
            record.app().remove(slot, &registry.slots);
        }
        if old.is_none() {
            self.candidates.insert(slot);
        }
        registry.weigh(old.map(|held| &held.record), Some(&record));
        registry.count_lives(old.map(|held| &held.record), &record);
        self.held = Some(Held { slot, revision: committed.revision, record });
        self.settle_lease(write.renewal, was_live);
        self.set_timers(write);
        self.note(kind(write, was_live), write.cause, origin, committed.revision);
    }

    fn settle_lease(&self, renewal: Renewal, was_live: bool) {
        let Some(held) = &self.held else { return };
        let lease = self.registry.slots.lease(held.slot);
        if !held.record.is_live() {
            return lease.disarm();
        }
        let before = lease.view().filter(|_| was_live);
        let beaten = before.is_some_and(|view| view.beaten);
        let sign = match (renewal, before) {
            (Renewal::Sign(sign), _) => Sign { beaten: beaten || sign.beaten, ..sign },
            (Renewal::Keep, Some(view)) => view.sign(),
            (Renewal::Keep, None) => Sign { at: self.registry.moment(self.now), heard: Heard::Owner, beaten },
        };
        lease.arm(self.hash.fingerprint, held.record.terms(), flags(&held.record), sign);
        self.registry.lower_beats.clear(held.slot);
    }

    fn set_timers(&self, write: &Write<'_>) {
        let Some(Held { slot, revision, record }) = &self.held else { return };
        let (slot, revision, mono) = (*slot, *revision, self.now.mono);
        if !record.is_live() {
            let remembered = self.registry.remembered(record);
            let mut timers = self.registry.timers.lock();
            timers.set(mono.plus(self.registry.config.delta_window + SLACK), Due::Strip { slot, revision });
            timers.forget(mono.plus(remembered), slot, revision);
        }
        if write.overlay.is_some()
            && let Some(OverlayNote { ends: Some(ends), stamp, .. }) =
                record.head().overlay.as_deref().copied()
        {
            self.registry.timers.lock().set(ends, Due::OverrideEnds { slot, stamp });
        }
    }

    fn note(&self, kind: EventKind, cause: Cause, origin: &Origin, revision: u64) {
        if let Some(held) = &self.held {
            self.registry.events.note(Event {
                key: self.key.to_owned(),
                revision,
                kind,
                cause,
                removal: removal(held.record.head().life),
                status: held.record.status(),
                origin: origin.clone(),
                at: self.now.wall,
            });
        }
    }
}

impl Write<'_> {
    /// A write of the owner's register with its texts as they are.
    pub(crate) fn owner(owner: OwnerWrite, life: Life, renewal: Renewal, cause: Cause) -> Self {
        Self { texts: Texts::Kept, life, owner: Some(owner), overlay: None, renewal, taken: None, cause }
    }

    /// A write of the operator's register.
    pub(crate) fn overlay(note: Option<OverlayNote>, renewal: Renewal, cause: Cause) -> Self {
        Self {
            texts: Texts::Kept,
            life: Life::Live,
            owner: None,
            overlay: Some(note),
            renewal,
            taken: None,
            cause,
        }
    }

    fn stamps(&self) -> Stamps {
        if self.taken.is_some() {
            return Stamps::default();
        }
        Stamps { owner: self.owner.is_some(), overlay: self.overlay.is_some_and(|note| note.is_some()) }
    }
}

impl OwnerWrite {
    /// What a record's owner said last: for a write that changes its life alone.
    pub(crate) fn same(record: &Record) -> Self {
        let head = record.head();
        Self { owner: head.owner, incarnation: head.incarnation, dirty: head.dirty, status: head.status }
    }

    /// The next write of a record's owner by this server: same writer, same stamp.
    pub(crate) fn after(record: &Record, status: Status) -> Self {
        Self { owner: record.head().latest().saturating_add(1), status, ..Self::same(record) }
    }
}

/// What a change does to the set of instances.
fn kind(write: &Write<'_>, was_live: bool) -> EventKind {
    match write.life {
        Life::Live if !was_live || write.cause == Cause::Updated => EventKind::Registration,
        Life::Cancelled | Life::Expired if was_live || write.cause == Cause::Cancelled => EventKind::Removal,
        _ => EventKind::Change,
    }
}

/// What the sweep and a renewal must know without reading the record.
fn flags(record: &Record) -> LeaseFlags {
    LeaseFlags {
        overridden: record.overlay().status.is_some(),
        down: record.head().status == Status::Down,
        unknown: record.head().status == Status::Unknown,
    }
}
