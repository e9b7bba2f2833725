//! Servers of Netflix's kind beside this one: peers to exchange instances with, or one to shadow.
//!
//! What is said and how answers are taken is decided in `heureka_compat_http::peer`; here are the connections, one task
//! per server.

mod health;
mod http;
mod peer;
mod shadow;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::response::IntoResponse;
use axum::routing::get;
use heureka_compat_http::PeerAddresses;
use heureka_compat_http::peer::{Mirror, Outbox};
use heureka_model::{Clock, Mono, Wall};
use heureka_registry::Registry;
use serde_json::json;
use tokio::sync::watch;

use crate::config::{EurekaConfig, EurekaUrl};
use crate::drain::Ending;

pub use self::health::EurekaPeer;
use self::health::Health;
use self::http::Client;
use self::peer::Peer;
use self::shadow::Shadow;

/// Time between two look-ups of the peers' names.
const RESOLVE: Duration = Duration::from_secs(30);

/// All servers of Netflix's kind that this one knows.
#[derive(Clone)]
pub struct Eureka {
    peers: Arc<[Health]>,
    clock: Arc<dyn Clock>,
    copied: watch::Receiver<bool>,
}

/// What the tasks work with.
pub(crate) struct Deps {
    pub(crate) core: Arc<Registry>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ending: Ending,
    /// Where the addresses of the peers go, so that their batches are taken.
    pub(crate) trusted: PeerAddresses,
}

impl Eureka {
    /// Starts to talk to every server that is configured.
    pub(crate) fn start(config: &EurekaConfig, deps: &Deps) -> Self {
        let alone = config.peers.is_empty() && config.shadow.is_empty();
        let (sender, copied) = watch::channel(alone);
        let sender = Arc::new(sender);
        let clients = |url: &EurekaUrl| Client::new(url.clone(), config.connect_timeout, config.read_timeout);
        let mut peers = Vec::new();
        for url in &config.peers {
            let health = Health::new(url.to_string());
            peers.push(health.clone());
            let peer = Peer {
                core: deps.core.clone(),
                clock: deps.clock.clone(),
                client: clients(url),
                health,
                copied: sender.clone(),
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
                copied: sender.clone(),
                interval: config.check_interval,
                mirror: Mirror::default(),
                deltas_left: 0,
            };
            tokio::spawn(shadow.run(deps.ending.clone()));
        }
        if !alone {
            tokio::spawn(give_up_waiting(sender, config.start_wait));
            tokio::spawn(resolve(config.peers.clone(), deps.trusted.clone(), deps.ending.clone()));
        }
        Self { peers: peers.into(), clock: deps.clock.clone(), copied }
    }

    /// Every such server as it is seen now.
    #[must_use]
    pub fn peers(&self) -> Vec<EurekaPeer> {
        let now = self.clock.now();
        self.peers.iter().map(|health| health.seen(now)).collect()
    }

    /// Whether readers may be served as far as these servers go: there are none, the list of one was taken in, or the
    /// wait for it is over.
    #[must_use]
    pub fn is_copied(&self) -> bool {
        *self.copied.borrow()
    }

    /// Waits for [`Self::is_copied`].
    pub async fn copied(&self) {
        // Whoever could say so is gone only with the whole server.
        let _ = self.copied.clone().wait_for(|copied| *copied).await;
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

/// Serving what is here is better than serving nobody for ever.
async fn give_up_waiting(copied: Arc<watch::Sender<bool>>, wait: Duration) {
    tokio::time::sleep(wait).await;
    if !copied.send_replace(true) {
        tracing::warn!("no Eureka server told its list in time, serving readers without one");
    }
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
