//! What an operator may set about this surface.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// Settings of the Eureka surface. Defaults are the product's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Prefix of every path, for example `/registry`; empty for none.
    pub context_path: String,
    /// Addresses whose replication header is believed. IPv4-mapped addresses count as their IPv4 one.
    pub trusted_peers: Vec<IpAddr>,
    /// Proxies whose requests keep the privileges of their address although they carry a forwarding header.
    pub trusted_proxies: Vec<IpAddr>,
    /// Largest request body as sent, in bytes.
    pub body_wire_max: usize,
    /// Largest request body after decompression, in bytes.
    pub body_decoded_max: usize,
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
            trusted_proxies: Vec::new(),
            body_wire_max: 1 << 20,
            body_decoded_max: 1 << 20,
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

/// Address at the other end of the socket: a request extension that the accept loop sets. A request without it
/// has no peer privilege.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteAddr(pub SocketAddr);
