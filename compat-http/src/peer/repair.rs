//! What a peer's list tells: everything at the start, and later what one of both missed.

use heureka_model::Now;
use heureka_registry::Registry;
use heureka_registry::replication::{Content, KeyState};

use super::Unreadable;
use super::outbox::Outbox;
use crate::intake::{self, CLOCKS, SETTLING, written};
use crate::wire::Parsed;
use crate::wire::list_reader::{self, Listed};

/// What came of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Instances taken in, known ones included.
    pub taken: usize,
    /// Instances that could not be read or kept.
    pub refused: usize,
}

/// Takes in everything that a peer lists, before this server answers readers.
///
/// # Errors
/// When the document is no list.
pub fn copy(registry: &Registry, document: &[u8], now: Now) -> Result<Copied, Unreadable> {
    let mut copied = Copied::default();
    let unreadable = each(document, |listed| {
        let taken = intake::register(registry, listed.parsed, now).is_ok();
        *(if taken { &mut copied.taken } else { &mut copied.refused }) += 1;
    })?;
    copied.refused += unreadable;
    Ok(copied)
}

/// Finds what the peer of `outbox` missed, out of a list or delta of it, and what this server did.
///
/// # Errors
/// When the document is no list.
pub fn repair(
    registry: &Registry,
    document: &[u8],
    outbox: &mut Outbox,
    now: Now,
) -> Result<Copied, Unreadable> {
    let mut copied = Copied::default();
    copied.refused = each(document, |listed| {
        if !listed.deleted {
            repair_one(registry, listed.parsed, outbox, now);
            copied.taken += 1;
        }
    })?;
    Ok(copied)
}

fn repair_one(registry: &Registry, listed: Parsed, outbox: &mut Outbox, now: Now) {
    let key = listed.instance.key.clone();
    let theirs = listed.instance.last_dirty.unwrap_or_default().0;
    let Some(state) = registry.export(key.as_ref(), now) else { return };
    match state.owner.content {
        // A heartbeat of its owner brings it back, if it lives.
        Content::Expired => {}
        Content::Cancelled if came_later(&listed, &state) || theirs > state.owner.version => {
            take(registry, listed, now);
        }
        Content::Cancelled => outbox.remove(key),
        Content::Live(_) if theirs > state.owner.latest() => take(registry, listed, now),
        Content::Live(_) if theirs < state.owner.latest() => outbox.tell(key),
        Content::Live(_) => repair_status(registry, &state, listed, outbox, now),
    }
}

/// The operator's word here counts, if there ever was one: its place in time is known.
fn repair_status(registry: &Registry, state: &KeyState, listed: Parsed, outbox: &mut Outbox, now: Now) {
    let ours = state.overlay.status.map(|set| set.status);
    if ours == listed.override_status || written(state.overlay_stamp).plus(SETTLING) > now.wall {
        return;
    }
    if state.overlay_stamp.clock > 0 {
        outbox.tell_status(state.key.clone());
    } else {
        take(registry, listed, now);
    }
}

fn came_later(listed: &Parsed, state: &KeyState) -> bool {
    listed.registered.is_some_and(|registered| registered > state.owner.updated.plus(CLOCKS))
}

/// One that cannot be kept is met again at the next list.
pub(super) fn take(registry: &Registry, listed: Parsed, now: Now) {
    let key = listed.instance.key.clone();
    if let Err(error) = intake::register(registry, listed, now) {
        tracing::debug!(%key, %error, "a listed instance cannot be kept");
    }
}

/// Calls `take` for each instance; tells how many could not be read.
fn each(document: &[u8], take: impl FnMut(Listed)) -> Result<usize, Unreadable> {
    let text = std::str::from_utf8(document).map_err(|_| Unreadable("the text is not UTF-8".into()))?;
    let summary = list_reader::read(text, take).map_err(|error| Unreadable::of(&error))?;
    Ok(summary.unreadable)
}
