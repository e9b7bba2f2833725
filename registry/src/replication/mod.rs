//! Replication: what servers exchange and how they agree.
//!
//! Everything here is driven from outside: whoever carries frames between servers makes a [`Link`] of each stream,
//! hands it what came and asks it what goes. There is one stream per pair of servers. On each, a server tells what
//! entered the cluster at it, from a cursor into its log that the other acknowledges; renewals as short lists; and
//! once a second a digest of everything, so that whatever was missed is found and told.
//!
//! ```text
//! frame in ──> Link ──> inlet ──> merge, leases          Replicator: who is connected, digest, positions
//! frame out <── Link <── sender <── log cursor, sightings, what a peer lacks
//! ```

mod acks;
mod covered;
mod digest;
mod frame;
mod hash;
mod inlet;
mod inspection;
mod link;
mod merge;
mod outlet;
mod replicator;
mod sender;
mod state;
mod status;
mod table;

pub use acks::Acks;
pub(crate) use covered::Covered;
pub use covered::Standing;
pub use frame::{
    Applied, BUCKETS, Beaten, Binding, Bucket, BucketEntries, DigestEntry, FRAME_KEYS, Frame, GROUPS, Hello,
    Outgoing, PROTOCOL, Position, Records, Renewals, Reported, State, Summary, Versions,
};
pub use inspection::Difference;
pub use link::Link;
pub use merge::{Adoption, Merged};
pub use outlet::{Changes, Registers, Scope, Sighting};
pub(crate) use replicator::is_broken;
pub use replicator::{Identity, Replicator};
pub use state::{Content, KeyState, OwnerState};
pub use status::{Declined, Fault, PeerStatus, ReplicationStats};
