//! How the parts of a server come together: what it holds, what it found from before, what it answers with, and what
//! it does by itself.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use heureka_compat_http::Gate;
use heureka_registry::Registry;
use heureka_registry::replication::{self, Replicator};
use tokio::sync::Notify;

use crate::about::about;
use crate::access::Access;
use crate::app::App;
use crate::config::{Config, bytes_of};
use crate::drain::{self, Ending};
use crate::eureka::{Abroad, Copied, Eureka};
use crate::grpc::{self, Grpc};
use crate::life::{Cluster, Life, Preserving, State};
use crate::listen::{Listen, Listener};
use crate::metrics::{Metrics, Sources};
use crate::page::{self, Page};
use crate::peers::{Dial, Peers, Ways};
use crate::ticks::Ticks;
use crate::tls::{Acceptor, Connector, Tls};
use crate::{Running, StartError, World, eureka, health, persist, tls};

/// What a server holds.
pub(crate) struct Parts {
    config: Config,
    world: World,
    identity: grpc::Identity,
    core: Arc<Registry>,
    peers: Arc<Peers>,
    cluster: Cluster,
    copied: Copied,
    life: Arc<Life>,
    preserving: Arc<Preserving>,
    stored: Arc<persist::Figures>,
    connector: Connector,
    certificates: Arc<tls::Figures>,
    ending: Ending,
    request: drain::Request,
}

/// What a server answers with.
pub(crate) struct Surfaces {
    pub(crate) app: App,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) eureka: Eureka,
}

impl Parts {
    /// The parts of a server on these addresses; nothing runs yet.
    pub(crate) fn new(config: Config, world: World, dial: Dial, addresses: &[SocketAddr], tls: &Tls) -> Self {
        let core = Arc::new(Registry::new(config.core(), world.seeds, world.clock.now()));
        let identity = identity(&config, &world);
        let replicator = Replicator::new(core.clone(), greeting(&config, &identity, addresses));
        let ways = Ways { dial, tls: tls.connector() };
        let peers = Peers::new(Arc::new(replicator), world.clock.clone(), &config, ways, world.seeds.shuffle);
        let mut cluster = Cluster::of(&peers, &config.peer);
        cluster.amiss = tls.among(cluster.amiss);
        let copied = Copied::new(&config.eureka);
        cluster.seen = copied.beside(cluster.seen);
        cluster.known = copied.among(cluster.known);
        let life = Arc::new(Life::new(config.life(), cluster.seen.clone(), world.clock.clone()));
        Self {
            config,
            world,
            identity,
            core,
            peers,
            cluster,
            copied,
            life,
            preserving: Arc::default(),
            stored: Arc::default(),
            connector: tls.connector(),
            certificates: tls.figures(),
            ending: Ending::default(),
            request: drain::Request::default(),
        }
    }

    /// Takes in what the server stored before its restart, where it stores anything.
    ///
    /// # Errors
    /// The folder cannot be used.
    pub(crate) async fn restore(&mut self) -> Result<Option<persist::Store>, StartError> {
        let opened = match self.config.server.data_dir.as_str() {
            "" => None,
            folder => Some(persist::open(self.kept_in(folder)).await?),
        };
        self.life.loaded(opened.as_ref().is_some_and(|opened| opened.warm));
        self.peers.replicator().set_ready(self.life.serves_readers());
        Ok(opened.map(persist::Opened::run))
    }

    /// Everything that answers requests, with `routes` beside the server's own.
    ///
    /// # Errors
    /// A broken build: the contract's description or the metrics are ill-defined.
    pub(crate) async fn surfaces(&self, routes: Router, stores: bool) -> Result<Surfaces, StartError> {
        let grpc = Grpc::new(self.native(stores)).await?;
        tokio::spawn(grpc.health.follow(self.life.clone()));
        let page = self.page(grpc.watches.clone(), stores);
        let (metrics, (rest, eureka)) = Metrics::around(self.sources(grpc.watches), || self.legacy())?;
        let metrics = Arc::new(metrics);
        let own = routes
            .merge(grpc.feed)
            .merge(page.documents)
            .merge(health::router(self.life.clone(), self.cluster.amiss.clone(), metrics.clone()))
            .merge(eureka::router(eureka.clone()));
        let native = self.peers.serve(grpc.router, &self.ending);
        let app = App::new(native, own, rest.merge(page.router), &self.config.server.context_path);
        let app = app.guarded(Access::new(&self.config.auth));
        Ok(Surfaces { app, metrics, eureka })
    }

    /// Answers on these listeners.
    pub(crate) fn listen(
        &self,
        app: App,
        metrics: &Arc<Metrics>,
        tls: Option<Acceptor>,
        listeners: Vec<impl Listener>,
    ) {
        let Config { limits, drain, .. } = &self.config;
        let seed = self.world.seeds.shuffle;
        let (limits, drain) = (limits.clone(), drain.clone());
        let listen = Listen::new(app, limits, metrics.clone(), self.ending.clone(), drain, seed);
        let listen = Arc::new(listen.secured(tls));
        for listener in listeners {
            tokio::spawn(listen.clone().run(listener));
        }
    }

    /// Follows the files of `[tls]` for as long as anything is accepted.
    pub(crate) fn renew(&self, tls: Tls) {
        let ending = self.ending.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = tls.follow() => {}
                () = ending.asked() => {}
            }
        });
    }

    /// Lets time pass, finds the peers and follows what becomes of the server.
    pub(crate) fn run(&self, metrics: Arc<Metrics>) {
        let ticks = Ticks {
            peers: self.peers.clone(),
            life: self.life.clone(),
            preserving: self.preserving.clone(),
            clock: self.world.clock.clone(),
            lines: self.world.lines.clone(),
            metrics,
        };
        tokio::spawn(ticks.run(self.ending.clone()));
        self.peers.start(&self.config.peer);
        tokio::spawn(follow(self.peers.clone(), self.life.clone()));
        tokio::spawn(part(self.peers.clone(), self.ending.clone()));
        tokio::spawn(self.life.clone().catch_up());
    }

    /// The handle on a server that runs.
    pub(crate) fn running(
        self,
        addresses: Vec<SocketAddr>,
        store: Option<persist::Store>,
        eureka: Eureka,
        certificates: Arc<Notify>,
    ) -> Running {
        let Self { config, core, peers, life, ending, request, .. } = self;
        Running {
            addresses,
            core,
            eureka,
            peers,
            life,
            store: store.into(),
            ending,
            request,
            drain: config.drain,
            certificates,
        }
    }

    fn kept_in(&self, folder: &str) -> persist::Deps {
        persist::Deps {
            folder: folder.into(),
            cluster: self.config.server.cluster.clone(),
            registry: self.core.clone(),
            clock: self.world.clock.clone(),
            figures: self.stored.clone(),
        }
    }

    fn sources(&self, watches: Arc<grpc::Watches>) -> Sources {
        Sources {
            core: self.core.clone(),
            watches,
            peers: self.peers.clone(),
            lines: self.world.lines.clone(),
            life: self.life.clone(),
            store: self.stored.clone(),
            node: self.config.server.clone(),
            tls: self.certificates.clone(),
        }
    }

    /// The status page, if it is to be served.
    fn page(&self, watches: Arc<grpc::Watches>, stores: bool) -> Page {
        if !self.config.server.page {
            return Page::default();
        }
        let deps = page::Deps {
            core: self.core.clone(),
            clock: self.world.clock.clone(),
            life: self.life.clone(),
            cluster: self.cluster.clone(),
            preserving: self.preserving.clone(),
            watches,
            identity: self.identity.clone(),
            node: self.config.server.clone(),
            store: stores.then(|| self.stored.clone()),
        };
        Page::new(deps)
    }

    /// What the native surface works with.
    fn native(&self, stores: bool) -> grpc::Deps {
        let Config { limits, peer, server, .. } = &self.config;
        grpc::Deps {
            registry: self.core.clone(),
            clock: self.world.clock.clone(),
            identity: self.identity.clone(),
            life: self.life.clone(),
            drain: self.ending.token(),
            limits: grpc::Limits {
                unary: bytes_of(limits.grpc_unary),
                batch: bytes_of(limits.grpc_batch),
                watches: limits.watches as usize,
                ack_wait: peer.ack_wait,
                ..grpc::Limits::default()
            },
            office: grpc::Office {
                cluster: self.cluster.clone(),
                preserving: self.preserving.clone(),
                request: self.request.clone(),
                store: stores.then(|| self.stored.clone()),
            },
            proxies: server.trusted_proxies.as_slice().into(),
            counts: self.peers.counts().clone(),
        }
    }

    /// The Eureka surface, and the servers of that kind beside this one.
    fn legacy(&self) -> (Router, Eureka) {
        let World { clock, seeds, .. } = &self.world;
        let mut config = self.config.rest();
        let deps = eureka::Deps {
            core: self.core.clone(),
            clock: clock.clone(),
            ending: self.ending.clone(),
            trusted: config.resolved_peers.clone(),
            copied: self.copied.clone(),
            tls: self.connector.clone(),
        };
        let abroad = Abroad::new(&self.config.eureka, &self.connector, *seeds, clock);
        config.regions = abroad.readers();
        let life = self.life.clone();
        let identity = self.peers.replicator().identity();
        config.about = about(
            identity,
            self.config.tls.is_served(),
            self.cluster.known.clone(),
            life.clone(),
            clock.clone(),
        );
        let gate = Gate::new(move || life.serves_readers());
        let rest = heureka_compat_http::gated(self.core.clone(), clock.clone(), config, gate);
        (rest, Eureka::start(&self.config.eureka, abroad, &deps))
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
