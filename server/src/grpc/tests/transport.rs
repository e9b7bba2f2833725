//! The surface over real HTTP/2, through a pipe in memory.

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use v1::watch_event::Event;

use super::*;

/// Bytes that the pipe holds in each direction.
const PIPE: usize = 64 << 10;

async fn connect(server: &Server) -> Channel {
    let (near, far) = tokio::io::duplex(PIPE);
    let service = TowerToHyperService::new(server.grpc.router.clone());
    let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    tokio::spawn(connection.serve_connection(TokioIo::new(far), service));
    Endpoint::from_static("http://pipe").connect_with_connector(once(near)).await.unwrap()
}

fn once(
    near: tokio::io::DuplexStream,
) -> impl tower::Service<
    http::Uri,
    Response = TokioIo<tokio::io::DuplexStream>,
    Error = std::io::Error,
    Future: Send,
> + Send {
    let mut near = Some(near);
    tower::service_fn(move |_| {
        let pipe = near.take().map(TokioIo::new);
        async move { pipe.ok_or_else(|| std::io::Error::other("the pipe was used")) }
    })
}

async fn watch(channel: &Channel) -> tonic::Streaming<v1::WatchResponse> {
    let mut client = DiscoveryServiceClient::new(channel.clone());
    client.watch(v1::WatchRequest::default()).await.unwrap().into_inner()
}

async fn event(watch: &mut tonic::Streaming<v1::WatchResponse>) -> Event {
    watch.message().await.unwrap().unwrap().event.unwrap().event.unwrap()
}

/// Lets every task run until none has anything to do.
async fn settle() {
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_by_one_connection_reaches_the_watcher_on_another() {
    let server = Server::start().await;
    let mut watch = watch(&connect(&server).await).await;
    while !matches!(event(&mut watch).await, Event::SnapshotEnd(_)) {}
    let mut writer = RegistryServiceClient::new(connect(&server).await);
    let request = v1::RegisterRequest { instance: Some(instance("web", "n1")), ..Default::default() };
    let version = writer.register(request).await.unwrap().into_inner().version;
    let Event::Changes(batch) = event(&mut watch).await else { panic!("the change comes first") };
    assert_eq!(batch.changes[0].version, version);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_hangs_up_is_noticed_without_any_event() {
    let server = Server::start().await;
    let channel = connect(&server).await;
    let mut first = watch(&channel).await;
    let second = watch(&channel).await;
    while !matches!(event(&mut first).await, Event::SnapshotEnd(_)) {}
    assert_eq!(server.grpc.watches.open(), 2);
    drop(first);
    settle().await;
    assert_eq!(server.grpc.watches.open(), 1);
    drop((second, channel));
    settle().await;
    assert_eq!(server.grpc.watches.open(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_leaving_server_waits_for_no_health_and_no_reflection_stream() {
    let server = Server::start().await;
    let (near, far) = tokio::io::duplex(PIPE);
    let service = TowerToHyperService::new(server.grpc.router.clone());
    let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    let mut connection = Box::pin(builder.serve_connection(TokioIo::new(far), service));
    let drain = server.drain.clone();
    let served = tokio::spawn(async move {
        tokio::select! {
            ended = &mut connection => return ended,
            () = drain.cancelled() => connection.as_mut().graceful_shutdown(),
        }
        connection.await
    });
    let channel = Endpoint::from_static("http://pipe").connect_with_connector(once(near)).await.unwrap();

    let mut health = HealthClient::new(channel.clone());
    let request = HealthCheckRequest { service: String::new() };
    let mut health = health.watch(request).await.unwrap().into_inner();
    assert!(health.message().await.unwrap().is_some());
    let mut reflection = ServerReflectionClient::new(channel);
    let silent = futures_util::stream::pending::<ServerReflectionRequest>();
    let mut reflection = reflection.server_reflection_info(silent).await.unwrap().into_inner();

    server.drain.cancel();
    assert_draining(&health.message().await.unwrap_err());
    assert_draining(&reflection.message().await.unwrap_err());
    served.await.unwrap().unwrap();
}

#[track_caller]
fn assert_draining(status: &Status) {
    assert_eq!(refusal(status), (Code::Unavailable, "DRAINING".into(), String::new()));
}

#[tokio::test(start_paused = true)]
async fn a_shut_window_stops_the_reading_of_the_log_and_not_the_writers() {
    let server = Server::start().await;
    let mut watch = watch(&connect(&server).await).await;
    while !matches!(event(&mut watch).await, Event::SnapshotEnd(_)) {}
    settle().await;
    let told = || server.grpc.watches.figures().changes.load(std::sync::atomic::Ordering::Relaxed);
    let rounds = 400;
    for round in 0..rounds {
        let metadata = [("k".to_owned(), "v".repeat(50 << 10))].into();
        let host_name = round.to_string();
        server.register(v1::Instance { host_name, metadata, ..instance("web", "n1") }).await;
        settle().await;
    }
    let read = told();
    assert!(read < rounds, "{read} of {rounds} changes were read for a client that reads nothing");
    let last = loop {
        if let Event::Changes(mut batch) = event(&mut watch).await {
            let instance = batch.changes.pop().unwrap().instance.unwrap();
            if instance.host_name == (rounds - 1).to_string() {
                break instance;
            }
        }
    };
    assert_eq!(last.key, Some(key("WEB", "n1")));
}
