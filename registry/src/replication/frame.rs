//! What one server says to another. Whoever decodes a frame has checked its texts and limits.

use std::sync::Arc;
use std::time::Duration;

use heureka_model::{InstanceKey, Report, Version, Wall};

use super::KeyState;

/// Version of the protocol between servers; a server speaks with neighbours one version apart.
pub const PROTOCOL: u32 = 1;

/// Keys per frame at most, whatever their kind.
pub const FRAME_KEYS: usize = 512;

/// Groups into which the buckets of a digest are summed up.
pub const GROUPS: usize = 64;

/// Buckets of a digest.
pub const BUCKETS: usize = 4096;

/// One message between servers.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// First on every stream, in both directions.
    Hello(Hello),
    /// Asks for everything that the other knows: it answers with records up to one that is `complete`.
    Pull,
    /// What is known of some keys.
    Records(Records),
    /// Leases that were renewed.
    Renewals(Renewals),
    /// Asks for what is known of these keys.
    Want(Vec<InstanceKey>),
    /// Asks for the last sign of life of these keys, whose leases have run out at the sender.
    Probe(Vec<InstanceKey>),
    /// How the sender is; once a second.
    State(State),
    /// Sums of the digest's groups, [`GROUPS`] of them.
    Groups(Vec<u64>),
    /// Sums of buckets, of all those in groups that differ.
    Buckets(Vec<Bucket>),
    /// What stands in buckets that differ.
    Summary(Summary),
    /// Sums of the digest's groups, to be told the versions in those that differ. For operators: nothing is repaired.
    Inspect(Vec<u64>),
    /// Versions of live instances in groups that differ.
    Versions(Versions),
    /// What instances reported.
    Reports(Vec<Reported>),
    /// Everything that the receiver of this sent up to a position of its log is taken in.
    Ack(Applied),
    /// The sender is leaving.
    Drain,
}

/// Who speaks, and what it has of the other already.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hello {
    /// Name of the cluster.
    pub cluster: String,
    /// Name of the server.
    pub node: String,
    /// Id of this life of the server.
    pub boot: u64,
    /// Version of the protocol.
    pub protocol: u32,
    /// Optional abilities by name; both sides use what both have.
    pub capabilities: Vec<String>,
    /// Wall clock.
    pub wall: Wall,
    /// Hybrid logical clock.
    pub clock: u64,
    /// Where others reach the server, when it knows.
    pub address: String,
    /// Positions in the logs of others up to which everything is taken in.
    pub applied: Vec<Applied>,
    /// Writes of which servers are taken in.
    pub covered: Vec<Position>,
    /// The server knows all that the cluster knows.
    pub ready: bool,
}

/// A position in one server's log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Life of that server.
    pub boot: u64,
    /// Revision of its log.
    pub revision: u64,
}

/// The writes that one life of a server made, up to one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Life of the server that accepted the writes.
    pub boot: u64,
    /// Its hybrid logical clock at the last of them.
    pub clock: u64,
}

/// What is known of some keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Records {
    /// Keys, each at most once.
    pub records: Vec<Outgoing>,
    /// Position in the sender's log once these are taken in; 0 when they do not come out of it in order.
    pub revision: u64,
    /// The sender's own writes up to this clock are all told.
    pub covered: Option<u64>,
    /// With this the answer to a [`Frame::Pull`] is complete, and `vector` says whose writes it covers.
    pub complete: bool,
    /// Only with `complete`.
    pub vector: Vec<Position>,
}

/// What is known of a key, with the sign of life that goes with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Outgoing {
    /// Owner's and operator's registers.
    pub state: KeyState,
    /// Time since the last sign of life, pauses of the sender included.
    pub age: Duration,
    /// At least one renewal came since the registration.
    pub beaten: bool,
}

/// Leases that were renewed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Renewals {
    /// Which key a handle stands for from now on, on this stream.
    pub bindings: Vec<Binding>,
    /// Renewals in the order of their handles.
    pub beats: Vec<Beaten>,
}

/// A short name for a key on one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The short name.
    pub handle: u32,
    /// The key.
    pub key: InstanceKey,
}

/// A sign of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beaten {
    /// Short name of the key.
    pub handle: u32,
    /// How long ago it was.
    pub age: Duration,
}

/// How a server is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Sum over all buckets of its digest; absent while it is being worked out.
    pub root: Option<u64>,
    /// It knows all that the cluster knows.
    pub ready: bool,
    /// It holds lapsed leases back.
    pub protecting: bool,
    /// It is leaving.
    pub draining: bool,
    /// Lapsed leases that it holds.
    pub held: u64,
    /// Live instances.
    pub live: u64,
    /// Names of the servers that it has a stream with.
    pub connected: Vec<String>,
}

/// Sum of one bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// Number, below [`BUCKETS`].
    pub number: u16,
    /// Combined hash of its entries.
    pub hash: u64,
}

/// What stands in some buckets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The buckets, all of each.
    pub buckets: Vec<BucketEntries>,
    /// The other side is to tell what it has there.
    pub reply: bool,
}

/// Versions of live instances.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Versions {
    /// Each key once.
    pub versions: Vec<(InstanceKey, Version)>,
    /// With this all are told, of the groups that `groups` names.
    pub complete: bool,
    /// Numbers of the groups that differ, only with `complete`.
    pub groups: Vec<u16>,
}

/// What an instance reported, and how long ago that came.
#[derive(Clone, Debug, PartialEq)]
pub struct Reported {
    /// The instance.
    pub key: InstanceKey,
    /// Its newest report.
    pub report: Arc<Report>,
    /// Time since it came.
    pub age: Duration,
}

/// Entries of one bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketEntries {
    /// Number, below [`BUCKETS`].
    pub number: u16,
    /// Entries, in the order of their keys' hashes.
    pub entries: Vec<DigestEntry>,
}

/// A live instance in a digest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DigestEntry {
    /// Hash of the key.
    pub key: u64,
    /// Hash of key, version and content.
    pub entry: u64,
}
