//! A real server under writers, with watchers of every kind: nothing they rely on is broken.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use heureka_client::{Client, Settings};
use heureka_history::{Recorder, Tap, check, judge};
use heureka_model::{Clock, Mono, Now, Wall};
use heureka_proto::v1;
use heureka_proto::v1::discovery_service_client::DiscoveryServiceClient;
use heureka_proto::v1::registry_service_client::RegistryServiceClient;
use heureka_proto::v1::watch_event::Event;
use heureka_registry::Seeds;
use heureka_server::config::{Config, Sources};
use heureka_server::telemetry::LineBudget;
use heureka_server::{Running, Server, World};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint};

/// Calls; some write a batch.
const CALLS: u64 = 1200;
const BATCH: usize = 10;
const APPS: [&str; 3] = ["WEB", "DB", "CACHE"];
const IDS: u32 = 40;
/// What the clock moves with each write, so that marks come between them.
const STEP: u64 = 50;
/// No lease ends.
const LEASE: prost_types::Duration = prost_types::Duration { seconds: 24 * 3600, nanos: 0 };
/// The bookmark interval that is asked for.
const INTERVAL: u64 = 1000;
/// Longest run, far beyond what it takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// Moves with the writes.
#[derive(Debug, Default)]
struct ManualClock(AtomicU64);

impl Clock for ManualClock {
    fn now(&self) -> Now {
        let millis = self.0.load(Ordering::SeqCst);
        Now { mono: Mono(millis), wall: Wall(1_800_000_000_000 + millis) }
    }
}

/// How far the writer is.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    writes: u64,
    /// Revision of the last write of all.
    last: Option<u64>,
}

async fn start(clock: Arc<ManualClock>) -> (Running, SocketAddr) {
    let config = Config::load(&Sources::default()).unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let world = World { clock, seeds: Seeds { boot: 1, hash: 2, shuffle: 3 }, lines: LineBudget::new(100) };
    (Server::new(config, world).start(vec![listener]).await.unwrap(), address)
}

/// A connection of its own that is recorded as `watcher`.
fn tapped(recorder: &Recorder, address: SocketAddr, watcher: &str) -> Tap<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    // Small, so that a slow reader shuts it.
    recorder.tap(watcher, endpoint.initial_stream_window_size(4096).connect_lazy())
}

struct Writer {
    registry: RegistryServiceClient<Tap<Channel>>,
    random: StdRng,
}

impl Writer {
    fn key(&mut self) -> v1::InstanceKey {
        let app = APPS[self.random.random_range(0..APPS.len())];
        let id = format!("n{}", self.random.random_range(0..IDS));
        v1::InstanceKey { namespace: String::new(), app: app.into(), id }
    }

    fn registration(&mut self) -> v1::RegisterRequest {
        let status = [1, 1, 2, 3][self.random.random_range(0..4)];
        let value = "v".repeat(self.random.random_range(0..400));
        let instance = v1::Instance {
            key: Some(self.key()),
            status,
            ip_address: "10.0.0.1".into(),
            host_name: "host".into(),
            metadata: [("k".to_owned(), value)].into(),
            lease: Some(v1::Lease { duration: Some(LEASE), ..v1::Lease::default() }),
            ..v1::Instance::default()
        };
        v1::RegisterRequest { instance: Some(instance), ..v1::RegisterRequest::default() }
    }

    /// A random write; one that is refused, since its key has no lease, is none.
    async fn write(&mut self) {
        let key = Some(self.key());
        let refused = match self.random.random_range(0..10) {
            0..4 => {
                let request = self.registration();
                self.registry.register(request).await.err()
            }
            4 => {
                let requests = (0..BATCH).map(|_| self.registration()).collect();
                self.registry.batch_register(v1::BatchRegisterRequest { requests }).await.err()
            }
            5..7 => self.registry.cancel(v1::CancelRequest { key, writer: None }).await.err(),
            7 => {
                let status = v1::InstanceStatus::OutOfService.into();
                let request = v1::SetStatusOverrideRequest { key, status, ..Default::default() };
                self.registry.set_status_override(request).await.err()
            }
            8 => {
                let request = v1::ClearStatusOverrideRequest { key, ..Default::default() };
                self.registry.clear_status_override(request).await.err()
            }
            _ => {
                let set = [("k".to_owned(), self.random.random::<u32>().to_string())].into();
                let request = v1::UpdateMetadataRequest { key, set, ..Default::default() };
                self.registry.update_metadata(request).await.err()
            }
        };
        assert!(refused.is_none_or(|status| status.code() == tonic::Code::NotFound));
    }

    /// All writes, and a last one after which every watcher gets a mark.
    async fn run(mut self, clock: Arc<ManualClock>, progress: watch::Sender<Progress>) {
        for writes in 0..CALLS {
            self.write().await;
            clock.0.fetch_add(STEP, Ordering::SeqCst);
            progress.send_replace(Progress { writes, last: None });
        }
        let request = self.registration();
        let response = self.registry.register(request).await.unwrap().into_inner();
        let last = Some(response.header.unwrap().revision);
        progress.send_replace(Progress { writes: u64::MAX, last });
        clock.0.fetch_add(INTERVAL, Ordering::SeqCst);
    }
}

/// How a watcher reads.
#[derive(Clone, Copy)]
enum Manner {
    /// As fast as it can.
    Steady,
    /// A message, then not again before so many writes.
    Slow(u64),
    /// So many messages at most, then another stream from the last token.
    Restless(u32),
}

struct Watching {
    transport: Tap<Channel>,
    spec: v1::WatchSpec,
    manner: Manner,
    progress: watch::Receiver<Progress>,
    clock: Arc<ManualClock>,
    random: StdRng,
}

impl Watching {
    /// Reads until a mark covers the last write.
    async fn run(mut self) {
        while !self.stream().await {}
    }

    /// Reads one stream; whether there is nothing more to hear.
    async fn stream(&mut self) -> bool {
        let mut client = DiscoveryServiceClient::new(self.transport.clone());
        let request = v1::WatchRequest { spec: Some(self.spec.clone()), client_name: String::new() };
        let mut stream = client.watch(request).await.unwrap().into_inner();
        let (mut heard, (most, anywhere)) = (0, self.patience());
        while let Some(message) = stream.message().await.unwrap() {
            heard += 1;
            let mark = mark(message);
            let marked = mark.is_some();
            if let Some((token, revision)) = mark {
                self.spec.resume_token = token;
                if self.is_last(revision) {
                    return true;
                }
            }
            if heard >= most && (marked || anywhere) {
                break;
            }
            self.pause().await;
        }
        false
    }

    /// Whether the mark covers the last write of all. If it does not although that is written, the next is due.
    fn is_last(&self, revision: u64) -> bool {
        let Some(last) = self.progress.borrow().last else { return false };
        if revision < last {
            self.clock.0.fetch_add(INTERVAL, Ordering::SeqCst);
        }
        revision >= last
    }

    /// Messages until the stream is left, and whether that may be anywhere or right after a mark.
    fn patience(&mut self) -> (u32, bool) {
        match self.manner {
            Manner::Restless(most) => (self.random.random_range(1..=most), self.random.random_bool(0.3)),
            _ => (u32::MAX, false),
        }
    }

    async fn pause(&mut self) {
        if let Manner::Slow(writes) = self.manner {
            let until = self.progress.borrow().writes.saturating_add(writes);
            self.progress.wait_for(|progress| progress.writes >= until).await.unwrap();
        }
    }
}

/// Token and revision of a SnapshotEnd or a Bookmark.
fn mark(message: v1::WatchResponse) -> Option<(Bytes, u64)> {
    match message.event.unwrap().event.unwrap() {
        Event::SnapshotEnd(end) => Some((end.resume_token, end.revision)),
        Event::Bookmark(mark) => Some((mark.resume_token, mark.revision)),
        _ => None,
    }
}

fn spec(selector: v1::InstanceSelector) -> v1::WatchSpec {
    let second = prost_types::Duration { seconds: 1, nanos: 0 };
    v1::WatchSpec {
        selectors: vec![selector],
        max_batch_size: 7,
        bookmark_interval: Some(second),
        ..v1::WatchSpec::default()
    }
}

fn everything() -> v1::InstanceSelector {
    v1::InstanceSelector::default()
}

fn web() -> v1::InstanceSelector {
    v1::InstanceSelector { apps: vec!["web".into()], ..everything() }
}

fn up() -> v1::InstanceSelector {
    v1::InstanceSelector { statuses: vec![v1::InstanceStatus::Up.into()], ..everything() }
}

fn watchers() -> [(&'static str, v1::InstanceSelector, Manner); 8] {
    [
        ("all", everything(), Manner::Steady),
        ("web", web(), Manner::Steady),
        ("up", up(), Manner::Steady),
        ("slow", everything(), Manner::Slow(150)),
        ("slow up", up(), Manner::Slow(70)),
        ("restless", everything(), Manner::Restless(9)),
        ("restless web", web(), Manner::Restless(4)),
        ("restless up", up(), Manner::Restless(20)),
    ]
}

/// Every instance that `selector` matches, page by page, while nothing changes.
async fn rest(recorder: &Recorder, address: SocketAddr, watcher: &str, selector: v1::InstanceSelector) {
    let mut client = DiscoveryServiceClient::new(tapped(recorder, address, "lists"));
    let mut request =
        v1::ListInstancesRequest { selectors: vec![selector], page_size: 10, ..Default::default() };
    loop {
        let page = client.list_instances(request.clone()).await.unwrap().into_inner();
        recorder.rested(watcher, request.clone(), page.clone());
        if page.next_page_token.is_empty() {
            return;
        }
        request.page_token = page.next_page_token;
    }
}

/// Lists, then watches from where the list was cut.
async fn list_then_watch(recorder: &Recorder, address: SocketAddr, watching: Watching) {
    let mut client = DiscoveryServiceClient::new(watching.transport.clone());
    let selectors = watching.spec.selectors.clone();
    let mut request = v1::ListInstancesRequest { selectors, page_size: 5, ..Default::default() };
    let token = loop {
        let page = client.list_instances(request.clone()).await.unwrap().into_inner();
        recorder.listed("listing", request.clone(), page.clone());
        if page.next_page_token.is_empty() {
            break page.resume_token;
        }
        request.page_token = page.next_page_token;
    };
    let spec = v1::WatchSpec { resume_token: token, ..watching.spec.clone() };
    Watching { spec, ..watching }.run().await;
    rest(recorder, address, "listing", everything()).await;
}

/// The client of this workspace, until it holds what is there in the end.
async fn our_client(transport: Tap<Channel>, mut progress: watch::Receiver<Progress>) {
    let settings = Settings { bookmark_interval: Duration::from_millis(INTERVAL), ..Settings::default() };
    let client = Client::over(settings, vec![transport]).unwrap();
    let mut events = pin!(client.watch(Vec::new()));
    assert!(events.next().await.unwrap().is_ok());
    let mut done = pin!(progress.wait_for(|progress| progress.last.is_some()));
    loop {
        tokio::select! {
            event = events.next() => assert!(event.unwrap().is_ok()),
            _ = &mut done => return,
        }
    }
}

/// Many subscriptions of this workspace's client on one stream, of which one comes late and one goes, until all is
/// written and each of those that stay has told what is there then.
async fn our_many(transport: Tap<Channel>, mut progress: watch::Receiver<Progress>) {
    let settings = Settings { bookmark_interval: Duration::from_millis(INTERVAL), ..Settings::default() };
    let mut many = Client::over(settings, vec![transport]).unwrap().watch_many();
    for selector in [everything(), web(), web(), up()] {
        many.subscribe(vec![selector]);
    }
    let brief = many.subscribe(vec![web()]);
    let subscriptions = many.subscriptions();
    let mut halfway = progress.clone();
    let mut changed = pin!(async move {
        halfway.wait_for(|progress| progress.writes > 300).await.map(drop).unwrap();
        subscriptions.unsubscribe(brief);
        subscriptions.subscribe(vec![up()]);
        std::future::pending::<()>().await;
    });
    let mut done = pin!(progress.wait_for(|progress| progress.last.is_some()));
    loop {
        tokio::select! {
            told = many.next() => assert!(told.unwrap().1.is_ok()),
            () = &mut changed => {}
            _ = &mut done => return,
        }
    }
}

async fn everybody(recorder: &Recorder, address: SocketAddr, clock: Arc<ManualClock>) {
    let (sender, progress) = watch::channel(Progress::default());
    let seed = |number| StdRng::seed_from_u64(number);
    let mut tasks = JoinSet::new();
    let watching = |name: &str, selector, manner, number| Watching {
        transport: tapped(recorder, address, name),
        spec: spec(selector),
        manner,
        progress: progress.clone(),
        clock: clock.clone(),
        random: seed(number),
    };
    for (number, (name, selector, manner)) in (1..).zip(watchers()) {
        tasks.spawn(watching(name, selector, manner, number).run());
    }
    tasks.spawn(our_client(tapped(recorder, address, "ours"), progress.clone()));
    tasks.spawn(our_many(tapped(recorder, address, "many"), progress.clone()));
    let listing = watching("listing", everything(), Manner::Steady, 0);
    let noting = recorder.clone();
    tasks.spawn(async move { list_then_watch(&noting, address, listing).await });
    let registry = RegistryServiceClient::new(tapped(recorder, address, "writer"));
    tasks.spawn(Writer { registry, random: seed(99) }.run(clock.clone(), sender));
    tasks.join_all().await;
    for (name, selector, _) in watchers() {
        rest(recorder, address, name, selector).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watchers_of_a_server_under_writers_can_rely_on_everything() {
    let clock = Arc::new(ManualClock::default());
    let (running, address) = start(clock.clone()).await;
    let recorder = Recorder::new();
    tokio::time::timeout(PATIENCE, everybody(&recorder, address, clock)).await.unwrap();
    drop(running);
    let recording = recorder.recording();
    let verdict = judge(&recording);
    assert_eq!(verdict.broken, []);
    let counts = verdict.counts;
    // Fewer where watchers are slow beside the writer: then each is told more at a time.
    assert!(counts.writes > 1500 && counts.changes > 2000 && counts.streams > 30, "{counts:?}");
    assert!(counts.digests > 80, "{counts:?}");
    let of_many: BTreeSet<_> = recording
        .steps()
        .iter()
        .map(|step| &*step.watcher)
        .filter(|watcher| watcher.starts_with("many#"))
        .collect();
    assert_eq!(of_many.len(), 6, "{of_many:?}");
    let read = heureka_history::Recording::parse(&recording.to_lines()).unwrap();
    assert_eq!(check(&read), []);
}
