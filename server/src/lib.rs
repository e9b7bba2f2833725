//! The registry's process: one port, one core, two wires.
//!
//! [`Server::start`] takes its listeners, clock and randomness from the caller, so that a test runs the whole
//! server on a free port under a clock of its own. It reads no environment, sets nothing global and prints
//! nothing; the `heureka` binary does those.

mod about;
mod access;
mod app;
pub mod args;
mod assembly;
pub mod clock;
pub mod config;
mod doze;
pub mod drain;
pub mod eureka;
mod files;
mod grpc;
mod health;
pub mod import;
pub mod life;
pub mod listen;
pub mod metrics;
mod page;
pub mod peers;
mod persist;
mod query;
pub mod telemetry;
mod ticks;
mod tls;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use heureka_model::Clock;
use heureka_registry::{Registry, Seeds};
use tokio::sync::Notify;

use crate::assembly::{Parts, Surfaces};
use crate::config::{Config, DrainConfig};
use crate::drain::{Drained, Ending};
use crate::eureka::Eureka;
use crate::life::Life;
use crate::listen::Listener;
use crate::peers::{Dial, Peers};
use crate::telemetry::LineBudget;
use crate::tls::Tls;

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
    dial: Dial,
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
    /// The files of `[tls]` cannot be used.
    #[error(transparent)]
    Tls(#[from] tls::TlsError),
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
    certificates: Arc<Notify>,
}

impl Server {
    /// A server with these settings.
    #[must_use]
    pub fn new(config: Config, world: World) -> Self {
        Self { config, world, routes: Router::new(), dial: peers::system() }
    }

    /// Serves more HTTP routes beside its own, for whoever embeds the server.
    /// # Panics
    /// When a route is one of the server's own.
    #[must_use]
    pub fn routes(mut self, routes: Router) -> Self {
        self.routes = self.routes.merge(routes);
        self
    }

    /// Opens connections to peers this way instead of over the machine's network.
    #[must_use]
    pub fn dial(mut self, dial: Dial) -> Self {
        self.dial = dial;
        self
    }

    /// Starts to answer on these listeners and to let time pass.
    /// # Errors
    /// A listener that does not know its own address; certificates that cannot be used; a folder that cannot be; a
    /// damaged description of the native contract.
    pub async fn start(self, listeners: Vec<impl Listener>) -> Result<Running, StartError> {
        let Self { config, world, routes, dial } = self;
        let addresses = listeners.iter().map(Listener::local_addr).collect::<Result<Vec<_>, _>>()?;
        let tls = Tls::open(&config.tls).await?;
        let mut parts = Parts::new(config, world, dial, &addresses, &tls);
        let store = parts.restore().await?;
        let Surfaces { app, metrics, eureka } = parts.surfaces(routes, store.is_some()).await?;
        parts.listen(app, &metrics, tls.acceptor(), listeners);
        parts.run(metrics);
        let certificates = tls.bell();
        parts.renew(tls);
        Ok(parts.running(addresses, store, eureka, certificates))
    }
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

    /// Looks at the files of `[tls]` again now, and takes what they hold for whole.
    pub fn reload_certificates(&self) {
        self.certificates.notify_one();
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
