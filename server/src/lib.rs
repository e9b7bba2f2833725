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
pub mod eureka;
mod grpc;
mod health;
pub mod life;
pub mod listen;
pub mod metrics;
pub mod peers;
mod persist;
pub mod telemetry;
mod ticks;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use heureka_compat_http::Gate;
use heureka_model::Clock;
use heureka_registry::replication::{self, Replicator};
use heureka_registry::{Registry, Seeds};
use tokio::net::TcpListener;

use crate::app::App;
use crate::config::{Config, DrainConfig, bytes_of};
use crate::drain::{Drained, Ending};
use crate::eureka::{Abroad, Eureka};
use crate::grpc::Grpc;
use crate::life::{Cluster, Life, Preserving, State};
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
    /// The folder for the warm-start store cannot be used.
    #[error(transparent)]
    Store(#[from] persist::StoreError),
    /// The buckets of a histogram are wrong, which only a broken build can cause.
    #[error("the metrics are ill-defined")]
    Metrics(#[from] metrics_exporter_prometheus::BuildError),
}

/// A server that answers. Dropping it leaves it running until the runtime ends; [`Running::drain`] ends it.
pub struct Running {
    addresses: Vec<SocketAddr>,
    core: Arc<Registry>,
    eureka: Eureka,
    peers: Arc<Peers>,
    life: Arc<Life>,
    store: tokio::sync::Mutex<Option<persist::Store>>,
    ending: Ending,
    request: drain::Request,
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
        let (ending, request) = (Ending::default(), drain::Request::default());
        let identity = identity(&config, &world);
        let replicator = Replicator::new(core.clone(), greeting(&config, &identity, &addresses));
        let peers = Peers::new(Arc::new(replicator), world.clock.clone(), &config, world.seeds.shuffle);
        let mut cluster = Cluster::of(&peers, &config.peer);
        let copied = eureka::Copied::new(&config.eureka);
        cluster.seen = copied.beside(cluster.seen);
        cluster.known = copied.among(cluster.known);
        let life = Arc::new(Life::new(config.life(), cluster.seen.clone(), world.clock.clone()));
        let store = Arc::new(persist::Figures::default());
        let opened = match config.server.data_dir.as_str() {
            "" => None,
            folder => Some(persist::open(stored(folder, &config, &world, &core, &store)).await?),
        };
        life.loaded(opened.as_ref().is_some_and(|opened| opened.warm));
        peers.replicator().set_ready(life.serves_readers());
        let kept = opened.map(persist::Opened::run);
        let preserving = Arc::new(Preserving::default());
        let office = grpc::Office {
            cluster: cluster.clone(),
            preserving: preserving.clone(),
            request: request.clone(),
            store: kept.as_ref().map(|_| store.clone()),
        };
        let deps = native(&config, &world, identity, &peers, life.clone(), &ending, office);
        let grpc = Grpc::new(deps).await?;
        tokio::spawn(grpc.health.follow(life.clone()));
        let readers = life.clone();
        let gate = Gate::new(move || readers.serves_readers());
        let sources = Sources {
            core: core.clone(),
            watches: grpc.watches,
            peers: peers.clone(),
            lines: world.lines.clone(),
            life: life.clone(),
            store: store.clone(),
            node: config.server.clone(),
        };
        let mut rest_config = config.rest();
        let deps = eureka::Deps {
            core: core.clone(),
            clock: world.clock.clone(),
            ending: ending.clone(),
            trusted: rest_config.resolved_peers.clone(),
            copied,
        };
        let (metrics, (rest, eureka)) = Metrics::around(sources, || {
            let abroad = Abroad::new(&config.eureka, world.seeds, &world.clock);
            rest_config.regions = abroad.readers();
            let rest = heureka_compat_http::gated(core.clone(), world.clock.clone(), rest_config, gate);
            (rest, Eureka::start(&config.eureka, abroad, &deps))
        })?;

        let metrics = Arc::new(metrics);
        let own = routes
            .merge(health::router(life.clone(), cluster.amiss.clone(), metrics.clone()))
            .merge(eureka::router(eureka.clone()));
        let app = App::new(peers.serve(grpc.router, &ending), own, rest, &config.server.context_path);
        let seed = world.seeds.shuffle;
        let (drain, ending_too) = (config.drain, ending.clone());
        let listen = Listen::new(app, config.limits, metrics.clone(), ending_too, drain.clone(), seed);
        let listen = Arc::new(listen);
        for listener in listeners {
            tokio::spawn(listen.clone().run(listener));
        }
        let ticks = Ticks {
            peers: peers.clone(),
            life: life.clone(),
            preserving,
            clock: world.clock,
            lines: world.lines,
            metrics,
        };
        tokio::spawn(ticks.run(ending.clone()));
        peers.start(&config.peer);
        tokio::spawn(follow(peers.clone(), life.clone()));
        tokio::spawn(part(peers.clone(), ending.clone()));
        tokio::spawn(life.clone().catch_up());
        Ok(Running { addresses, core, eureka, peers, life, store: kept.into(), ending, request, drain })
    }
}

/// What the warm-start store works with.
fn stored(
    folder: &str,
    config: &Config,
    world: &World,
    registry: &Arc<Registry>,
    figures: &Arc<persist::Figures>,
) -> persist::Deps {
    persist::Deps {
        folder: folder.into(),
        cluster: config.server.cluster.clone(),
        registry: registry.clone(),
        clock: world.clock.clone(),
        figures: figures.clone(),
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
    life: Arc<Life>,
    ending: &Ending,
    office: grpc::Office,
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
        life,
        drain: ending.token(),
        limits,
        office,
        proxies: config.server.trusted_proxies.as_slice().into(),
        counts: peers.counts().clone(),
    }
}

/// Tells the peers how far this server is in its life.
async fn follow(peers: Arc<Peers>, life: Arc<Life>) {
    let mut states = life.states();
    loop {
        let state = *states.borrow_and_update();
        peers.replicator().set_ready(life.serves_readers());
        if state >= State::Draining {
            return peers.replicator().drain();
        }
        if states.changed().await.is_err() {
            return;
        }
    }
}

/// Takes leave of the peers when no client is left.
async fn part(peers: Arc<Peers>, ending: Ending) {
    ending.parted().await;
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

    /// The servers of Netflix's kind beside this one.
    #[must_use]
    pub fn eureka(&self) -> &Eureka {
        &self.eureka
    }

    /// The other servers of the cluster.
    #[must_use]
    pub fn peers(&self) -> &Arc<Peers> {
        &self.peers
    }

    /// Where the server is in its life.
    #[must_use]
    pub fn life(&self) -> &Arc<Life> {
        &self.life
    }

    /// Waits until an operator asks the server to leave; the time that clients get, when it was said.
    pub async fn asked_to_drain(&self) -> Option<Duration> {
        self.request.asked().await
    }

    /// Ends the server: not ready, then watches told, nothing accepted, requests finished, peers told the last.
    /// Takes `drain.notice`, at most `drain.grace` and at most `drain.peer_wait`.
    pub async fn drain(&self) -> Drained {
        self.drain_within(self.drain.grace).await
    }

    /// The same with another time for clients.
    pub async fn drain_within(&self, grace: Duration) -> Drained {
        let times = DrainConfig { grace, ..self.drain.clone() };
        self.life.drain();
        let drained = self.ending.drain(&times, self.peers.told_all()).await;
        if let Some(store) = self.store.lock().await.take() {
            store.finish().await;
        }
        self.life.stop();
        drained
    }
}
