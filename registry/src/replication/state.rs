//! Everything that one server tells another about a key.

use heureka_model::{Instance, InstanceKey, Overlay, Stamp, Version, Wall};

/// Two of the three registers of a key; the third, the lease, travels as evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyState {
    /// Key.
    pub key: InstanceKey,
    /// The owner's register.
    pub owner: OwnerState,
    /// Position of the last write to the operator's register; zero until the first.
    pub overlay_stamp: Stamp,
    /// The operator's register.
    pub overlay: Overlay,
}

/// The owner's register.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnerState {
    /// Owner's version.
    pub version: u64,
    /// Position of the server's write.
    pub written: Stamp,
    /// What the owner says.
    pub content: Content,
    /// Writing process folded to a word; 0 when no native writer.
    pub incarnation: u64,
    /// Stamp of the owner's clock on the Eureka surface. Two copies of one version may know different ones; the
    /// greater counts.
    pub dirty: Option<Wall>,
    /// When the server that wrote it saw the change.
    pub updated: Wall,
    /// When this life of the instance began.
    pub registered: Wall,
    /// When it was first UP; 0 before.
    pub service_up: Wall,
}

impl OwnerState {
    /// The greater of version and stamp: what copies that have a stamp only are compared with.
    #[must_use]
    pub fn latest(&self) -> u64 {
        self.version.max(self.dirty.unwrap_or_default().0)
    }
}

/// What an owner's register holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// The instance is there.
    Live(Box<Instance>),
    /// It was cancelled.
    Cancelled,
    /// Its lease ran out.
    Expired,
}

impl KeyState {
    /// Version of the whole.
    #[must_use]
    pub fn version(&self) -> Version {
        Version { owner: self.owner.version, written: self.owner.written, overlay: self.overlay_stamp }
    }
}
