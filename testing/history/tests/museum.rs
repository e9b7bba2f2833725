//! Faults that other registries had in their watches, each as a test of ours. `docs/testing.md` lists all exhibits, and
//! which of them are held elsewhere.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use heureka_history::{Recorder, Tap, check};
use heureka_model::{Clock, Instance, InstanceKey, Mono, Now, Selectors, Wall};
use heureka_proto::v1;
use heureka_proto::v1::discovery_service_client::DiscoveryServiceClient;
use heureka_proto::v1::registry_service_client::RegistryServiceClient;
use heureka_proto::v1::watch_event::Event;
use heureka_proto::v1::watch_many_request::Request as Asked;
use heureka_proto::v1::watch_many_response::Response as Content;
use heureka_registry::{Claim, Origin, RegisterMode, Registry, Seeds, Start, Subscription, Surface};
use heureka_server::config::{Config, Sources};
use heureka_server::telemetry::LineBudget;
use heureka_server::{Running, Server, World};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};

/// Longest test.
const PATIENCE: Duration = Duration::from_mins(2);

/// A server, and who writes to it and reads from it.
struct Bench {
    _running: Running,
    address: SocketAddr,
    registry: RegistryServiceClient<Channel>,
    recorder: Recorder,
}

/// A clock that stands still, so that no lease ends.
#[derive(Debug, Default)]
struct Still(AtomicU64);

impl Clock for Still {
    fn now(&self) -> Now {
        // Every reading is a millisecond later, so that stamps differ.
        let millis = self.0.fetch_add(1, Ordering::Relaxed);
        Now { mono: Mono(millis), wall: Wall(1_800_000_000_000 + millis) }
    }
}

impl Bench {
    async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let seeds = Seeds { boot: 1, hash: 2, shuffle: 3 };
        let world = World { clock: Arc::new(Still::default()), seeds, lines: LineBudget::new(100) };
        let config = Config::load(&Sources::default()).unwrap();
        let running = Server::new(config, world).start(vec![listener]).await.unwrap();
        let registry = RegistryServiceClient::new(channel(address));
        Self { _running: running, address, registry, recorder: Recorder::new() }
    }

    fn reader(&self, watcher: &str) -> DiscoveryServiceClient<Tap<Channel>> {
        DiscoveryServiceClient::new(self.recorder.tap(watcher, channel(self.address)))
    }

    async fn register(&mut self, app: &str, id: &str, host: &str) {
        let instance = v1::Instance { host_name: host.into(), ..instance(app, id) };
        let request = v1::RegisterRequest { instance: Some(instance), ..Default::default() };
        self.registry.register(request).await.unwrap();
    }

    async fn cancel(&mut self, app: &str, id: &str) {
        let request = v1::CancelRequest { key: Some(key(app, id)), writer: None };
        assert!(self.registry.cancel(request).await.unwrap().into_inner().existed);
    }
}

fn channel(address: SocketAddr) -> Channel {
    Endpoint::from_shared(format!("http://{address}")).unwrap().connect_lazy()
}

fn key(app: &str, id: &str) -> v1::InstanceKey {
    v1::InstanceKey { namespace: String::new(), app: app.into(), id: id.into() }
}

fn instance(app: &str, id: &str) -> v1::Instance {
    v1::Instance {
        key: Some(key(app, id)),
        status: v1::InstanceStatus::Up.into(),
        ip_address: "10.0.0.1".into(),
        ..v1::Instance::default()
    }
}

fn spec(app: &str) -> v1::WatchSpec {
    v1::WatchSpec {
        selectors: vec![v1::InstanceSelector { apps: vec![app.into()], ..Default::default() }],
        bookmark_interval: Some(prost_types::Duration { seconds: 1, nanos: 0 }),
        ..v1::WatchSpec::default()
    }
}

async fn bounded(test: impl Future<Output = ()>) {
    assert!(tokio::time::timeout(PATIENCE, test).await.is_ok(), "nothing more happened");
}

async fn event(stream: &mut Streaming<v1::WatchResponse>) -> Event {
    stream.message().await.unwrap().unwrap().event.unwrap().event.unwrap()
}

/// The next changes, whatever marks come before: kind and id.
async fn changes(stream: &mut Streaming<v1::WatchResponse>) -> Vec<(v1::ChangeType, String)> {
    loop {
        if let Event::Changes(batch) = event(stream).await {
            return batch.changes.into_iter().map(brief).collect();
        }
    }
}

fn brief(change: v1::Change) -> (v1::ChangeType, String) {
    (change.r#type(), change.key.unwrap().id)
}

async fn watched(bench: &Bench, app: &str) -> Streaming<v1::WatchResponse> {
    let request = v1::WatchRequest { spec: Some(spec(app)), client_name: String::new() };
    let mut stream = bench.reader("w").watch(request).await.unwrap().into_inner();
    while !matches!(event(&mut stream).await, Event::SnapshotEnd(_)) {}
    stream
}

/// etcd 22294: with more lagging watchers than one round of compaction looked at, some stayed registered and were
/// notified each round.
#[test]
fn all_readers_that_forgetting_overtook_start_again_once_and_are_left_alone() {
    const READERS: usize = 1500;
    let config = heureka_registry::Config { tombstone_max: 1, ..Default::default() };
    let mut now = Still::default().now();
    let registry = Registry::new(config, Seeds { boot: 1, hash: 2, shuffle: 3 }, now);
    let origin = Origin::Client { surface: Surface::Grpc, principal: None, address: None };
    let named = |id: usize| InstanceKey { namespace: String::new(), app: "WEB".into(), id: id.to_string() };
    for id in 0..20 {
        let instance = Instance::new(named(id));
        registry.register(&instance, Claim::Next, RegisterMode::Upsert, &origin, now).unwrap();
    }
    let begin = |start| Subscription::new(&registry, Selectors::default(), start);
    let mut readers: Vec<_> = (0..READERS).map(|_| begin(Start::After(registry.head()))).collect();
    for id in 0..10 {
        registry.cancel(named(id).as_ref(), Claim::Next, &origin, now).unwrap();
    }
    now.mono.0 += 1000;
    registry.tick(now);
    assert!(readers.iter().all(|reader| reader.is_lost(&registry)), "the removals are forgotten");

    let mut told = 0;
    for reader in &mut readers {
        *reader = begin(Start::Full);
        while !reader.poll(&registry, 7, now).at_head {}
        told += usize::from(reader.digest(&registry).is_some_and(|digest| digest.counts.total() == 10));
    }
    assert_eq!(told, READERS);
    let mut news: Vec<_> = readers.iter().map(Subscription::changes).collect();
    registry.herald();
    news.iter_mut().for_each(tokio::sync::watch::Receiver::mark_unchanged);
    for _ in 0..3 {
        now.mono.0 += 1000;
        registry.tick(now);
        registry.herald();
    }
    assert!(readers.iter().all(|reader| !reader.is_lost(&registry)));
    assert!(news.iter().all(|news| !news.has_changed().unwrap()), "nobody is woken again");
}

/// etcd 17529: of hundreds of watches on one stream some were told nothing for minutes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_hundred_watches_on_one_stream_are_all_told_beside_one_that_never_rests() {
    const QUIET: u32 = 300;
    bounded(async {
        let mut bench = Bench::start().await;
        let (requests, mut responses) = many(&bench).await;
        for number in 1..=QUIET {
            requests.send(subscribe(number, &format!("APP{number}"))).await.unwrap();
        }
        requests.send(subscribe(QUIET + 1, "NOISE")).await.unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let noise = tokio::spawn(noise(bench.registry.clone(), over.clone()));
        for number in 1..=QUIET {
            bench.register(&format!("APP{number}"), "n1", "host").await;
        }
        let mut waiting: BTreeSet<u32> = (1..=QUIET).collect();
        let mut noisy = 0;
        while !waiting.is_empty() || noisy < 10 {
            let response = responses.message().await.unwrap().unwrap();
            if let Some(Content::Event(v1::WatchEvent { event: Some(Event::Changes(_)) })) = response.response
            {
                waiting.remove(&response.subscription_id);
                noisy += u32::from(response.subscription_id > QUIET);
            }
        }
        over.store(true, Ordering::Relaxed);
        noise.await.unwrap();
        drop((requests, responses));
        assert_eq!(check(&bench.recorder.recording()), []);
    })
    .await;
}

async fn noise(mut registry: RegistryServiceClient<Channel>, over: Arc<AtomicBool>) {
    let mut count = 0_u64;
    while !over.load(Ordering::Relaxed) {
        count += 1;
        let instance = v1::Instance { host_name: count.to_string(), ..instance("NOISE", "n") };
        let request = v1::RegisterRequest { instance: Some(instance), ..Default::default() };
        registry.register(request).await.unwrap();
    }
}

async fn many(bench: &Bench) -> (mpsc::Sender<v1::WatchManyRequest>, Streaming<v1::WatchManyResponse>) {
    let (sender, receiver) = mpsc::channel(16);
    sender.send(asks(Asked::Hello(v1::WatchHello::default()))).await.unwrap();
    let requests = futures_util::stream::unfold(receiver, |mut receiver| async move {
        Some((receiver.recv().await?, receiver))
    });
    let responses = bench.reader("many").watch_many(requests).await.unwrap().into_inner();
    (sender, responses)
}

fn asks(request: Asked) -> v1::WatchManyRequest {
    v1::WatchManyRequest { request: Some(request) }
}

fn subscribe(subscription_id: u32, app: &str) -> v1::WatchManyRequest {
    asks(Asked::Subscribe(v1::Subscribe { subscription_id, spec: Some(spec(app)) }))
}

/// Consul 10987: the removal of what was watched ended the watch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_goes_and_comes_back_is_told_on_the_same_stream() {
    bounded(async {
        let mut bench = Bench::start().await;
        bench.register("WEB", "n1", "one").await;
        let mut stream = watched(&bench, "WEB").await;
        for host in ["two", "three"] {
            bench.cancel("WEB", "n1").await;
            assert_eq!(changes(&mut stream).await, [(v1::ChangeType::Removed, "n1".to_owned())]);
            bench.register("WEB", "n1", host).await;
            assert_eq!(changes(&mut stream).await, [(v1::ChangeType::Added, "n1".to_owned())]);
        }
        drop(stream);
        assert_eq!(check(&bench.recorder.recording()), []);
    })
    .await;
}

/// Envoy 22418: whoever subscribed again was told nothing, since the server took it to know everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_who_subscribes_again_without_a_token_is_told_everything_again() {
    bounded(async {
        let mut bench = Bench::start().await;
        bench.register("WEB", "n1", "host").await;
        let (requests, mut responses) = many(&bench).await;
        for number in [1, 2] {
            requests.send(subscribe(number, "WEB")).await.unwrap();
            let mut told = Vec::new();
            loop {
                let response = responses.message().await.unwrap().unwrap();
                match response.response.unwrap() {
                    Content::Event(v1::WatchEvent { event: Some(Event::Changes(batch)) }) => {
                        told.extend(batch.changes.into_iter().map(brief));
                    }
                    Content::Event(v1::WatchEvent { event: Some(Event::SnapshotEnd(_)) }) => break,
                    _ => {}
                }
            }
            assert_eq!(told, [(v1::ChangeType::Added, "n1".to_owned())], "time {number}");
            requests
                .send(asks(Asked::Unsubscribe(v1::Unsubscribe { subscription_id: number })))
                .await
                .unwrap();
        }
        drop((requests, responses));
        assert_eq!(check(&bench.recorder.recording()), []);
    })
    .await;
}

/// Nacos 15794: an identical registration that came again was told to all subscribers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_identical_registration_or_batch_that_comes_again_is_no_event() {
    bounded(async {
        let mut bench = Bench::start().await;
        bench.register("WEB", "n1", "host").await;
        let mut stream = watched(&bench, "WEB").await;
        for _ in 0..3 {
            bench.register("WEB", "n1", "host").await;
            let instance = v1::Instance { host_name: "host".into(), ..instance("WEB", "n1") };
            let request = v1::RegisterRequest { instance: Some(instance), ..Default::default() };
            let batch = v1::BatchRegisterRequest { requests: vec![request.clone(), request] };
            bench.registry.batch_register(batch).await.unwrap();
        }
        bench.register("WEB", "n2", "host").await;
        assert_eq!(changes(&mut stream).await, [(v1::ChangeType::Added, "n2".to_owned())]);
    })
    .await;
}

/// SOFA 325: a subscriber of an application without instances was told nothing, or that over and over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_without_instances_is_told_to_be_empty_once() {
    bounded(async {
        let mut bench = Bench::start().await;
        bench.register("OTHER", "n1", "host").await;
        let request = v1::WatchRequest { spec: Some(spec("NONE")), client_name: String::new() };
        let mut stream = bench.reader("w").watch(request).await.unwrap().into_inner();
        assert!(matches!(event(&mut stream).await, Event::SnapshotBegin(begin) if begin.mode() == v1::SnapshotMode::Full));
        let Event::SnapshotEnd(end) = event(&mut stream).await else { panic!("there is nothing to tell") };
        assert_eq!(end.digest.unwrap().instance_count, 0);
        // The clock of the server stands still, so that a change that concerns somebody else is all that comes.
        for id in 0..5 {
            bench.register("OTHER", &format!("n{id}"), "another").await;
        }
        bench.register("NONE", "n1", "host").await;
        assert_eq!(changes(&mut stream).await, [(v1::ChangeType::Added, "n1".to_owned())]);
        drop(stream);
        let messages = bench.recorder.recording().steps().iter().filter(|step| is_begin(&step.what)).count();
        assert_eq!(messages, 1, "it begins once");
        assert_eq!(check(&bench.recorder.recording()), []);
    })
    .await;
}

fn is_begin(what: &heureka_history::What) -> bool {
    let heureka_history::What::Message(bytes) = what else { return false };
    let read: v1::WatchResponse = prost::Message::decode(bytes.clone()).unwrap();
    matches!(read.event.and_then(|event| event.event), Some(Event::SnapshotBegin(_)))
}
