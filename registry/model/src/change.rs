//! What subscribers hear.

use std::sync::Arc;

use crate::{InstanceKey, Registration, Version};

/// One change of a subscribed set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Kind.
    pub kind: ChangeKind,
    /// Key.
    pub key: InstanceKey,
    /// Version; a subscriber applies the change only when this is greater than the one it holds.
    pub version: Version,
    /// Revision of this server's log.
    pub revision: u64,
    /// The instance, unless it was removed.
    pub registration: Option<Arc<Registration>>,
}

/// Kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// Entered the subscribed set.
    Added,
    /// Changed inside the set.
    Modified,
    /// Left the set. Legal for a key that the subscriber does not hold.
    Removed(RemovalReason),
}

/// Why an instance left a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RemovalReason {
    /// Cancelled by its owner or an operator.
    Cancelled,
    /// Its lease ran out.
    Expired,
    /// It exists but matches no more.
    FilteredOut,
}

/// What the Eureka delta says happened to an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Registered while no instance had the key.
    Added,
    /// Changed.
    Modified,
    /// Removed.
    Deleted,
}
