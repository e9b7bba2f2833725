//! What unit tests share.

mod desk;
mod many;
mod script;

use std::sync::Arc;

use heureka_model::{Instance, InstanceKey, LeaseTimes, Overlay, Registration, Version};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

pub(crate) use desk::{Call, Desk, REPORTS};
pub(crate) use many::{ManyScript, Told, event_of};
pub(crate) use script::{Script, begin, bookmark, change, end, item, put, told_by};

/// A key of the application WEB.
pub(crate) fn key(id: &str) -> InstanceKey {
    InstanceKey { namespace: String::new(), app: "WEB".into(), id: id.into() }
}

/// A registration of the application WEB.
pub(crate) fn registration(id: &str, owner: u64) -> Arc<Registration> {
    registered(Instance::new(key(id)), owner)
}

pub(crate) fn registered(instance: Instance, owner: u64) -> Arc<Registration> {
    Arc::new(Registration {
        instance,
        overlay: Overlay::default(),
        version: Version { owner, ..Version::default() },
        times: LeaseTimes::default(),
        revision: 0,
    })
}

pub(crate) fn refusal(code: Code, reason: &str) -> Status {
    Status::with_error_details(code, "m", ErrorDetails::with_error_info(reason, "heureka", []))
}
