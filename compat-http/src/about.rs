//! What a server says of itself to readers of `status`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use heureka_model::Instance;

/// Asked at each request of `status`. Clones ask the same.
#[derive(Clone)]
pub struct About(Arc<dyn Fn() -> ServerStatus + Send + Sync>);

/// A server as it is now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerStatus {
    /// Name of the environment; empty tells none.
    pub environment: String,
    /// Processors that the server may use; 0 when that is not known.
    pub processors: usize,
    /// Bytes of memory of the machine, if known.
    pub memory_total: Option<u64>,
    /// Bytes of memory that the server takes, if known.
    pub memory_used: Option<u64>,
    /// Time since its start.
    pub uptime: Duration,
    /// The other servers that it exchanges its instances with.
    pub replicas: Vec<Replica>,
    /// The server as an instance; absent tells none.
    pub instance: Option<Instance>,
}

/// Another server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// Its address, without credentials.
    pub url: String,
    /// It was reached lately.
    pub available: bool,
}

impl About {
    /// What `status` gives back is told.
    pub fn new(status: impl Fn() -> ServerStatus + Send + Sync + 'static) -> Self {
        Self(Arc::new(status))
    }

    pub(crate) fn status(&self) -> ServerStatus {
        (self.0)()
    }
}

impl Default for About {
    /// Says nothing.
    fn default() -> Self {
        Self::new(ServerStatus::default)
    }
}

impl fmt::Debug for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("About(..)")
    }
}

/// Nobody compares what servers say of themselves.
impl PartialEq for About {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for About {}
