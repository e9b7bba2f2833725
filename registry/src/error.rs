//! Why the core refuses a call. Each variant says what the caller should do; the wires map them to codes.

use heureka_model::{Invalid, Registration, Version};

/// A refusal. Nothing was changed, unless the variant says so.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refused {
    /// No live instance has the key: register it.
    #[error("no live instance has this key")]
    NotFound,
    /// The caller knows a newer record than the registry: register it. The lease was renewed all the same.
    #[error("the registry holds an older record than the caller")]
    Outdated,
    /// Another writer holds this version or a newer one: read it, raise the own version, retry.
    #[error("another writer holds this version or a newer one")]
    Stale {
        /// Version of the stored record.
        stored: Version,
    },
    /// A live instance has the key and the caller asked to create one.
    #[error("a live instance has this key")]
    Exists,
    /// The stored version is not the one that the caller demanded.
    #[error("the stored version is another one")]
    VersionMismatch {
        /// Version of the stored record.
        stored: Version,
    },
    /// A peer's renewal carries an older record than the registry holds: take this one.
    #[error("the peer's record is older than the stored one")]
    Conflict(Box<Registration>),
    /// The registry holds as many bytes as it may: wait, or raise the limit.
    #[error("the registry is full")]
    Full,
    /// The call would make the instance invalid.
    #[error("the instance would be invalid")]
    Invalid(#[from] Invalid),
}
