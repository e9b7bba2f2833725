//! Watches that move from one server of a cluster to another.

use std::sync::atomic::Ordering;

use heureka_model::{BucketSums, KeyHasher, KeyRef};
use heureka_registry::replication::{Identity as Node, Link, Replicator};
use v1::watch_event::Event;
use v1::{ChangeType, SnapshotMode, StartMode};

use super::watch::{Client, Watch, begin, event, following, open, resuming, watch};
use super::*;
use crate::grpc::token::Resume;

/// Two servers and the stream between them.
struct Pair {
    servers: [Server; 2],
    replicators: [Arc<Replicator>; 2],
    link: Option<[Link; 2]>,
}

impl Pair {
    async fn start() -> Self {
        Self::with(Config::default()).await
    }

    async fn with(config: Config) -> Self {
        let server = |boot| Server::with(config.clone(), Limits::default(), Seeds { boot, ..SEEDS }, "blue");
        let servers = [server(1).await, server(2).await];
        let replicators = [0, 1].map(|place: usize| {
            let node = Node { cluster: "blue".into(), node: format!("n{place}"), address: String::new() };
            Arc::new(Replicator::new(servers[place].registry.clone(), node))
        });
        let mut pair = Self { servers, replicators, link: None };
        pair.heal();
        pair
    }

    fn heal(&mut self) {
        let now = self.servers[0].clock.now();
        let [one, other] = &self.replicators;
        let first = one.join(&other.hello(now), "b", true, now).unwrap();
        let second = other.join(&one.hello(now), "a", false, now).unwrap();
        self.link = Some([first, second]);
        self.settle();
    }

    fn cut(&mut self) {
        self.link = None;
    }

    fn tick(&self) {
        self.servers.iter().for_each(|server| server.registry.tick(server.clock.now()));
    }

    fn settle(&mut self) {
        carry(&mut self.link, self.servers[0].clock.now());
    }

    async fn register(&mut self, server: usize, app: &str, id: &str) {
        self.servers[server].register(instance(app, id)).await;
        self.settle();
    }

    async fn cancel(&mut self, server: usize, app: &str, id: &str) {
        self.servers[server].cancel(app, id).await;
        self.settle();
    }

    /// A client that was told everything by the first server.
    async fn told(&self) -> Client {
        let mut client = Client::default();
        client.read(&mut watch(&self.servers[0], v1::WatchSpec::default()).await).await;
        client
    }

    fn resumed(&self, server: usize) -> u64 {
        self.servers[server].grpc.watches.figures().resumed.load(Ordering::Relaxed)
    }
}

/// Carries frames until there is none.
fn carry(link: &mut Option<[Link; 2]>, now: Now) {
    let Some([one, other]) = link else { return };
    loop {
        let frames = (one.next(now), other.next(now));
        if frames == (None, None) {
            return;
        }
        frames.0.into_iter().for_each(|frame| other.receive(frame, now).unwrap());
        frames.1.into_iter().for_each(|frame| one.receive(frame, now).unwrap());
    }
}

async fn resumed(server: &Server, client: &Client) -> Watch {
    watch(server, resuming(client.token.clone())).await
}

#[tokio::test(start_paused = true)]
async fn a_token_leads_on_at_another_server_with_what_was_missed() {
    let mut pair = Pair::start().await;
    for (server, id) in [(0, "a"), (1, "b"), (0, "c")] {
        pair.register(server, "web", id).await;
    }
    let mut client = pair.told().await;
    assert_eq!(client.ids(), ["a", "b", "c"]);
    pair.cancel(0, "web", "a").await;
    pair.register(1, "web", "d").await;
    let missed = client.read(&mut resumed(&pair.servers[1], &client).await).await;
    let told: Vec<_> = missed.iter().map(|(kind, id)| (*kind == ChangeType::Removed, id.as_str())).collect();
    assert_eq!(told, [(true, "a"), (false, "d")]);
    assert_eq!((client.ids(), client.compared, pair.resumed(1)), (vec!["b", "c", "d"], 2, 1));
    // And back, with nothing to tell.
    assert!(client.read(&mut resumed(&pair.servers[0], &client).await).await.is_empty());
    assert_eq!((client.compared, pair.resumed(0)), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn what_matches_no_more_is_told_at_another_server_too() {
    let mut pair = Pair::start().await;
    for id in ["a", "b"] {
        pair.register(0, "web", id).await;
    }
    let up = v1::InstanceSelector { statuses: vec![v1::InstanceStatus::Up.into()], ..Default::default() };
    let spec = v1::WatchSpec { selectors: vec![up], ..Default::default() };
    let mut client = Client::default();
    client.read(&mut watch(&pair.servers[0], spec.clone()).await).await;
    let status = v1::InstanceStatus::Down.into();
    pair.servers[1].register(v1::Instance { status, ..instance("web", "b") }).await;
    pair.settle();
    let spec = v1::WatchSpec { resume_token: client.token.clone(), ..spec };
    let missed = client.read(&mut watch(&pair.servers[1], spec).await).await;
    assert_eq!(missed, [(ChangeType::Removed, "b".to_owned())]);
    assert_eq!((client.ids(), pair.resumed(1)), (vec!["a"], 1));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_lacks_what_was_told_waits_for_it() {
    let mut pair = Pair::start().await;
    pair.register(0, "web", "a").await;
    pair.servers[0].register(instance("web", "late")).await;
    let mut client = pair.told().await;
    let Pair { servers, link, .. } = &mut pair;
    let later = async {
        tokio::time::sleep(Duration::from_millis(1500)).await;
        carry(link, servers[0].clock.now());
        tokio::time::Instant::now()
    };
    let (mut watch, told) = tokio::join!(resumed(&servers[1], &client), later);
    assert!(told.elapsed() < Duration::from_millis(100), "{:?}", told.elapsed());
    assert!(client.read(&mut watch).await.is_empty());
    assert_eq!((client.ids(), client.compared, pair.resumed(1)), (vec!["a", "late"], 2, 1));
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_what_was_told_ends_after_two_seconds() {
    let mut pair = Pair::start().await;
    pair.register(0, "web", "a").await;
    pair.servers[0].register(instance("web", "never")).await;
    let client = pair.told().await;
    let begun = tokio::time::Instant::now();
    let mut watch = resumed(&pair.servers[1], &client).await;
    assert_eq!(begin(event(&mut watch).await), SnapshotMode::Full);
    let waited = begun.elapsed();
    assert!(waited >= Duration::from_secs(2) && waited < Duration::from_millis(2100), "{waited:?}");
    // Nobody is there who could tell it.
    pair.cut();
    let begun = tokio::time::Instant::now();
    let resume_only = v1::WatchSpec { start_mode: StartMode::ResumeOnly.into(), ..resuming(client.token) };
    let answer = open(&pair.servers[1], resume_only).await;
    assert_refused(answer, Code::OutOfRange, "RESUME_TOKEN_EXPIRED", "");
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_removal_that_another_server_forgot_is_not_passed_over_in_silence() {
    let mut pair = Pair::with(Config { tombstone_max: 1, ..Config::default() }).await;
    for id in ["a", "b", "c"] {
        pair.register(0, "web", id).await;
    }
    let mut early = pair.told().await;
    for id in ["a", "b"] {
        pair.cancel(0, "web", id).await;
    }
    let mut late = pair.told().await;
    pair.servers[1].pass(1).await;
    assert!(pair.servers[1].registry.floor() > 0, "a removal was forgotten");
    let mut watch = resumed(&pair.servers[1], &early).await;
    early.read(&mut watch).await;
    assert_eq!((early.ids(), pair.resumed(1)), (vec!["c"], 0));
    late.read(&mut resumed(&pair.servers[1], &late).await).await;
    assert_eq!((late.ids(), pair.resumed(1)), (vec!["c"], 1));
}

fn vector(token: &[u8]) -> Vec<u64> {
    Resume::decode(token, "blue").unwrap().vector.iter().map(|position| position.boot).collect()
}

#[tokio::test(start_paused = true)]
async fn a_token_says_only_what_was_told() {
    let mut pair = Pair::start().await;
    for id in 0..300 {
        pair.servers[0].register(instance("web", &id.to_string())).await;
        // Each waits for the other server in vain, and so many waits in a row without a tick would be a pause.
        pair.tick();
    }
    let spec = v1::WatchSpec { max_batch_size: 10, ..Default::default() };
    let mut watch = watch(&pair.servers[0], spec).await;
    begin(event(&mut watch).await);
    // The other server writes while the snapshot is told: nobody was told of that yet.
    pair.register(1, "web", "other").await;
    let mut client = Client::default();
    client.read(&mut watch).await;
    let is_told = client.ids().contains(&"other");
    assert_eq!(vector(&client.token).contains(&2), is_told);
    pair.servers[0].pass(10).await;
    client.read(&mut watch).await;
    assert!(client.ids().contains(&"other"));
    assert_eq!(vector(&client.token), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn the_token_of_a_list_leads_on_at_another_server() {
    let mut pair = Pair::start().await;
    for id in ["a", "b", "c"] {
        pair.register(0, "web", id).await;
    }
    let request = v1::ListInstancesRequest { page_size: 2, ..Default::default() };
    let first = pair.servers[0].reader().list_instances(request.clone()).await.unwrap().into_inner();
    let next = v1::ListInstancesRequest { page_token: first.next_page_token.clone(), ..request };
    let last = pair.servers[0].reader().list_instances(next.clone()).await.unwrap().into_inner();
    pair.register(1, "web", "d").await;
    let mut client = Client::default();
    client.token = last.resume_token;
    for listed in first.instances.into_iter().chain(last.instances) {
        let key = listed.key.clone().unwrap();
        client.held.insert((key.app, key.id), listed);
    }
    let missed = client.read(&mut resumed(&pair.servers[1], &client).await).await;
    assert_eq!(missed.len(), 1);
    // A list in two parts of two servers is of no one moment.
    let elsewhere = pair.servers[1].reader().list_instances(next).await.unwrap().into_inner();
    for server in &pair.servers {
        let mut watch = watch(server, resuming(elsewhere.resume_token.clone())).await;
        assert_eq!(begin(event(&mut watch).await), SnapshotMode::Full);
    }
}

/// Digests of what is held, by application.
fn known(client: &Client) -> Vec<v1::AppDigest> {
    let mut digests = std::collections::BTreeMap::<&str, heureka_model::SetDigest>::new();
    for ((app, _), held) in &client.held {
        let registration = heureka_model::Registration::try_from(held.clone()).unwrap();
        digests.entry(app).or_default().add(registration.hash(), registration.status());
    }
    let known = |(app, digest): (&str, heureka_model::SetDigest)| v1::AppDigest {
        namespace: String::new(),
        app: app.to_owned(),
        digest: Some(digest.into()),
        buckets: Vec::new(),
    };
    digests.into_iter().map(known).collect()
}

#[tokio::test(start_paused = true)]
async fn without_a_token_that_leads_on_only_applications_that_differ_are_told() {
    let mut pair = Pair::start().await;
    for (app, id) in [("same", "1"), ("same", "2"), ("changed", "1"), ("changed", "2"), ("gone", "1")] {
        pair.register(0, app, id).await;
    }
    let mut client = pair.told().await;
    pair.cancel(0, "changed", "1").await;
    pair.cancel(0, "gone", "1").await;
    pair.register(0, "new", "1").await;
    let spec = v1::WatchSpec { known_digests: known(&client), ..Default::default() };
    let mut watched = watch(&pair.servers[1], spec.clone()).await;
    let missed = client.read(&mut watched).await;
    let mut told: Vec<&str> = missed.iter().map(|(_, id)| id.as_str()).collect();
    told.sort_unstable();
    assert_eq!(told, ["1", "2"], "the rest of what changed, and what is new");
    assert_eq!((client.held.len(), client.compared), (4, 2));
    assert_eq!(pair.servers[1].grpc.watches.figures().differing.load(Ordering::Relaxed), 1);
    // With selectors that every instance has to be looked at for.
    let up = v1::InstanceSelector { statuses: vec![v1::InstanceStatus::Up.into()], ..Default::default() };
    let spec = v1::WatchSpec { selectors: vec![up], known_digests: known(&client), ..spec };
    let mut again = watch(&pair.servers[0], spec).await;
    assert!(client.read(&mut again).await.is_empty());
    assert_eq!(client.compared, 3);
}

#[tokio::test(start_paused = true)]
async fn of_a_large_application_only_the_buckets_that_differ_are_told() {
    let mut pair = Pair::start().await;
    for id in 0..40 {
        pair.register(0, "web", &id.to_string()).await;
    }
    let client = pair.told().await;
    let hasher = |id: &str| KeyHasher::new(KeyRef { namespace: "", app: "WEB", id });
    let mut known = known(&client);
    let mut sums = BucketSums::new(8);
    for held in client.held.values() {
        let held = heureka_model::Registration::try_from(held.clone()).unwrap();
        sums.add(held.instance.key.as_ref(), &held.version);
    }
    known[0].buckets = sums.into_sums();
    pair.cancel(0, "web", "7").await;
    let spec = v1::WatchSpec { known_digests: known, ..Default::default() };
    let mut watched = watch(&pair.servers[1], spec).await;
    let Event::SnapshotBegin(begin) = event(&mut watched).await else { panic!("it begins") };
    assert_eq!((begin.mode(), begin.apps.len()), (SnapshotMode::Diff, 0));
    let part = &begin.parts[0];
    let number = hasher("7").bucket(8) as u32;
    assert_eq!((&*part.app, part.bucket_count, &part.buckets[..]), ("WEB", 8, &[number][..]));
    let Event::Changes(batch) = event(&mut watched).await else { panic!("the rest of that bucket") };
    let mut told: Vec<String> = batch.changes.into_iter().map(|change| change.key.unwrap().id).collect();
    told.sort();
    let of_bucket = (0..40).map(|id| id.to_string());
    let of_bucket = of_bucket.filter(|id| id != "7" && hasher(id).bucket(8) as u32 == number);
    let mut of_bucket: Vec<String> = of_bucket.collect();
    of_bucket.sort();
    assert_eq!(told, of_bucket);
}

#[tokio::test(start_paused = true)]
async fn a_token_is_worth_more_than_digests_and_both_more_than_everything() {
    let mut pair = Pair::start().await;
    pair.register(0, "web", "a").await;
    let client = pair.told().await;
    let spec = v1::WatchSpec { known_digests: known(&client), ..resuming(client.token.clone()) };
    let mut watched = watch(&pair.servers[1], spec.clone()).await;
    assert_eq!(begin(event(&mut watched).await), SnapshotMode::Resume);
    let other = v1::WatchSpec { selectors: following("web").selectors, ..spec };
    let mut watched = watch(&pair.servers[1], other).await;
    assert_eq!(begin(event(&mut watched).await), SnapshotMode::Diff);
    let nothing = v1::WatchSpec { known_digests: Vec::new(), ..resuming(client.token) };
    let mut watched =
        watch(&pair.servers[1], v1::WatchSpec { resume_token: Default::default(), ..nothing }).await;
    assert_eq!(begin(event(&mut watched).await), SnapshotMode::Full);
}

#[tokio::test(start_paused = true)]
async fn overdue_instances_are_suspect_in_a_snapshot_and_never_in_a_change() {
    let server = Server::start().await;
    server.register(instance("web", "a")).await;
    let mut live = Client::default();
    let mut watching = watch(&server, v1::WatchSpec::default()).await;
    live.read(&mut watching).await;
    server.pass(46).await;
    server.register(instance("web", "b")).await;
    let mut client = Client::default();
    client.read(&mut watch(&server, v1::WatchSpec::default()).await).await;
    let suspect = |client: &Client| client.held.values().map(|held| held.suspect).collect::<Vec<_>>();
    assert_eq!(suspect(&client), [true, false]);
    while suspect(&live).len() < 2 {
        live.read(&mut watching).await;
    }
    assert_eq!(suspect(&live), [false, false], "that a renewal is late is no change");
}
