//! What is told of replication: to operators, to metrics, and to whoever opened a stream that is not used.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::State;

/// A peer with a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerStatus {
    /// Name.
    pub node: String,
    /// Life of the server.
    pub boot: u64,
    /// Where it is reached, or where the stream came from.
    pub address: String,
    /// This server opened the stream.
    pub dialed: bool,
    /// How long the stream is up.
    pub connected_for: Duration,
    /// Time since the last frame from it.
    pub silent_for: Duration,
    /// Revisions of this server's log that it has not acknowledged, those that it need not hear of included.
    pub backlog: u64,
    /// For how long it has not had everything that it was sent.
    pub lag: Duration,
    /// How far its wall clock is ahead, in milliseconds, transit included.
    pub skew_ms: i64,
    /// What it last said of itself.
    pub state: State,
}

/// Figures of replication since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplicationStats {
    /// Records that were newer than what was here.
    pub taken: u64,
    /// Evictions by peers that were undone.
    pub revived: u64,
    /// Records of instances that nobody heard from, not believed.
    pub lapsed: u64,
    /// Items that could not be right, and were left out.
    pub rejected: u64,
    /// Records for which there was no room.
    pub refused: u64,
    /// Signs of life taken in.
    pub renewals: u64,
    /// Keys that peers were asked about before an eviction.
    pub probed: u64,
    /// Times that digests differed and were compared in detail.
    pub repairs: u64,
    /// Records sent because a digest differed.
    pub repaired: u64,
    /// Records with a clock more than a day ahead.
    pub clock_ahead: u64,
}

/// What is counted as it happens.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) taken: AtomicU64,
    pub(super) revived: AtomicU64,
    pub(super) lapsed: AtomicU64,
    pub(super) rejected: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) renewals: AtomicU64,
    pub(super) probed: AtomicU64,
    pub(super) repairs: AtomicU64,
    pub(super) repaired: AtomicU64,
    pub(super) clock_ahead: AtomicU64,
}

impl Counters {
    pub(super) fn read(&self) -> ReplicationStats {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ReplicationStats {
            taken: count(&self.taken),
            revived: count(&self.revived),
            lapsed: count(&self.lapsed),
            rejected: count(&self.rejected),
            refused: count(&self.refused),
            renewals: count(&self.renewals),
            probed: count(&self.probed),
            repairs: count(&self.repairs),
            repaired: count(&self.repaired),
            clock_ahead: count(&self.clock_ahead),
        }
    }
}

/// Why a stream is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Declined {
    /// The other server belongs to another cluster.
    #[error("cluster {cluster:?} is not this server's cluster")]
    OtherCluster {
        /// Its cluster.
        cluster: String,
    },
    /// The stream leads back to this very server.
    #[error("the stream leads back to this server")]
    OwnNode,
    /// Another server has this server's own name.
    #[error("node id {node:?} is this server's own; every server of a cluster needs its own")]
    NameTaken {
        /// The name.
        node: String,
    },
    /// A server of this name is connected and answers, from elsewhere.
    #[error("node id {node:?} is alive at {address}; every server of a cluster needs its own")]
    NodeAlive {
        /// The name.
        node: String,
        /// Where the other is.
        address: String,
    },
    /// The two servers have another stream already, and keep that.
    #[error("another stream to this server is kept")]
    Duplicate,
    /// The versions of the protocol are more than one apart.
    #[error("protocol {protocol} is not spoken here")]
    Protocol {
        /// Its version.
        protocol: u32,
    },
    /// Its hybrid clock is more than a year ahead.
    #[error("clock {clock} lies more than a year ahead")]
    Clock {
        /// Its clock.
        clock: u64,
    },
    /// There are too many streams.
    #[error("there are {limit} streams to other servers already")]
    TooMany {
        /// How many there may be.
        limit: usize,
    },
}

/// Why a stream cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A greeting came after the first.
    #[error("a second hello on one stream")]
    SecondHello,
    /// This server stood still while the stream was open: what is on its way may be as old as that was long, and
    /// does not say so.
    #[error("this server stood still, and what was sent meanwhile cannot be dated")]
    StoodStill,
    /// A frame holds more than one may.
    #[error("{field} holds {count} entries, more than {limit}")]
    TooLong {
        /// Part of the frame.
        field: &'static str,
        /// How many there are.
        count: usize,
        /// How many there may be.
        limit: usize,
    },
}
