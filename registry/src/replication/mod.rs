//! Replication: what servers exchange about a key and how they agree on it.

mod frame;
mod merge;
mod state;

pub use frame::{
    Applied, BUCKETS, Beaten, Binding, Bucket, BucketEntries, DigestEntry, FRAME_KEYS, Frame, GROUPS, Hello,
    Outgoing, PROTOCOL, Position, Records, Renewals, State, Summary,
};
pub use merge::Merged;
pub use state::{Content, KeyState, OwnerState};
