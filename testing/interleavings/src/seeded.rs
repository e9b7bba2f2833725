//! Stands for the core's planted faults: there is none here.

use std::sync::Arc;

use heureka_model::Registration;

/// Those that the core's files name.
#[derive(Clone, Copy)]
pub(crate) enum Bug {
    FollowsLate,
    LeavingUntold,
}

pub(crate) const fn planted(_bug: Bug) -> bool {
    false
}

pub(crate) fn torn(_old: Option<&Arc<Registration>>, new: &Arc<Registration>) -> Arc<Registration> {
    Arc::clone(new)
}
