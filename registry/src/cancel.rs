//! Cancelling: removing, and remembering the removal.

use std::sync::atomic::Ordering;

use heureka_model::{KeyRef, Now, Status};

use crate::admission::{self, Stored};
use crate::apply::{Key, OwnerWrite, Renewal, Write};
use crate::events::Cause;
use crate::overrides::no_overlay;
use crate::record::{Life, Record};
use crate::{Cancelled, Claim, Origin, Refused, Registry};

impl Registry {
    /// Removes an instance and remembers it, also one that nobody knows, so that a late registration loses; unless
    /// the registry is full.
    ///
    /// # Errors
    /// [`Refused::Stale`] when another writer holds the version.
    pub fn cancel(
        &self,
        key: KeyRef<'_>,
        claim: Claim,
        origin: &Origin,
        now: Now,
    ) -> Result<Cancelled, Refused> {
        self.with_key(key, now, |key| {
            let stored = key.held().map(Stored::of);
            let highest = self.counters.highest_owner.load(Ordering::Relaxed);
            let owner = admission::cancel(stored.as_ref(), claim, highest, now.wall)?;
            let existed = key.live().is_ok();
            if let Some(owner) = owner {
                match self.write_cancel(key, owner, claim, origin) {
                    // There is nothing to remove, and no room to remember that.
                    Err(Refused::Full) => {}
                    written => written?,
                }
            }
            let version = key.held().map_or_else(Default::default, |held| held.record.version());
            Ok(Cancelled { existed: existed && key.live().is_err(), version })
        })
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
                Claim::Writer(_) => claim.incarnation(),
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
