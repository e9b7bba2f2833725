//! One stream from hello to its end. Both sides do the same, whoever dialed.

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use heureka_model::Invalid;
use heureka_proto::peer::v1 as pb;
use heureka_registry::replication::{Declined, Fault, Frame, Hello, Link};
use prost::Message as _;
use tokio::sync::mpsc::Sender;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};

use super::links::{Traffic, Up};
use super::refusal::Refusal;
use super::{Peers, wire};

/// Time for the first frame.
const HELLO: Duration = Duration::from_secs(5);
/// Seconds without a frame after which a peer is given up; every server says something once a second. They are
/// counted rather than measured, so that a pause of this server is no silence of the other.
const SILENCE: u32 = 8;
/// Longest time that a stream waits before it asks again whether there is something to say.
const LONGEST_REST: Duration = Duration::from_secs(1);

/// Frames that come in.
pub(super) type Incoming = Pin<Box<dyn Stream<Item = Result<pb::Frame, Status>> + Send>>;
/// Where frames go out: a channel for one, so that nothing is made before the transport can take it.
pub(super) type Outgoing = Sender<Result<pb::Frame, Status>>;

/// Why a stream ended.
#[derive(Debug)]
pub(super) enum End {
    /// The other side ended it.
    Closed,
    /// The other side refused it, or the connection broke.
    Lost(Status),
    /// Nothing came for long.
    Silent,
    /// This server ends it.
    Left,
    /// The peer came back on another stream.
    Replaced,
    /// The two do not go together.
    Declined(Declined),
    /// It did not begin as it has to.
    BadHello(Invalid),
    /// It did not begin in time.
    LateHello,
    /// It said what no server says.
    Faulty(Fault),
    /// What it said cannot be read, or is too long.
    Unreadable(Status),
}

/// A stream that is to be carried.
pub(super) struct Session<'a> {
    pub(super) peers: &'a Arc<Peers>,
    /// Address at the other end of the socket.
    pub(super) remote: IpAddr,
    /// Where this server dialed, when it did.
    pub(super) dialed: Option<SocketAddr>,
    pub(super) close: CancellationToken,
}

/// How a stream ended and what became known of the other side.
pub(super) struct Ended {
    pub(super) end: End,
    pub(super) hello: Option<Hello>,
}

impl Session<'_> {
    /// Carries frames until the stream ends. The caller tells the other side why.
    pub(super) async fn run(&self, mut incoming: Incoming, outgoing: &Outgoing) -> Ended {
        let hello = match self.greet(&mut incoming, outgoing).await {
            Ok(hello) => hello,
            Err(end) => return Ended { end, hello: None },
        };
        let end = self.replicate(&hello, incoming, outgoing).await;
        Ended { end, hello: Some(hello) }
    }

    async fn greet(&self, incoming: &mut Incoming, outgoing: &Outgoing) -> Result<Hello, End> {
        let own = Frame::Hello(self.peers.replicator.hello(self.peers.clock.now()));
        for message in wire::encode(own) {
            outgoing.send(Ok(message)).await.map_err(|_| End::Closed)?;
        }
        let first = tokio::select! {
            first = timeout(HELLO, incoming.next()) => first.map_err(|_| End::LateHello)?,
            () = self.close.cancelled() => return Err(End::Left),
        };
        let first = first.ok_or(End::Closed)?.map_err(End::broken)?;
        let mut hello = wire::hello(first).map_err(End::BadHello)?;
        hello.address = address_of(&hello.address, self.remote, self.dialed);
        Ok(hello)
    }

    async fn replicate(&self, hello: &Hello, incoming: Incoming, outgoing: &Outgoing) -> End {
        let (now, dialed) = (self.peers.clock.now(), self.dialed.is_some());
        let link = match self.peers.replicator.join(hello, &hello.address, dialed, now) {
            Ok(link) => link,
            Err(declined) => return End::Declined(declined),
        };
        let up = self.peers.links.enter(&hello.node, self.remote, self.close.clone());
        if let Some(dialed) = self.dialed {
            self.peers.reached(dialed, &hello.node, now.wall);
        }
        tracing::info!(node = %hello.node, address = %hello.address, dialed, "peer connected");
        let mut carrier = Carrier { peers: self.peers, link, up, waiting: Vec::new() };
        let end = carrier.carry(incoming, outgoing, &self.close).await;
        tracing::info!(node = %hello.node, address = %hello.address, %end, "peer disconnected");
        end
    }
}

/// A stream whose sides know each other.
struct Carrier<'a> {
    peers: &'a Arc<Peers>,
    link: Link,
    up: Up,
    /// Pieces of the frame under way, the next one last.
    waiting: Vec<pb::Frame>,
}

impl Carrier<'_> {
    async fn carry(&mut self, mut incoming: Incoming, outgoing: &Outgoing, close: &CancellationToken) -> End {
        let mut heads = self.peers.registry.head_changes();
        let mut seconds = interval(Duration::from_secs(1));
        seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut silent, mut resting) = (0, false);
        while !self.link.is_replaced() {
            let rest = self.link.due(self.peers.clock.now()).min(LONGEST_REST);
            tokio::select! {
                came = incoming.next() => {
                    silent = 0;
                    resting = false;
                    match came {
                        Some(Ok(message)) => if let Err(fault) = self.take_in(message) {
                            return End::Faulty(fault);
                        },
                        Some(Err(status)) => return End::broken(status),
                        None => return End::Closed,
                    }
                }
                place = outgoing.reserve(), if !resting => {
                    let Ok(place) = place else { return End::Closed };
                    match self.next() {
                        Some(message) => place.send(Ok(message)),
                        None => resting = true,
                    }
                }
                moved = heads.changed(), if resting => {
                    if moved.is_err() {
                        return End::Left;
                    }
                    resting = false;
                }
                () = sleep(rest), if resting => resting = false,
                _ = seconds.tick() => {
                    silent += 1;
                    if silent > SILENCE {
                        return End::Silent;
                    }
                }
                () = close.cancelled() => return End::Left,
            }
        }
        End::Replaced
    }

    fn take_in(&mut self, message: pb::Frame) -> Result<(), Fault> {
        self.traffic().received(message.encoded_len());
        let decoded = wire::decode(message, &self.peers.registry.config().limits);
        if let Some(first) = decoded.first {
            let node = self.link.peer();
            self.peers.counts.skipped(decoded.skipped);
            tracing::debug!(node, skipped = decoded.skipped, %first, "entries of a peer's frame cannot be used");
        }
        decoded.frame.map_or(Ok(()), |frame| self.link.receive(frame, self.peers.clock.now()))
    }

    fn next(&mut self) -> Option<pb::Frame> {
        if self.waiting.is_empty() {
            self.waiting = wire::encode(self.link.next(self.peers.clock.now())?);
            self.waiting.reverse();
        }
        let message = self.waiting.pop()?;
        self.traffic().sent(message.encoded_len());
        Some(message)
    }

    fn traffic(&self) -> &Traffic {
        &self.up.traffic
    }
}

impl End {
    /// The end of a stream that gave an error. Where the error names no cause, it is not the transport's, and where it
    /// has no details it is not the other server's: then it was made while a message was read.
    fn broken(status: Status) -> Self {
        let caused = std::error::Error::source(&status).is_some();
        match status.code() {
            Code::InvalidArgument | Code::OutOfRange if status.details().is_empty() => {
                Self::Unreadable(status)
            }
            Code::Internal if status.details().is_empty() && !caused => Self::Unreadable(status),
            _ => Self::Lost(status),
        }
    }

    /// What the other side is told of it; nothing where it knows.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Closed | Self::Lost(_) | Self::Faulty(Fault::StoodStill) => None,
            Self::Silent => Some(Refusal::Silent),
            Self::Left => Some(Refusal::Leaving),
            Self::Replaced => Some(Refusal::Replaced),
            Self::Declined(declined) => Some(declined.into()),
            Self::BadHello(_) => Some(Refusal::HelloExpected),
            Self::LateHello => Some(Refusal::HelloLate),
            Self::Faulty(_) | Self::Unreadable(_) => Some(Refusal::BrokenStream),
        }
    }
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Closed => f.write_str("the other side ended the stream"),
            Self::Lost(status) if status.message().is_empty() => status.code().fmt(f),
            Self::Lost(status) | Self::Unreadable(status) => f.write_str(status.message()),
            Self::Silent => f.write_str("nothing came for too long"),
            Self::Left => f.write_str("this server ends the stream"),
            Self::Replaced => f.write_str("the peer came back on another stream"),
            Self::Declined(declined) => declined.fmt(f),
            Self::BadHello(invalid) => invalid.fmt(f),
            Self::LateHello => f.write_str("no hello within five seconds"),
            Self::Faulty(fault) => fault.fmt(f),
        }
    }
}

/// Where the other server is: as it says, with the host that we see where it names none.
fn address_of(told: &str, remote: IpAddr, dialed: Option<SocketAddr>) -> String {
    match told {
        "" => dialed.map_or_else(|| remote.to_string(), |dialed| dialed.to_string()),
        port if port.starts_with(':') => match port[1..].parse() {
            Ok(port) => SocketAddr::new(remote, port).to_string(),
            Err(_) => remote.to_string(),
        },
        whole => whole.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_where_it_says_or_where_it_was_seen() {
        let (remote, dialed) = ("10.0.0.1".parse().unwrap(), Some("10.0.0.1:99".parse().unwrap()));
        let table = [
            ("b.example:1", None, "b.example:1"),
            (":8761", None, "10.0.0.1:8761"),
            (":8761", dialed, "10.0.0.1:8761"),
            ("", dialed, "10.0.0.1:99"),
            ("", None, "10.0.0.1"),
            (":many", None, "10.0.0.1"),
        ];
        for (told, dialed, expected) in table {
            assert_eq!(address_of(told, remote, dialed), expected, "{told}");
        }
    }

    #[test]
    fn what_was_made_while_reading_is_no_word_of_the_transport() {
        let unreadable = |status| matches!(End::broken(status), End::Unreadable(_));
        assert!(unreadable(Status::out_of_range("too long")) && unreadable(Status::internal("no message")));
        let mut broken = Status::internal("stream error");
        broken.set_source(Arc::new(std::io::Error::other("reset")));
        assert!(!unreadable(broken));
        assert!(
            !unreadable(Status::unavailable("gone")) && !unreadable(Refusal::BrokenStream.status("told"))
        );
    }
}
