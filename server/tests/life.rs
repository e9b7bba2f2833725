//! A server from its start to its readiness, seen from outside.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by them")]

mod support;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Body;
use heureka_compat_http::SyncingStatus;
use heureka_model::{Clock, Instance, InstanceKey, Mono, Now, Wall};
use heureka_registry::{Claim, Origin, RegisterMode, Seeds};
use heureka_server::clock::SystemClock;
use heureka_server::config::{Config, PeerAddress};
use heureka_server::drain::Drained;
use heureka_server::life::State;
use heureka_server::{Running, Server, World, listen};
use http::{Method, Request, Response};
use hyper::body::Incoming;
use support::{config, fetch, h1, text, world};
use tokio::net::TcpListener;

/// A clock that the test moves.
#[derive(Debug, Default)]
struct Hand(AtomicU64);

impl Clock for Hand {
    fn now(&self) -> Now {
        let millis = self.0.load(Ordering::SeqCst);
        Now { mono: Mono(millis), wall: Wall(1_800_000_000_000 + millis) }
    }
}

async fn start_with(config: Config) -> (Running, SocketAddr, Arc<Hand>) {
    let clock = Arc::new(Hand::default());
    let listener = listen::bind(config.server.listen).unwrap();
    let world = World { clock: clock.clone(), ..world() };
    let running = Server::new(config, world).start(vec![listener]).await.unwrap();
    let address = running.addresses()[0];
    (running, address, clock)
}

async fn call(address: SocketAddr, method: Method, path: &str, body: &str) -> Response<Incoming> {
    let request = Request::builder().method(method).uri(path).header("host", "test");
    let request = request.header("content-type", "application/json").body(Body::from(body.to_owned()));
    h1(address).await.send_request(request.unwrap()).await.unwrap()
}

const INSTANCE: &str = r#"{"instance":{"instanceId":"a","hostName":"h","app":"WEB","ipAddr":"10.0.0.1",
    "status":"UP","vipAddress":"web","dataCenterInfo":{"name":"MyOwn"}}}"#;

const READS: [&str; 6] = [
    "/eureka/apps",
    "/eureka/apps/delta",
    "/eureka/apps/WEB",
    "/eureka/apps/WEB/a",
    "/eureka/instances/a",
    "/eureka/vips/web",
];

async fn readiness(address: SocketAddr) -> [(u16, String); 3] {
    [
        fetch(address, "/health/live").await,
        fetch(address, "/health/startup").await,
        fetch(address, "/health/ready").await,
    ]
}

fn waiting() -> Config {
    let mut config = config();
    // Nobody listens on port 1.
    config.peer.list = vec![PeerAddress::read("127.0.0.1:1").unwrap()];
    config
}

#[tokio::test]
async fn a_server_that_waits_for_its_peers_takes_writes_and_refuses_readers() {
    let (running, address, clock) = start_with(waiting()).await;
    assert_eq!(running.life().state(), State::Syncing);
    let [live, started, ready] = readiness(address).await;
    assert_eq!((live, started.0), ((200, "live\n".into()), 503));
    assert!(ready.0 == 503 && ready.1.starts_with("syncing\n"), "{ready:?}");
    assert_eq!(call(address, Method::POST, "/eureka/apps/WEB", INSTANCE).await.status(), 204);
    assert_eq!(call(address, Method::PUT, "/eureka/apps/WEB/a", "").await.status(), 200);
    let status = "/eureka/apps/WEB/a/status?value=OUT_OF_SERVICE";
    assert_eq!(call(address, Method::PUT, status, "").await.status(), 200);
    for path in READS {
        for method in [Method::GET, Method::HEAD] {
            let answer = call(address, method, path, "").await;
            assert_eq!(
                (answer.status().as_u16(), &answer.headers()["retry-after"]),
                (503, &"2".parse().unwrap())
            );
            assert_eq!(text(answer).await, "", "{path}");
        }
    }
    let mut states = running.life().states();
    clock.0.store(10_000, Ordering::SeqCst);
    states.wait_for(|state| *state == State::Ready).await.unwrap();
    let listed = fetch(address, "/eureka/apps").await;
    assert!(listed.0 == 200 && listed.1.contains("OUT_OF_SERVICE"), "{listed:?}");
    let [_, started, ready] = readiness(address).await;
    assert_eq!((started.0, ready.0), (200, 200));
    assert!(ready.1.starts_with("ready\n"), "{ready:?}");
}

#[tokio::test]
async fn the_original_code_can_be_asked_for() {
    let mut config = waiting();
    config.compat.syncing_status = SyncingStatus::Forbidden;
    let (_running, address, _) = start_with(config).await;
    assert_eq!(fetch(address, "/eureka/apps").await, (403, String::new()));
    assert_eq!(call(address, Method::POST, "/eureka/apps/WEB", INSTANCE).await.status(), 204);
}

#[tokio::test]
async fn a_hold_keeps_readers_out_until_clients_had_time_to_register() {
    let mut config = config();
    config.startup.hold = Duration::from_secs(10);
    let (running, address, clock) = start_with(config).await;
    assert_eq!(fetch(address, "/eureka/apps").await.0, 503);
    assert_eq!(call(address, Method::POST, "/eureka/apps/WEB", INSTANCE).await.status(), 204);
    let mut states = running.life().states();
    clock.0.store(10_000, Ordering::SeqCst);
    states.wait_for(|state| *state == State::Ready).await.unwrap();
    assert!(fetch(address, "/eureka/apps/WEB").await.1.contains("10.0.0.1"));
}

#[tokio::test]
async fn a_lone_server_is_ready_before_anybody_asks() {
    let (running, address, _) = start_with(config()).await;
    assert_eq!(running.life().state(), State::Ready);
    assert_eq!(fetch(address, "/eureka/apps").await.0, 200);
}

#[tokio::test]
async fn what_is_stored_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config();
    config.server.data_dir = folder.path().to_str().unwrap().into();
    let (running, address, _) = start_with(config.clone()).await;
    assert_eq!(call(address, Method::POST, "/eureka/apps/WEB", INSTANCE).await.status(), 204);
    let status = "/eureka/apps/WEB/a/status?value=OUT_OF_SERVICE";
    assert_eq!(call(address, Method::PUT, status, "").await.status(), 200);
    running.drain().await;
    assert_eq!(running.life().state(), State::Stopped);

    let (_running, address, _) = start_with(config.clone()).await;
    let listed = fetch(address, "/eureka/apps/WEB/a").await;
    assert!(listed.0 == 200 && listed.1.contains("<status>OUT_OF_SERVICE</status>"), "{listed:?}");
    assert_eq!(call(address, Method::PUT, "/eureka/apps/WEB/a", "").await.status(), 200);
}

#[tokio::test]
async fn a_folder_that_cannot_be_used_ends_the_start_with_its_setting() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut config = config();
    config.server.data_dir = file.path().join("below").to_str().unwrap().into();
    let listener = listen::bind(config.server.listen).unwrap();
    let refused = Server::new(config, world()).start(vec![listener]).await.err().unwrap();
    assert!(refused.to_string().contains("server.data_dir"), "{refused}");
}

/// One of several servers, on the machine's own clock; they are to know each other by these addresses.
async fn start_among(all: &[SocketAddr], own: usize, listener: TcpListener) -> Running {
    let mut config = config();
    config.server.node_id = format!("n{own}");
    config.peer.list = all.iter().map(|address| PeerAddress::read(&address.to_string()).unwrap()).collect();
    // Whoever comes first finds nobody.
    config.startup.peer_wait = if own == 0 { Duration::from_millis(1) } else { Duration::from_hours(1) };
    let seeds = Seeds { boot: 10 + own as u64, ..world().seeds };
    let world = World { clock: Arc::new(SystemClock::new()), seeds, ..world() };
    Server::new(config, world).start(vec![listener]).await.unwrap()
}

async fn ready(running: &Running) {
    running.life().states().wait_for(|state| *state == State::Ready).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_joins_serves_all_that_a_ready_one_knows_or_nothing() {
    let (one, other) =
        (listen::bind(config().server.listen).unwrap(), listen::bind(config().server.listen).unwrap());
    let all = [one.local_addr().unwrap(), other.local_addr().unwrap()];
    let first = start_among(&all, 0, one).await;
    ready(&first).await;
    for id in 0..3000 {
        let instance =
            Instance::new(InstanceKey { app: "WEB".into(), id: format!("{id}"), ..Default::default() });
        let now = SystemClock::new().now();
        first.core().register(&instance, Claim::Next, RegisterMode::Upsert, &Origin::Operator, now).unwrap();
    }
    let second = start_among(&all, 1, other).await;
    let mut served = 503;
    while served == 503 {
        let (status, list) = fetch(all[1], "/eureka/apps/WEB").await;
        served = status;
        let listed = list.matches("<instanceId>").count();
        assert_eq!(listed, if status == 200 { 3000 } else { 0 }, "{status}");
    }
    assert_eq!((served, second.life().state()), (200, State::Ready));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_written_last_is_on_a_peer_when_a_server_has_left() {
    let (one, other) =
        (listen::bind(config().server.listen).unwrap(), listen::bind(config().server.listen).unwrap());
    let all = [one.local_addr().unwrap(), other.local_addr().unwrap()];
    let first = start_among(&all, 0, one).await;
    ready(&first).await;
    let second = start_among(&all, 1, other).await;
    ready(&second).await;
    let instance = Instance::new(InstanceKey { app: "WEB".into(), id: "last".into(), ..Default::default() });
    let now = SystemClock::new().now();
    first.core().register(&instance, Claim::Next, RegisterMode::Upsert, &Origin::Operator, now).unwrap();
    assert_eq!(first.drain().await, Drained::Clean);
    assert_eq!(fetch(all[1], "/eureka/apps/WEB/last").await.0, 200);
    assert_eq!(second.life().state(), State::Ready, "a peer that leaves takes nobody along");
}
