//! The side that dials: one task per address of a peer.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::FixedState;
use futures_util::future::BoxFuture;
use futures_util::{StreamExt as _, stream};
use heureka_model::Wall;
use heureka_proto::peer::v1 as pb;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use pb::replication_service_client::ReplicationServiceClient;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::transport::Endpoint;
use tower::service_fn;

use super::backoff::Backoff;
use super::refusal::Refusal;
use super::session::{End, Ended, Session};
use super::wire::MESSAGE_MAX;
use super::{PeerAttempt, Peers, Ways};
use crate::tls::Alpn;

/// Time for a connection, and for the answer to its first request.
const CONNECT: Duration = Duration::from_secs(3);
/// A peer that is gone without a word is noticed within eight seconds.
const PING_INTERVAL: Duration = Duration::from_secs(5);
const PING_TIMEOUT: Duration = Duration::from_secs(3);
/// Room for several of the largest frames.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 2 << 20;
/// Wait where somebody has to change a configuration first, as it seems once a refusal has lasted for some time: a
/// server that starts again at once may find that it is still taken for alive.
const SLOWLY: Duration = Duration::from_secs(30);
const SEEMS: Duration = Duration::from_secs(10);

/// Bytes in both directions.
pub trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Socket for S {}

/// Opens a connection to a peer. The time that it may take is limited by whoever calls.
pub type Dial = Arc<dyn Fn(SocketAddr) -> BoxFuture<'static, io::Result<Box<dyn Socket>>> + Send + Sync>;

/// Connections over the machine's network.
pub(crate) fn system() -> Dial {
    Arc::new(|address| Box::pin(connect(address)))
}

async fn connect(address: SocketAddr) -> io::Result<Box<dyn Socket>> {
    let socket = TcpStream::connect(address).await?;
    // Frames are written whole; waiting for more to send would only delay them.
    socket.set_nodelay(true)?;
    Ok(Box::new(socket))
}

/// What became of each address.
#[derive(Default)]
pub(super) struct Attempts(Mutex<BTreeMap<SocketAddr, PeerAttempt>>);

impl Attempts {
    pub(super) fn list(&self) -> Vec<PeerAttempt> {
        self.0.lock().values().cloned().collect()
    }

    fn begin(&self, address: SocketAddr) {
        self.0.lock().insert(address, PeerAttempt::new(address));
    }

    fn end(&self, address: SocketAddr) {
        self.0.lock().remove(&address);
    }

    fn change(&self, address: SocketAddr, change: impl FnOnce(&mut PeerAttempt)) {
        if let Some(attempt) = self.0.lock().get_mut(&address) {
            change(attempt);
        }
    }
}

/// Where a peer is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    address: SocketAddr,
    /// Name that its certificate has to bear; nothing where it is called without TLS.
    certified: Option<String>,
}

/// A place that is dialed.
struct Dialed {
    place: Place,
    gone: CancellationToken,
    task: JoinHandle<()>,
}

impl Dialed {
    /// Begins once the one `before` at the same address has ended.
    fn start(peers: &Arc<Peers>, place: Place, before: Option<Self>) -> Self {
        let gone = peers.closing.child_token();
        let keeping = keep(peers.clone(), place.clone(), gone.clone());
        let task = tokio::spawn(async move {
            if let Some(before) = before {
                before.gone.cancel();
                // How it ended is nobody's concern any more.
                let _ = before.task.await;
            }
            keeping.await;
        });
        Self { place, gone, task }
    }
}

/// Dials every member and hangs up on those that are none any more, for as long as it is polled.
pub(super) async fn follow(peers: Arc<Peers>) {
    let mut members = peers.members.subscribe();
    let mut dialed: BTreeMap<SocketAddr, Dialed> = BTreeMap::new();
    loop {
        let now = members.borrow_and_update().clone();
        peers.trust.resolve(now.hosts());
        peers.links.keep(|address| peers.trust.holds(address));
        let places = now.places();
        dialed.retain(|address, dialed| {
            let stays = places.contains_key(address);
            if !stays {
                dialed.gone.cancel();
            }
            stays
        });
        for (address, certified) in places {
            let place = Place { address, certified };
            if dialed.get(&address).is_none_or(|dialed| dialed.place != place) {
                let before = dialed.remove(&address);
                dialed.insert(address, Dialed::start(&peers, place, before));
            }
        }
        if members.changed().await.is_err() {
            return;
        }
    }
}

/// Keeps a stream to one address until the address is gone.
async fn keep(peers: Arc<Peers>, place: Place, gone: CancellationToken) {
    let address = place.address;
    peers.attempts.begin(address);
    tokio::select! {
        () = redial(&peers, &place, &gone) => {}
        () = gone.cancelled() => {}
    }
    peers.attempts.end(address);
}

async fn redial(peers: &Arc<Peers>, place: &Place, gone: &CancellationToken) {
    let address = place.address;
    let mut backoff = Backoff::new(peers.seed ^ seed(address));
    let mut refused = None;
    loop {
        let begun = Instant::now();
        let Ended { end, hello } = dial(peers, place, gone).await;
        let node = hello.as_ref().map(|hello| hello.node.clone());
        if hello.is_some_and(|hello| hello.boot == peers.registry.boot()) {
            tracing::info!(%address, "this address is the server's own");
            peers.attempts.change(address, |attempt| attempt.is_self = true);
            return gone.cancelled().await;
        }
        let refusal = told(&end);
        note(peers, address, &end, refusal);
        if let (Some(Refusal::Duplicate | Refusal::Replaced), Some(node)) = (refusal, &node) {
            // The server is reached, by the other stream.
            peers.reached(address, node, peers.clock.now().wall);
            peers.links.gone(node).await;
        }
        let wait = backoff.after(begun.elapsed());
        let since = refusal.filter(|refusal| refusal.needs_people()).map(|_| *refused.get_or_insert(begun));
        refused = since;
        let lasts = since.is_some_and(|since| since.elapsed() >= SEEMS);
        sleep(if lasts { SLOWLY } else { wait }).await;
    }
}

async fn dial(peers: &Arc<Peers>, place: &Place, gone: &CancellationToken) -> Ended {
    let (outgoing, mut sent) = mpsc::channel::<Result<pb::Frame, Status>>(1);
    // An error ends the stream: it is told to the side that accepted by nothing else.
    let frames = stream::poll_fn(move |context| sent.poll_recv(context).map(|sent| sent?.ok()));
    let requests = frames.map(|frame| pb::ReplicateRequest { frame: Some(frame) });
    let replies = match timeout(2 * CONNECT, call(peers, place, requests)).await {
        Ok(Ok(replies)) => replies,
        Ok(Err(status)) => return Ended { end: End::Lost(status), hello: None },
        Err(_) => {
            return Ended { end: End::Lost(Status::deadline_exceeded("no answer in time")), hello: None };
        }
    };
    let frames = replies.map(|message| message.map(|message| message.frame.unwrap_or_default()));
    let session = Session {
        peers,
        remote: place.address.ip().to_canonical(),
        dialed: Some(place.address),
        close: gone.child_token(),
    };
    session.run(Box::pin(frames), &outgoing).await
}

/// Opens a connection of its own: what clients send must not stand before what servers say.
async fn call(
    peers: &Arc<Peers>,
    place: &Place,
    requests: impl futures_util::Stream<Item = pb::ReplicateRequest> + Send + 'static,
) -> Result<tonic::Streaming<pb::ReplicateResponse>, Status> {
    let endpoint = Endpoint::from_shared(format!("http://{}", place.address));
    let endpoint = endpoint.map_err(|error| unreachable(&error))?;
    let (dialing, place) = (peers.clone(), place.clone());
    let connector = service_fn(move |_| {
        let (peers, place) = (dialing.clone(), place.clone());
        async move { open(&peers.ways, &place).await.map(TokioIo::new) }
    });
    let channel = endpoint
        .connect_timeout(CONNECT)
        .http2_keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .connect_with_connector(connector)
        .await
        .map_err(|error| unreachable(&error))?;
    let mut client = ReplicationServiceClient::new(channel).max_decoding_message_size(MESSAGE_MAX);
    let mut request = tonic::Request::new(requests);
    if let Some(own) = &peers.authorization {
        request.metadata_mut().insert("authorization", own.clone());
    }
    Ok(client.replicate(request).await?.into_inner())
}

async fn open(ways: &Ways, place: &Place) -> io::Result<Box<dyn Socket>> {
    let socket = (ways.dial)(place.address).await?;
    match &place.certified {
        None => Ok(socket),
        Some(name) => Ok(Box::new(ways.tls.connect(name, Alpn::H2, socket).await?)),
    }
}

/// Why there is no connection.
fn unreachable(error: &tonic::transport::Error) -> Status {
    Status::unavailable(deepest(error).to_string())
}

/// The cause of an error in the words of whoever knows best.
pub(crate) fn deepest<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> &'a (dyn std::error::Error + 'static) {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause
}

/// Why a stream ended, whichever side said it.
fn told(end: &End) -> Option<Refusal> {
    match end {
        End::Lost(status) => Refusal::of(status),
        other => other.refusal(),
    }
}

/// Notes what became of a try, for people.
fn note(peers: &Peers, address: SocketAddr, end: &End, refusal: Option<Refusal>) {
    if let Some(refusal) = refusal {
        peers.counts.refused(refusal);
    }
    let is_no_fault =
        matches!(end, End::Left) || matches!(refusal, Some(Refusal::Duplicate | Refusal::Replaced));
    if is_no_fault {
        return;
    }
    let wall = peers.clock.now().wall;
    peers.attempts.change(address, |attempt| attempt.last_error = Some((wall, end.to_string())));
    peers.notices.once(&address.to_string(), || {
        tracing::warn!(%address, reason = %end, "no stream to a peer, will try again");
    });
}

impl Peers {
    /// An address answered as it should.
    pub(super) fn reached(&self, address: SocketAddr, node: &str, wall: Wall) {
        self.notices.over(&address.to_string());
        self.attempts.change(address, |attempt| {
            attempt.node = node.to_owned();
            attempt.last_success = Some(wall);
        });
    }
}

fn seed(address: SocketAddr) -> u64 {
    let mut hasher = FixedState::default().build_hasher();
    hasher.write(address.to_string().as_bytes());
    hasher.finish()
}
