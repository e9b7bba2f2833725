//! An instance as the registry delivers it.

use crate::{Instance, LeaseTimes, Status, StatusCounts, Version, Wall, effective_status, instance_hash};

/// What the operator wrote about an instance. Kept beside the owner's record, never inside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Overlay {
    /// Override of the status.
    pub status: Option<StatusOverride>,
    /// Planned removal; only together with an override to `OUT_OF_SERVICE`.
    pub drain: Option<DrainPlan>,
}

/// An operator's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StatusOverride {
    /// Status that readers see instead of the owner's.
    pub status: Status,
    /// When the override ends by itself.
    pub until: Option<Wall>,
}

/// Planned removal of an instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DrainPlan {
    /// When draining began.
    pub start: Option<Wall>,
    /// When the owner intends to be gone.
    pub deadline: Option<Wall>,
}

/// Everything a reader may learn about one key at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// The owner's record; its status is the one the owner reported.
    pub instance: Instance,
    /// The operator's overlay.
    pub overlay: Overlay,
    /// Version of this content.
    pub version: Version,
    /// What the server saw of the lease.
    pub times: LeaseTimes,
    /// Revision of this server's log at which the content last changed.
    pub revision: u64,
}

impl Registration {
    /// Status that readers act on.
    #[must_use]
    pub fn status(&self) -> Status {
        effective_status(self.instance.status, self.override_status())
    }

    /// The operator's status, when there is one.
    #[must_use]
    pub fn override_status(&self) -> Option<Status> {
        self.overlay.status.map(|override_| override_.status)
    }

    /// Whether the last sign of life is older than it may be: more than one and a half renewal intervals, or more
    /// than the lease.
    #[must_use]
    pub fn is_overdue(&self, now: Wall) -> bool {
        let lease = self.instance.lease;
        let patience = (lease.renewal_interval() * 3 / 2).min(lease.duration());
        now > self.times.renewed.plus(patience)
    }

    /// Hash of key and version, as summed in set digests.
    #[must_use]
    pub fn hash(&self) -> u64 {
        instance_hash(self.instance.key.as_ref(), &self.version)
    }
}

impl<'a> FromIterator<&'a Registration> for StatusCounts {
    fn from_iter<I: IntoIterator<Item = &'a Registration>>(registrations: I) -> Self {
        registrations.into_iter().map(Registration::status).collect()
    }
}
