//! Changing metadata without a registration.

use heureka_model::{Instance, KeyRef, Now, Registration};

use crate::apply::{OwnerWrite, Renewal, Taken, Texts, Write};
use crate::events::Cause;
use crate::record::{Flat, Life};
use crate::seeded::{Bug, planted};
use crate::{MetadataPatch, Origin, Refused, Registry};

impl Registry {
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
            if origin.is_rest() {
                key.renew(origin);
            }
            let mut instance = record.instance();
            apply_patch(&mut instance, patch);
            instance.validate(&self.config.limits)?;
            let flat = Flat::of(&instance);
            if !record.same_content(&flat, instance.status) {
                let unversioned = planted(Bug::MetadataUnversioned);
                let after = OwnerWrite::after(&record, instance.status);
                let owner = if unversioned { OwnerWrite::same(&record) } else { after };
                let write = Write::owner(owner, Life::Live, Renewal::Keep, Cause::MetadataChanged);
                let taken = unversioned.then(|| Taken::of(&record));
                key.write(&Write { texts: Texts::Of(&flat), taken, ..write }, origin)?;
            }
            key.registration().ok_or(Refused::NotFound)
        })
    }
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
