//! One change as it was told.

use std::sync::Arc;

use heureka_model::{InstanceKey, LeaseTimes, Registration, RemovalReason, Version};
use heureka_proto::convert::removal_reason;
use heureka_proto::v1;

/// A whole change: without an instance, a removal.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    pub(crate) key: InstanceKey,
    pub(crate) version: Version,
    pub(crate) live: Option<Arc<Registration>>,
    pub(crate) reason: Option<RemovalReason>,
}

impl Heard {
    /// Reads a change; what is wrong with one that is not whole.
    pub(crate) fn read(wire: v1::Change) -> Result<Self, String> {
        let kind = wire.r#type();
        let key: InstanceKey = wire.key.clone().ok_or("no key")?.into();
        let version: Version = wire.version.ok_or("no version")?.into();
        let reason = removal_reason(wire.removal_reason);
        let live = match (kind, wire.instance) {
            (v1::ChangeType::Unspecified, _) => return Err("no kind".into()),
            (v1::ChangeType::Removed, Some(_)) => return Err("a removal with an instance".into()),
            (v1::ChangeType::Removed, None) => None,
            (_, None) => return Err("no instance".into()),
            (_, Some(instance)) => {
                Some(Arc::new(Registration::try_from(instance).map_err(|e| e.to_string())?))
            }
        };
        if live.is_none() != (wire.removal_reason != 0) {
            return Err("a reason that does not go with the kind".into());
        }
        let heard = Self { key, version, live, reason };
        heard.agrees()?;
        Ok(heard)
    }

    fn agrees(&self) -> Result<(), String> {
        let Some(live) = &self.live else { return Ok(()) };
        if live.instance.key != self.key {
            return Err(format!("an instance of {}", live.instance.key));
        }
        if live.version != self.version {
            return Err(format!("an instance with {}", crate::guarantee::shown(&live.version)));
        }
        Ok(())
    }
}

/// What a version stands for: everything but the times of the lease and the owner's clock.
pub(crate) fn content(live: &Registration) -> Registration {
    let mut content = live.clone();
    content.times = LeaseTimes::default();
    content.revision = 0;
    content.instance.last_dirty = None;
    content
}
