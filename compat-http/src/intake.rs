//! What another server of the original's kind says, taken into the registry. Nothing of it is passed on: each such
//! server tells all others itself.

use std::time::Duration;

use heureka_model::{DrainPlan, KeyRef, Now, Registration, Stamp, Status, Wall};
use heureka_registry::{Beat, Claim, Content, Origin, Refused, RegisterMode, Registry, SetOverride};

use crate::error::{Error, in_legacy_words, legacy};
use crate::wire::{Parsed, native};

/// Cause of everything that comes this way.
pub(crate) const PEER: Origin = Origin::Eureka;
/// For so long after an operator's write here another server may still tell of the time before.
pub(crate) const SETTLING: Duration = Duration::from_mins(1);
/// Two servers' clocks may differ by so much.
pub(crate) const CLOCKS: Duration = Duration::from_secs(1);
/// Bits of a stamp's clock below its milliseconds.
const COUNTER_BITS: u32 = 16;

/// Takes over the copy that a peer sent, unless the stored record is newer.
pub(crate) fn register(registry: &Registry, parsed: Parsed, now: Now) -> Result<(), Error> {
    let Parsed { mut instance, override_status, registered } = parsed;
    let drain = native::unfold(&mut instance);
    instance.validate(&registry.config().limits).map_err(in_legacy_words)?;
    let key = instance.key.clone();
    instance.last_dirty.get_or_insert(now.wall);
    let stored = registry.get(key.as_ref(), now);
    instance.status = owners_status(instance.status, override_status, stored.as_ref());
    let claim = if stored.is_none() && came_back(registry, key.as_ref(), registered, now) {
        Claim::Stamp
    } else {
        Claim::PeerStamp
    };
    let told = registry.register(&instance, claim, RegisterMode::Upsert, &PEER, now);
    let told = told.map_err(legacy)?;
    match override_status {
        Some(status) if told.override_status != Some(status) => {
            take_override(registry, key.as_ref(), status, drain, now)
        }
        _ => Ok(()),
    }
}

/// Whether the peer was told the instance after it was removed here: then the copy is no late one, whatever its stamp.
/// Owners do not always raise it when they come back.
fn came_back(registry: &Registry, key: KeyRef<'_>, registered: Option<Wall>, now: Now) -> bool {
    let Some(registered) = registered else { return false };
    let removed = registry.export(key, now).filter(|state| state.owner.content == Content::Cancelled);
    removed.is_some_and(|state| registered > state.owner.updated.plus(CLOCKS))
}

/// A peer shows what readers see. Under an override that is not the owner's word; the one that we know still is.
fn owners_status(shown: Status, override_: Option<Status>, stored: Option<&Registration>) -> Status {
    let hidden = override_ == Some(Status::OutOfService) && shown == Status::OutOfService;
    match stored.map(|stored| stored.instance.status) {
        Some(Status::Up) if hidden => Status::Up,
        _ => shown,
    }
}

/// Renews, or says how the records differ.
pub(crate) fn renew(
    registry: &Registry,
    key: KeyRef<'_>,
    stamp: Option<Wall>,
    told: Option<Status>,
    now: Now,
) -> Result<(), Error> {
    let beat = stamp.map_or(Beat::Plain, Beat::PeerStamp);
    match registry.renew(key, beat, None, &PEER, now) {
        Ok(renewed) if told.is_none() || renewed.override_status == told => Ok(()),
        Ok(_) => told.map_or(Ok(()), |told| take_override(registry, key, told, None, now)),
        Err(Refused::Outdated) => {
            if let Some(told) = told {
                take_override(registry, key, told, None, now)?;
            }
            Err(Error::NotFound)
        }
        Err(refused) => Err(legacy(refused)),
    }
}

/// Takes an override that a peer mentions beside other news. That the instance is gone by now is no fault of the
/// peer; and right after an operator's word here, the peer has not heard of it yet.
fn take_override(
    registry: &Registry,
    key: KeyRef<'_>,
    told: Status,
    drain: Option<DrainPlan>,
    now: Now,
) -> Result<(), Error> {
    let Some(stored) = registry.get(key, now) else { return Ok(()) };
    let settled = written(stored.version.overlay).plus(SETTLING);
    if stored.override_status() == Some(told) || settled > now.wall {
        return Ok(());
    }
    let drain = drain.filter(|_| told == Status::OutOfService);
    let set = SetOverride { status: told, ttl: None, drain };
    match registry.set_override(key, set, &PEER, now) {
        Ok(_) | Err(Refused::NotFound) => Ok(()),
        Err(refused) => Err(legacy(refused)),
    }
}

/// When a server wrote with this stamp.
pub(crate) fn written(stamp: Stamp) -> Wall {
    Wall(stamp.clock >> COUNTER_BITS)
}

/// Removes the instance and remembers that.
pub(crate) fn cancel(registry: &Registry, key: KeyRef<'_>, now: Now) -> Result<(), Error> {
    key.validate(&registry.config().limits).map_err(in_legacy_words)?;
    let cancelled = registry.cancel(key, Claim::Next, &PEER, now).map_err(legacy)?;
    if cancelled.existed { Ok(()) } else { Err(Error::NotFound) }
}

/// Ends the override. What is left there is the owner's word, unless it says nothing or is the override itself, which
/// then was set again before the peer sent this.
pub(crate) fn clear_status(
    registry: &Registry,
    key: KeyRef<'_>,
    left: Option<&str>,
    now: Now,
) -> Result<(), Error> {
    let held = registry.get(key, now).and_then(|held| held.override_status());
    let left =
        left.and_then(Status::from_name).filter(|status| *status != Status::Unknown && Some(*status) != held);
    registry.clear_override(key, left, &PEER, now).map(drop).map_err(legacy)
}
