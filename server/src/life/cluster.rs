//! What the rest of the process asks about the other servers, without knowing how they are reached.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use heureka_model::Now;
use heureka_proto::admin::v1::Peer;

use super::Seen;

/// What there is to be seen of the peers.
pub type Neighbours = Arc<dyn Fn(Now) -> Seen + Send + Sync>;

/// Streams between servers that are missing, one text each; none in a cluster in which everybody hears everybody.
pub type MissingLinks = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

/// Every peer that is looked for or heard.
pub type Peers = Arc<dyn Fn(Now) -> Vec<Peer> + Send + Sync>;

/// Ends when a peer knows what was written here last, or when there is none to tell.
pub type Farewell = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// The other servers, seen from this one.
#[derive(Clone)]
pub struct Cluster {
    /// For the state of this server.
    pub seen: Neighbours,
    /// For health.
    pub missing: MissingLinks,
    /// For operators.
    pub peers: Peers,
    /// For the end.
    pub farewell: Farewell,
}

impl Cluster {
    /// No other server.
    #[must_use]
    pub fn alone() -> Self {
        Self {
            seen: Arc::new(|_| Seen::default()),
            missing: Arc::new(Vec::new),
            peers: Arc::new(|_| Vec::new()),
            farewell: Arc::new(|| Box::pin(std::future::ready(()))),
        }
    }
}
