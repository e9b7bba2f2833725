//! The end of a server that is in use.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by them")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use heureka_proto::v1::discovery_service_client::DiscoveryServiceClient;
use heureka_proto::v1::{WatchRequest, watch_event};
use heureka_server::drain::Drained;
use http::StatusCode;
use http_body_util::BodyExt as _;
use support::*;
use tokio::sync::Semaphore;
use tonic::transport::Channel;

#[tokio::test]
async fn an_idle_server_ends_at_once_and_gives_the_port_back() {
    let (running, address) = start_plain().await;
    let _resting = h1(address).await;
    assert_eq!(running.drain().await, Drained::Clean);
    let mut config = config();
    config.server.listen = address;
    let (_next, _) = start(config, Router::new()).await;
    assert_eq!(fetch(address, "/health/live").await.0, 200);
}

#[tokio::test]
async fn readiness_and_grpc_health_are_off_before_anything_is_refused() {
    let mut config = config();
    config.drain.notice = Duration::from_hours(1);
    let (running, address) = start(config, Router::new()).await;
    assert_eq!(fetch(address, "/health/ready").await, (200, "ready\n".into()));
    let draining = tokio::spawn(async move { running.drain().await });
    while fetch(address, "/health/ready").await != (503, "draining\n".into()) {
        tokio::task::yield_now().await;
    }
    assert_eq!(fetch(address, "/health/live").await.0, 200);
    while serving(address).await {
        tokio::task::yield_now().await;
    }
    draining.abort();
}

/// What `grpc.health.v1` says about discovery. The messages are small enough to be written by hand.
async fn serving(address: std::net::SocketAddr) -> bool {
    let service = b"heureka.registry.v1.DiscoveryService";
    let mut message = vec![0, 0, 0, 0, service.len() as u8 + 2, 0x0a, service.len() as u8];
    message.extend_from_slice(service);
    let mut request = grpc(address, "/grpc.health.v1.Health/Check");
    *request.body_mut() = Body::from(message);
    let response = h2(address).await.send_request(request).await.unwrap();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    body.ends_with(&[0x08, 1])
}

#[tokio::test]
async fn a_request_in_flight_is_answered() {
    let (arrived, release) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (arrives, waits) = (arrived.clone(), release.clone());
    let held = async move || {
        arrives.add_permits(1);
        let _ = waits.acquire().await;
        "finished"
    };
    let (running, address) = start(config(), Router::new().route("/held", get(held))).await;
    let calls = [
        tokio::spawn(async move {
            text(h2(address).await.send_request(support::get(address, "/held")).await.unwrap()).await
        }),
        tokio::spawn(async move { fetch(address, "/held").await.1 }),
    ];
    let _both = arrived.acquire_many(2).await.unwrap();
    let draining = tokio::spawn(async move { running.drain().await });
    while tokio::net::TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    release.add_permits(2);
    for call in calls {
        assert_eq!(call.await.unwrap(), "finished");
    }
    assert_eq!(draining.await.unwrap(), Drained::Clean);
}

#[tokio::test]
async fn a_watch_is_told_to_go_with_its_token() {
    let (running, address) = start_plain().await;
    let channel = Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
    let mut client = DiscoveryServiceClient::new(channel);
    let mut watch = client.watch(WatchRequest::default()).await.unwrap().into_inner();
    watch.message().await.unwrap().unwrap();
    let draining = tokio::spawn(async move { running.drain().await });
    let mut token = None;
    while let Ok(Some(response)) = watch.message().await {
        if let Some(watch_event::Event::GoAway(goodbye)) = response.event.and_then(|event| event.event) {
            token = Some(goodbye.resume_token);
        }
    }
    assert!(token.is_some_and(|token| !token.is_empty()));
    assert_eq!(draining.await.unwrap(), Drained::Clean);
}

#[tokio::test]
async fn a_stream_that_does_not_listen_is_cut() {
    let endless = async || Body::new(Endless);
    let mut config = config();
    config.drain.grace = Duration::from_millis(50);
    let (running, address) = start(config, Router::new().route("/endless", get(endless))).await;
    let response = h2(address).await.send_request(support::get(address, "/endless")).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(running.drain().await, Drained::Cut);
    assert!(response.into_body().collect().await.is_err());
}

/// A body that never says anything.
struct Endless;

impl http_body::Body for Endless {
    type Data = bytes::Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Self::Data>, Self::Error>>> {
        std::task::Poll::Pending
    }
}
