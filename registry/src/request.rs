//! What callers ask of the core and what it answers.

use std::time::Duration;

use heureka_model::{
    Action, DrainPlan, InstanceKey, LeaseTerms, Metadata, Registration, SetDigest, Status, StatusCounts,
    Version, Wall,
};

use crate::record::{Record, Tag};

/// How a write claims its place among the owner's writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Whatever comes next. The caller cannot be told apart from its own late copies.
    Next,
    /// A native writer with its own version.
    Writer(Writer),
    /// A Eureka client: `Instance::last_dirty` is its stamp.
    Stamp,
    /// A Eureka peer's copy: `Instance::last_dirty` is the stamp of the owner.
    PeerStamp,
}

/// A native writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writer {
    /// Random id of the writing process.
    pub incarnation: [u8; 16],
    /// Owner version of this write.
    pub version: u64,
    /// No write of this incarnation was acknowledged before.
    pub first: bool,
}

/// How a registration treats a live instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RegisterMode {
    /// Replaces it, unless it is newer.
    #[default]
    Upsert,
    /// Refuses.
    CreateOnly,
}

/// Answer to a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registered {
    /// No live instance had the key.
    pub created: bool,
    /// False when the write was a late copy and the stored record was kept.
    pub applied: bool,
    /// Version of the stored record.
    pub version: Version,
    /// Lease in force.
    pub terms: LeaseTerms,
    /// Operator's status in force.
    pub override_status: Option<Status>,
}

/// What a renewal tells beside being alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beat {
    /// Nothing.
    Plain,
    /// A native writer's version; a newer one than stored is refused as outdated.
    Writer(Writer),
    /// A Eureka client's `lastDirtyTimestamp`; a newer one than stored is refused as outdated.
    Stamp(Wall),
    /// The same from a Eureka peer; an older one than stored is refused as a conflict.
    PeerStamp(Wall),
}

/// Answer to a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewed {
    /// Operator's status in force.
    pub override_status: Option<Status>,
    /// Time until the next renewal is due.
    pub next: Duration,
}

/// Answer to a cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled {
    /// A live instance was removed.
    pub existed: bool,
    /// Version of what is remembered.
    pub version: Version,
}

/// An operator's override.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetOverride {
    /// Status that readers see from now on.
    pub status: Status,
    /// Time after which the override ends by itself.
    pub ttl: Option<Duration>,
    /// Planned removal, only with `OUT_OF_SERVICE`.
    pub drain: Option<DrainPlan>,
}

/// A change of metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetadataPatch {
    /// Keys to set.
    pub set: Metadata,
    /// Keys to remove.
    pub remove: Vec<String>,
    /// Drop every key that is not in `set`.
    pub replace_all: bool,
    /// Refuse unless this is the stored version.
    pub if_version: Option<Version>,
}

/// The live instances of one application.
#[derive(Clone, Debug, PartialEq)]
pub struct Application {
    /// Name.
    pub name: String,
    /// Revision at or before which all of this was true; a later change of the application has a higher one.
    pub revision: u64,
    /// Instances, in no particular order.
    pub instances: Vec<Registration>,
}

/// One application in a list of applications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppSummary {
    /// Name.
    pub name: String,
    /// Revision of its last change.
    pub revision: u64,
    /// Fingerprint and counts of its instances.
    pub digest: SetDigest,
}

/// A page of a list in key order.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// Instances.
    pub instances: Vec<Registration>,
    /// Key to continue after; absent on the last page.
    pub next: Option<InstanceKey>,
    /// Head of the log before the page was read.
    pub revision: u64,
}

/// What changed in the default namespace within the delta window, as one moment saw it.
#[derive(Clone, Debug)]
pub struct Delta {
    /// Head of the log at that moment.
    pub revision: u64,
    /// Revision after which the window begins.
    pub since: u64,
    /// Counts over all live instances at that moment.
    pub counts: StatusCounts,
    /// Each changed instance once with its current content, oldest change first.
    pub changes: Vec<Entry>,
}

/// An instance at one moment. Cheap to hold; what it says is read out when it is asked for.
#[derive(Clone, Debug)]
pub struct Entry {
    pub(crate) record: Record,
    pub(crate) revision: u64,
    pub(crate) renewed: Wall,
}

impl Entry {
    /// What its last change was.
    #[must_use]
    pub fn action(&self) -> Action {
        self.record.head().action
    }

    /// Revision of its last change.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Its application.
    #[must_use]
    pub fn app(&self) -> &str {
        &self.record.app().name
    }

    /// Its virtual addresses, read alone.
    #[must_use]
    pub fn vip_address(&self) -> String {
        self.record.text(Tag::Vip)
    }

    /// Its secure virtual addresses, read alone.
    #[must_use]
    pub fn secure_vip_address(&self) -> String {
        self.record.text(Tag::SecureVip)
    }

    /// All of it; a removed one as it was.
    #[must_use]
    pub fn registration(&self) -> Registration {
        self.record.registration(self.revision, self.renewed)
    }
}

/// Figures for metrics and status pages.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stats {
    /// Live instances.
    pub instances: u64,
    /// Applications with a live instance, over all namespaces.
    pub applications: u64,
    /// Removed instances still remembered.
    pub tombstones: u64,
    /// Live instances of the default namespace by effective status.
    pub counts: StatusCounts,
    /// Bytes of all records and tombstones.
    pub record_bytes: u64,
    /// Distinct record templates.
    pub templates: u64,
    /// Renewals since the start.
    pub renewals: u64,
    /// Renewals within the last minute.
    pub renewals_last_minute: u64,
    /// Renewals per minute that the live leases promise.
    pub expected_per_minute: f64,
    /// Lapsed leases are held back.
    pub protecting: bool,
    /// Lapsed leases held at the last tick.
    pub held: u64,
    /// Leases that expired since the start.
    pub expired: u64,
    /// Registrations of a cancelled key since the start.
    pub registered_after_cancel: u64,
    /// Stored stamps that lay too far ahead to refuse a later registration.
    pub stamps_ahead: u64,
    /// Live instances that were registered again from another host, address or port.
    pub endpoints_replaced: u64,
    /// Equal versions with different content met in a merge.
    pub version_collisions: u64,
    /// Reports of owners of which readers were told at once.
    pub reports_accepted: u64,
    /// Reports of owners that came before their turn: readers are told of the newest when it has come.
    pub reports_capped: u64,
    /// Reports of owners that were refused.
    pub reports_refused: u64,
}
