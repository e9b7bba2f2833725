//! Servers of Netflix's kind beside this one. Another server of ours plays the peer: it speaks the same protocol; the
//! genuine ones are in `testing/conformance`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by them")]

mod support;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request as Call;
use heureka_model::{Clock as _, Instance, InstanceKey, KeyRef, Now, Status};
use heureka_proto::admin::v1::ListPeersRequest;
use heureka_proto::admin::v1::admin_service_client::AdminServiceClient;
use heureka_registry::{Claim, Origin, RegisterMode, Seeds, SetOverride, Surface};
use heureka_server::clock::SystemClock;
use heureka_server::config::{Config, EurekaUrl, RegionUrl};
use heureka_server::telemetry::LineBudget;
use heureka_server::{Running, Server, World, listen};
use http::{Method, Request, StatusCode};
use parking_lot::Mutex;
use serde_json::Value;
use support::{config, fetch, h1, text};

const APP: &str = "E";
const EAST: &str = "/eureka/apps?regions=east";

async fn start(config: Config, boot: u64) -> (Running, SocketAddr) {
    let seeds = Seeds { boot, hash: 2, shuffle: 3 };
    let world = World { clock: Arc::new(SystemClock::new()), seeds, lines: LineBudget::new(100) };
    let listener = listen::bind(config.server.listen).unwrap();
    let running = Server::new(config, world).start(vec![listener]).await.unwrap();
    let address = running.addresses()[0];
    (running, address)
}

fn beside(peers: &[String]) -> Config {
    let mut config = config();
    config.peer.trusted = vec!["127.0.0.1".parse().unwrap()];
    config.eureka.peers = peers.iter().map(|url| EurekaUrl::read(url).unwrap()).collect();
    config.eureka.check_interval = Duration::from_millis(100);
    config
}

fn url(address: SocketAddr) -> String {
    format!("http://{address}/eureka/")
}

fn client() -> Origin {
    Origin::Client { surface: Surface::Rest, principal: None, address: None }
}

fn register(server: &Running, id: &str) {
    let mut instance =
        Instance::new(InstanceKey { app: APP.into(), id: id.into(), ..InstanceKey::default() });
    (instance.host_name, instance.ip_address) = ("h".into(), "10.0.0.1".into());
    instance.data_center.name = "MyOwn".into();
    instance.last_dirty = Some(now().wall);
    server.core().register(&instance, Claim::Stamp, RegisterMode::Upsert, &client(), now()).unwrap();
}

/// The servers' own clocks run from their start; what a test writes is of the beginning.
fn now() -> Now {
    SystemClock::new().now()
}

fn status(server: &Running, id: &str) -> Option<Status> {
    let key = KeyRef { namespace: "", app: APP, id };
    server.core().get(key, now()).map(|found| found.status())
}

/// Waits for a state; the test's own limit is far beyond what it takes.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..1500 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("not in time: {what}");
}

/// Waits until the page holds.
async fn shows(what: &str, address: SocketAddr, path: &str, holds: impl Fn(&str) -> bool) {
    for _ in 0..1500 {
        if holds(&fetch(address, path).await.1) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("not in time: {what}");
}

async fn page(address: SocketAddr) -> Value {
    serde_json::from_str(&fetch(address, "/health/eureka").await.1).unwrap()
}

#[tokio::test]
async fn writes_at_either_server_are_told_to_the_other_and_none_comes_back() {
    let (other, other_address) = start(beside(&[]), 1).await;
    register(&other, "before");
    let mut config = beside(&[url(other_address)]);
    // No look at its delta, which may repeat what is under way.
    config.eureka.check_interval = Duration::from_secs(60);
    let (ours, address) = start(config, 2).await;
    until("it serves readers", || ours.life().serves_readers()).await;
    assert_eq!(status(&ours, "before"), Some(Status::Up));
    register(&ours, "one");
    until("the registration", || status(&other, "one") == Some(Status::Up)).await;
    let key = KeyRef { namespace: "", app: APP, id: "one" };
    let set = SetOverride { status: Status::OutOfService, ttl: None, drain: None };
    ours.core().set_override(key, set, &Origin::Operator, now()).unwrap();
    until("the override", || status(&other, "one") == Some(Status::OutOfService)).await;
    ours.core().clear_override(key, None, &Origin::Operator, now()).unwrap();
    until("its end", || status(&other, "one") == Some(Status::Up)).await;
    ours.core().cancel(key, Claim::Next, &client(), now()).unwrap();
    until("the cancel", || status(&other, "one").is_none()).await;
    let peer = || ours.eureka().peers()[0].clone();
    until("all is counted", || peer().sent.items >= 4 && peer().backlog == 0).await;
    let peer = peer();
    assert!(peer.available && peer.copied && peer.last_error.is_none(), "{peer:?}");
    // What came from there is not sent there.
    assert_eq!(peer.sent.items, 4, "{peer:?}");
    let page = page(address).await;
    assert_eq!((&page["copied"], &page["peers"][0]["available"]), (&true.into(), &true.into()));
}

#[tokio::test]
async fn a_peer_that_is_away_is_shown_and_told_when_it_is_back() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let away = gone.local_addr().unwrap();
    drop(gone);
    let mut config = beside(&[url(away)]);
    config.startup.peer_wait = Duration::from_millis(300);
    let (ours, address) = start(config, 3).await;
    assert!(!ours.eureka().is_copied() && !ours.life().serves_readers());
    register(&ours, "waiting");
    until("the failure is shown", || ours.eureka().peers()[0].last_error.is_some()).await;
    until("it stops waiting", || ours.life().serves_readers()).await;
    let peer = &page(address).await["peers"][0];
    assert_eq!((&peer["available"], &peer["copied"]), (&false.into(), &false.into()), "{peer}");
    assert!(peer["backlog"].as_u64() > Some(0), "{peer}");
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{address}")).unwrap();
    let mut operator = AdminServiceClient::new(channel.connect().await.unwrap());
    let listed = operator.list_peers(ListPeersRequest {}).await.unwrap().into_inner().peers;
    assert_eq!(listed.len(), 1);
    assert!(listed[0].uri.contains(&away.to_string()) && !listed[0].connected && listed[0].backlog > 0);
    assert!(!listed[0].last_error.is_empty());
    let mut back = beside(&[]);
    back.server.listen = away;
    let (other, _) = start(back, 4).await;
    until("it is told", || status(&other, "waiting").is_some()).await;
    until("and is available", || ours.eureka().peers()[0].available).await;
    assert_eq!(ours.eureka().peers()[0].backlog, 0);
}

/// A peer of few words that keeps the headers of every call.
async fn listener(seen: Arc<Mutex<Vec<String>>>) -> SocketAddr {
    let answer = move |call: Call| {
        let seen = seen.clone();
        async move {
            let header =
                |name: &str| call.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or("-");
            let line = format!(
                "{} {} {} {}",
                call.method(),
                call.uri(),
                header("authorization"),
                header("x-netflix-discovery-replication")
            );
            seen.lock().push(line);
            let body = if call.method() == Method::GET {
                r#"{"applications":{"application":[]}}"#
            } else {
                r#"{"responseList":[]}"#
            };
            ([("content-type", "application/json")], body)
        }
    };
    let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(socket, Router::new().fallback(answer)).await });
    address
}

#[tokio::test]
async fn requests_are_those_of_the_original_and_credentials_are_shown_to_nobody_else() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let peer = listener(seen.clone()).await;
    let config = beside(&[format!("http://us%40er:se%3Acret@{peer}/eureka/")]);
    assert!(!config.to_toml().contains("secret") && !format!("{config:?}").contains("cret"));
    let (_ours, address) = start(config, 5).await;
    until("a batch", || seen.lock().iter().any(|line| line.starts_with("POST"))).await;
    let lines = seen.lock().clone();
    let token = "Basic dXNAZXI6c2U6Y3JldA==";
    assert_eq!(lines[0], format!("GET /eureka/apps/ {token} -"));
    assert!(lines.contains(&format!("POST /eureka/peerreplication/batch/ {token} -")), "{lines:?}");
    for path in ["/health/eureka", "/metrics"] {
        let page = fetch(address, path).await.1;
        assert!(page.contains("***@127.0.0.1") && !page.contains("cret") && !page.contains("dXNA"), "{page}");
    }
}

#[tokio::test]
async fn a_shadow_follows_reports_and_never_writes() {
    let (other, other_address) = start(beside(&[]), 6).await;
    register(&other, "one");
    let mut config = config();
    config.eureka.shadow = vec![EurekaUrl::read(&url(other_address)).unwrap()];
    config.eureka.check_interval = Duration::from_millis(100);
    let (ours, _) = start(config, 7).await;
    until("the first list", || status(&ours, "one").is_some()).await;
    register(&other, "two");
    until("the delta", || status(&ours, "two").is_some()).await;
    let key = |id| KeyRef { namespace: "", app: APP, id };
    other.core().cancel(key("one"), Claim::Next, &client(), now()).unwrap();
    until("the removal", || status(&ours, "one").is_none()).await;
    let report = || ours.eureka().peers()[0].shadow.clone().unwrap_or_default();
    assert_eq!((report().differing, report().met), (0, 0));
    // A write here is a difference, and stays here.
    ours.core()
        .set_override(
            key("two"),
            SetOverride { status: Status::Down, ttl: None, drain: None },
            &Origin::Operator,
            now(),
        )
        .unwrap();
    let head = other.core().head();
    register(&ours, "own");
    let polls = || ours.eureka().peers()[0].requests;
    let before = polls();
    until("more polls", || polls() > before + 3).await;
    assert_eq!((other.core().head(), status(&other, "own")), (head, None));
}

#[tokio::test]
async fn another_region_is_read_from_the_first_of_its_servers_that_answers() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let away = gone.local_addr().unwrap();
    drop(gone);
    let (other, other_address) = start(beside(&[]), 9).await;
    register(&other, "far");
    let mut config = config();
    let servers = [url(away), url(other_address)];
    config.eureka.regions =
        servers.iter().map(|url| RegionUrl::read(&format!("east={url}")).unwrap()).collect();
    config.eureka.check_interval = Duration::from_millis(100);
    let (ours, address) = start(config, 10).await;
    shows("the region", address, EAST, |page| page.contains("far")).await;
    assert!(!fetch(address, "/eureka/apps").await.1.contains("far"));
    assert_eq!(ours.core().stats().instances, 0);
    let available = ours.eureka().peers().iter().map(|peer| peer.available).collect::<Vec<_>>();
    assert_eq!(available, [false, true]);
    // While nobody there answers, the copy stays.
    other.drain().await;
    until("the loss is seen", || !ours.eureka().peers()[1].available).await;
    assert!(fetch(address, EAST).await.1.contains("far"));
    let mut back = beside(&[]);
    back.server.listen = other_address;
    let (_other, _) = start(back, 14).await;
    shows("less", address, EAST, |page| !page.contains("far")).await;
}

#[tokio::test]
async fn a_region_of_ours_is_watched_and_what_it_no_longer_has_goes() {
    let (other, other_address) = start(beside(&[]), 11).await;
    register(&other, "far");
    register(&other, "short");
    let mut config = config();
    config.eureka.regions = vec![RegionUrl::read(&format!("east=grpc://{other_address}")).unwrap()];
    let (ours, address) = start(config, 12).await;
    shows("the region", address, EAST, |page| page.contains("far")).await;
    let key = |id| KeyRef { namespace: "", app: APP, id };
    let set = SetOverride { status: Status::OutOfService, ttl: None, drain: None };
    other.core().set_override(key("far"), set, &Origin::Operator, now()).unwrap();
    shows("the override", address, EAST, |page| page.contains("OUT_OF_SERVICE")).await;
    other.core().clear_override(key("far"), None, &Origin::Operator, now()).unwrap();
    other.core().cancel(key("short"), Claim::Next, &client(), now()).unwrap();
    let ended = |page: &str| !page.contains("OUT_OF_SERVICE") && !page.contains("short");
    shows("its end and the cancel", address, EAST, ended).await;
    // A server that comes back with less is believed once it has told everything.
    other.drain().await;
    until("the loss is seen", || !ours.eureka().peers()[0].available).await;
    assert!(fetch(address, EAST).await.1.contains("far"));
    let mut back = beside(&[]);
    back.server.listen = other_address;
    let (_other, _) = start(back, 13).await;
    shows("less", address, EAST, |page| !page.contains("far")).await;
}

#[tokio::test]
async fn a_stranger_may_not_send_a_batch() {
    let mut config = config();
    config.peer.trusted = vec!["10.9.9.9".parse().unwrap()];
    let (_ours, address) = start(config, 8).await;
    let request = Request::post(format!("http://{address}/eureka/peerreplication/batch/"))
        .header("host", "test")
        .header("content-type", "application/json")
        .body(Body::from(r#"{"replicationList":[]}"#))
        .unwrap();
    let answer = h1(address).await.send_request(request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::FORBIDDEN);
    assert!(text(answer).await.contains("peer.trusted"));
}
