//! The REST edge before the core: who is believed to pass on what another server was told. Nothing of that is told to
//! other servers of the original's kind, so a stranger who is believed keeps a write from them.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use heureka_compat_http::peer::Outbox;
use heureka_compat_http::{Config, RemoteAddr, router};
use heureka_model::{Clock, Mono, Now, Wall};
use heureka_registry::{Registry, Seeds};
use http::{Request, Response, StatusCode};
use tower::ServiceExt;

use crate::WALL;
use crate::monitors::Violation;

const PEER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)), 1);
const OTHER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2)), 1);

const INSTANCE: &str = r#"{"instance":{"instanceId":"i","app":"S3","hostName":"h","ipAddr":"10.1.0.1","status":"UP",
    "dataCenterInfo":{"@class":"com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo","name":"MyOwn"}}}"#;

/// A clock that stands.
struct Still;

impl Clock for Still {
    fn now(&self) -> Now {
        Now { mono: Mono(0), wall: Wall(WALL) }
    }
}

/// S3: what a stranger calls passed on is the owner's own word, and told to other servers. Says who is believed
/// against that, if anybody is.
#[must_use]
pub fn edge() -> Option<Violation> {
    let strangers = [("a stranger", OTHER, false), ("somebody behind a peer's proxy", PEER, true)];
    let kept = strangers.into_iter().find(|(_, from, forwarded)| told(*from, *forwarded) != Some(1));
    kept.map(|(who, ..)| {
        let text = format!("a write of {who} who claims to be a peer is told to nobody else");
        Violation { invariant: "S3", at: 0, node: 0, key: 0, text }
    })
}

/// How many writes another server of the original's kind is told after one that claims to be passed on; nothing when
/// that was refused.
fn told(from: SocketAddr, forwarded: bool) -> Option<usize> {
    let seeds = Seeds { boot: 1, hash: 2, shuffle: 3 };
    let registry = Arc::new(Registry::new(heureka_registry::Config::default(), seeds, Still.now()));
    let config = Config { trusted_peers: vec![PEER.ip()], ..Config::default() };
    let answer = answer(router(Arc::clone(&registry), Arc::new(Still), config), claim(from, forwarded)?)?;
    let later = Now { mono: Mono(10_000), ..Still.now() };
    let batch = Outbox::default().next(&registry, later);
    (answer.status() == StatusCode::NO_CONTENT).then(|| batch.map_or(0, |batch| batch.items))
}

fn claim(from: SocketAddr, forwarded: bool) -> Option<Request<Body>> {
    let mut request = Request::post("/eureka/apps/S3")
        .header("content-type", "application/json")
        .header("x-netflix-discovery-replication", "true");
    if forwarded {
        request = request.header("x-forwarded-for", OTHER.ip().to_string());
    }
    request.extension(RemoteAddr(from)).body(Body::from(INSTANCE)).ok()
}

fn answer(router: axum::Router, request: Request<Body>) -> Option<Response<Body>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().ok()?;
    runtime.block_on(router.oneshot(request)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stranger_is_not_believed_and_a_peer_is() {
        assert!(edge().is_none());
        assert_eq!(told(PEER, false), Some(0));
    }
}
