//! Watchers, and how long a change takes to reach the last of them.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::frames::Messages;
use super::h2::{self, Event};
use super::heard::{Heard, Tally};
use super::nacos;
use super::rows::Unit;
use super::sample::Sample;
use super::tongue::{Interest, Said, Tongue, Writer};
use crate::instances::{self, Values};
use crate::watch::timed_async;

/// What is read at a time of a connection; most of them rest.
const ROOM: usize = 2 << 10;

/// Connections that are opened at once.
const AT_ONCE: usize = 256;

/// Rest between two changes, so that each meets a quiet server: some time, and more for each watcher.
const REST: (Duration, Duration) = (Duration::from_millis(1), Duration::from_micros(2));

/// How watchers of one connection are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Each by a stream of its own.
    Each,
    /// All by one stream.
    Together,
}

/// How watchers are spread over connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) connections: usize,
    /// Of each connection.
    pub(crate) watchers: usize,
    pub(crate) way: Way,
}

/// Watchers on several connections.
pub(crate) struct Audience {
    /// Where changes are made, and how they are said.
    writes: SocketAddr,
    tongue: Tongue,
    heard: Rc<Heard>,
    /// The connections; they close with this value.
    _listening: JoinSet<()>,
    version: usize,
}

impl Layout {
    pub(crate) fn all(self) -> usize {
        self.connections * self.watchers
    }

    /// The same with at most so many connections, and so many watchers on each.
    pub(super) fn at_most(self, connections: usize, watchers: usize) -> Self {
        let (connections, watchers) = (self.connections.min(connections), self.watchers.min(watchers));
        Self { connections, watchers, ..self }
    }
}

impl Audience {
    /// Opens the connections to the first address and waits until the server took all watchers. Changes are made at
    /// the second.
    ///
    /// # Errors
    /// A connection that breaks, a watch that is refused.
    pub(super) async fn open(
        (address, writes): (SocketAddr, SocketAddr),
        tongue: Tongue,
        layout: Layout,
        interest: Interest,
    ) -> io::Result<Self> {
        let heard = Rc::new(Heard::of(layout.all()));
        let mut listening = JoinSet::new();
        let opening = tongue.opening(layout.way, layout.watchers, interest);
        let places = Arc::new(Semaphore::new(AT_ONCE));
        for _ in 0..layout.connections {
            let place = places.clone().acquire_owned().await.map_err(io::Error::other)?;
            let (opening, heard) = (opening.clone(), heard.clone());
            listening.spawn_local(async move {
                let opened = connect(address, tongue, layout, &opening, &heard).await;
                drop(place);
                match opened {
                    Ok(connection) => listen(connection, tongue, layout, heard).await,
                    Err(error) => heard.fail(error),
                }
            });
        }
        heard.settled().await?;
        Ok(Self { writes, tongue, heard, _listening: listening, version: 0 })
    }

    /// The same of a server of ours that hears of changes from another one, where they are made.
    ///
    /// # Errors
    /// A connection that breaks, a watch that is refused.
    pub(crate) async fn across(writes: SocketAddr, address: SocketAddr, layout: Layout) -> io::Result<Self> {
        Self::open((address, writes), Tongue::Heureka, layout, Interest::Everything).await
    }

    /// Makes so many changes, one after the other, and measures each from before its request until the last watcher
    /// has it. `cpu` tells how long the servers were on a processor so far.
    ///
    /// # Errors
    /// A connection that breaks, a watch that ends, a change that does not arrive.
    pub(crate) async fn tell(&mut self, cpu: impl Fn() -> f64, changes: usize) -> io::Result<Sample> {
        let rest = self.tongue.rest().max(REST.0 + REST.1 * self.heard.watchers as u32);
        let changes = changes.min(self.tongue.most_changes());
        // A connection that nobody reads while others have their turn would miss the server's pings.
        let mut writer = self.tongue.writer(self.writes).await?;
        self.change(&mut writer, 0, instances::PER_APP).await?;
        self.heard.take();
        let before = cpu();
        for _ in 0..changes {
            tokio::time::sleep(rest).await;
            self.change(&mut writer, 0, instances::PER_APP).await?;
        }
        let used = cpu() - before;
        let Tally { last, all, .. } = self.heard.take();
        let deliveries = (changes * self.heard.watchers) as f64;
        let spread = last.spread();
        let sample = Sample {
            figure: spread.p50 / 1e9,
            latencies: Some(spread),
            cpu: Some(used / deliveries),
            extras: Vec::new(),
        };
        Ok(sample.with("p99 of all deliveries", all.spread().p99 / 1e9, Unit::Seconds))
    }

    /// Makes so many changes, one each so often, to one of so many instances of one application after the other. The
    /// figure is the share of one processor that the server takes.
    ///
    /// # Errors
    /// A connection that breaks, a watch that ends, a change that does not arrive.
    pub(super) async fn keep_telling(
        &mut self,
        cpu: impl Fn() -> f64,
        changes: usize,
        every: Duration,
        instances: usize,
    ) -> io::Result<Sample> {
        let mut writer = self.tongue.writer(self.writes).await?;
        self.change(&mut writer, 0, instances).await?;
        self.heard.take();
        let before = cpu();
        let (seconds, done) = timed_async(async {
            let mut pace = interval(every);
            pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
            for n in 0..changes {
                pace.tick().await;
                self.change(&mut writer, n % instances, instances).await?;
            }
            pace.tick().await;
            io::Result::Ok(())
        })
        .await;
        done?;
        let used = cpu() - before;
        let Tally { last, wire, changes: told, .. } = self.heard.take();
        let deliveries = (changes * self.heard.watchers) as f64;
        let sample = Sample {
            figure: used / seconds,
            latencies: Some(last.spread()),
            cpu: Some(used / deliveries),
            extras: Vec::new(),
        };
        Ok(sample.with("bytes on the wire for each delivery", wire as f64 / deliveries, Unit::Bytes).with(
            "of them changes",
            told as f64 / deliveries,
            Unit::Bytes,
        ))
    }

    /// Changes an instance of applications of so many.
    async fn change(&mut self, writer: &mut Writer, n: usize, per_app: usize) -> io::Result<()> {
        self.version += 1;
        let instance = instances::placed(n, per_app, Values::Shared, self.version);
        self.heard.begin();
        tokio::try_join!(writer.write(&instance), self.heard.settled()).map(|_| ())
    }
}

impl Layout {
    /// Streams of each connection.
    fn streams(self) -> usize {
        if self.way == Way::Each { self.watchers } else { 1 }
    }

    /// Which watcher of a connection is meant by the one with this number on this stream of it.
    fn watcher(self, stream: usize, number: usize) -> usize {
        if self.way == Way::Each { stream } else { number }
    }
}

/// A connection with its watchers.
async fn connect(
    address: SocketAddr,
    tongue: Tongue,
    layout: Layout,
    opening: &Bytes,
    heard: &Heard,
) -> io::Result<h2::Connection> {
    let mut connection = h2::Connection::open(address, tongue.watch_path(layout.way), ROOM).await?;
    for _ in 0..layout.streams() {
        if tongue.stays_open() {
            connection.call_on(opening)
        } else {
            connection.call(opening)
        };
    }
    connection.flush().await?;
    connection.greeted().await?;
    if tongue == Tongue::Nacos {
        nacos::subscribe(&mut connection).await?;
        heard.opened();
    }
    Ok(connection)
}

async fn listen(mut connection: h2::Connection, tongue: Tongue, layout: Layout, heard: Rc<Heard>) {
    let mut messages: Vec<Messages> = Vec::new();
    messages.resize_with(layout.streams(), Messages::default);
    // Numbers of watchers begin with 0 or with 1.
    let mut rounds = vec![0; layout.watchers + 1];
    loop {
        let (mut ended, mut told, mut asked) = (false, 0, false);
        let mut hear = |stream: usize, beginning: &[u8], length| match tongue
            .understand(layout.way, beginning)
        {
            Said::Opened => heard.opened(),
            Said::Change(number) => {
                heard.change(length);
                let round = rounds.get_mut(layout.watcher(stream, number));
                told += round
                    .map_or(0, |round| usize::from(std::mem::replace(round, heard.round()) < heard.round()));
            }
            Said::Asked => asked = true,
            Said::Other => {}
        };
        let turned = connection.turn(|stream: u32, event: Event<'_>| match event {
            Event::Begun if tongue.opens_by_head(layout.way) => heard.opened(),
            Event::Begun => {}
            Event::Data(bytes) => {
                let stream = (stream / 2) as usize;
                heard.frame(bytes.len());
                messages[stream].feed(bytes, |beginning, length| hear(stream, beginning, length));
            }
            Event::Ended | Event::Reset => ended = true,
        });
        let turned = turned.await;
        heard.told(told);
        if asked {
            connection.say(1, &nacos::here());
        }
        let ended = if ended { Err(io::Error::other("the server ended a watch")) } else { Ok(()) };
        if let Err(error) = turned.and(ended) {
            return heard.fail(error);
        }
    }
}
