//! Servers of Netflix's kind beside this one: peers to exchange instances with, one to shadow, other regions to read.
//!
//! What is said and how answers are taken is decided in `heureka_compat_http::peer`; here are the connections, one task
//! per server.

mod health;
mod http;
mod peer;
mod region;
mod shadow;
mod socket;
mod watched;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::response::IntoResponse;
use axum::routing::get;
use heureka_compat_http::peer::{Mirror, Outbox};
use heureka_compat_http::{PeerAddresses, Regions};
use heureka_model::{Clock, Mono, Wall};
use heureka_proto::convert::timestamp;
use heureka_registry::{Registry, Seeds};
use serde_json::json;
use tokio::sync::watch;

use crate::config::{EurekaConfig, EurekaUrl, RegionSource};
use crate::drain::Ending;
use crate::life::{Known, Neighbours, Seen};
use crate::tls::Connector;

pub use self::health::EurekaPeer;
use self::health::Health;
use self::http::Client;
use self::peer::Peer;
use self::region::{Region, Source, Way};
use self::shadow::Shadow;
use self::watched::Watched;

/// Time between two look-ups of the peers' names.
const RESOLVE: Duration = Duration::from_secs(30);

/// Copies of other regions before they are followed.
pub(crate) struct Abroad {
    regions: BTreeMap<String, Region>,
    servers: Vec<Health>,
}

/// All servers of Netflix's kind that this one knows.
#[derive(Clone)]
pub struct Eureka {
    peers: Arc<[Health]>,
    clock: Arc<dyn Clock>,
    copied: Copied,
}

/// Whether the list of one of these servers was taken in.
#[derive(Clone)]
pub(crate) struct Copied {
    sender: Arc<watch::Sender<bool>>,
    /// There is one to take a list from.
    configured: bool,
    /// All of them, once they are talked to.
    servers: Arc<OnceLock<Arc<[Health]>>>,
}

/// What the tasks work with.
pub(crate) struct Deps {
    pub(crate) core: Arc<Registry>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ending: Ending,
    /// Where the addresses of the peers go, so that their batches are taken.
    pub(crate) trusted: PeerAddresses,
    pub(crate) copied: Copied,
    /// Whom to believe over TLS.
    pub(crate) tls: Connector,
}

impl Copied {
    pub(crate) fn new(config: &EurekaConfig) -> Self {
        let configured = !config.peers.is_empty() || !config.shadow.is_empty();
        Self { sender: Arc::new(watch::Sender::new(!configured)), configured, servers: Arc::default() }
    }

    /// A list was taken in.
    pub(crate) fn done(&self) {
        self.sender.send_replace(true);
    }

    /// Every peer for operators, these among them.
    pub(crate) fn among(&self, known: Known) -> Known {
        let servers = self.servers.clone();
        Arc::new(move |now| {
            let mut all = known(now);
            let beside = servers.get().into_iter().flat_map(|servers| servers.iter());
            all.extend(beside.map(|health| told(health.seen(now))));
            all
        })
    }

    /// What is to be seen of the peers, these among them: where no server of the cluster is ready, one of these that
    /// told its list is as good.
    pub(crate) fn beside(&self, neighbours: Neighbours) -> Neighbours {
        let copied = self.clone();
        Arc::new(move || {
            let seen = neighbours();
            if !copied.configured || seen.ready {
                return seen;
            }
            let told = *copied.sender.borrow();
            Seen { configured: true, reachable: seen.reachable || told, ready: told, synced: told }
        })
    }
}

impl Abroad {
    /// A copy of each region that is configured, still empty.
    pub(crate) fn new(config: &EurekaConfig, tls: &Connector, seeds: Seeds, clock: &Arc<dyn Clock>) -> Self {
        let mut sources: BTreeMap<&str, Vec<Source>> = BTreeMap::new();
        for region in &config.regions {
            let way = match &region.source {
                RegionSource::Watch(url) => {
                    Way::Watch(Watched::new(url.clone(), tls.clone(), config.connect_timeout))
                }
                RegionSource::Lists(url) => Way::Lists(Client::new(url.clone(), tls, config)),
            };
            let health = Health::new(region.source.to_string());
            sources.entry(&region.name).or_default().push(Source { way, health });
        }
        let servers = sources.values().flatten().map(|source| source.health.clone()).collect();
        let regions = sources.into_iter().map(|(name, sources)| {
            (name.to_owned(), Region::new(sources, seeds, clock.clone(), config.check_interval))
        });
        Self { regions: regions.collect(), servers }
    }

    /// The copies, for readers.
    pub(crate) fn readers(&self) -> Regions {
        region::readers(&self.regions)
    }
}

impl Eureka {
    /// Starts to talk to every server that is configured.
    pub(crate) fn start(config: &EurekaConfig, abroad: Abroad, deps: &Deps) -> Self {
        let clients = |url: &EurekaUrl| Client::new(url.clone(), &deps.tls, config);
        let mut peers = Vec::new();
        peers.extend(abroad.servers);
        for region in abroad.regions.into_values() {
            tokio::spawn(region.run(deps.ending.clone()));
        }
        for url in &config.peers {
            let health = Health::new(url.to_string());
            peers.push(health.clone());
            let peer = Peer {
                core: deps.core.clone(),
                clock: deps.clock.clone(),
                client: clients(url),
                health,
                copied: deps.copied.clone(),
                check_interval: config.check_interval,
                outbox: Outbox::default(),
                next_check: Mono(0),
                next_whole: Mono(0),
            };
            deps.ending.track(peer.run(deps.ending.clone()));
        }
        for url in &config.shadow {
            let health = Health::new(url.to_string());
            peers.push(health.clone());
            let shadow = Shadow {
                core: deps.core.clone(),
                clock: deps.clock.clone(),
                client: clients(url),
                health,
                copied: deps.copied.clone(),
                interval: config.check_interval,
                mirror: Mirror::default(),
                deltas_left: 0,
            };
            tokio::spawn(shadow.run(deps.ending.clone()));
        }
        if !config.peers.is_empty() {
            tokio::spawn(resolve(config.peers.clone(), deps.trusted.clone(), deps.ending.clone()));
        }
        let peers: Arc<[Health]> = peers.into();
        // A server starts once.
        let _ = deps.copied.servers.set(peers.clone());
        Self { peers, clock: deps.clock.clone(), copied: deps.copied.clone() }
    }

    /// Every such server as it is seen now.
    #[must_use]
    pub fn peers(&self) -> Vec<EurekaPeer> {
        let now = self.clock.now();
        self.peers.iter().map(|health| health.seen(now)).collect()
    }

    /// Whether the list of one of these servers was taken in, or there is none.
    #[must_use]
    pub fn is_copied(&self) -> bool {
        *self.copied.sender.borrow()
    }
}

/// As the native contract tells a peer.
fn told(peer: EurekaPeer) -> heureka_proto::admin::v1::Peer {
    let (failed, reason) = peer.last_error.unzip();
    heureka_proto::admin::v1::Peer {
        uri: peer.address,
        connected: peer.available,
        ready: peer.copied,
        backlog: peer.backlog,
        last_success_time: peer.last_success.map(timestamp),
        last_error_time: failed.map(timestamp),
        last_error: reason.unwrap_or_default(),
        ..heureka_proto::admin::v1::Peer::default()
    }
}

/// The page that shows these servers: `/health/eureka`.
pub(crate) fn router(eureka: Eureka) -> Router {
    Router::new().route("/health/eureka", get(async move || page(&eureka)))
}

fn page(eureka: &Eureka) -> impl IntoResponse + use<> {
    let millis = |at: Wall| at.0;
    let peers: Vec<_> = eureka
        .peers()
        .into_iter()
        .map(|peer| {
            let (failed, reason) =
                peer.last_error.map_or((None, None), |(at, reason)| (Some(at.0), Some(reason)));
            json!({
                "address": peer.address,
                "available": peer.available,
                "copied": peer.copied,
                "last_success_ms": peer.last_success.map(millis),
                "last_error_ms": failed,
                "last_error": reason,
                "backlog": peer.backlog,
                "requests": peer.requests,
                "batches": peer.sent.batches,
                "items": peer.sent.items,
                "conflicts": peer.sent.conflicts,
                "dropped": peer.sent.dropped,
                "shadow": peer.shadow,
            })
        })
        .collect();
    let headers =
        [(::http::header::CONTENT_TYPE, "application/json"), (::http::header::CACHE_CONTROL, "no-store")];
    (headers, json!({ "copied": eureka.is_copied(), "peers": peers }).to_string())
}

/// Keeps the addresses of the peers. A name that is not found leaves what was found before.
async fn resolve(peers: Vec<EurekaUrl>, trusted: PeerAddresses, ending: Ending) {
    let mut known: Vec<Vec<IpAddr>> = vec![Vec::new(); peers.len()];
    loop {
        for (url, addresses) in peers.iter().zip(&mut known) {
            match tokio::net::lookup_host((url.host.as_str(), url.port)).await {
                Ok(found) => *addresses = found.map(|address| address.ip()).collect(),
                Err(error) => tracing::debug!(host = url.host, %error, "a peer's name is not found"),
            }
        }
        trusted.set(known.iter().flatten().copied());
        tokio::select! {
            () = ending.asked() => return,
            () = tokio::time::sleep(RESOLVE) => {}
        }
    }
}
