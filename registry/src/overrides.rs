//! The operator's register: overrides, drain plans, and their ends.

use heureka_model::{InstanceKey, KeyRef, Now, Overlay, Registration, Stamp, Status, StatusOverride};

use crate::apply::{OwnerWrite, Renewal, Write};
use crate::events::Cause;
use crate::record::OverlayNote;
use crate::seeded::{Bug, planted};
use crate::{AppSummary, Origin, Refused, Registry, SetOverride};

impl Registry {
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
        let other = planted(Bug::OverrideById).then(|| self.anybody_of(key, now)).flatten();
        let key = other.as_ref().map_or(key, InstanceKey::as_ref);
        self.with_key(key, now, |key| {
            let record = key.live()?.record.clone();
            let idle = origin.is_rest() && record.overlay().status.is_none() && record.status() == set.status;
            let note = overlay_note(set, now);
            let same = record.head().overlay.as_ref().is_some_and(|held| held.overlay == note.overlay);
            if origin.is_rest() {
                key.renew(origin);
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
            if origin.is_rest() {
                key.renew(origin);
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
}

impl Registry {
    /// An instance with the same id, whatever its application.
    fn anybody_of(&self, key: KeyRef<'_>, now: Now) -> Option<InstanceKey> {
        let apps = self.applications(key.namespace);
        let found = |app: &AppSummary| self.get(KeyRef { app: &app.name, ..key }, now);
        apps.iter().find_map(found).map(|found| found.instance.key)
    }
}

/// What stands in the operator's register after its end: the stamp orders it against a late copy of what was.
pub(crate) fn no_overlay() -> OverlayNote {
    OverlayNote { stamp: Stamp::default(), overlay: Overlay::default(), ends: None }
}

fn overlay_note(set: SetOverride, now: Now) -> OverlayNote {
    let status = StatusOverride { status: set.status, until: set.ttl.map(|ttl| now.wall.plus(ttl)) };
    OverlayNote {
        stamp: Stamp::default(),
        overlay: Overlay { status: Some(status), drain: set.drain },
        ends: set.ttl.map(|ttl| now.mono.plus(ttl)),
    }
}
