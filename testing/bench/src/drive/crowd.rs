//! Watchers of ours that follow: how each begins, when it has everything, and what it is sent.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use heureka_proto::v1;
use heureka_proto::v1::watch_event::Event as Told;
use prost::Message as _;
use rand::RngExt as _;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::audience::{Layout, Way};
use super::frames::{Field, Messages, fields, is_change};
use super::h2::{self, Event, framed};
use super::tongue::{Interest, Tongue};
use crate::watch::{Latencies, Spread};

/// What is read at a time of a connection.
const ROOM: usize = 16 << 10;

/// Longest wait for all of them.
const PATIENCE: Duration = Duration::from_secs(120);

/// Longest wait before a watch that was refused or ended is asked for again.
const BACK_OFF: Duration = Duration::from_millis(200);

/// Number of the modes in which a watch can begin.
const MODES: usize = 5;

/// Fields of a watch's event.
const SNAPSHOT_BEGIN: usize = 1;
const SNAPSHOT_END: usize = 3;

/// Watchers on several connections.
pub(super) struct Crowd {
    seen: Rc<Seen>,
    /// The connections; they close with this value.
    _listening: JoinSet<()>,
}

/// What all of them saw.
#[derive(Default)]
struct Seen {
    missing: Cell<usize>,
    begun: Cell<Option<Instant>>,
    latencies: RefCell<Latencies>,
    /// Beginnings by mode, the first of each watcher and further ones.
    first: Cell<[usize; MODES]>,
    again: Cell<usize>,
    /// Watches that were asked for once more.
    retries: Cell<usize>,
    /// Bytes to each watcher of each connection, frame heads included.
    bytes: RefCell<Vec<Vec<usize>>>,
    /// Bytes of all messages that are changes.
    changes: Cell<usize>,
    fault: RefCell<Option<io::Error>>,
    settled: Notify,
}

/// How watchers came to have everything.
pub(super) struct Beginnings {
    /// Watchers by mode.
    pub(super) modes: [usize; MODES],
    pub(super) retries: usize,
    pub(super) latencies: Spread,
}

/// What was sent since the last look.
pub(super) struct Sent {
    /// To each watcher.
    pub(super) bytes: Vec<usize>,
    /// Of them changes, of all watchers together.
    pub(super) changes: usize,
    /// Watches that began anew on their stream, since they all had begun.
    pub(super) again: usize,
}

impl Crowd {
    /// Has all of them come at once with this request.
    pub(super) fn begin(address: SocketAddr, layout: Layout, request: &Bytes) -> Self {
        let seen = Rc::new(Seen::default());
        seen.missing.set(layout.all());
        seen.begun.set(Some(Latencies::begin()));
        *seen.bytes.borrow_mut() = vec![vec![0; layout.watchers]; layout.connections];
        let mut listening = JoinSet::new();
        for number in 0..layout.connections {
            let (seen, request) = (seen.clone(), request.clone());
            listening.spawn_local(async move {
                if let Err(error) = follow(address, number, layout.watchers, request, &seen).await {
                    seen.fail(error);
                }
            });
        }
        Self { seen, _listening: listening }
    }

    /// Waits until all of them have everything.
    ///
    /// # Errors
    /// A connection that breaks, a watcher that never has everything.
    pub(super) async fn settle(&self) -> io::Result<Beginnings> {
        let seen = &self.seen;
        let settled = async {
            while seen.missing.get() > 0 && seen.fault.borrow().is_none() {
                seen.settled.notified().await;
            }
        };
        if tokio::time::timeout(PATIENCE, settled).await.is_err() {
            return Err(io::Error::other(format!("{} watchers never have everything", seen.missing.get())));
        }
        seen.fault.take().map_or(Ok(()), Err)?;
        let latencies = seen.latencies.take().sorted().spread();
        Ok(Beginnings { modes: seen.first.get(), retries: seen.retries.get(), latencies })
    }

    /// Waits until nothing came for so long.
    ///
    /// # Errors
    /// A connection that breaks.
    pub(super) async fn rest(&self, quiet: Duration) -> io::Result<()> {
        let total = || self.seen.bytes.borrow().iter().flatten().sum::<usize>();
        let mut before = usize::MAX;
        while before != total() {
            before = total();
            tokio::time::sleep(quiet).await;
        }
        self.seen.fault.take().map_or(Ok(()), Err)
    }

    /// What was sent since the last call.
    pub(super) fn sent(&self) -> Sent {
        let mut bytes = self.seen.bytes.borrow_mut();
        let sent = bytes.iter().flatten().copied().collect();
        bytes.iter_mut().flatten().for_each(|bytes| *bytes = 0);
        Sent { bytes: sent, changes: self.seen.changes.take(), again: self.seen.again.take() }
    }
}

impl Seen {
    fn began(&self, mode: usize, is_first: bool) {
        if is_first {
            let mut first = self.first.get();
            first.get_mut(mode).into_iter().for_each(|count| *count += 1);
            self.first.set(first);
        } else {
            self.again.set(self.again.get() + 1);
        }
    }

    fn has_everything(&self) {
        if let Some(begun) = self.begun.get() {
            self.latencies.borrow_mut().end(begun);
        }
        self.missing.set(self.missing.get() - 1);
        if self.missing.get() == 0 {
            self.settled.notify_one();
        }
    }

    fn fail(&self, error: io::Error) {
        self.fault.borrow_mut().get_or_insert(error);
        self.settled.notify_one();
    }
}

/// A watcher as its connection knows it.
#[derive(Default)]
struct Follower {
    messages: Messages,
    has_begun: bool,
    has_everything: bool,
}

async fn follow(
    address: SocketAddr,
    number: usize,
    watchers: usize,
    request: Bytes,
    seen: &Seen,
) -> io::Result<()> {
    let mut connection = h2::Connection::open(address, Tongue::Heureka.watch_path(Way::Each), ROOM).await?;
    let mut followers: Vec<Follower> = Vec::new();
    followers.resize_with(watchers, Follower::default);
    // Which watcher a stream is of: one that was refused comes again on another.
    let mut streams: Vec<usize> = (0..watchers).collect();
    (0..watchers).for_each(|_| _ = connection.call(&request));
    loop {
        let mut refused = None;
        let turned = connection.turn(|stream, event| {
            let watcher = streams[(stream / 2) as usize];
            match event {
                Event::Begun => {}
                Event::Data(bytes) => {
                    seen.bytes.borrow_mut()[number][watcher] += bytes.len() + 9;
                    followers[watcher].hear(bytes, seen);
                }
                Event::Ended | Event::Reset => refused = Some(watcher),
            }
        });
        turned.await?;
        if let Some(watcher) = refused {
            if followers[watcher].has_everything {
                return Err(io::Error::other("the server ended a watch"));
            }
            seen.retries.set(seen.retries.get() + 1);
            tokio::time::sleep(BACK_OFF.mul_f64(rand::rng().random())).await;
            connection.call(&request);
            streams.push(watcher);
        }
    }
}

impl Follower {
    fn hear(&mut self, bytes: &[u8], seen: &Seen) {
        let Self { messages, has_begun, has_everything } = self;
        messages.feed(bytes, |beginning, length| {
            if is_change(beginning) {
                return seen.changes.set(seen.changes.get() + length);
            }
            let Some((1, Field::Bytes(event))) = fields(beginning).next() else { return };
            match fields(event).next() {
                Some((SNAPSHOT_BEGIN, Field::Bytes(begin))) => {
                    let mode = fields(begin).find(|(number, _)| *number == 2);
                    let mode = if let Some((_, Field::Number(mode))) = mode { mode as usize } else { 0 };
                    seen.began(mode, !std::mem::replace(has_begun, true));
                }
                Some((SNAPSHOT_END, _)) if !std::mem::replace(has_everything, true) => seen.has_everything(),
                _ => {}
            }
        });
    }
}

/// A whole set as a watcher is told of it.
pub(super) struct Set {
    /// Where it ended.
    pub(super) token: Bytes,
    /// The instances, each as a change.
    pub(super) changes: Vec<v1::Change>,
}

/// Follows until it has everything.
///
/// # Errors
/// A connection that breaks, a watch that ends, a message that cannot be read.
pub(super) async fn whole(address: SocketAddr, interest: Interest) -> io::Result<Set> {
    let mut connection = h2::Connection::open(address, Tongue::Heureka.watch_path(Way::Each), ROOM).await?;
    connection.call(&following(interest, Bytes::new(), Vec::new()));
    let (mut received, mut ended) = (Vec::new(), false);
    let mut changes = Vec::new();
    loop {
        let turned = connection.turn(|_, event| match event {
            Event::Begun => {}
            Event::Data(bytes) => received.extend_from_slice(bytes),
            Event::Ended | Event::Reset => ended = true,
        });
        turned.await?;
        let mut rest = received.as_slice();
        while let Some((&[_, a, b, c, d], behind)) = rest.split_first_chunk()
            && let Some((message, tail)) = behind.split_at_checked(u32::from_be_bytes([a, b, c, d]) as usize)
        {
            let response = v1::WatchResponse::decode(message).map_err(io::Error::other)?;
            match response.event.and_then(|event| event.event) {
                Some(Told::Changes(batch)) => changes.extend(batch.changes),
                Some(Told::SnapshotEnd(end)) => return Ok(Set { token: end.resume_token, changes }),
                _ => {}
            }
            rest = tail;
        }
        let used = received.len() - rest.len();
        received.drain(..used);
        if ended {
            return Err(io::Error::other("the server ended a watch"));
        }
    }
}

/// The request of a watcher that goes on from a token, and holds what these digests say.
pub(super) fn following(interest: Interest, token: Bytes, known: Vec<v1::AppDigest>) -> Bytes {
    let spec = v1::WatchSpec {
        selectors: interest.selectors(),
        resume_token: token,
        known_digests: known,
        bookmark_interval: Some(prost_types::Duration { seconds: 60, nanos: 0 }),
        ..v1::WatchSpec::default()
    };
    framed(&v1::WatchRequest { spec: Some(spec), ..v1::WatchRequest::default() })
}
