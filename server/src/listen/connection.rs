//! One connection from its first byte to its end.

use std::future::{Future as _, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::gathering::Gathering;
use super::guarded::{Guarded, Turns, Waits};
use super::service::Requests;
use super::sniff::{Prefixed, sniff};
use super::streams::{Begun, Streams};
use super::wire::Wire;
use super::{Listen, Listener, Seat};
use crate::config::{LimitsConfig, bytes_of};
use crate::doze::Doze;
use crate::drain::Leaving;
use crate::grpc;
use crate::metrics::{Closed, Protocol};
use crate::tls::reason;

const STREAM_WINDOW: u32 = 256 << 10;
/// Four streams' worth, so that one large request does not starve its siblings.
const CONNECTION_WINDOW: u32 = 1 << 20;
/// What a slow reader's stream may hold of an answer; after that the answer waits at its source.
const SEND_BUFFER: usize = 128 << 10;
/// What the system may hold of answers that it has not sent yet.
#[cfg(target_os = "linux")]
const UNSENT: u32 = 128 << 10;
/// Streams that a client resets before they were taken up: the defence against rapid reset.
const PENDING_RESETS: usize = 20;
const LOCAL_ERROR_RESETS: usize = 256;
/// The protocol library panics at a smaller one.
const H1_BUFFER_MIN: usize = 8 << 10;
/// A peer that is gone without a word is noticed within 30 s.
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves one connection.
pub(super) async fn serve<L: Listener>(listen: Arc<Listen>, socket: L::Socket, peer: SocketAddr, seat: Seat) {
    let reason = converse::<L>(&listen, socket, peer).await;
    listen.metrics.closed(reason);
    drop(seat);
}

async fn converse<L: Listener>(listen: &Arc<Listen>, socket: L::Socket, peer: SocketAddr) -> Closed {
    if L::prepare(&socket).is_err() {
        return Closed::Error;
    }
    let opened = tokio::select! {
        opened = timeout(listen.limits.first_byte_timeout, open(listen, socket, peer)) => opened,
        () = listen.ending.asked() => return Closed::Done,
    };
    match opened {
        Err(_) => Closed::Timeout,
        Ok(Err(reason)) => reason,
        Ok(Ok((Protocol::H1, socket))) => h1(listen, socket, peer).await,
        Ok(Ok((Protocol::H2, socket))) => h2(listen, socket, peer).await,
    }
}

/// Reads until it is certain what a connection speaks, after a handshake where TLS is served. Whatever was agreed upon
/// there, the first bytes say what is spoken.
async fn open<S>(
    listen: &Listen,
    socket: S,
    peer: SocketAddr,
) -> Result<(Protocol, Prefixed<Wire<S>>), Closed>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let wire = match &listen.tls {
        None => Wire::Plain(socket),
        // In a box, so that a plain connection does not keep a place for it.
        Some(tls) => match Box::pin(tls.accept(socket)).await {
            Ok(secure) => Wire::Secure(secure),
            Err(error) => {
                tracing::debug!(%peer, reason = reason(&error), "no handshake with a client");
                return Err(Closed::Tls);
            }
        },
    };
    sniff(wire).await.map_err(|_| Closed::Error)?.ok_or(Closed::Done)
}

/// Sets what a socket of the machine needs.
pub(super) fn prepare(socket: &TcpStream) -> io::Result<()> {
    // Answers are written whole; waiting for more to send would only delay them.
    socket.set_nodelay(true)?;
    // By itself the system takes over megabytes and then asks for more only when a third of them is gone. A client
    // that reads steadily, but slowly, would look as if it had stopped.
    #[cfg(target_os = "linux")]
    socket2::SockRef::from(socket).set_tcp_notsent_lowat(UNSENT)?;
    Ok(())
}

async fn h1<S>(listen: &Arc<Listen>, socket: Prefixed<S>, peer: SocketAddr) -> Closed
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    listen.metrics.speaks(Protocol::H1);
    let limits = &listen.limits;
    let leaving = listen.ending.leaving();
    let turns = Arc::new(Turns::default());
    let waits = Waits { header: limits.header_timeout, idle: limits.idle_timeout };
    let socket = TokioIo::new(Guarded::new(socket, turns.clone(), waits));
    let requests = Requests::new(listen.clone(), peer, &leaving, Some(turns));
    let native = requests.native();
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .max_headers(limits.header_count as usize)
        .max_buf_size(h1_buffer(limits))
        .half_close(false)
        .serve_connection(socket, requests);
    let mut connection = Box::pin(connection);
    tokio::select! {
        ended = connection.as_mut() => return closed(&ended),
        () = leave(listen, &leaving, &native) => connection.as_mut().graceful_shutdown(),
    }
    tokio::select! {
        ended = connection => closed(&ended),
        () = cut(listen) => Closed::Cut,
    }
}

async fn h2<S>(listen: &Arc<Listen>, socket: Prefixed<S>, peer: SocketAddr) -> Closed
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    listen.metrics.speaks(Protocol::H2);
    let limits = &listen.limits;
    let leaving = listen.ending.leaving_in_turn();
    let requests = Requests::new(listen.clone(), peer, &leaving, None);
    let native = requests.native();
    let (socket, streams) = (Gathering::new(socket), Begun::default());
    let connection = http2::Builder::new(streams.clone())
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams_per_connection)
        .max_pending_accept_reset_streams(PENDING_RESETS)
        .max_local_error_reset_streams(LOCAL_ERROR_RESETS)
        .max_header_list_size(h2_header_list(limits))
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .serve_connection(TokioIo::new(socket.clone()), requests);
    // In a box, since a task keeps a place for what it moves.
    let mut connection = Streams::new(Box::pin(connection), socket, streams);
    let mut leave = pin!(leave(listen, &leaving, &native));
    let doze = Doze::new();
    tokio::select! {
        biased;
        ended = &mut connection => return closed(&ended),
        () = poll_fn(|context| doze.poll(context, |context| leave.as_mut().poll(context))) => connection.connection().as_mut().graceful_shutdown(),
    }
    tokio::select! {
        ended = connection => closed(&ended),
        () = cut(listen) => Closed::Cut,
    }
}

/// Waits until the connection is to end, for its age or the server's, and tells its requests.
async fn leave(listen: &Listen, leaving: &Leaving, native: &grpc::Connection) {
    tokio::select! {
        () = leaving.wait() => {}
        () = aged(listen, native) => leaving.tell(),
        () = listen.turn() => leaving.tell(),
    }
}

/// Waits until a connection is old; one between servers never is.
async fn aged(listen: &Listen, native: &grpc::Connection) {
    tokio::time::sleep(listen.age()).await;
    if native.is_kept() {
        std::future::pending::<()>().await;
    }
}

/// Waits until a connection that was asked to end has had its time.
async fn cut(listen: &Listen) {
    tokio::select! {
        () = listen.ending.over() => {}
        () = tokio::time::sleep(listen.limits.connection_grace) => {}
    }
}

/// Room for the longest header that is allowed, request line included. What fits in here and is too long all the
/// same is refused when the request is looked at.
fn h1_buffer(limits: &LimitsConfig) -> usize {
    (bytes_of(limits.header_bytes) + bytes_of(limits.uri_bytes) + (1 << 10)).max(H1_BUFFER_MIN)
}

/// What the library takes before it refuses by itself, in plain HTTP. Twice the room, since that also counts the path
/// and 32 bytes for each header, so that a gRPC client whose headers are too long is told in its own language.
fn h2_header_list(limits: &LimitsConfig) -> u32 {
    u32::try_from(2 * h1_buffer(limits)).unwrap_or(u32::MAX)
}

fn closed(ended: &hyper::Result<()>) -> Closed {
    match ended {
        Ok(()) => Closed::Done,
        Err(error) if is_timeout(error) => Closed::Timeout,
        Err(_) => Closed::Error,
    }
}

fn is_timeout(error: &hyper::Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<io::Error>());
    error.is_timeout() || cause.is_some_and(|cause| cause.kind() == io::ErrorKind::TimedOut)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_system_asks_for_more_before_it_has_sent_much() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        prepare(&socket).unwrap();
        assert_eq!(socket2::SockRef::from(&socket).tcp_notsent_lowat().unwrap(), UNSENT);
        assert!(socket.nodelay().unwrap());
    }
}
