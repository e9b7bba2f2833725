//! The Eureka REST surface over the same registry that the native contract serves.
//!
//! | verb and path, below `/eureka` and `/`, with `/v1` or `/v2` behind them or without | meaning |
//! |---|---|
//! | `GET apps` | everything |
//! | `GET apps/delta` | what changed within the last minutes |
//! | `GET apps/{app}` | one application |
//! | `POST apps/{app}` | register |
//! | `GET apps/{app}/{id}` | one instance |
//! | `PUT apps/{app}/{id}` | heartbeat |
//! | `DELETE apps/{app}/{id}` | cancel |
//! | `PUT apps/{app}/{id}/status?value=` | set the operator's status |
//! | `DELETE apps/{app}/{id}/status` | end it |
//! | `PUT apps/{app}/{id}/metadata?key=value` | change metadata |
//! | `GET instances/{id}` | an instance by its id alone |
//! | `GET vips/{vip}`, `GET svips/{vip}` | the instances behind a virtual address |
//! | `POST peerreplication/batch` | what another server was told |
//! | `GET status` | the server itself |
//! | `GET serverinfo/statusoverrides` | the operator's statuses of all instances |
//! | `PUT asg/{name}/status?value=` | refused: scaling groups are known on Amazon only |
//!
//! What differs from the original, and why, is in `docs/eureka-compat.md`. This crate opens no socket, reads no
//! clock and checks no credentials; whoever serves the router does.

mod about;
mod body;
mod budget;
mod cache;
mod config;
mod error;
mod intake;
mod negotiate;
pub mod peer;
mod routes;
mod tag;
mod telemetry;
mod wire;

use std::sync::Arc;

use axum::Router;
use heureka_model::{Clock, Registration};
use heureka_registry::Registry;

pub use about::{About, Replica, ServerStatus};
pub use config::{Config, Gate, PeerAddresses, Regions, RemoteAddr, SyncingStatus};
pub use routes::FORWARDING;

/// The Eureka surface as the fallback of a router: it answers every path, with an empty 404 where nothing is
/// served. A metrics recorder is to be installed before.
pub fn router(registry: Arc<Registry>, clock: Arc<dyn Clock>, config: Config) -> Router {
    gated(registry, clock, config, Gate::default())
}

/// An instance in JSON as every Eureka client reads it, without a wrapper.
///
/// # Panics
/// Never: JSON is UTF-8.
#[must_use]
pub fn instance_json(registration: &Registration) -> String {
    let mut out = Vec::new();
    wire::json::bare_instance(&mut out, registration);
    String::from_utf8(out).expect("invariant: JSON is UTF-8")
}

/// The same for a server that may know too little for readers: while the gate is shut, each of them is refused and
/// writers are served.
pub fn gated(registry: Arc<Registry>, clock: Arc<dyn Clock>, config: Config, gate: Gate) -> Router {
    let app = routes::App::new(registry, clock, config, gate);
    Router::new().fallback(routes::serve).with_state(Arc::new(app))
}
