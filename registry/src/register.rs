//! Registering: admission decides, the funnel writes.

use std::sync::atomic::Ordering;

use heureka_model::{Instance, Now, Overlay, Status, Wall};

use crate::admission::{self, Admission, Stored};
use crate::apply::{Held, Key, OwnerWrite, Renewal, Texts, Write};
use crate::events::Cause;
use crate::leases::Sign;
use crate::overrides::no_overlay;
use crate::record::{Flat, Life, OverlayNote};
use crate::{Claim, Origin, Refused, RegisterMode, Registered, Registry};

/// A registration on its way in.
struct Incoming<'a> {
    instance: &'a Instance,
    flat: &'a Flat<'a>,
    /// What counts as reported.
    status: Status,
    claim: Claim,
}

impl Registry {
    /// Registers or refreshes an instance, which the caller has validated. See `docs/leases.md` for who wins.
    ///
    /// # Errors
    /// [`Refused::Stale`] when another writer holds the version, [`Refused::Exists`] under
    /// [`RegisterMode::CreateOnly`], [`Refused::Full`].
    pub fn register(
        &self,
        instance: &Instance,
        claim: Claim,
        mode: RegisterMode,
        origin: &Origin,
        now: Now,
    ) -> Result<Registered, Refused> {
        let flat = Flat::of(instance);
        self.with_key(instance.key.as_ref(), now, |key| {
            let status = self.kept_status(key, instance.status, claim);
            let incoming = Incoming { instance, flat: &flat, status, claim };
            let admission = self.admit(key, &incoming);
            let live = key.live().is_ok();
            if live && mode == RegisterMode::CreateOnly && admission != Admission::Renew {
                return Err(Refused::Exists);
            }
            let applied = self.admitted(key, &incoming, admission, origin)?;
            key.held().map(|held| registered(held, applied && !live, applied)).ok_or(Refused::NotFound)
        })
    }

    /// The original keeps UP and `OUT_OF_SERVICE` against the owner's own change between the two.
    fn kept_status(&self, key: &Key<'_>, reported: Status, claim: Claim) -> Status {
        let settled = |status| matches!(status, Status::Up | Status::OutOfService);
        match key.live().map(|held| held.record.head().status) {
            Ok(kept)
                if self.config.eureka_rule4
                    && claim == Claim::Stamp
                    && settled(kept)
                    && settled(reported) =>
            {
                kept
            }
            _ => reported,
        }
    }

    fn admit(&self, key: &Key<'_>, incoming: &Incoming<'_>) -> Admission {
        let now = key.now().wall;
        let stamp = incoming.instance.last_dirty;
        let compared = key.held().map(|held| Stored {
            same_content: held.record.same_content(incoming.flat, incoming.status),
            // Asked of late copies only, and dear to find out.
            same_address: stamp < held.record.head().dirty
                && same_address(&held.record.instance(), incoming.instance),
            lower_beats: stamp.map_or(0, |stamp| self.lower_beats.of(held.slot, stamp)),
            ..Stored::of(held)
        });
        if let Some(compared) = compared.as_ref().filter(|_| incoming.claim == Claim::Stamp) {
            self.note_oddities(key, compared, stamp);
        }
        admission::register(compared.as_ref(), incoming.claim, stamp, now)
    }

    fn note_oddities(&self, key: &Key<'_>, stored: &Stored, stamp: Option<Wall>) {
        if stored.life == Life::Cancelled {
            self.counters.after_cancel.fetch_add(1, Ordering::Relaxed);
        }
        let known = stored.dirty.unwrap_or_default();
        let older = stored.life == Life::Live && stamp.is_some_and(|stamp| stamp < known);
        if older && admission::is_ahead(known, key.now().wall) {
            self.counters.stamps_ahead.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(key = %key.name(), stamp = known.0, "a stored stamp lies ahead of the clock");
        }
    }

    /// Two processes that share an id show only when one registers over the other; so does one that moved.
    fn note_move(&self, key: &Key<'_>, incoming: &Incoming<'_>) {
        let moved = |held: &Held| !held.record.same_endpoint(incoming.flat);
        if incoming.claim != Claim::PeerStamp && key.live().is_ok_and(moved) {
            self.counters.endpoints_replaced.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(key = %key.name(), "a live instance was registered again from another address");
        }
    }

    /// Carries an admission out; tells whether the caller's record is the stored one now.
    fn admitted(
        &self,
        key: &mut Key<'_>,
        incoming: &Incoming<'_>,
        admission: Admission,
        origin: &Origin,
    ) -> Result<bool, Refused> {
        match admission {
            Admission::Accept { owner } => self.accept(key, incoming, owner, origin).map(|()| true),
            Admission::Renew => {
                key.renew(origin);
                // Whoever says what is stored lives, and ends a row of older heartbeats.
                key.held().into_iter().for_each(|held| self.lower_beats.clear(held.slot));
                // A peer's copy has our version for a stamp.
                if incoming.claim != Claim::PeerStamp {
                    key.raise_dirty(incoming.instance.last_dirty);
                }
                Ok(true)
            }
            Admission::Late { renew } => {
                if renew {
                    key.renew(origin);
                }
                Ok(false)
            }
            Admission::Refuse(refused) => Err(refused),
        }
    }

    fn accept(
        &self,
        key: &mut Key<'_>,
        incoming: &Incoming<'_>,
        owner: u64,
        origin: &Origin,
    ) -> Result<(), Refused> {
        self.counters.highest_owner.fetch_max(owner, Ordering::Relaxed);
        self.note_move(key, incoming);
        let sign = Sign { at: self.moment(key.now()), heard: origin.heard(), beaten: false };
        let renewal = Renewal::Sign(sign);
        let cause = if key.live().is_ok() { Cause::Updated } else { Cause::Registered };
        let owner = OwnerWrite {
            owner,
            incarnation: incoming.claim.incarnation(),
            dirty: incoming.instance.last_dirty,
            status: incoming.status,
        };
        let write = Write::owner(owner, Life::Live, renewal, cause);
        key.write(&Write { texts: Texts::Of(incoming.flat), overlay: self.outlived(key), ..write }, origin)
    }

    /// The end of an overlay whose instance expired too long ago to keep it.
    fn outlived(&self, key: &Key<'_>) -> Option<Option<OverlayNote>> {
        let record = &key.held().filter(|held| held.record.head().life == Life::Expired)?.record;
        let ended = record.head().updated.plus(self.config.override_outlives) < key.now().wall;
        (ended && record.overlay() != Overlay::default()).then(|| Some(no_overlay()))
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
