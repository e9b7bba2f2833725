//! Many subscriptions on one stream.

use std::collections::BTreeMap;

use futures_util::Stream;
use futures_util::stream::unfold;
use heureka_model::{Selectors, SetDigest};
use heureka_registry::Config;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::sync::mpsc;
use tonic::Streaming;
use v1::watch_event::Event;
use v1::watch_many_request::Request as Wish;
use v1::watch_many_response::Response as Content;
use v1::{SnapshotMode, StartMode};

use super::watch::{begin, brief, following};
use super::*;
use crate::grpc::status::Reason;

/// More than any test says at once.
const WISHES: usize = 2048;

/// Both ends of a stream, as a client has them.
struct Subscriber {
    wishes: mpsc::Sender<v1::WatchManyRequest>,
    responses: Streaming<v1::WatchManyResponse>,
}

impl Subscriber {
    /// A stream whose client said hello.
    async fn open(server: &Server) -> Self {
        let mut stream = Self::silent(server).await;
        stream.wish(hello());
        stream
    }

    async fn silent(server: &Server) -> Self {
        let (wishes, waiting) = mpsc::channel(WISHES);
        let responses = server.reader().watch_many(received(waiting)).await.unwrap().into_inner();
        Self { wishes, responses }
    }

    fn wish(&mut self, wish: Wish) {
        self.wishes.try_send(v1::WatchManyRequest { request: Some(wish) }).unwrap();
    }

    fn subscribe(&mut self, subscription_id: u32, spec: v1::WatchSpec) {
        self.wish(Wish::Subscribe(v1::Subscribe { subscription_id, spec: Some(spec) }));
    }

    fn unsubscribe(&mut self, subscription_id: u32) {
        self.wish(Wish::Unsubscribe(v1::Unsubscribe { subscription_id }));
    }

    async fn next(&mut self) -> (u32, Content) {
        let response = self.responses.message().await.unwrap().expect("the stream goes on");
        (response.subscription_id, response.response.unwrap())
    }

    async fn event(&mut self) -> (u32, Event) {
        let (id, content) = self.next().await;
        let Content::Event(event) = content else { panic!("no event of {id}: {content:?}") };
        (id, event.event.unwrap())
    }

    /// Code, reason and field with which a subscription was closed.
    async fn closed(&mut self) -> (u32, Code, String, String) {
        let (id, content) = self.next().await;
        let Content::Closed(status) = content else { panic!("{id} goes on: {content:?}") };
        (id, Code::from(status.code), status.reason, status.field)
    }

    /// Reads the whole initial part of the one subscription that has one.
    async fn started(&mut self, id: u32) -> v1::SnapshotEnd {
        assert_eq!(self.event().await.0, id);
        loop {
            if let (told, Event::SnapshotEnd(end)) = self.event().await {
                assert_eq!(told, id);
                return end;
            }
        }
    }

    async fn fault(&mut self) -> Status {
        self.responses.message().await.unwrap_err()
    }
}

fn received(
    waiting: mpsc::Receiver<v1::WatchManyRequest>,
) -> impl Stream<Item = v1::WatchManyRequest> + Send {
    unfold(waiting, |mut waiting| async move { Some((waiting.recv().await?, waiting)) })
}

fn hello() -> Wish {
    Wish::Hello(v1::WatchHello { client_name: "gateway".into() })
}

#[tokio::test(start_paused = true)]
async fn each_subscription_is_told_its_own_set() {
    let server = Server::start().await;
    server.register(instance("web", "w1")).await;
    let mut stream = Subscriber::open(&server).await;
    stream.subscribe(7, following("web"));
    let (id, event) = stream.event().await;
    assert_eq!((id, begin(event)), (7, SnapshotMode::Full));
    let (_, Event::Changes(batch)) = stream.event().await else { panic!("the set comes first") };
    assert_eq!(brief(&batch.changes)[0].1, "w1");
    assert!(matches!(stream.event().await, (7, Event::SnapshotEnd(_))));
    stream.subscribe(8, following("db"));
    stream.started(8).await;
    server.register(instance("db", "d1")).await;
    let (8, Event::Changes(batch)) = stream.event().await else { panic!("only 8 is concerned") };
    assert_eq!(brief(&batch.changes)[0].1, "d1");
}

#[tokio::test(start_paused = true)]
async fn a_subscription_resumes_with_its_token() {
    let server = Server::start().await;
    let mut stream = Subscriber::open(&server).await;
    stream.subscribe(1, following("web"));
    let token = stream.started(1).await.resume_token;
    stream.unsubscribe(1);
    assert_eq!(stream.closed().await, (1, Code::Ok, String::new(), String::new()));
    server.register(instance("web", "w1")).await;
    stream.subscribe(1, v1::WatchSpec { resume_token: token, ..following("web") });
    let (1, event) = stream.event().await else { panic!("the number is free again") };
    assert_eq!(begin(event), SnapshotMode::Resume);
    let (1, Event::Changes(batch)) = stream.event().await else { panic!("what was missed comes") };
    assert_eq!(brief(&batch.changes)[0].1, "w1");
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_alone_ends_with_ok() {
    let server = Server::start().await;
    let mut stream = Subscriber::open(&server).await;
    let start_mode = StartMode::SnapshotOnly.into();
    stream.subscribe(1, v1::WatchSpec { start_mode, ..following("web") });
    stream.started(1).await;
    assert_eq!(stream.closed().await.1, Code::Ok);
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_is_refused_ends_alone() {
    let server = Server::start().await;
    let mut stream = Subscriber::open(&server).await;
    stream.subscribe(1, following("web"));
    stream.started(1).await;
    let bad = Code::InvalidArgument;
    stream.subscribe(2, v1::WatchSpec { max_batch_size: -1, ..following("web") });
    let field = "spec.max_batch_size".to_owned();
    assert_eq!(stream.closed().await, (2, bad, "INVALID_REQUEST".into(), field));
    let start_mode = StartMode::ResumeOnly.into();
    stream.subscribe(3, v1::WatchSpec { start_mode, ..following("web") });
    assert_eq!(stream.closed().await.2, Reason::ResumeTokenExpired.as_str());
    for (id, wish) in [
        (0, Wish::Subscribe(v1::Subscribe { subscription_id: 0, spec: None })),
        (0, Wish::Subscribe(v1::Subscribe { subscription_id: 1, spec: None })),
        (0, Wish::Unsubscribe(v1::Unsubscribe { subscription_id: 9 })),
    ] {
        stream.wish(wish);
        assert_eq!(stream.closed().await, (id, bad, "INVALID_REQUEST".into(), "subscription_id".into()));
    }
    server.register(instance("web", "w1")).await;
    assert!(matches!(stream.event().await, (1, Event::Changes(_))));
    assert_eq!(server.grpc.watches.open(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_said_out_of_turn_ends_the_stream_and_is_named() {
    let server = Server::start().await;
    let subscribe = Wish::Subscribe(v1::Subscribe { subscription_id: 1, spec: None });
    let long = Wish::Hello(v1::WatchHello { client_name: "x".repeat(257) });
    let table = [
        (vec![Some(subscribe)], "hello"),
        (vec![Some(hello()), Some(hello())], "hello"),
        (vec![Some(hello()), None], "request"),
        (vec![Some(long)], "hello.client_name"),
    ];
    for (wishes, field) in table {
        let mut stream = Subscriber::silent(&server).await;
        for request in wishes {
            stream.wishes.try_send(v1::WatchManyRequest { request }).unwrap();
        }
        let expected = (Code::InvalidArgument, "INVALID_REQUEST".to_owned(), field.to_owned());
        assert_eq!(refusal(&stream.fault().await), expected);
        assert!(stream.responses.message().await.unwrap().is_none());
    }
    assert_eq!(server.grpc.watches.open(), 0);
}

#[tokio::test(start_paused = true)]
async fn subscriptions_are_bounded_per_stream_and_per_server() {
    let server =
        Server::with(Config::default(), Limits { watches: 1001, ..Limits::default() }, SEEDS, "blue").await;
    let live = || v1::WatchSpec { start_mode: StartMode::LiveOnly.into(), ..following("web") };
    let mut stream = Subscriber::open(&server).await;
    (1..=1001).for_each(|id| stream.subscribe(id, live()));
    let mut refused = Vec::new();
    for _ in 0..2 * 1000 + 1 {
        if let (id, Content::Closed(status)) = stream.next().await {
            refused.push((id, status.reason));
        }
    }
    assert_eq!(refused, [(1001, "TOO_MANY_WATCHES".to_owned())]);
    let mut other = Subscriber::open(&server).await;
    other.subscribe(1, live());
    other.started(1).await;
    other.subscribe(2, live());
    assert_eq!(other.closed().await.2, "TOO_MANY_WATCHES");
    drop(stream);
    other.subscribe(2, live());
    other.started(2).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_leaves_gives_each_its_token_and_the_stream_one_goodbye() {
    let server = Server::start().await;
    let mut stream = Subscriber::open(&server).await;
    for id in 1..=3 {
        stream.subscribe(id, following("web"));
        stream.started(id).await;
    }
    server.drain.cancel();
    let mut marked = Vec::new();
    for _ in 0..3 {
        let (id, Event::Bookmark(mark)) = stream.event().await else { panic!("each gets a token") };
        assert!(!mark.resume_token.is_empty());
        marked.push(id);
    }
    marked.sort_unstable();
    assert_eq!(marked, [1, 2, 3]);
    let (0, Event::GoAway(goodbye)) = stream.event().await else { panic!("the stream ends") };
    assert!(goodbye.resume_token.is_empty() && goodbye.reason() == v1::GoAwayReason::Draining);
    assert!(stream.responses.message().await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn the_stream_ends_with_its_last_subscription_when_nothing_more_is_asked() {
    let server = Server::start().await;
    let Subscriber { wishes, mut responses } = Subscriber::open(&server).await;
    let start_mode = StartMode::SnapshotOnly.into();
    let spec = Some(v1::WatchSpec { start_mode, ..following("web") });
    let wish = Wish::Subscribe(v1::Subscribe { subscription_id: 1, spec });
    wishes.try_send(v1::WatchManyRequest { request: Some(wish) }).unwrap();
    drop(wishes);
    let mut heard = 0;
    while responses.message().await.unwrap().is_some() {
        heard += 1;
    }
    assert_eq!(heard, 3, "begin, end, closed");
}

/// What one subscription was told.
#[derive(Default)]
struct View {
    held: BTreeMap<String, v1::Version>,
    /// Versions that were told since the last begin.
    told: Vec<v1::Version>,
    digest: Option<v1::SetDigest>,
}

impl View {
    fn hear(&mut self, event: Event) {
        match event {
            Event::SnapshotBegin(_) => *self = Self::default(),
            Event::Changes(batch) => batch.changes.into_iter().for_each(|change| self.apply(change)),
            Event::SnapshotEnd(end) => self.digest = end.digest,
            Event::Bookmark(mark) => self.digest = mark.digest,
            other => panic!("{other:?}"),
        }
    }

    fn apply(&mut self, change: v1::Change) {
        let (kind, key, version) = (change.r#type(), change.key.unwrap(), change.version.unwrap());
        assert!(!self.told.contains(&version), "a version is told once: {version:?}");
        self.told.push(version);
        match kind {
            v1::ChangeType::Removed => self.held.remove(&key.id),
            _ => self.held.insert(key.id, version),
        };
    }
}

/// Reads until each subscription was told the digest that the server's set has.
async fn level(server: &Server, stream: &mut Subscriber, views: &mut BTreeMap<u32, View>) {
    let digests = server.registry.digests(&Selectors::default());
    let expected = Some(digests.first().map_or_else(SetDigest::default, |app| app.digest).into());
    while !views.values().all(|view| view.digest == expected) {
        hear(stream, views).await;
    }
}

/// Reads one message; the subscription that it closed.
async fn hear(stream: &mut Subscriber, views: &mut BTreeMap<u32, View>) -> Option<u32> {
    match stream.next().await {
        (id, Content::Event(event)) => {
            views.get_mut(&id).expect("it was not closed").hear(event.event.unwrap());
            None
        }
        (id, Content::Closed(_)) => Some(id),
    }
}

#[tokio::test(start_paused = true)]
async fn subscriptions_of_the_same_share_a_cursor_once_they_were_told_the_same() {
    let server = Server::start().await;
    let mut stream = Subscriber::open(&server).await;
    for id in 1..=3 {
        stream.subscribe(id, following("web"));
        stream.started(id).await;
    }
    stream.subscribe(4, v1::WatchSpec { max_batch_size: 1, ..following("web") });
    stream.started(4).await;
    assert_eq!(server.registry.subscriptions(), 2, "one that asks for another size goes alone");
    // The one whose watcher goes on for all.
    stream.unsubscribe(1);
    stream.closed().await;
    server.register(instance("web", "w1")).await;
    let mut told = Vec::new();
    for _ in 2..=4 {
        let (id, Event::Changes(batch)) = stream.event().await else { panic!("each is told the change") };
        told.push((id, batch.changes.len()));
    }
    told.sort_unstable();
    assert_eq!(told, [(2, 1), (3, 1), (4, 1)]);
    [2, 3].into_iter().for_each(|id| stream.unsubscribe(id));
    stream.closed().await;
    stream.closed().await;
    assert_eq!((server.registry.subscriptions(), server.grpc.watches.open()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn whatever_comes_and_goes_each_subscription_is_told_every_version_once() {
    for seed in 0..20 {
        let server = Server::start().await;
        let mut stream = Subscriber::open(&server).await;
        let (mut random, mut views, mut live) = (StdRng::seed_from_u64(seed), BTreeMap::new(), 0..0_u32);
        for next in 1..60 {
            match random.random_range(0..6) {
                0 | 1 => {
                    stream.subscribe(next, following("web"));
                    views.insert(next, View::default());
                }
                2 if views.len() > 1 => {
                    let id = *views.keys().nth(random.random_range(0..views.len())).unwrap();
                    stream.unsubscribe(id);
                    while !matches!(hear(&mut stream, &mut views).await, Some(closed) if closed == id) {}
                    views.remove(&id);
                }
                3 if !live.is_empty() => {
                    server.cancel("web", &format!("w{}", live.start)).await;
                    live.start += 1;
                }
                _ => {
                    server.register(instance("web", &format!("w{}", live.end))).await;
                    live.end += 1;
                }
            }
            if random.random_bool(0.3) {
                level(&server, &mut stream, &mut views).await;
            }
        }
        level(&server, &mut stream, &mut views).await;
        let names: Vec<_> = live.map(|n| format!("w{n}")).collect();
        for (id, view) in &views {
            let mut held: Vec<_> = view.held.keys().cloned().collect();
            held.sort_by_key(|name| name[1..].parse::<u32>().unwrap());
            assert_eq!(held, names, "subscription {id}, seed {seed}");
        }
    }
}
