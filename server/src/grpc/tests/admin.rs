//! What operators ask, and what they leave behind.

use std::io::{self, Write};
use std::net::IpAddr;

use heureka_proto::admin::v1 as operation;
use heureka_proto::admin::v1::admin_service_client::AdminServiceClient;
use operation::SelfPreservationMode as Mode;
use parking_lot::Mutex;
use tower::util::MapRequest;
use tower::{Layer as _, util::MapRequestLayer};

use super::*;
use crate::config::LogConfig;
use crate::grpc::Connection;
use crate::telemetry::{self, LineBudget};

const HOUR: Option<prost_types::Duration> = Some(prost_types::Duration { seconds: 3600, nanos: 0 });

type Arrive = fn(http::Request<tonic::body::Body>) -> http::Request<tonic::body::Body>;
type Caller = AdminServiceClient<MapRequest<axum::Router, Arrive>>;

/// A caller whose requests come from this machine.
pub(super) fn operator(server: &Server) -> Caller {
    let arrive: Arrive = |mut request| {
        let loopback: IpAddr = [127, 0, 0, 1].into();
        request.extensions_mut().insert(Connection::new(loopback, CancellationToken::new(), 10));
        request
    };
    AdminServiceClient::new(MapRequestLayer::new(arrive).layer(server.grpc.router.clone()))
}

fn eviction(reason: &str) -> operation::EvictInstanceRequest {
    operation::EvictInstanceRequest { key: Some(key("WEB", "a")), reason: reason.into() }
}

fn preservation(
    mode: Mode,
    ttl: Option<prost_types::Duration>,
    reason: &str,
) -> operation::SetSelfPreservationRequest {
    operation::SetSelfPreservationRequest { mode: mode.into(), ttl, reason: reason.into() }
}

#[tokio::test(start_paused = true)]
async fn nobody_but_this_machine_operates_the_server() {
    let server = Server::start().await;
    server.register(instance("WEB", "a")).await;
    let mut stranger = AdminServiceClient::new(server.grpc.router.clone());
    let refused = Code::PermissionDenied;
    assert_refused(stranger.evict_instance(eviction("x")).await, refused, "LOOPBACK_ONLY", "");
    let status = operation::GetServerStatusRequest {};
    assert_refused(stranger.get_server_status(status).await, refused, "LOOPBACK_ONLY", "");
    assert!(operator(&server).evict_instance(eviction("x")).await.unwrap().get_ref().existed);
}

#[tokio::test(start_paused = true)]
async fn the_status_tells_life_leases_and_the_way_in_force() {
    let server = Server::start().await;
    server.register(instance("WEB", "a")).await;
    server.pass(1).await;
    let ask = async || {
        let status = operator(&server).get_server_status(operation::GetServerStatusRequest {}).await;
        status.unwrap().into_inner()
    };
    let status = ask().await;
    assert_eq!((status.state(), status.self_preservation()), (operation::ServerState::Ready, Mode::Budget));
    assert_eq!(status.digest.as_ref().unwrap().instance_count, 1);
    assert_eq!((status.renewal_threshold, status.watchers, status.expiry_enabled), (1, 0, true));
    assert_eq!(status.start_time.unwrap().seconds, 1_764_000_000);
    assert!(status.store.is_none() && status.self_preservation_end_time.is_none());

    operator(&server).set_self_preservation(preservation(Mode::Freeze, HOUR, "upgrade")).await.unwrap();
    let status = ask().await;
    assert_eq!((status.self_preservation(), status.expiry_enabled), (Mode::Freeze, false));
    assert_eq!(status.self_preservation_end_time.unwrap().seconds, 1_764_003_601);
    assert_eq!(status.self_preservation_reason, "upgrade");
    tokio::time::advance(Duration::from_hours(1)).await;
    assert_eq!(ask().await.self_preservation(), Mode::Budget);
}

#[tokio::test(start_paused = true)]
async fn an_operators_way_of_preservation_needs_a_reason_and_an_end() {
    let server = Server::start().await;
    let set = async |asked| operator(&server).set_self_preservation(asked).await;
    let day_and_more = Some(seconds(86_401));
    let table = [
        (preservation(Mode::Off, None, "x"), "ttl"),
        (preservation(Mode::Off, Some(seconds(0)), "x"), "ttl"),
        (preservation(Mode::Off, day_and_more, "x"), "ttl"),
        (preservation(Mode::Off, HOUR, " "), "reason"),
        (preservation(Mode::Off, HOUR, &"x".repeat(1025)), "reason"),
        (operation::SetSelfPreservationRequest { mode: 9, ttl: HOUR, reason: "x".into() }, "mode"),
    ];
    for (asked, field) in table {
        assert_refused(set(asked).await, Code::InvalidArgument, "INVALID_REQUEST", field);
    }
    assert_eq!(server.office.preserving.in_force(server.clock.now().mono), None);
    set(preservation(Mode::Off, HOUR, "x")).await.unwrap();
    assert!(server.office.preserving.in_force(server.clock.now().mono).is_some());
    set(preservation(Mode::Unspecified, None, "x")).await.unwrap();
    assert_eq!(server.office.preserving.in_force(server.clock.now().mono), None);
}

#[tokio::test(start_paused = true)]
async fn an_evicted_instance_is_gone_and_its_owner_may_come_back() {
    let server = Server::start().await;
    server.register(instance("WEB", "a")).await;
    assert!(operator(&server).evict_instance(eviction("stuck")).await.unwrap().get_ref().existed);
    let renewal = v1::RenewRequest { key: Some(key("WEB", "a")), ..Default::default() };
    assert_refused(server.writer().renew(renewal).await, Code::NotFound, "LEASE_NOT_FOUND", "");
    assert!(!operator(&server).evict_instance(eviction("again")).await.unwrap().get_ref().existed);
    assert!(server.register(instance("WEB", "a")).await.created);

    let nameless = operation::EvictInstanceRequest { key: None, reason: "x".into() };
    let refused = operator(&server).evict_instance(nameless).await;
    assert_refused(refused, Code::InvalidArgument, "INVALID_REQUEST", "key");
    let refused = operator(&server).evict_instance(eviction("")).await;
    assert_refused(refused, Code::InvalidArgument, "INVALID_REQUEST", "reason");
    assert!(server.cancel("WEB", "a").await.existed);
}

#[tokio::test(start_paused = true)]
async fn watchers_are_listed_in_pages_with_what_they_hold() {
    let server = Server::start().await;
    server.register(instance("WEB", "a")).await;
    let mut streams = Vec::new();
    for name in ["one", "two", "three"] {
        let request = v1::WatchRequest { client_name: name.into(), ..Default::default() };
        let mut stream = server.reader().watch(request).await.unwrap().into_inner();
        // Begin, the instance, end.
        for _ in 0..3 {
            stream.message().await.unwrap().unwrap();
        }
        streams.push(stream);
    }
    let list = async |page_size, page_token: String| {
        let request = operation::ListWatchersRequest { page_size, page_token };
        operator(&server).list_watchers(request).await
    };
    let first = list(2, String::new()).await.unwrap().into_inner();
    let names = |page: &operation::ListWatchersResponse| -> Vec<String> {
        page.watchers.iter().map(|watcher| watcher.client_name.clone()).collect()
    };
    assert_eq!(names(&first), ["one", "two"]);
    let watcher = &first.watchers[0];
    assert_eq!((watcher.instances, watcher.pending, &*watcher.kind), (1, 0, "watch"));
    assert_eq!(watcher.start_time.unwrap().seconds, 1_764_000_000);
    server.register(instance("WEB", "b")).await;
    let second = list(2, first.next_page_token).await.unwrap().into_inner();
    assert_eq!((names(&second), second.watchers[0].pending), (vec!["three".into()], 1));
    assert_eq!(second.next_page_token, "");
    drop(streams);
    assert!(list(0, String::new()).await.unwrap().get_ref().watchers.is_empty());
    assert_refused(list(-1, String::new()).await, Code::InvalidArgument, "INVALID_REQUEST", "page_size");
    let forged = list(1, "x".into()).await;
    assert_refused(forged, Code::InvalidArgument, "INVALID_PAGE_TOKEN", "page_token");
}

#[tokio::test(start_paused = true)]
async fn an_operator_makes_the_server_leave() {
    let server = Server::start().await;
    let drain = async |grace, reason: &str| {
        operator(&server).drain_server(operation::DrainServerRequest { grace, reason: reason.into() }).await
    };
    assert_refused(drain(HOUR, "").await, Code::InvalidArgument, "INVALID_REQUEST", "reason");
    let long = drain(Some(seconds(3601)), "x").await;
    assert_refused(long, Code::InvalidArgument, "INVALID_REQUEST", "grace");
    drain(Some(seconds(7)), "upgrade").await.unwrap();
    assert_eq!(server.office.request.asked().await, Some(Duration::from_secs(7)));
}

#[tokio::test(start_paused = true)]
async fn the_differences_to_a_peer_are_told_key_by_key() {
    let (asker, answer) = tokio::sync::oneshot::channel();
    let answer = Mutex::new(Some(answer));
    let peer = operation::Peer { node_id: "n2".into(), connected: true, ..Default::default() };
    let mut cluster = Cluster::alone();
    cluster.known = Arc::new(move |_| vec![peer.clone()]);
    cluster.differences = Arc::new(move |node| answer.lock().take().filter(|_| node == "n2"));
    let server = Server::among(cluster, Rules::default()).await;
    let diff = async |node: &str| {
        operator(&server).diff_peer(operation::DiffPeerRequest { node_id: node.into() }).await
    };
    let version = heureka_model::Version { owner: 7, ..Default::default() };
    let (local, remote) = (None, Some(version));
    let difference = heureka_registry::replication::Difference { key: key("WEB", "a").into(), local, remote };
    asker.send(vec![difference]).unwrap();
    let mut told = diff("n2").await.unwrap().into_inner();
    let first = told.message().await.unwrap().unwrap();
    assert_eq!((first.key, first.local), (Some(key("WEB", "a")), None));
    assert_eq!(first.remote, Some(version.into()));
    assert_eq!(told.message().await.unwrap(), None);
    assert_refused(diff("n2").await.map(drop), Code::Unavailable, "PEER_BUSY", "");
    assert_refused(diff("n3").await.map(drop), Code::NotFound, "PEER_NOT_FOUND", "");
    assert_refused(diff("").await.map(drop), Code::InvalidArgument, "INVALID_REQUEST", "node_id");
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn every_act_leaves_one_line_even_when_no_other_line_may_be_written() {
    let lines = Lines::default();
    let made = lines.clone();
    let subscriber = telemetry::subscriber(&LogConfig::default(), LineBudget::new(0), move || made.clone());
    let _guard = tracing::subscriber::set_default(subscriber);
    let server = Server::start().await;
    server.register(instance("WEB", "a")).await;
    // A place that another test reached first, without a log of its own, may still be shut.
    operator(&server).drain_server(operation::DrainServerRequest::default()).await.unwrap_err();
    tracing::callsite::rebuild_interest_cache();
    lines.0.lock().clear();
    operator(&server).evict_instance(eviction("stuck since noon")).await.unwrap();
    operator(&server).evict_instance(eviction("")).await.unwrap_err();
    operator(&server).set_self_preservation(preservation(Mode::Off, HOUR, "test")).await.unwrap();
    operator(&server).get_server_status(operation::GetServerStatusRequest {}).await.unwrap();
    let written = String::from_utf8(lines.0.lock().clone()).unwrap();
    let written: Vec<_> = written.lines().collect();
    let expected = [
        ["EvictInstance", "/WEB/a", "stuck since noon", "result=\"OK\""],
        ["EvictInstance", "/WEB/a", "reason=\"\"", "result=\"INVALID_REQUEST\""],
        ["SetSelfPreservation", "SELF_PRESERVATION_MODE_OFF", "test", "result=\"OK\""],
    ];
    assert_eq!(written.len(), expected.len(), "{written:#?}");
    for (line, parts) in written.iter().zip(expected) {
        assert!(parts.iter().all(|part| line.contains(part)), "{line} {parts:?}");
        assert!(line.contains("audit") && line.contains("127.0.0.1"), "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn changes_are_held_back_for_a_time_and_told_afterwards() {
    let server = Server::start().await;
    let mut client = watch::Client::default();
    let mut stream = watch::watch(&server, watch::following("web")).await;
    client.read(&mut stream).await;
    let pause = |seconds: i64| operation::SetPushRequest {
        paused: true,
        ttl: Some(super::seconds(seconds)),
        reason: "storm".into(),
    };
    operator(&server).set_push(pause(15)).await.unwrap();
    let status = operator(&server).get_server_status(operation::GetServerStatusRequest {}).await.unwrap();
    let status = status.into_inner();
    assert_eq!((status.push_pause_reason.as_str(), status.push_resume_time.is_some()), ("storm", true));
    server.register(instance("web", "n1")).await;
    server.register(instance("web", "n1")).await;
    assert_eq!(client.read(&mut stream).await, [], "a bookmark alone");
    let v1::watch_event::Event::Changes(batch) = watch::event(&mut stream).await else {
        panic!("the time is over")
    };
    assert_eq!(watch::brief(&batch.changes).len(), 1);
    operator(&server).set_push(pause(3600)).await.unwrap();
    server.register(instance("web", "n2")).await;
    let resume = operation::SetPushRequest { paused: false, ttl: None, reason: "over".into() };
    operator(&server).set_push(resume).await.unwrap();
    assert!(matches!(watch::event(&mut stream).await, v1::watch_event::Event::Changes(_)), "at once");
}

#[tokio::test(start_paused = true)]
async fn holding_changes_back_needs_a_time_and_a_reason() {
    let server = Server::start().await;
    let ask = |paused, ttl, reason: &str| operation::SetPushRequest { paused, ttl, reason: reason.into() };
    for (asked, field) in [
        (ask(true, HOUR, " "), "reason"),
        (ask(true, None, "x"), "ttl"),
        (ask(true, Some(seconds(0)), "x"), "ttl"),
        (ask(true, Some(seconds(86_401)), "x"), "ttl"),
        (ask(false, HOUR, "x"), "ttl"),
    ] {
        let refused = operator(&server).set_push(asked).await;
        assert_refused(refused, Code::InvalidArgument, "INVALID_REQUEST", field);
    }
}
