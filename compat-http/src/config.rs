//! What an operator may set about this surface.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use heureka_registry::Registry;
use parking_lot::RwLock;

use crate::about::About;

/// Settings of the Eureka surface. Defaults are the product's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Prefix of every path, for example `/registry`; empty for none.
    pub context_path: String,
    /// Addresses whose replication header is believed. IPv4-mapped addresses count as their IPv4 one.
    pub trusted_peers: Vec<IpAddr>,
    /// Addresses that count beside `trusted_peers`: those that the names of the peers resolve to.
    pub resolved_peers: PeerAddresses,
    /// Proxies whose requests keep the privileges of their address although they carry a forwarding header.
    pub trusted_proxies: Vec<IpAddr>,
    /// Largest request body as sent, in bytes.
    pub body_wire_max: usize,
    /// Largest request body after decompression, in bytes.
    pub body_decoded_max: usize,
    /// Largest batch of a peer as sent, in bytes.
    pub batch_wire_max: usize,
    /// Largest batch of a peer after decompression, in bytes.
    pub batch_decoded_max: usize,
    /// Most items of a batch.
    pub batch_items_max: usize,
    /// Copies of other regions, for callers that ask for some.
    pub regions: Regions,
    /// What the server says of itself.
    pub about: About,
    /// Longest time that a write waits until another server of the cluster has it.
    pub ack_wait: Duration,
    /// Bytes of encoded answers kept for the next reader. What does not fit is encoded for each reader anew. As much
    /// again, at least 16 MiB, may be built for single readers and wait to be sent.
    pub cache_max_bytes: usize,
    /// Shortest time between two encodings of the whole registry. Absent: none up to 10,000 instances, 100 ms
    /// above.
    pub cache_min_interval: Option<Duration>,
    /// How a reader is refused while the server is catching up.
    pub syncing_status: SyncingStatus,
}

/// Answers to a reader while the server is catching up: nothing is said rather than too little.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncingStatus {
    /// 503, after which every client asks the next server.
    #[default]
    Unavailable,
    /// 403, as the original.
    Forbidden,
}

/// Whether readers are answered, asked at each of their requests.
#[derive(Clone)]
pub struct Gate(Arc<dyn Fn() -> bool + Send + Sync>);

impl Gate {
    /// Readers are answered while `open` says so.
    pub fn new(open: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(open))
    }

    pub(crate) fn is_open(&self) -> bool {
        (self.0)()
    }
}

impl Default for Gate {
    /// Always open.
    fn default() -> Self {
        Self::new(|| true)
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Gate").field(&self.is_open()).finish()
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            context_path: String::new(),
            trusted_peers: Vec::new(),
            resolved_peers: PeerAddresses::default(),
            trusted_proxies: Vec::new(),
            body_wire_max: 1 << 20,
            body_decoded_max: 1 << 20,
            batch_wire_max: 2 << 20,
            batch_decoded_max: 8 << 20,
            batch_items_max: 1000,
            regions: Regions::default(),
            about: About::default(),
            ack_wait: Duration::from_millis(50),
            cache_max_bytes: 64 << 20,
            cache_min_interval: None,
            syncing_status: SyncingStatus::default(),
        }
    }
}

impl Config {
    /// The part of the cache that documents of single applications have.
    pub(crate) fn applications_max_bytes(&self) -> usize {
        self.cache_max_bytes / 4
    }

    /// The part that lists have.
    pub(crate) fn lists_max_bytes(&self) -> usize {
        self.cache_max_bytes - self.applications_max_bytes()
    }
}

/// Copies of other regions by their names, in lower case. Whoever makes one keeps it up to date; here they are read.
#[derive(Clone, Default)]
pub struct Regions(Arc<BTreeMap<String, Arc<Registry>>>);

impl Regions {
    /// These regions.
    #[must_use]
    pub fn new(regions: BTreeMap<String, Arc<Registry>>) -> Self {
        Self(Arc::new(regions))
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<Registry>> {
        self.0.get(name).cloned()
    }
}

impl fmt::Debug for Regions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Equal when they are the same copies, or none.
impl PartialEq for Regions {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.0.is_empty() && other.0.is_empty())
    }
}

impl Eq for Regions {}

/// Addresses of peers, changed by whoever resolves their names. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct PeerAddresses(Arc<RwLock<Vec<IpAddr>>>);

impl PeerAddresses {
    /// From now on these are the peers.
    pub fn set(&self, addresses: impl IntoIterator<Item = IpAddr>) {
        *self.0.write() = addresses.into_iter().map(|address| address.to_canonical()).collect();
    }

    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        self.0.read().contains(&address)
    }
}

/// Equal when they are the same list, not when they hold the same.
impl PartialEq for PeerAddresses {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for PeerAddresses {}

/// Address at the other end of the socket: a request extension that the accept loop sets. A request without it
/// has no peer privilege.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteAddr(pub SocketAddr);
