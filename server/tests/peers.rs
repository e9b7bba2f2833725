//! Servers that replicate over real sockets, and what they say to whom they do not want.
//!
//! Every server has a runtime of its own, so that it can be killed as a process is.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by them")]

mod support;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use heureka_model::{Clock as _, Instance, InstanceKey, KeyRef, Now, Registration, Status as InstanceStatus};
use heureka_proto::peer::v1 as pb;
use heureka_proto::v1;
use heureka_proto::v1::discovery_service_client::DiscoveryServiceClient;
use heureka_proto::v1::registry_service_client::RegistryServiceClient;
use heureka_registry::{Claim, Origin, RegisterMode, Registry, Seeds, SetOverride, Surface};
use heureka_server::clock::SystemClock;
use heureka_server::config::{Config, PeerAddress};
use heureka_server::peers::Peers;
use heureka_server::telemetry::LineBudget;
use heureka_server::{Running, Server, World, listen};
use http_body_util::BodyExt as _;
use pb::replication_service_client::ReplicationServiceClient;
use prost::Message as _;
use support::*;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

const GRPC: Origin = Origin::Client { surface: Surface::Grpc, principal: None, address: None };
/// Long enough for any machine; what is waited for comes in a moment.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that can be killed.
struct Node {
    running: Running,
    address: SocketAddr,
    clock: Arc<SystemClock>,
    runtime: Option<Runtime>,
}

impl Node {
    async fn start(config: Config, boot: u64, listener: TcpListener) -> Self {
        let address = listener.local_addr().unwrap();
        // A listener belongs to the runtime in which it was made.
        let listener = listener.into_std().unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let seeds = Seeds { boot, hash: 2, shuffle: boot };
        let clock = Arc::new(SystemClock::new());
        let world = World { clock: clock.clone(), seeds, lines: LineBudget::new(100) };
        let starting = async move {
            let listener = TcpListener::from_std(listener).unwrap();
            Server::new(config, world).start(vec![listener]).await.unwrap()
        };
        let running = runtime.spawn(starting).await.unwrap();
        Self { running, address, clock, runtime: Some(runtime) }
    }

    fn core(&self) -> &Arc<Registry> {
        self.running.core()
    }

    /// By the server's own clock: a step of another one would be a pause.
    fn now(&self) -> Now {
        self.clock.now()
    }

    fn peers(&self) -> &Arc<Peers> {
        self.running.peers()
    }

    fn kill(mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }

    fn connected(&self) -> Vec<String> {
        self.peers().connected().into_iter().map(|status| status.node).collect()
    }

    fn register(&self, id: &str) {
        let instance = Instance::new(key(id));
        self.core().register(&instance, Claim::Next, RegisterMode::Upsert, &GRPC, self.now()).unwrap();
    }

    fn cancel(&self, id: &str) {
        self.core().cancel(key_ref(id), Claim::Next, &GRPC, self.now()).unwrap();
    }

    fn get(&self, id: &str) -> Option<Registration> {
        self.core().get(key_ref(id), self.now())
    }

    async fn counts(&self, series: &str) -> f64 {
        metric(self.address, series).await.unwrap_or_default()
    }

    async fn refused(&self, reason: &str) -> f64 {
        self.counts(&format!("heureka_peer_refused_total{{reason=\"{reason}\"}}")).await
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn wall() -> u64 {
    SystemClock::new().now().wall.0
}

fn key(id: &str) -> InstanceKey {
    key_ref(id).to_owned()
}

fn key_ref(id: &str) -> KeyRef<'_> {
    KeyRef { namespace: "", app: "WEB", id }
}

/// The address of a server that was killed, as soon as the system has closed what it held.
async fn again(address: SocketAddr) -> TcpListener {
    until("the address is free", async || listen::bind(address).is_ok()).await;
    listen::bind(address).unwrap()
}

async fn port() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

fn peer(address: SocketAddr) -> PeerAddress {
    PeerAddress::read(&address.to_string()).unwrap()
}

fn named(node: &str, peers: &[SocketAddr]) -> Config {
    let mut config = config();
    config.server.node_id = node.into();
    config.peer.list = peers.iter().copied().map(peer).collect();
    config.startup.peer_wait = Duration::from_millis(100);
    config
}

/// Servers that know each other, with names from `a` on.
async fn mesh(count: usize) -> Vec<Node> {
    let mut listeners = Vec::new();
    for _ in 0..count {
        listeners.push(port().await);
    }
    let addresses: Vec<_> = listeners.iter().map(|listener| listener.local_addr().unwrap()).collect();
    let mut nodes = Vec::new();
    for (number, listener) in listeners.into_iter().enumerate() {
        let name = ["a", "b", "c", "d"][number];
        // Each names itself too.
        nodes.push(Node::start(named(name, &addresses), number as u64 + 10, listener).await);
    }
    for node in &nodes {
        until("everybody is connected", async || node.connected().len() == count - 1).await;
    }
    nodes
}

async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    let waiting = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
}

#[tokio::test]
async fn what_is_written_to_one_is_read_from_all() {
    let nodes = mesh(3).await;
    let [a, b, c] = &nodes[..] else { panic!() };
    a.register("1");
    b.register("2");
    for node in &nodes {
        until("both are everywhere", async || node.get("1").is_some() && node.get("2").is_some()).await;
    }
    assert_eq!(a.get("1").unwrap().version, c.get("1").unwrap().version);
    let set = SetOverride { status: InstanceStatus::OutOfService, ttl: None, drain: None };
    c.core().set_override(key_ref("1"), set, &GRPC, c.now()).unwrap();
    until("the override is everywhere", async || {
        nodes.iter().all(|node| node.get("1").unwrap().status() == InstanceStatus::OutOfService)
    })
    .await;
    b.cancel("1");
    until("it is gone everywhere", async || nodes.iter().all(|node| node.get("1").is_none())).await;
    assert!(nodes.iter().all(|node| node.get("2").is_some()));
    let series = "heureka_peer_connected{peer=\"b\"}";
    assert_eq!(metric(a.address, series).await, Some(1.0));
    assert!(metric(a.address, "heureka_peer_frames_sent_total{peer=\"b\"}").await.unwrap() > 0.0);
}

#[tokio::test]
async fn what_is_reported_to_one_is_told_to_the_watchers_of_another() {
    let nodes = mesh(2).await;
    let [a, b] = &nodes[..] else { panic!() };
    a.register("1");
    until("b has it", async || b.get("1").is_some()).await;
    let connect = async |node: &Node| {
        Channel::from_shared(format!("http://{}", node.address)).unwrap().connect().await.unwrap()
    };
    let spec = v1::WatchSpec { readings: Some(v1::ReadingsSpec::default()), ..Default::default() };
    let request = v1::WatchRequest { spec: Some(spec), client_name: String::new() };
    let watch = DiscoveryServiceClient::new(connect(b).await).watch(request).await.unwrap();
    let told = async {
        let mut watch = watch.into_inner();
        loop {
            let event = watch.message().await.unwrap().unwrap().event.unwrap().event.unwrap();
            if let v1::watch_event::Event::Readings(told) = event {
                return told.readings;
            }
        }
    };
    let report = v1::ReportRequest {
        key: Some(key("1").into()),
        available: [("slots".to_owned(), 3)].into(),
        gauges: [("load".to_owned(), 0.5)].into(),
    };
    let head = b.core().head();
    RegistryServiceClient::new(connect(a).await).report(report.clone()).await.unwrap();
    let told = tokio::time::timeout(PATIENCE, told).await.unwrap();
    assert_eq!((&told[0].available, &told[0].gauges), (&report.available, &report.gauges));
    assert_eq!(b.core().head(), head, "a report is no change");
}

#[tokio::test]
async fn a_server_that_was_away_learns_what_it_missed() {
    let mut nodes = mesh(2).await;
    let (b, a) = (nodes.pop().unwrap(), nodes.pop().unwrap());
    a.register("1");
    a.register("2");
    until("b has both", async || b.get("1").is_some() && b.get("2").is_some()).await;
    let address = b.address;
    b.kill();
    until("a noticed", async || a.connected().is_empty()).await;
    a.cancel("1");
    a.register("3");
    let b = Node::start(named("b", &[a.address]), 99, again(address).await).await;
    until("b is level", async || b.get("2").is_some() && b.get("3").is_some()).await;
    assert!(b.get("1").is_none());
    b.register("4");
    until("a hears of the new life", async || a.get("4").is_some()).await;
    assert_eq!(metric(a.address, "heureka_peer_connected{peer=\"b\"}").await, Some(1.0));
}

#[tokio::test]
async fn a_server_of_another_cluster_is_refused_by_name() {
    let (one, other) = (port().await, port().await);
    let mut config = named("b", &[one.local_addr().unwrap()]);
    config.server.cluster = "elsewhere".into();
    let a = Node::start(named("a", &[other.local_addr().unwrap()]), 1, one).await;
    let b = Node::start(config, 2, other).await;
    for node in [&a, &b] {
        until("both count it", async || node.refused("other_cluster").await >= 1.0).await;
        assert!(node.connected().is_empty());
    }
    until("the reason is kept", async || {
        let reason = a.peers().attempts()[0].last_error.clone();
        reason.is_some_and(|(_, reason)| reason.contains("elsewhere"))
    })
    .await;
    assert_eq!(a.peers().unreached()[0].0, b.address.to_string());
}

#[tokio::test]
async fn of_two_servers_with_one_name_the_newer_is_refused_and_the_older_stays() {
    let (first, second, third) = (port().await, port().await, port().await);
    let a_address = first.local_addr().unwrap();
    let others = [second.local_addr().unwrap(), third.local_addr().unwrap()];
    let a = Node::start(named("a", &others), 1, first).await;
    let b = Node::start(named("b", &[a_address]), 2, second).await;
    until("a and b are connected", async || a.connected() == ["b"]).await;
    let twin = Node::start(named("b", &[a_address]), 3, third).await;
    until("the twin is refused", async || a.refused("node_alive").await >= 1.0).await;
    until("and told why", async || {
        twin.peers().attempts().first().and_then(|attempt| attempt.last_error.clone()).is_some()
    })
    .await;
    let status = &a.peers().connected()[0];
    assert_eq!((status.boot, status.address.as_str()), (2, b.address.to_string().as_str()));
    b.register("1");
    until("the older goes on", async || a.get("1").is_some()).await;
    assert!(twin.connected().is_empty());
}

#[tokio::test]
async fn one_that_names_the_other_is_enough() {
    let (first, second) = (port().await, port().await);
    let a = Node::start(named("a", &[second.local_addr().unwrap()]), 1, first).await;
    let b = Node::start(trusting("b"), 2, second).await;
    a.register("1");
    b.register("2");
    until("both have both", async || a.get("2").is_some() && b.get("1").is_some()).await;
}

#[tokio::test]
async fn a_server_among_its_own_peers_finds_out() {
    let (first, second) = (port().await, port().await);
    let addresses = [first.local_addr().unwrap(), second.local_addr().unwrap()];
    let a = Node::start(named("a", &addresses), 1, first).await;
    let _b = Node::start(named("b", &addresses), 2, second).await;
    until("the own address is known", async || {
        a.peers().attempts().iter().any(|attempt| attempt.is_self && attempt.address == a.address)
    })
    .await;
    until("only the other is a peer", async || a.connected() == ["b"]).await;
    let refused = a.refused("own_node").await;
    until("nothing is amiss", async || a.peers().unreached().is_empty()).await;
    assert_eq!(a.refused("own_node").await, refused, "it is not dialed again");
}

#[tokio::test]
async fn peers_come_and_go_with_the_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let (first, second, third) = (port().await, port().await, port().await);
    let mut following = named("a", &[]);
    following.peer.file = file.path().to_str().unwrap().into();
    let a = Node::start(following, 1, first).await;
    let b = Node::start(trusting("b"), 2, second).await;
    let c = Node::start(trusting("c"), 3, third).await;
    std::fs::write(file.path(), format!("# who\n{}\n", b.address)).unwrap();
    until("b is a peer", async || a.connected() == ["b"]).await;
    std::fs::write(file.path(), format!("http://{}\n", c.address)).unwrap();
    until("c took its place", async || a.connected() == ["c"]).await;
    until("b is left", async || b.connected().is_empty()).await;
    c.register("1");
    until("a hears c", async || a.get("1").is_some()).await;
    assert!(b.get("1").is_none());
}

#[tokio::test]
async fn an_answered_write_is_on_two_servers() {
    let (first, second) = (port().await, port().await);
    let mut patient = named("a", &[second.local_addr().unwrap()]);
    // However slow the machine is.
    patient.peer.ack_wait = Duration::from_secs(5);
    let b_config = named("b", &[first.local_addr().unwrap()]);
    let (a, b) = (Node::start(patient, 1, first).await, Node::start(b_config, 2, second).await);
    // Both dial. Until the stream that stays is up, there may be moments without any.
    until("they are connected for good", async || {
        a.peers().connected().iter().any(|status| status.dialed) && !b.connected().is_empty()
    })
    .await;
    let mut client = writer(a.address).await;
    for number in 0..20 {
        client.register(register(&number.to_string())).await.unwrap();
        assert!(b.get(&number.to_string()).is_some(), "{number}");
    }
    let requests = (20..25).map(|number| register(&number.to_string())).collect();
    client.batch_register(v1::BatchRegisterRequest { requests }).await.unwrap();
    assert!((20..25).all(|number| b.get(&number.to_string()).is_some()));
    let set = v1::SetStatusOverrideRequest {
        key: Some(key("1").into()),
        status: v1::InstanceStatus::OutOfService.into(),
        ..v1::SetStatusOverrideRequest::default()
    };
    client.set_status_override(set).await.unwrap();
    assert_eq!(b.get("1").unwrap().status(), InstanceStatus::OutOfService);
    let clear = v1::ClearStatusOverrideRequest { key: Some(key("1").into()), ..Default::default() };
    client.clear_status_override(clear).await.unwrap();
    assert_eq!(b.get("1").unwrap().status(), InstanceStatus::Up);
    let set = [("k".to_owned(), "v".to_owned())].into();
    let patch = v1::UpdateMetadataRequest { key: Some(key("1").into()), set, ..Default::default() };
    client.update_metadata(patch).await.unwrap();
    assert_eq!(b.get("1").unwrap().instance.metadata["k"], "v");
    client.cancel(v1::CancelRequest { key: Some(key("0").into()), writer: None }).await.unwrap();
    assert!(b.get("0").is_none());
    assert_eq!(a.counts("heureka_peer_ack_degraded_total").await, 0.0);
}

#[tokio::test]
async fn the_last_writes_of_a_server_that_leaves_are_on_another() {
    let nodes = mesh(2).await;
    let [a, b] = &nodes[..] else { panic!() };
    for number in 0..500 {
        a.register(&number.to_string());
    }
    let leaving = a.runtime.as_ref().unwrap();
    let (done, finished) = tokio::sync::oneshot::channel();
    // The server's own runtime ends it, as the process does.
    let running = &a.running;
    std::thread::scope(|scope| {
        scope.spawn(|| done.send(leaving.block_on(running.drain())));
    });
    assert_eq!(finished.await.unwrap(), heureka_server::drain::Drained::Clean);
    assert!((0..500).all(|number| b.get(&number.to_string()).is_some()));
    until("it is missed", async || b.connected().is_empty()).await;
}

#[tokio::test]
async fn a_chain_serves_as_one_and_names_what_it_lacks() {
    let (first, second, third) = (port().await, port().await, port().await);
    let [one, two, three] = [&first, &second, &third].map(|listener| listener.local_addr().unwrap());
    let a = Node::start(named("a", &[two]), 1, first).await;
    let b = Node::start(named("b", &[one, three]), 2, second).await;
    let c = Node::start(named("c", &[two]), 3, third).await;
    until("the chain holds", async || b.connected().len() == 2).await;
    a.register("1");
    c.register("2");
    until("both ends have both", async || a.get("2").is_some() && c.get("1").is_some()).await;
    a.cancel("1");
    until("the other end hears of the cancel", async || c.get("1").is_none()).await;
    for node in [&a, &b] {
        until("the missing link is named", async || node.counts("heureka_peer_missing_links").await == 1.0)
            .await;
        let amiss = node.peers().amiss();
        assert_eq!(amiss, ["a has no stream to c"]);
    }
}

/// Passes bytes on between two servers, for as long as it is told to.
struct Wire {
    address: SocketAddr,
    mode: tokio::sync::watch::Sender<Mode>,
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Open,
    /// Connections are closed, new ones too.
    Cut,
    /// Bytes vanish; nobody is told.
    Hole,
}

impl Wire {
    async fn to(target: SocketAddr) -> Self {
        let listener = port().await;
        let address = listener.local_addr().unwrap();
        let (mode, modes) = tokio::sync::watch::channel(Mode::Open);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let mut modes = modes.clone();
                tokio::spawn(async move {
                    let Ok(far) = tokio::net::TcpStream::connect(target).await else { return };
                    let ((near_read, near_write), (far_read, far_write)) =
                        (near.into_split(), far.into_split());
                    let there = tokio::spawn(pass(near_read, far_write, modes.clone()));
                    let back = tokio::spawn(pass(far_read, near_write, modes.clone()));
                    let _ = modes.wait_for(|mode| *mode == Mode::Cut).await;
                    there.abort();
                    back.abort();
                });
            }
        });
        Self { address, mode }
    }
}

async fn pass(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    modes: tokio::sync::watch::Receiver<Mode>,
) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        if *modes.borrow() == Mode::Open && to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn a_stream_that_broke_goes_on_where_it_was() {
    let b = Node::start(trusting("b"), 2, port().await).await;
    let wire = Wire::to(b.address).await;
    let a = Node::start(named("a", &[wire.address]), 1, port().await).await;
    a.register("0");
    until("it runs", async || b.get("0").is_some()).await;
    for round in 1..4 {
        wire.mode.send_replace(Mode::Cut);
        until("it broke", async || a.connected().is_empty() && b.connected().is_empty()).await;
        a.register(&round.to_string());
        a.cancel(&(round - 1).to_string());
        wire.mode.send_replace(Mode::Open);
        until("the rest follows", async || {
            b.get(&round.to_string()).is_some() && b.get(&(round - 1).to_string()).is_none()
        })
        .await;
    }
}

#[tokio::test]
async fn a_peer_that_is_gone_without_a_word_is_noticed_by_both() {
    let b = Node::start(trusting("b"), 2, port().await).await;
    let wire = Wire::to(b.address).await;
    let a = Node::start(named("a", &[wire.address]), 1, port().await).await;
    until("it runs", async || a.connected() == ["b"] && b.connected() == ["a"]).await;
    wire.mode.send_replace(Mode::Hole);
    until("both noticed", async || a.connected().is_empty() && b.connected().is_empty()).await;
    wire.mode.send_replace(Mode::Cut);
    wire.mode.send_replace(Mode::Open);
    a.register("1");
    until("they are back", async || b.get("1").is_some()).await;
}

#[tokio::test]
async fn a_write_is_answered_and_counted_when_no_peer_follows() {
    let node = Node::start(trusting("a"), 1, port().await).await;
    let mut client = writer(node.address).await;
    client.register(register("0")).await.unwrap();
    assert_eq!(node.counts("heureka_peer_ack_degraded_total").await, 0.0, "nobody could follow");
    let _deaf = Fake::greet(node.address, "deaf", 7).await;
    until("it is connected", async || node.connected() == ["deaf"]).await;
    client.register(register("1")).await.unwrap();
    assert_eq!(node.counts("heureka_peer_ack_degraded_total").await, 1.0);
    let renew = v1::RenewRequest { key: Some(key("1").into()), ..v1::RenewRequest::default() };
    client.renew(renew).await.unwrap();
    assert_eq!(node.counts("heureka_peer_ack_degraded_total").await, 1.0, "renewals never wait");
}

async fn writer(address: SocketAddr) -> v1::registry_service_client::RegistryServiceClient<Channel> {
    v1::registry_service_client::RegistryServiceClient::new(channel(address).await)
}

async fn channel(address: SocketAddr) -> Channel {
    Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap()
}

fn register(id: &str) -> v1::RegisterRequest {
    let instance = v1::Instance { key: Some(key(id).into()), ..v1::Instance::default() };
    v1::RegisterRequest { instance: Some(instance), ..v1::RegisterRequest::default() }
}

/// Names nobody, but takes whoever calls from this machine for a peer.
fn trusting(name: &str) -> Config {
    let mut config = named(name, &[]);
    config.peer.trusted = vec!["127.0.0.1".parse().unwrap()];
    config
}

/// Somebody who speaks the protocol, or nearly.
struct Fake {
    frames: mpsc::Sender<pb::ReplicateRequest>,
    replies: tonic::Streaming<pb::ReplicateResponse>,
}

impl Fake {
    async fn call(address: SocketAddr) -> Result<Self, Status> {
        Self::call_with(address, &[]).await
    }

    async fn call_with(
        address: SocketAddr,
        headers: &[(&'static str, &'static str)],
    ) -> Result<Self, Status> {
        let (frames, mut queue) = mpsc::channel(8);
        let stream = futures_util::stream::poll_fn(move |context| queue.poll_recv(context));
        let mut request = tonic::Request::new(stream);
        for (name, value) in headers {
            request.metadata_mut().insert(*name, value.parse().unwrap());
        }
        let mut client = ReplicationServiceClient::new(channel(address).await);
        let replies = client.replicate(request).await?.into_inner();
        Ok(Self { frames, replies })
    }

    async fn greet(address: SocketAddr, node: &str, boot: u64) -> Self {
        let fake = Self::call(address).await.unwrap();
        fake.say(hello(node, boot)).await;
        fake
    }

    async fn say(&self, kind: pb::frame::Kind) {
        let frame = Some(pb::Frame { kind: Some(kind) });
        // It may have been closed, which the test finds out in another way.
        let _ = self.frames.send(pb::ReplicateRequest { frame }).await;
    }

    /// How the server ends the stream.
    async fn ended(mut self) -> Status {
        loop {
            match self.replies.message().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("ended without a reason"),
                Err(status) => return status,
            }
        }
    }
}

fn hello(node: &str, boot: u64) -> pb::frame::Kind {
    pb::frame::Kind::Hello(pb::Hello {
        cluster: "heureka".into(),
        node: node.into(),
        boot,
        protocol: 1,
        wall_millis: wall(),
        clock: wall() << 16,
        ..pb::Hello::default()
    })
}

fn record(id: &str, owner: u64, clock: u64) -> pb::Record {
    pb::Record {
        key: Some(key(id).into()),
        owner,
        clock,
        boot: 77,
        updated_millis: wall(),
        registered_millis: wall(),
        content: Some(pb::record::Content::Live(v1::Instance::default())),
        ..pb::Record::default()
    }
}

fn records(records: Vec<Vec<u8>>) -> pb::frame::Kind {
    let records = records.into_iter().map(Into::into).collect();
    pb::frame::Kind::Records(pb::Records { records, ..pb::Records::default() })
}

fn reason(status: &Status) -> String {
    status.get_error_details().error_info().map(|info| info.reason.clone()).unwrap_or_default()
}

fn clock() -> u64 {
    wall() << 16
}

#[tokio::test]
async fn a_stranger_is_turned_away() {
    let (_running, alone) = start_plain().await;
    let status = Fake::call(alone).await.err().unwrap();
    assert_eq!((status.code(), reason(&status)), (Code::PermissionDenied, "PEER_UNTRUSTED".into()));
    assert!(status.message().contains("127.0.0.1"));
    let untrusted = "heureka_peer_refused_total{reason=\"untrusted\"}";
    assert_eq!(metric(alone, untrusted).await, Some(1.0));
    let node = Node::start(trusting("a"), 1, port().await).await;
    let forwarded = Fake::call_with(node.address, &[("x-forwarded-for", "127.0.0.1")]).await.err().unwrap();
    assert_eq!(reason(&forwarded), "PEER_UNTRUSTED");
    assert_eq!(node.refused("untrusted").await, 1.0);
}

#[tokio::test]
async fn a_stream_begins_with_a_greeting() {
    let node = Node::start(trusting("a"), 1, port().await).await;
    let rude = Fake::call(node.address).await.unwrap();
    rude.say(pb::frame::Kind::Pull(pb::Pull {})).await;
    let status = rude.ended().await;
    assert_eq!((status.code(), reason(&status)), (Code::InvalidArgument, "PEER_HELLO_EXPECTED".into()));
    assert!(status.message().starts_with("hello: "), "{}", status.message());
    let silent = Fake::call(node.address).await.unwrap();
    assert_eq!(reason(&silent.ended().await), "PEER_HELLO_LATE");
    let table = [
        ("PEER_OTHER_CLUSTER", pb::Hello { cluster: "x".into(), ..greeting() }),
        ("PEER_OWN_NODE", pb::Hello { boot: 1, ..greeting() }),
        ("PEER_NAME_TAKEN", pb::Hello { node: "a".into(), ..greeting() }),
        ("PEER_PROTOCOL", pb::Hello { protocol: 9, ..greeting() }),
        ("PEER_CLOCK", pb::Hello { clock: u64::MAX, ..greeting() }),
    ];
    for (expected, odd) in table {
        let fake = Fake::call(node.address).await.unwrap();
        fake.say(pb::frame::Kind::Hello(odd)).await;
        let status = fake.ended().await;
        assert_eq!(reason(&status), expected);
        let label = expected.strip_prefix("PEER_").unwrap().to_lowercase();
        assert_eq!(node.refused(&label).await, 1.0, "{label}");
    }
    let twice = Fake::greet(node.address, "fake", 7).await;
    twice.say(hello("fake", 7)).await;
    assert_eq!(reason(&twice.ended().await), "PEER_BROKEN_STREAM");
}

fn greeting() -> pb::Hello {
    match hello("fake", 7) {
        pb::frame::Kind::Hello(hello) => hello,
        _ => unreachable!(),
    }
}

#[tokio::test]
async fn a_bad_entry_costs_itself_and_a_bad_frame_its_stream() {
    let node = Node::start(trusting("a"), 1, port().await).await;
    let fake = Fake::greet(node.address, "fake", 7).await;
    let damaged = vec![0xff; 9];
    let nameless = pb::Record { key: None, ..record("x", 1, clock()) };
    fake.say(records(vec![damaged, nameless.encode_to_vec(), record("1", 5, clock()).encode_to_vec()])).await;
    until("the good one is taken", async || node.get("1").is_some()).await;
    assert_eq!(node.counts("heureka_peer_entries_skipped_total").await, 2.0);
    fake.say(records(vec![record("2", 5, clock()).encode_to_vec()])).await;
    until("the stream goes on", async || node.get("2").is_some()).await;

    let keys = vec![vec![1].into(); 10_001];
    fake.say(pb::frame::Kind::Want(pb::Want { keys })).await;
    assert_eq!(reason(&fake.ended().await), "PEER_BROKEN_STREAM", "more entries than are built");
    until("the place is free", async || node.connected().is_empty()).await;

    let fake = Fake::greet(node.address, "fake", 7).await;
    fake.say(records(vec![vec![0; 2 << 20]])).await;
    let status = fake.ended().await;
    assert_eq!(reason(&status), "PEER_BROKEN_STREAM", "larger than a message may be");
    until("the place is free again", async || node.connected().is_empty()).await;
    let fake = Fake::greet(node.address, "fake", 7).await;
    fake.say(records(vec![record("3", 5, clock()).encode_to_vec()])).await;
    until("the server is as before", async || node.get("3").is_some()).await;
    assert_eq!(node.refused("broken_stream").await, 2.0);
}

#[tokio::test]
async fn bytes_that_are_no_message_end_their_stream_only() {
    let node = Node::start(trusting("a"), 1, port().await).await;
    let path = "/heureka.registry.peer.v1.ReplicationService/Replicate";
    let greeting =
        pb::ReplicateRequest { frame: Some(pb::Frame { kind: Some(hello("fake", 7)) }) }.encode_to_vec();
    let framed = |length: usize, bytes: &[u8]| [&[0][..], &(length as u32).to_be_bytes(), bytes].concat();
    let corrupt = [framed(greeting.len(), &greeting), framed(4, &[0x0a, 0x7f, 1, 1])].concat();
    let table = [
        ("corrupt", corrupt),
        ("cut short", framed(greeting.len() + 50, &greeting)),
        ("no greeting at all", framed(3, &[0xff; 3])),
        ("nothing", Vec::new()),
    ];
    for (what, body) in table {
        let mut request = grpc(node.address, path);
        *request.body_mut() = Body::from(body);
        let response = h2(node.address).await.send_request(request).await.unwrap();
        // The end of the body carries the reason; an error of the transport is an end as well.
        let _ = response.into_body().collect().await;
        assert_eq!(fetch(node.address, "/health/live").await.0, 200, "{what}");
    }
    let fake = Fake::greet(node.address, "fake", 8).await;
    fake.say(records(vec![record("1", 5, clock()).encode_to_vec()])).await;
    until("it still takes what is right", async || node.get("1").is_some()).await;
}

#[tokio::test]
async fn what_is_said_again_late_or_of_the_future_changes_nothing() {
    let (listener, other) = (port().await, port().await);
    let mut config = trusting("a");
    config.peer.list = vec![peer(other.local_addr().unwrap())];
    let node = Node::start(config, 1, listener).await;
    let fake = Fake::greet(node.address, "fake", 7).await;
    let (older, newer) = (record("1", 5, clock()), record("1", 6, clock()));
    for said in [&newer, &older, &newer, &older, &newer] {
        fake.say(records(vec![said.encode_to_vec()])).await;
    }
    let year = 366 * 24 * 3600 * 1000_u64;
    let future = record("2", 5, (wall() + 2 * year) << 16);
    fake.say(records(vec![future.encode_to_vec(), record("3", 5, clock()).encode_to_vec()])).await;
    until("the last is taken", async || node.get("3").is_some()).await;
    assert_eq!(node.get("1").unwrap().version.owner, 6);
    assert!(node.get("2").is_none(), "a clock that far ahead is broken");
    let rejected = "heureka_peer_records_total{outcome=\"rejected\"}";
    assert_eq!(node.counts(rejected).await, 1.0);
    assert_eq!(node.counts("heureka_peer_records_total{outcome=\"taken\"}").await, 2.0);
    let b = Node::start(named("b", &[node.address]), 2, other).await;
    until("the servers converge all the same", async || {
        b.get("1").is_some_and(|held| Some(held.version) == node.get("1").map(|held| held.version))
            && b.get("3").is_some()
    })
    .await;
}
