//! The rule by which servers agree: per register, the higher version. Commutative, associative, idempotent.
//!
//! Around it stands what only one server can know: a lapsed lease is no reason to believe a record, and an
//! eviction is undone by whoever heard from the instance within its lease.

use std::sync::atomic::Ordering;
use std::time::Duration;

use heureka_model::{KeyRef, Mono, Now, Overlay, Stamp, Status};

use super::{Content, KeyState, Outgoing, OwnerState, hash};
use crate::apply::{Held, Key, OwnerWrite, Renewal, Taken, Texts, Write};
use crate::events::Cause;
use crate::leases::{Heard, Sign};
use crate::record::{Flat, Life, OverlayNote, Record};
use crate::seeded::{Bug, planted};
use crate::{Origin, Refused, Registry};

/// What a merge did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merged {
    /// The incoming state was newer in at least one register.
    Taken,
    /// Nothing in it was newer.
    Known,
    /// It removed an instance that this server heard from within its lease, so the instance stands, as a newer
    /// write of this server.
    Revived,
    /// It told of an instance that nobody heard from within its lease. It is remembered as expired.
    Lapsed,
}

/// Which instances that are not known yet are believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adoption {
    /// All: this server has yet to learn what there is, or the other one holds lapsed leases on purpose.
    Any,
    /// Those that somebody heard from within their leases: what this server forgot must not come back.
    Fresh,
}

impl KeyState {
    /// The state that both sides end with. `self` and `other` are of one key.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        // Equal stamps mean equal overlays; should they ever not, every server picks the same one.
        let (overlay_stamp, overlay) =
            (self.overlay_stamp, self.overlay).max((other.overlay_stamp, other.overlay));
        Self { key: self.key, owner: self.owner.merge(other.owner), overlay_stamp, overlay }
    }
}

impl OwnerState {
    fn merge(self, other: Self) -> Self {
        let dirty = if self.order() == other.order() { self.dirty.max(other.dirty) } else { None };
        let mut newer = if self.rank() >= other.rank() { self } else { other };
        newer.dirty = dirty.or(newer.dirty);
        newer
    }

    fn order(&self) -> (u64, Stamp) {
        (self.version, self.written)
    }

    /// Equal versions mean equal content. Should they ever not, every server picks the same side by its hash.
    fn rank(&self) -> (u64, Stamp, u64) {
        (self.version, self.written, hash::content(&self.content))
    }
}

impl Content {
    pub(crate) fn life(&self) -> Life {
        match self {
            Self::Live(_) => Life::Live,
            Self::Cancelled => Life::Cancelled,
            Self::Expired => Life::Expired,
        }
    }
}

impl Registry {
    /// Everything known of a key, for another server.
    #[must_use]
    pub fn export(&self, key: KeyRef<'_>, now: Now) -> Option<KeyState> {
        self.with_key(key, now, |key| key.held().map(|held| state(&held.record)))
    }

    /// Takes in what another server knows of a key.
    ///
    /// # Errors
    /// [`Refused::Full`].
    pub fn merge(&self, incoming: Outgoing, adoption: Adoption, now: Now) -> Result<Merged, Refused> {
        let Outgoing { state: incoming, age, beaten } = incoming;
        let sign = Sign { at: self.heard_at(age, now), heard: Heard::Peer, beaten };
        let lapsed = adoption == Adoption::Fresh && self.is_lapsed(&incoming, age, beaten);
        let lapsed = lapsed && !planted(Bug::LapsedAdopted);
        self.merge_signed(incoming, sign, lapsed, now)
    }

    /// Takes in what is told of a key, with the sign of life that goes with it; `lapsed` when that is too old to
    /// believe in an instance that is not known.
    pub(crate) fn merge_signed(
        &self,
        incoming: KeyState,
        sign: Sign,
        lapsed: bool,
        now: Now,
    ) -> Result<Merged, Refused> {
        self.log.observe(incoming.owner.written);
        self.log.observe(incoming.overlay_stamp);
        self.meet(incoming.owner.written);
        self.meet(incoming.overlay_stamp);
        self.counters.highest_owner.fetch_max(incoming.owner.version, Ordering::Relaxed);
        let name = incoming.key.clone();
        self.with_key(name.as_ref(), now, |key| {
            let Some(held) = key.held() else {
                let newer = Newer { owner: true, overlay: incoming.overlay_stamp != Stamp::default() };
                return if lapsed { lapse(key, &incoming) } else { take(key, &incoming, newer, sign) };
            };
            let known = state(&held.record);
            self.count_collision(&known.owner, &incoming.owner);
            let live = held.record.is_live();
            let alive = matches!(incoming.owner.content, Content::Live(_));
            let merged = if planted(Bug::OlderMerged) { incoming } else { known.clone().merge(incoming) };
            let newer = Newer::between(&known, &merged);
            if !newer.owner && !newer.overlay {
                key.raise_dirty(merged.owner.dirty);
                if alive {
                    key.advance(sign);
                }
                return Ok(Merged::Known);
            }
            let removes = live && merged.owner.content == Content::Expired;
            let same = merged.owner.version == known.owner.version;
            let revives = !live && matches!(merged.owner.content, Content::Live(_));
            if removes && same && self.holds(held, now) && !planted(Bug::EvictionBelieved) {
                revive(key, &merged)
            } else if revives && lapsed {
                lapse(key, &merged)
            } else {
                self.counters.peer_expired.fetch_add(u64::from(removes), Ordering::Relaxed);
                take(key, &merged, newer, sign)
            }
        })
    }

    /// Whether this server heard from what is held within its lease, its own pauses counted: others went on.
    fn holds(&self, held: &Held, now: Now) -> bool {
        let double = self.config.eureka_double_lease;
        let lease = self.slots.lease(held.slot).view();
        lease
            .filter(|lease| lease.heard > Heard::Nobody)
            .is_some_and(|lease| self.age(lease.renewed, now).as_millis() as u64 <= lease.duration_ms(double))
    }

    fn is_lapsed(&self, incoming: &KeyState, age: Duration, beaten: bool) -> bool {
        let Content::Live(instance) = &incoming.owner.content else { return false };
        let factor = if self.config.eureka_double_lease && beaten { 2 } else { 1 };
        age > instance.lease.duration() * factor
    }

    fn count_collision(&self, one: &OwnerState, other: &OwnerState) {
        if one.order() == other.order() && hash::content(&one.content) != hash::content(&other.content) {
            self.counters.collisions.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Which registers a merge changes.
#[derive(Clone, Copy, Debug)]
struct Newer {
    owner: bool,
    overlay: bool,
}

impl Newer {
    /// Beside the versions what they stand for is compared: two states of one version that differ end alike, too.
    fn between(known: &KeyState, merged: &KeyState) -> Self {
        let owner =
            known.owner.order() != merged.owner.order() || known.owner.content != merged.owner.content;
        let overlay = (known.overlay_stamp, known.overlay) != (merged.overlay_stamp, merged.overlay);
        Self { owner, overlay }
    }
}

/// Writes what a merge came to.
fn take(key: &mut Key<'_>, state: &KeyState, newer: Newer, sign: Sign) -> Result<Merged, Refused> {
    let flat = match &state.owner.content {
        Content::Live(instance) if newer.owner => Some(Flat::of(instance)),
        _ => None,
    };
    let write = Write {
        texts: flat.as_ref().map_or(Texts::Kept, Texts::Of),
        life: state.owner.content.life(),
        owner: newer.owner.then(|| owner_write(state, key.held())),
        overlay: newer.overlay.then(|| Some(note(state, key.now()))),
        renewal: if newer.owner { Renewal::Sign(key.later(sign)) } else { Renewal::Keep },
        taken: Some(Taken {
            written: state.owner.written,
            registered: state.owner.registered,
            service_up: state.owner.service_up,
        }),
        cause: Cause::Merged,
    };
    key.write(&write, &Origin::Peer)?;
    Ok(Merged::Taken)
}

/// Undoes an eviction: the record as it stands, as a newer write of this server.
fn revive(key: &mut Key<'_>, merged: &KeyState) -> Result<Merged, Refused> {
    let Some(held) = key.held() else { return Ok(Merged::Known) };
    let overlay_newer = held.record.version().overlay != merged.overlay_stamp;
    let owner = OwnerWrite::same(&held.record);
    if overlay_newer {
        let overlay = Write::overlay(Some(note(merged, key.now())), Renewal::Keep, Cause::Merged);
        key.write(&Write { taken: Some(Taken::default()), ..overlay }, &Origin::Peer)?;
    }
    key.write(&Write::owner(owner, Life::Live, Renewal::Keep, Cause::Revived), &Origin::System)?;
    Ok(Merged::Revived)
}

/// Remembers an instance that nobody hears from as expired, at the version that it came with.
fn lapse(key: &mut Key<'_>, state: &KeyState) -> Result<Merged, Refused> {
    let owner = owner_write(state, key.held());
    key.write(&Write::owner(owner, Life::Expired, Renewal::Keep, Cause::Expired), &Origin::System)?;
    Ok(Merged::Lapsed)
}

fn owner_write(state: &KeyState, held: Option<&Held>) -> OwnerWrite {
    OwnerWrite {
        owner: state.owner.version,
        incarnation: state.owner.incarnation,
        dirty: state.owner.dirty,
        status: match &state.owner.content {
            Content::Live(instance) => instance.status,
            _ => held.map_or(Status::Unknown, |held| held.record.head().status),
        },
    }
}

fn note(state: &KeyState, now: Now) -> OverlayNote {
    OverlayNote { stamp: state.overlay_stamp, overlay: state.overlay, ends: ends(state.overlay, now) }
}

fn ends(overlay: Overlay, now: Now) -> Option<Mono> {
    let until = overlay.status?.until?;
    Some(now.mono.plus(Duration::from_millis(until.0.saturating_sub(now.wall.0))))
}

/// What a record says, for another server.
pub(crate) fn state(record: &Record) -> KeyState {
    let head = record.head();
    let content = match head.life {
        Life::Live => Content::Live(Box::new(record.instance())),
        Life::Cancelled => Content::Cancelled,
        Life::Expired => Content::Expired,
    };
    KeyState {
        key: record.key(),
        owner: OwnerState {
            version: head.owner,
            written: head.written,
            content,
            incarnation: head.incarnation,
            dirty: head.dirty,
            updated: head.updated,
            registered: head.registered,
            service_up: head.service_up,
        },
        overlay_stamp: record.version().overlay,
        overlay: record.overlay(),
    }
}
