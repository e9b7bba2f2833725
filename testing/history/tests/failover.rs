//! Three servers that replicate over links which are cut and healed, writers on all of them, and watchers that go from
//! one to another: nothing they rely on is broken, and none of them ever goes back in time.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use heureka_client::{Client, Settings};
use heureka_history::{Recorder, Tap, judge};
use heureka_model::{Clock, InstanceKey, Mono, Now, Selectors, Version, Wall};
use heureka_proto::v1;
use heureka_proto::v1::discovery_service_client::DiscoveryServiceClient;
use heureka_proto::v1::registry_service_client::RegistryServiceClient;
use heureka_proto::v1::watch_event::Event;
use heureka_registry::replication::{Identity, Link, Replicator};
use heureka_registry::{Registry, Seeds};
use heureka_server::config::{Config, Sources};
use heureka_server::telemetry::LineBudget;
use heureka_server::{Running, Server, World};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tonic::transport::{Channel, Endpoint};

const SERVERS: usize = 3;
/// Writes of each writer.
const CALLS: u64 = 250;
const IDS: u32 = 12;
/// What the clock moves with each write, so that marks come between them.
const STEP: u64 = 20;
/// The bookmark interval that is asked for.
const INTERVAL: u64 = 1000;
/// No lease ends.
const LEASE: prost_types::Duration = prost_types::Duration { seconds: 24 * 3600, nanos: 0 };
/// Longest run, far beyond what it takes.
const PATIENCE: Duration = Duration::from_secs(240);

/// Moves with the writes.
#[derive(Debug, Default)]
struct ManualClock(AtomicU64);

impl ManualClock {
    fn pass(&self, millis: u64) {
        self.0.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Now {
        let millis = self.0.load(Ordering::SeqCst);
        Now { mono: Mono(millis), wall: Wall(1_800_000_000_000 + millis) }
    }
}

/// One server, and a way to it that can be cut.
struct Node {
    running: Running,
    replicator: Arc<Replicator>,
    way: Way,
}

impl Node {
    async fn start(boot: u64, clock: Arc<ManualClock>) -> Self {
        let mut config = Config::load(&Sources::default()).unwrap();
        config.server.node_id = format!("n{boot}");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let world = World { clock, seeds: Seeds { boot, hash: 2, shuffle: 3 }, lines: LineBudget::new(100) };
        let running = Server::new(config, world).start(vec![listener]).await.unwrap();
        let node = Identity { cluster: "c".into(), node: format!("n{boot}"), address: String::new() };
        let replicator = Arc::new(Replicator::new(running.core().clone(), node));
        Self { running, replicator, way: Way::to(address).await }
    }

    fn core(&self) -> &Arc<Registry> {
        self.running.core()
    }
}

/// Passes bytes on to a server until it is cut.
struct Way {
    address: SocketAddr,
    is_open: watch::Sender<bool>,
}

impl Way {
    async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (is_open, open) = watch::channel(true);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass(client, server, open.clone()));
            }
        });
        Self { address, is_open }
    }
}

async fn pass(mut client: TcpStream, server: SocketAddr, mut is_open: watch::Receiver<bool>) {
    if !*is_open.borrow() {
        return;
    }
    let Ok(mut server) = TcpStream::connect(server).await else { return };
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
        _ = is_open.wait_for(|is_open| !is_open) => {}
    }
}

/// The links between the servers.
#[derive(Default)]
struct Links(BTreeMap<(usize, usize), [Link; 2]>);

impl Links {
    fn heal(&mut self, (one, other): (usize, usize), nodes: &[Node], now: Now) {
        if self.0.contains_key(&(one, other)) {
            return;
        }
        let (a, b) = (&nodes[one].replicator, &nodes[other].replicator);
        let first = a.join(&b.hello(now), "b", true, now).unwrap();
        let second = b.join(&a.hello(now), "a", false, now).unwrap();
        self.0.insert((one, other), [first, second]);
    }

    /// Carries a few frames over each link; whether there were any.
    fn carry(&mut self, now: Now) -> bool {
        let mut any = false;
        for [one, other] in self.0.values_mut() {
            for _ in 0..4 {
                let frames = (one.next(now), other.next(now));
                any |= frames.0.is_some() || frames.1.is_some();
                frames.0.into_iter().for_each(|frame| other.receive(frame, now).unwrap());
                frames.1.into_iter().for_each(|frame| one.receive(frame, now).unwrap());
            }
        }
        any
    }
}

/// How far everything is.
#[derive(Clone, Debug, Default)]
struct Progress {
    /// Heads of the servers once all of them have all.
    heads: Option<[u64; SERVERS]>,
}

struct Stage {
    nodes: [Node; SERVERS],
    links: Mutex<Links>,
    clock: Arc<ManualClock>,
    recorder: Recorder,
    progress: watch::Sender<Progress>,
    /// The writers have finished.
    is_quiet: AtomicBool,
    /// Streams that resumed at another server than the one before.
    moved: AtomicU64,
}

const PAIRS: [(usize, usize); 3] = [(0, 1), (0, 2), (1, 2)];

impl Stage {
    async fn set() -> Arc<Self> {
        let clock = Arc::new(ManualClock::default());
        let node = |boot| Node::start(boot, clock.clone());
        let nodes = [node(1).await, node(2).await, node(3).await];
        let mut links = Links::default();
        PAIRS.into_iter().for_each(|pair| links.heal(pair, &nodes, clock.now()));
        let (progress, _) = watch::channel(Progress::default());
        let (links, is_quiet) = (Mutex::new(links), AtomicBool::new(false));
        let (recorder, moved) = (Recorder::new(), AtomicU64::new(0));
        Arc::new(Self { nodes, links, clock, recorder, progress, is_quiet, moved })
    }

    /// A connection of its own that is recorded as `watcher`, past what cuts the ways.
    fn tapped(&self, server: usize, watcher: &str) -> Tap<Channel> {
        let address = self.nodes[server].running.addresses()[0];
        self.recorder.tap(watcher, Endpoint::from_shared(format!("http://{address}")).unwrap().connect_lazy())
    }

    /// Carries frames, and cuts and heals links and ways until the writers have finished. Then all servers come to hold
    /// the same, and time passes until everybody has heard of it.
    async fn replicate(self: Arc<Self>, mut random: StdRng) {
        while !self.is_quiet.load(Ordering::SeqCst) {
            self.tick();
            self.disturb(&mut random);
            self.links.lock().unwrap().carry(self.clock.now());
            sleep(Duration::from_millis(2)).await;
        }
        self.open_ways();
        while !self.is_level() {
            self.settle();
            self.clock.pass(INTERVAL);
            self.tick();
            sleep(Duration::from_millis(1)).await;
        }
        let heads = [0, 1, 2].map(|node: usize| self.nodes[node].core().head());
        self.progress.send_replace(Progress { heads: Some(heads) });
        loop {
            self.clock.pass(INTERVAL);
            self.tick();
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// The clock runs faster than the servers' own ticks: without more of them each would find that it stood still.
    fn tick(&self) {
        let now = self.clock.now();
        self.nodes.iter().for_each(|node| node.replicator.tick(now));
    }

    fn disturb(&self, random: &mut StdRng) {
        let mut links = self.links.lock().unwrap();
        let pair = PAIRS[random.random_range(0..PAIRS.len())];
        match random.random_range(0..40) {
            0 => drop(links.0.remove(&pair)),
            1..3 => links.heal(pair, &self.nodes, self.clock.now()),
            3 => self.nodes[pair.0].way.is_open.send_modify(|is_open| *is_open = false),
            4..6 => self.open_ways(),
            _ => {}
        }
    }

    /// Carries frames over all links until there are none.
    fn settle(&self) {
        let mut links = self.links.lock().unwrap();
        PAIRS.into_iter().for_each(|pair| links.heal(pair, &self.nodes, self.clock.now()));
        while links.carry(self.clock.now()) {}
    }

    fn open_ways(&self) {
        for node in &self.nodes {
            node.way.is_open.send_replace(true);
        }
    }

    fn is_level(&self) -> bool {
        let root = self.nodes[0].replicator.root();
        let all = PAIRS.len() == self.links.lock().unwrap().0.len();
        all && self.nodes.iter().all(|node| node.replicator.root() == root)
    }
}

struct Writer {
    stage: Arc<Stage>,
    registry: RegistryServiceClient<Tap<Channel>>,
    random: StdRng,
}

impl Writer {
    fn key(&mut self) -> v1::InstanceKey {
        let id = format!("n{}", self.random.random_range(0..IDS));
        let app = ["WEB", "DB"][self.random.random_range(0..2)];
        v1::InstanceKey { namespace: String::new(), app: app.into(), id }
    }

    fn registration(&mut self) -> v1::RegisterRequest {
        let instance = v1::Instance {
            key: Some(self.key()),
            status: [1, 1, 2][self.random.random_range(0..3)],
            metadata: [("k".to_owned(), self.random.random::<u32>().to_string())].into(),
            lease: Some(v1::Lease { duration: Some(LEASE), ..v1::Lease::default() }),
            ..v1::Instance::default()
        };
        v1::RegisterRequest { instance: Some(instance), ..v1::RegisterRequest::default() }
    }

    /// A random write; one that is refused, since its key has no lease, is none.
    async fn write(&mut self) {
        let key = Some(self.key());
        let refused = match self.random.random_range(0..10) {
            0..5 => {
                let request = self.registration();
                self.registry.register(request).await.err()
            }
            5..8 => self.registry.cancel(v1::CancelRequest { key, writer: None }).await.err(),
            8 => {
                let status = v1::InstanceStatus::OutOfService.into();
                let request = v1::SetStatusOverrideRequest { key, status, ..Default::default() };
                self.registry.set_status_override(request).await.err()
            }
            _ => {
                let request = v1::ClearStatusOverrideRequest { key, ..Default::default() };
                self.registry.clear_status_override(request).await.err()
            }
        };
        assert!(refused.is_none_or(|status| status.code() == tonic::Code::NotFound));
    }

    async fn run(mut self) {
        for _ in 0..CALLS {
            self.write().await;
            self.stage.clock.pass(STEP);
            sleep(Duration::from_millis(self.random.random_range(0..20))).await;
        }
    }
}

/// A watcher that goes from server to server with its token.
struct Wanderer {
    stage: Arc<Stage>,
    name: String,
    spec: v1::WatchSpec,
    random: StdRng,
}

impl Wanderer {
    async fn run(mut self) {
        let mut before = 0;
        loop {
            let server = self.random.random_range(0..SERVERS);
            let moves = std::mem::replace(&mut before, server) != server;
            if self.stream(server, moves).await {
                return rest(&self.stage, server, &self.name, &self.spec.selectors).await;
            }
        }
    }

    /// Reads one stream; whether there is nothing more to hear.
    async fn stream(&mut self, server: usize, moves: bool) -> bool {
        let mut client = DiscoveryServiceClient::new(self.stage.tapped(server, &self.name));
        let request = v1::WatchRequest { spec: Some(self.spec.clone()), client_name: String::new() };
        let mut stream = client.watch(request).await.unwrap().into_inner();
        let mut patience = self.random.random_range(1..20);
        while let Some(message) = stream.message().await.unwrap() {
            patience -= 1;
            if moves && is_resumed(&message) {
                self.stage.moved.fetch_add(1, Ordering::SeqCst);
            }
            if let Some((token, revision)) = mark(message) {
                self.spec.resume_token = token;
                if self.is_last(server, revision) {
                    return true;
                }
            }
            if patience <= 0 && self.stage.progress.borrow().heads.is_none() {
                break;
            }
        }
        false
    }

    /// Whether the mark covers everything.
    fn is_last(&self, server: usize, revision: u64) -> bool {
        self.stage.progress.borrow().heads.is_some_and(|heads| revision >= heads[server])
    }
}

fn is_resumed(message: &v1::WatchResponse) -> bool {
    let event = message.event.as_ref().and_then(|event| event.event.as_ref());
    matches!(event, Some(Event::SnapshotBegin(begin)) if begin.mode() == v1::SnapshotMode::Resume)
}

/// Token and revision of a SnapshotEnd or a Bookmark.
fn mark(message: v1::WatchResponse) -> Option<(Bytes, u64)> {
    match message.event.unwrap().event.unwrap() {
        Event::SnapshotEnd(end) => Some((end.resume_token, end.revision)),
        Event::Bookmark(mark) => Some((mark.resume_token, mark.revision)),
        _ => None,
    }
}

/// Notes what the server lists to a watcher that has heard everything.
async fn rest(stage: &Stage, server: usize, watcher: &str, selectors: &[v1::InstanceSelector]) {
    let mut client = DiscoveryServiceClient::new(stage.tapped(server, "lists"));
    let request = v1::ListInstancesRequest { selectors: selectors.to_vec(), ..Default::default() };
    let page = client.list_instances(request.clone()).await.unwrap().into_inner();
    stage.recorder.rested(watcher, request, page);
}

/// The client of this workspace, over ways that are cut, until it holds what is there in the end.
async fn our_client(stage: Arc<Stage>) {
    let way = |node: &Node| Endpoint::from_shared(format!("http://{}", node.way.address)).unwrap();
    let transports =
        stage.nodes.iter().map(|node| stage.recorder.tap("ours", way(node).connect_lazy())).collect();
    let settings = Settings { bookmark_interval: Duration::from_millis(INTERVAL), ..Settings::default() };
    let mut events = pin!(Client::over(settings, transports).unwrap().watch(Vec::new()));
    let mut progress = stage.progress.subscribe();
    let mut held = BTreeMap::new();
    loop {
        let is_over = progress.borrow().heads.is_some();
        if is_over && held == listed(stage.nodes[0].core(), stage.clock.now()) {
            return;
        }
        tokio::select! {
            event = events.next() => show(&stage, &mut held, event.unwrap().unwrap()),
            changed = progress.changed(), if !is_over => changed.unwrap(),
            () = sleep(Duration::from_millis(50)), if is_over => {}
        }
    }
}

fn show(stage: &Stage, held: &mut BTreeMap<InstanceKey, Version>, event: heureka_client::Event) {
    use heureka_client::Event as Seen;
    match event {
        Seen::Added(now) | Seen::Modified(now) => {
            stage.recorder.shows("ours", now.instance.key.clone(), now.version, true);
            held.insert(now.instance.key.clone(), now.version);
        }
        Seen::Removed { last, reason } => {
            if reason.is_some() {
                stage.recorder.shows("ours", last.instance.key.clone(), last.version, false);
            }
            held.remove(&last.instance.key);
        }
        Seen::Synced { .. } | Seen::Preserving(_) | Seen::Reading(_) => {}
    }
}

fn listed(registry: &Registry, now: Now) -> BTreeMap<InstanceKey, Version> {
    let page = registry.page(&Selectors::default(), None, 10_000, now);
    page.instances.into_iter().map(|found| (found.instance.key, found.version)).collect()
}

fn selectors() -> [(&'static str, Vec<v1::InstanceSelector>); 4] {
    let up = v1::InstanceSelector { statuses: vec![v1::InstanceStatus::Up.into()], ..Default::default() };
    let web = v1::InstanceSelector { apps: vec!["web".into()], ..Default::default() };
    [("all", vec![]), ("all too", vec![]), ("up", vec![up]), ("web", vec![web])]
}

async fn everybody(stage: &Arc<Stage>, seed: u64) {
    let random = |number| StdRng::seed_from_u64(seed * 100 + number);
    let mut watchers = JoinSet::new();
    for (number, (name, selectors)) in (0..).zip(selectors()) {
        let second = prost_types::Duration { seconds: 1, nanos: 0 };
        let spec = v1::WatchSpec {
            selectors,
            max_batch_size: 7,
            bookmark_interval: Some(second),
            ..v1::WatchSpec::default()
        };
        let (stage, name) = (stage.clone(), name.to_owned());
        watchers.spawn(Wanderer { stage, name, spec, random: random(number) }.run());
    }
    watchers.spawn(our_client(stage.clone()));
    let replication = tokio::spawn(stage.clone().replicate(random(50)));
    let mut writers = JoinSet::new();
    for server in 0..SERVERS {
        let registry = RegistryServiceClient::new(stage.tapped(server, "writer"));
        let random = random(60 + server as u64);
        writers.spawn(Writer { stage: stage.clone(), registry, random }.run());
    }
    writers.join_all().await;
    stage.is_quiet.store(true, Ordering::SeqCst);
    watchers.join_all().await;
    replication.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watchers_that_go_from_server_to_server_can_rely_on_everything() {
    let stage = Stage::set().await;
    timeout(PATIENCE, everybody(&stage, 1)).await.unwrap();
    let recording = stage.recorder.recording();
    let verdict = judge(&recording);
    assert_eq!(verdict.broken, []);
    let counts = verdict.counts;
    assert!(counts.writes > 500 && counts.changes > 1000 && counts.streams > 40, "{counts:?}");
    let moved = stage.moved.load(Ordering::SeqCst);
    assert!(moved > 10, "{moved} resumed elsewhere");
    let read = heureka_history::Recording::parse(&recording.to_lines()).unwrap();
    assert_eq!(judge(&read), verdict);
}
