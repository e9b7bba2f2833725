//! The limit: the same libraries with handlers that decode a request and answer, and nothing else. No limits, no
//! timeouts, no registry. What it answers to a read it is given beforehand; what it tells watchers is encoded once
//! for all of them.

mod native;
mod reads;
mod rest;

use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::routing::{get, post, put};
use bytes::Bytes;
use heureka_proto::v1::registry_service_server::RegistryServiceServer;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::broadcast;
use tonic::service::Routes;

use native::Native;
use reads::Answer;

/// Path under which the limit is given the answer to every read.
pub(crate) const ANSWER: &str = "/answer";

/// Events that wait for the slowest watcher; the driver publishes one at a time.
const WAITING: usize = 64;

/// What the handlers share.
#[derive(Clone)]
struct Shared {
    answer: Arc<OnceLock<Answer>>,
    /// Messages to every watcher, as they stand in its stream.
    events: broadcast::Sender<Bytes>,
}

/// Answers on this listener until the process ends.
pub(super) async fn serve(listener: TcpListener) {
    let shared = Shared { answer: Arc::default(), events: broadcast::Sender::new(WAITING) };
    let native = Routes::new(RegistryServiceServer::new(Native::new(shared.events.clone())));
    let routes = native.into_axum_router().merge(others(shared));
    while let Ok((socket, _)) = listener.accept().await {
        let service = TowerToHyperService::new(routes.clone());
        if socket.set_nodelay(true).is_ok() {
            tokio::spawn(async move {
                let builder = auto::Builder::new(TokioExecutor::new());
                // A driver that leaves is no fault.
                let _ = builder.serve_connection(TokioIo::new(socket), service).await;
            });
        }
    }
}

fn others(shared: Shared) -> Router {
    Router::new()
        .route("/eureka/apps", get(reads::all))
        .route("/eureka/apps/delta", get(reads::all))
        .route("/eureka/apps/{app}", post(rest::register).get(reads::app))
        .route("/eureka/apps/{app}/{id}", put(rest::renew))
        .route("/heureka.registry.v1.DiscoveryService/ListInstances", post(reads::list))
        .route("/heureka.registry.v1.DiscoveryService/Watch", post(reads::watch))
        .route("/heureka.registry.v1.DiscoveryService/WatchMany", post(reads::watch_many))
        .route(ANSWER, put(reads::learn).layer(axum::extract::DefaultBodyLimit::disable()))
        .with_state(shared)
}
