//! A change as a server tells it.

use std::sync::Arc;

use heureka_model::{InstanceKey, Invalid, Registration, RemovalReason, Version};
use heureka_proto::convert::removal_reason;
use heureka_proto::v1;

use crate::set::Set;

/// A change as it was heard: without an instance, a removal.
pub(super) struct Heard {
    pub(super) key: InstanceKey,
    pub(super) version: Version,
    pub(super) registration: Option<Arc<Registration>>,
    pub(super) reason: Option<RemovalReason>,
}

impl Heard {
    /// Nothing for a change of a type that a later server may send, when it has no instance: the digest tells whether
    /// it mattered. With an instance it is what the key is now, whatever the type.
    pub(super) fn read(wire: v1::Change) -> Result<Option<Self>, Invalid> {
        let kind = wire.r#type();
        if kind == v1::ChangeType::Unspecified && wire.instance.is_none() {
            return Ok(None);
        }
        let is_removal = kind == v1::ChangeType::Removed;
        let registration = if is_removal { None } else { Some(read_instance(wire.instance)?) };
        Ok(Some(Self {
            key: wire.key.ok_or_else(|| Invalid::missing("key"))?.into(),
            version: wire.version.ok_or_else(|| Invalid::missing("version"))?.into(),
            registration,
            reason: removal_reason(wire.removal_reason),
        }))
    }

    /// Takes the change in as its server has it.
    pub(super) fn apply_to(&self, set: &mut Set) {
        if set.is_ahead(&self.key, self.version) {
            return;
        }
        match &self.registration {
            Some(registration) => drop(set.insert(registration.clone())),
            None => drop(set.remove(&self.key)),
        }
    }
}

fn read_instance(wire: Option<v1::Instance>) -> Result<Arc<Registration>, Invalid> {
    let wire = wire.ok_or_else(|| Invalid::missing("instance"))?;
    Registration::try_from(of_this_time(wire)).map(Arc::new).map_err(|invalid| invalid.within("instance"))
}

/// The instance without a status that only a later server knows. UNKNOWN stands for the effective one, whatever it is
/// made of; what that is made of reads as the effective one.
fn of_this_time(mut wire: v1::Instance) -> v1::Instance {
    let unknown: i32 = v1::InstanceStatus::Unknown.into();
    let is_strange = |number: i32| v1::InstanceStatus::try_from(number).is_err();
    if is_strange(wire.status) {
        wire.status_override = if wire.status_override == 0 { 0 } else { unknown };
        (wire.status, wire.reported_status) = (unknown, unknown);
    }
    let effective = if wire.status == 0 { unknown } else { wire.status };
    for number in [&mut wire.reported_status, &mut wire.status_override] {
        if is_strange(*number) {
            *number = effective;
        }
    }
    wire
}
