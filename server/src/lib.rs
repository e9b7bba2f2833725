//! The registry's process: one port, one core, two wires.
//!
//! [`Server::start`] takes its listeners, clock and randomness from the caller, so that a test runs the whole
//! server on a free port under a clock of its own. It reads no environment, sets nothing global and prints
//! nothing; the `heureka` binary does those.

mod app;
pub mod args;
pub mod clock;
pub mod config;
pub mod drain;
mod grpc;
mod health;
pub mod listen;
pub mod metrics;
pub mod peers;
pub mod telemetry;
mod ticks;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use heureka_model::Clock;
use heureka_registry::replication::{self, Replicator};
use heureka_registry::{Registry, Seeds};
use tokio::net::TcpListener;

use crate::app::App;
use crate::config::{Config, DrainConfig, bytes_of};
use crate::drain::{Drained, Ending};
use crate::grpc::Grpc;
use crate::listen::Listen;
use crate::metrics::{Metrics, Sources};
use crate::peers::Peers;
use crate::telemetry::LineBudget;
use crate::ticks::Ticks;

/// What a server takes from outside instead of reaching for it.
#[derive(Clone)]
pub struct World {
    /// Source of time.
    pub clock: Arc<dyn Clock>,
    /// Randomness of the core; the jitter of connections comes from it too.
    pub seeds: Seeds,
    /// Ceiling of the log, refilled once a second.
    pub lines: LineBudget,
}

/// A server that is not started yet.
pub struct Server {
    config: Config,
    world: World,
    routes: Router,
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A listener does not know its own address.
    #[error("a listener has no address")]
    Listener(#[from] io::Error),
    /// The description of the native contract is damaged, which only a broken build can cause.
    #[error("the description of the native contract is damaged")]
    Contract(#[from] tonic_reflection::server::Error),
    /// The buckets of a histogram are wrong, which only a broken build can cause.
    #[error("the metrics are ill-defined")]
    Metrics(#[from] metrics_exporter_prometheus::BuildError),
}

/// A server that answers. Dropping it leaves it running until the runtime ends; [`Running::drain`] ends it.
pub struct Running {
    addresses: Vec<SocketAddr>,
    core: Arc<Registry>,
    peers: Arc<Peers>,
    ending: Ending,
    drain: DrainConfig,
}

impl Server {
    /// A server with these settings.
    #[must_use]
    pub fn new(config: Config, world: World) -> Self {
        Self { config, world, routes: Router::new() }
    }

    /// Serves more HTTP routes beside its own, for whoever embeds the server.
    /// # Panics
    /// When a route is one of the server's own.
    #[must_use]
    pub fn routes(mut self, routes: Router) -> Self {
        self.routes = self.routes.merge(routes);
        self
    }

    /// Starts to answer on these listeners and to let time pass.
    /// # Errors
    /// A listener that does not know its own address; a damaged description of the native contract.
    pub async fn start(self, listeners: Vec<TcpListener>) -> Result<Running, StartError> {
        let Self { config, world, routes } = self;
        let addresses = listeners.iter().map(TcpListener::local_addr).collect::<Result<Vec<_>, _>>()?;
        let core = Arc::new(Registry::new(config.core(), world.seeds, world.clock.now()));
        let ending = Ending::default();
        let identity = identity(&config, &world);
        let replicator = Replicator::new(core.clone(), greeting(&config, &identity, &addresses));
        let peers = Peers::new(Arc::new(replicator), world.clock.clone(), &config, world.seeds.shuffle);
        let grpc = Grpc::new(native(&config, &world, identity, &peers, &ending)).await?;
        ending.announced(async move { grpc.health.not_serving().await });
        let sources = Sources {
            core: core.clone(),
            watches: grpc.watches,
            peers: peers.clone(),
            lines: world.lines.clone(),
            node: config.server.clone(),
        };
        let (metrics, rest) = Metrics::around(sources, || {
            heureka_compat_http::router(core.clone(), world.clock.clone(), config.rest())
        })?;

        let metrics = Arc::new(metrics);
        let own = routes.merge(health::router(ending.clone(), metrics.clone()));
        let app = App::new(peers.serve(grpc.router), own, rest, &config.server.context_path);
        let seed = world.seeds.shuffle;
        let listen = Arc::new(Listen::new(app, config.limits, metrics.clone(), ending.clone(), seed));
        for listener in listeners {
            tokio::spawn(listen.clone().run(listener));
        }
        let ticks = Ticks { peers: peers.clone(), clock: world.clock, lines: world.lines, metrics };
        tokio::spawn(ticks.run(ending.clone()));
        peers.start(&config.peer);
        tokio::spawn(part(peers.clone(), ending.clone()));
        Ok(Running { addresses, core, peers, ending, drain: config.drain })
    }
}

/// Who this node is.
fn identity(config: &Config, world: &World) -> grpc::Identity {
    let node_id = match config.server.node_id.as_str() {
        "" => format!("node-{:016x}", world.seeds.boot),
        name => name.to_owned(),
    };
    grpc::Identity { cluster_id: config.server.cluster.clone(), node_id }
}

/// Who this node is for its peers. One that listens on every address leaves it to them which of these they see.
fn greeting(config: &Config, identity: &grpc::Identity, addresses: &[SocketAddr]) -> replication::Identity {
    let first = addresses.first();
    let address = match (config.peer.advertise.as_str(), first) {
        ("", Some(listener)) if listener.ip().is_unspecified() => format!(":{}", listener.port()),
        ("", listener) => listener.map(ToString::to_string).unwrap_or_default(),
        (advertised, _) => advertised.to_owned(),
    };
    replication::Identity { cluster: identity.cluster_id.clone(), node: identity.node_id.clone(), address }
}

/// What the native surface works with.
fn native(
    config: &Config,
    world: &World,
    identity: grpc::Identity,
    peers: &Peers,
    ending: &Ending,
) -> grpc::Deps {
    let limits = grpc::Limits {
        unary: bytes_of(config.limits.grpc_unary),
        batch: bytes_of(config.limits.grpc_batch),
        watches: config.limits.watches as usize,
        ack_wait: config.peer.ack_wait,
        ..grpc::Limits::default()
    };
    grpc::Deps {
        registry: peers.replicator().registry().clone(),
        clock: world.clock.clone(),
        identity,
        drain: ending.token(),
        limits,
        counts: peers.counts().clone(),
    }
}

/// Time for a peer to take in what was written last.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Takes leave of the peers when the server ends.
async fn part(peers: Arc<Peers>, ending: Ending) {
    ending.asked().await;
    peers.replicator().drain();
    // Late is better than never, and never is no reason to stay.
    let _ = tokio::time::timeout(LAST_WORDS, peers.told_all()).await;
    peers.part();
}

impl Running {
    /// Addresses of the listeners, in their order.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The core behind both wires.
    #[must_use]
    pub fn core(&self) -> &Arc<Registry> {
        &self.core
    }

    /// The other servers of the cluster.
    #[must_use]
    pub fn peers(&self) -> &Arc<Peers> {
        &self.peers
    }

    /// Ends the server: not ready, then watches told, nothing accepted, requests finished. Takes `drain.notice`
    /// and at most `drain.grace`.
    pub async fn drain(&self) -> Drained {
        self.ending.drain(self.drain.notice, self.drain.grace).await
    }
}
