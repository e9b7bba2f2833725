//! Watchers, and how long a change takes to reach the last of them.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use heureka_proto::v1;
use prost_types::Duration as WireDuration;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::frames::{Messages, event_of, is_change};
use super::h2::{self, Event, framed};
use super::load::finish;
use super::requests::{self, REGISTER};
use super::sample::Sample;
use crate::instances::{self, Values};
use crate::watch::Latencies;

/// What is read at a time of a connection; most of them rest.
const ROOM: usize = 2 << 10;

/// Rest between two changes, so that each meets a quiet server: some time, and more for each watcher.
const REST: (Duration, Duration) = (Duration::from_millis(1), Duration::from_micros(2));

/// Longest wait for all watchers.
const PATIENCE: Duration = Duration::from_secs(20);

/// How watchers of one connection are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Each by a stream of its own.
    Each,
    /// All by one stream.
    Together,
}

/// Watchers of everything on several connections.
pub(crate) struct Audience {
    /// Where changes are made.
    writes: SocketAddr,
    heard: Rc<Heard>,
    /// The connections; they close with this value.
    _listening: JoinSet<()>,
    version: usize,
}

/// What all watchers share.
struct Heard {
    watchers: usize,
    /// Which change is out.
    round: Cell<usize>,
    /// Watchers that have not answered, or have not heard of the change.
    missing: Cell<usize>,
    begun: Cell<Instant>,
    latencies: RefCell<Latencies>,
    fault: RefCell<Option<io::Error>>,
    settled: Notify,
}

/// A watcher as its connection knows it.
#[derive(Default)]
struct Watcher {
    messages: Messages,
    /// The change that it heard of last.
    round: usize,
}

impl Audience {
    /// Opens so many connections with so many watchers each and waits until the server took all of them.
    ///
    /// # Errors
    /// A connection that breaks, a watch that is refused.
    pub(super) async fn open(
        address: SocketAddr,
        connections: usize,
        watchers: usize,
        way: Way,
    ) -> io::Result<Self> {
        if way == Way::Each {
            return Self::across(address, address, connections, watchers).await;
        }
        let heard = Rc::new(Heard::of(connections * watchers));
        let mut listening = JoinSet::new();
        for _ in 0..connections {
            let mut connection =
                h2::Connection::open(address, "/heureka.registry.v1.DiscoveryService/WatchMany", ROOM)
                    .await?;
            connection.call(&subscriptions(watchers));
            connection.flush().await?;
            listening.spawn_local(listen_together(connection, watchers, heard.clone()));
        }
        heard.all().await?;
        Ok(Self { writes: address, heard, _listening: listening, version: 0 })
    }

    /// The same of a server that hears of changes from another one, where they are made.
    ///
    /// # Errors
    /// A connection that breaks, a watch that is refused.
    pub(crate) async fn across(
        writes: SocketAddr,
        address: SocketAddr,
        connections: usize,
        streams: usize,
    ) -> io::Result<Self> {
        let heard = Rc::new(Heard::of(connections * streams));
        let mut listening = JoinSet::new();
        for _ in 0..connections {
            let mut connection =
                h2::Connection::open(address, "/heureka.registry.v1.DiscoveryService/Watch", ROOM).await?;
            let request = live();
            for _ in 0..streams {
                connection.call(&request);
            }
            connection.flush().await?;
            listening.spawn_local(listen(connection, streams, heard.clone()));
        }
        heard.all().await?;
        Ok(Self { writes, heard, _listening: listening, version: 0 })
    }

    /// Makes so many changes, one after the other, and measures each from before its request until the last watcher
    /// has it. `cpu` tells how long the servers were on a processor so far.
    ///
    /// # Errors
    /// A connection that breaks, a watch that ends, a change that does not arrive.
    pub(crate) async fn tell(&mut self, cpu: impl Fn() -> f64, changes: usize) -> io::Result<Sample> {
        let rest = REST.0 + REST.1 * self.heard.watchers as u32;
        // A connection that nobody reads while others have their turn would miss the server's pings.
        let mut writer = h2::Connection::open(self.writes, REGISTER, ROOM).await?;
        self.change(&mut writer).await?;
        self.heard.latencies.take();
        let before = cpu();
        for _ in 0..changes {
            tokio::time::sleep(rest).await;
            self.change(&mut writer).await?;
        }
        let used = cpu() - before;
        let spread = self.heard.latencies.take().sorted().spread();
        let deliveries = (changes * self.heard.watchers) as f64;
        Ok(Sample {
            figure: spread.p50 / 1e9,
            latencies: Some(spread),
            cpu: Some(used / deliveries),
            after: None,
        })
    }

    async fn change(&mut self, writer: &mut h2::Connection) -> io::Result<()> {
        self.version += 1;
        let instance = instances::instance(0, Values::Shared, self.version);
        let request = framed(&requests::register(&instance));
        self.heard.begin();
        let (answer, ()) = tokio::try_join!(finish(writer, &request), self.heard.all())?;
        if answer.is_empty() { Err(io::Error::other("a change was refused")) } else { Ok(()) }
    }
}

impl Heard {
    fn of(watchers: usize) -> Self {
        Self {
            watchers,
            round: Cell::default(),
            missing: Cell::new(watchers),
            begun: Cell::new(Latencies::begin()),
            latencies: RefCell::default(),
            fault: RefCell::default(),
            settled: Notify::new(),
        }
    }

    fn begin(&self) {
        self.round.set(self.round.get() + 1);
        self.missing.set(self.watchers);
        self.begun.set(Latencies::begin());
    }

    /// Waits until no watcher is missing.
    async fn all(&self) -> io::Result<()> {
        let settled = async {
            while self.missing.get() > 0 && self.fault.borrow().is_none() {
                self.settled.notified().await;
            }
        };
        if tokio::time::timeout(PATIENCE, settled).await.is_err() {
            return Err(io::Error::other(format!("{} watchers were told nothing", self.missing.get())));
        }
        self.fault.take().map_or(Ok(()), Err)
    }

    fn opened(&self) {
        self.missing.set(self.missing.get() - 1);
        self.settle();
    }

    fn told(&self) {
        self.missing.set(self.missing.get() - 1);
        if self.missing.get() == 0 {
            self.latencies.borrow_mut().end(self.begun.get());
        }
        self.settle();
    }

    fn settle(&self) {
        if self.missing.get() == 0 {
            self.settled.notify_one();
        }
    }

    fn fail(&self, error: io::Error) {
        self.fault.borrow_mut().get_or_insert(error);
        self.settled.notify_one();
    }
}

async fn listen(mut connection: h2::Connection, streams: usize, heard: Rc<Heard>) {
    let mut watchers: Vec<Watcher> = Vec::new();
    watchers.resize_with(streams, Watcher::default);
    loop {
        let mut ended = false;
        let told = |stream: u32, event: Event<'_>| match event {
            Event::Begun => heard.opened(),
            Event::Data(bytes) => watchers[(stream / 2) as usize].hear(bytes, &heard),
            Event::Ended | Event::Reset => ended = true,
        };
        let turned = connection.turn(told).await;
        let ended = if ended { Err(io::Error::other("the server ended a watch")) } else { Ok(()) };
        if let Err(error) = turned.and(ended) {
            return heard.fail(error);
        }
    }
}

/// The same where one stream tells all of them, by their numbers from 1.
async fn listen_together(mut connection: h2::Connection, watchers: usize, heard: Rc<Heard>) {
    const CHANGES: u8 = 2;
    const SNAPSHOT_END: u8 = 3;
    let mut messages = Messages::default();
    let mut rounds = vec![0; watchers + 1];
    loop {
        let mut ended = false;
        let mut message = |beginning: &[u8]| match event_of(beginning) {
            Some((_, SNAPSHOT_END)) => heard.opened(),
            Some((watcher, CHANGES)) if rounds[watcher] < heard.round.get() => {
                rounds[watcher] = heard.round.get();
                heard.told();
            }
            _ => {}
        };
        let told = |_: u32, event: Event<'_>| match event {
            Event::Begun => {}
            Event::Data(bytes) => messages.feed(bytes, &mut message),
            Event::Ended | Event::Reset => ended = true,
        };
        let turned = connection.turn(told).await;
        let ended = if ended { Err(io::Error::other("the server ended the watches")) } else { Ok(()) };
        if let Err(error) = turned.and(ended) {
            return heard.fail(error);
        }
    }
}

impl Watcher {
    fn hear(&mut self, bytes: &[u8], heard: &Heard) {
        let round = heard.round.get();
        self.messages.feed(bytes, |beginning| {
            if is_change(beginning) && self.round < round {
                self.round = round;
                heard.told();
            }
        });
    }
}

/// So many watches on one stream.
fn subscriptions(watchers: usize) -> Bytes {
    use v1::watch_many_request::Request;
    let wish = |request| framed(&v1::WatchManyRequest { request: Some(request) });
    let subscribe = |number: usize| {
        wish(Request::Subscribe(v1::Subscribe {
            subscription_id: number as u32,
            spec: Some(changes_alone()),
        }))
    };
    let hello = wish(Request::Hello(v1::WatchHello::default()));
    let all: Vec<Bytes> = std::iter::once(hello).chain((1..=watchers).map(subscribe)).collect();
    all.concat().into()
}

/// A watch of all changes from now on. Marks are rare, so that a resting watcher rests.
fn live() -> Bytes {
    framed(&v1::WatchRequest { spec: Some(changes_alone()), ..v1::WatchRequest::default() })
}

fn changes_alone() -> v1::WatchSpec {
    v1::WatchSpec {
        start_mode: v1::StartMode::LiveOnly.into(),
        bookmark_interval: Some(WireDuration { seconds: 60, nanos: 0 }),
        ..v1::WatchSpec::default()
    }
}
