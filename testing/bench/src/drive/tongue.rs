//! What watchers and writers say to a server of each kind, and how its messages are understood.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use heureka_model::Instance;
use heureka_proto::v1;
use prost_types::Duration as WireDuration;

use super::audience::Way;
use super::frames::{event_of, is_change};
use super::h1;
use super::h2::{self, framed};
use super::load::finish;
use super::requests::{self, REGISTER, Wire};
use super::{etcd, nacos};

/// The wire of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tongue {
    /// Ours, which the limit speaks too.
    Heureka,
    Etcd,
    Nacos,
}

/// What watchers are interested in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    Everything,
    /// The application of the first instance.
    FirstApp,
}

/// What a message of a watch says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// A watcher is among those that are told.
    Opened,
    /// The watcher with this number on its stream has a change.
    Change(usize),
    /// The server wants to hear from the client.
    Asked,
    Other,
}

impl Tongue {
    /// Path of the call that watches.
    pub(super) fn watch_path(self, way: Way) -> &'static str {
        match (self, way) {
            (Self::Heureka, Way::Each) => "/heureka.registry.v1.DiscoveryService/Watch",
            (Self::Heureka, Way::Together) => "/heureka.registry.v1.DiscoveryService/WatchMany",
            (Self::Etcd, _) => etcd::WATCH,
            (Self::Nacos, _) => nacos::STREAM,
        }
    }

    /// All that is said on a stream of so many watchers. Marks are rare, so that a resting watcher rests.
    pub(super) fn opening(self, way: Way, watchers: usize, interest: Interest) -> Bytes {
        match (self, way) {
            (Self::Heureka, Way::Each) => live(interest),
            (Self::Heureka, Way::Together) => subscriptions(watchers, interest),
            (Self::Etcd, Way::Each) => etcd::watches(1),
            (Self::Etcd, Way::Together) => etcd::watches(watchers),
            (Self::Nacos, _) => nacos::opening(),
        }
    }

    /// Whether the client could say more after its opening; a server may end a watch when it cannot.
    pub(super) fn stays_open(self) -> bool {
        self != Self::Heureka
    }

    /// Whether the beginning of an answer says that the watcher is among those that are told.
    pub(super) fn opens_by_head(self, way: Way) -> bool {
        (self, way) == (Self::Heureka, Way::Each)
    }

    pub(super) fn understand(self, way: Way, beginning: &[u8]) -> Said {
        const CHANGES: u8 = 2;
        const SNAPSHOT_END: u8 = 3;
        match (self, way) {
            (Self::Heureka, Way::Each) if is_change(beginning) => Said::Change(0),
            (Self::Heureka, Way::Each) => Said::Other,
            (Self::Heureka, Way::Together) => match event_of(beginning) {
                Some((_, SNAPSHOT_END)) => Said::Opened,
                Some((watcher, CHANGES)) => Said::Change(watcher),
                _ => Said::Other,
            },
            (Self::Etcd, _) => etcd::understand(beginning),
            (Self::Nacos, _) => nacos::understand(beginning),
        }
    }

    /// Least rest between two changes. What comes closer together may be told together.
    pub(super) fn rest(self) -> Duration {
        if self == Self::Nacos { Duration::from_millis(1200) } else { Duration::ZERO }
    }

    /// Most changes that are worth their time.
    pub(super) fn most_changes(self) -> usize {
        if self == Self::Nacos { 3 } else { usize::MAX }
    }

    /// A connection for changes.
    ///
    /// # Errors
    /// A server that does not answer.
    pub(super) async fn writer(self, address: SocketAddr) -> io::Result<Writer> {
        let open = |path| h2::Connection::open(address, path, ROOM);
        Ok(match self {
            Self::Heureka => Writer::Heureka(open(REGISTER).await?),
            Self::Etcd => Writer::Etcd(open(etcd::PUT).await?),
            Self::Nacos => Writer::Nacos(h1::Connection::open(address).await?),
        })
    }
}

/// What is read at a time of a writer's connection.
const ROOM: usize = 2 << 10;

/// A connection that makes changes.
pub(super) enum Writer {
    Heureka(h2::Connection),
    /// Ours, and the original.
    Rest(h1::Connection),
    Etcd(h2::Connection),
    Nacos(h1::Connection),
}

impl Writer {
    /// A connection for changes to a server of ours or the original over such a wire.
    ///
    /// # Errors
    /// A server that does not answer.
    pub(super) async fn of(wire: Wire, address: SocketAddr) -> io::Result<Self> {
        match wire {
            Wire::Grpc { .. } => Tongue::Heureka.writer(address).await,
            Wire::Rest { .. } => Ok(Self::Rest(h1::Connection::open(address).await?)),
        }
    }

    /// Makes an instance known as it is now.
    ///
    /// # Errors
    /// A connection that breaks, a change that is refused.
    pub(super) async fn write(&mut self, instance: &Instance) -> io::Result<()> {
        let done = match self {
            Self::Heureka(connection) => {
                let request = framed(&requests::register(instance));
                !finish(connection, &request).await?.is_empty()
            }
            Self::Etcd(connection) => {
                let request = etcd::put(instance, requests::register(instance));
                !finish(connection, &request).await?.is_empty()
            }
            Self::Rest(connection) => connection.call(&requests::post(instance), |_| {}).await?.is_success,
            Self::Nacos(connection) => connection.call(&nacos::register(instance), |_| {}).await?.is_success,
        };
        if done { Ok(()) } else { Err(io::Error::other("a change was refused")) }
    }
}

/// So many watches on one stream, numbered from 1.
fn subscriptions(watchers: usize, interest: Interest) -> Bytes {
    use v1::watch_many_request::Request;
    let wish = |request| framed(&v1::WatchManyRequest { request: Some(request) });
    let subscribe = |number: usize| {
        wish(Request::Subscribe(v1::Subscribe {
            subscription_id: number as u32,
            spec: Some(changes_alone(interest)),
        }))
    };
    let hello = wish(Request::Hello(v1::WatchHello::default()));
    let all: Vec<Bytes> = std::iter::once(hello).chain((1..=watchers).map(subscribe)).collect();
    all.concat().into()
}

/// A watch of all changes from now on.
fn live(interest: Interest) -> Bytes {
    framed(&v1::WatchRequest { spec: Some(changes_alone(interest)), ..v1::WatchRequest::default() })
}

fn changes_alone(interest: Interest) -> v1::WatchSpec {
    v1::WatchSpec {
        selectors: interest.selectors(),
        start_mode: v1::StartMode::LiveOnly.into(),
        bookmark_interval: Some(WireDuration { seconds: 60, nanos: 0 }),
        ..v1::WatchSpec::default()
    }
}

impl Interest {
    /// The selectors that say so.
    pub(super) fn selectors(self) -> Vec<v1::InstanceSelector> {
        match self {
            Self::Everything => Vec::new(),
            Self::FirstApp => vec![v1::InstanceSelector {
                apps: vec![crate::instances::app(0, 1)],
                ..v1::InstanceSelector::default()
            }],
        }
    }
}
