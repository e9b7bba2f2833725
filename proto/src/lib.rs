//! The native wire contract: generated messages and stubs, and their translation to and from the model.
//!
//! What a field means, in which order events come and what may be retried stands as comments in
//! `proto/heureka/registry/v1/*.proto`, what servers say to each other in `proto/heureka/registry/peer/v1/*.proto`.
//! This crate opens no socket and knows no transport: servers and clients bring theirs.

pub mod codec;
pub mod convert;
pub mod listed;

/// Package `heureka.registry.v1`.
#[expect(
    unused_qualifications,
    clippy::large_enum_variant,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    reason = "generated code"
)]
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/heureka.registry.v1.rs"));
}

/// What operators ask of one server.
pub mod admin {
    /// Package `heureka.registry.admin.v1`.
    #[expect(
        unused_qualifications,
        clippy::allow_attributes,
        clippy::allow_attributes_without_reason,
        reason = "generated code"
    )]
    pub mod v1 {
        include!(concat!(env!("OUT_DIR"), "/heureka.registry.admin.v1.rs"));
    }
}

/// What servers say to each other.
pub mod peer {
    /// Package `heureka.registry.peer.v1`; the entries of frames are bytes, read one at a time.
    #[expect(
        unused_qualifications,
        clippy::large_enum_variant,
        clippy::allow_attributes,
        clippy::allow_attributes_without_reason,
        reason = "generated code"
    )]
    pub mod v1 {
        include!(concat!(env!("OUT_DIR"), "/heureka.registry.peer.v1.rs"));
    }
}

/// The services as a server offers them: the same wire as [`v1`], but changes are handed over as bytes and listed
/// instances as [entries](listed), so that each is encoded once for all who are told of it, and entries of batches and keys of renewals come as
/// bytes, so that what is only looked up is not copied and what is read is read one at a time.
#[expect(
    unused_qualifications,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    reason = "generated code"
)]
pub mod served {
    include!(concat!(env!("OUT_DIR"), "/served/heureka.registry.v1.rs"));
}

/// The contract as a serialised `google.protobuf.FileDescriptorSet`, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
