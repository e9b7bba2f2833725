//! The rule by which servers agree: per register, the higher version. Commutative, associative, idempotent.

use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::Ordering;
use std::time::Duration;

use foldhash::quality::FixedState;
use heureka_model::{KeyRef, Mono, Now, Overlay, Stamp};

use super::{Content, KeyState, OwnerState};
use crate::apply::{Held, Key, OwnerWrite, Renewal, Texts, Write};
use crate::events::Cause;
use crate::record::{Flat, Life, OverlayNote, Record};
use crate::{Origin, Refused, Registry};

/// What a merge did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merged {
    /// The incoming state was newer in at least one register.
    Taken,
    /// Nothing in it was newer.
    Known,
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
        (self.version, self.written, self.content.hash())
    }
}

impl Content {
    fn life(&self) -> Life {
        match self {
            Self::Live(_) => Life::Live,
            Self::Cancelled => Life::Cancelled,
            Self::Expired => Life::Expired,
        }
    }

    /// The same on every server.
    fn hash(&self) -> u64 {
        let mut hasher = FixedState::with_seed(0).build_hasher();
        hasher.write_u8(self.life() as u8);
        if let Self::Live(instance) = self {
            hasher.write_u8(instance.status as u8);
            for (tag, key, text) in Flat::of(instance).fields() {
                hasher.write_u8(tag as u8);
                hasher.write(key.as_bytes());
                hasher.write_u8(0xff);
                hasher.write(text.as_bytes());
                hasher.write_u8(0xff);
            }
        }
        hasher.finish()
    }
}

impl Registry {
    /// Everything known of a key, for another server.
    #[must_use]
    pub fn export(&self, key: KeyRef<'_>, now: Now) -> Option<KeyState> {
        self.with_key(key, now, |key| key.held().map(|held| state(&held.record)))
    }

    /// Takes in what another server knows of a key. `age` is the time since its last sign of life there.
    ///
    /// # Errors
    /// [`Refused::Full`].
    pub fn merge(
        &self,
        incoming: KeyState,
        age: Duration,
        origin: &Origin,
        now: Now,
    ) -> Result<Merged, Refused> {
        self.log.observe(incoming.owner.written);
        self.log.observe(incoming.overlay_stamp);
        self.counters.highest_owner.fetch_max(incoming.owner.version, Ordering::Relaxed);
        let key = incoming.key.clone();
        self.with_key(key.as_ref(), now, |key| {
            let renewal = Renewal::At(Mono(self.lease_now(now).0.saturating_sub(age.as_millis() as u64)));
            let known = key.held().map(|held| state(&held.record));
            let Some(known) = known else {
                return self.adopt(key, &incoming, renewal, origin);
            };
            self.count_collision(&known.owner, &incoming.owner);
            let merged = known.clone().merge(incoming);
            if merged.version() == known.version() && merged.owner.content == known.owner.content {
                key.raise_dirty(merged.owner.dirty);
                return Ok(Merged::Known);
            }
            self.adopt(key, &merged, renewal, origin)
        })
    }

    fn adopt(
        &self,
        key: &mut Key<'_>,
        state: &KeyState,
        renewal: Renewal,
        origin: &Origin,
    ) -> Result<Merged, Refused> {
        let written =
            key.held().is_none_or(|held| order(held) != state.owner.order() || differs(held, state));
        let note = OverlayNote {
            stamp: state.overlay_stamp,
            overlay: state.overlay,
            ends: ends(state.overlay, key.now()),
        };
        let life = state.owner.content.life();
        let owner = OwnerWrite {
            owner: state.owner.version,
            incarnation: state.owner.incarnation,
            dirty: state.owner.dirty,
            status: status(&state.owner.content, key.held()),
        };
        let flat = match &state.owner.content {
            Content::Live(instance) => Some(Flat::of(instance)),
            Content::Cancelled | Content::Expired => None,
        };
        let write = Write {
            texts: flat.as_ref().map_or(Texts::Kept, Texts::Of),
            life,
            owner: Some(owner),
            overlay: (state.overlay_stamp != Stamp::default()).then_some(Some(note)),
            renewal: if written { renewal } else { Renewal::Keep },
            stamped: Some(state.owner.written),
            cause: Cause::Merged,
        };
        key.write(&write, origin)?;
        Ok(Merged::Taken)
    }

    fn count_collision(&self, one: &OwnerState, other: &OwnerState) {
        if one.order() == other.order() && one.content.hash() != other.content.hash() {
            self.counters.collisions.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn order(held: &Held) -> (u64, Stamp) {
    (held.record.head().owner, held.record.head().written)
}

fn differs(held: &Held, state: &KeyState) -> bool {
    held.record.head().life != state.owner.content.life()
}

fn ends(overlay: Overlay, now: Now) -> Option<Mono> {
    let until = overlay.status?.until?;
    Some(now.mono.plus(Duration::from_millis(until.0.saturating_sub(now.wall.0))))
}

fn status(content: &Content, held: Option<&Held>) -> heureka_model::Status {
    match content {
        Content::Live(instance) => instance.status,
        _ => held.map_or(heureka_model::Status::Unknown, |held| held.record.head().status),
    }
}

fn state(record: &Record) -> KeyState {
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
        },
        overlay_stamp: record.version().overlay,
        overlay: record.overlay(),
    }
}
