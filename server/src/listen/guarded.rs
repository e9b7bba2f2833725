//! Times for an HTTP/1.1 connection that waits for its client.
//!
//! The protocol library has one timeout for the wait between two requests and for a header under way. A legacy
//! client rests for 30 s between heartbeats, an attacker sends a header byte by byte; so the two are told apart
//! here, where the bytes pass.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// Requests of one connection, as the service sees them.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// How many have begun or ended.
    count: AtomicU64,
    /// The connection. The library does not read on by itself after an answer, so nobody would set the timer.
    reader: AtomicWaker,
}

/// A request that has begun; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Turn(Arc<Turns>);

/// How long a connection may wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    /// For the rest of a header.
    pub(super) header: Duration,
    /// For the next request, or for the client to take in any part of an answer.
    pub(super) idle: Duration,
}

/// A socket that fails with `TimedOut` when a client keeps it waiting.
pub(super) struct Guarded<S> {
    socket: S,
    turns: Arc<Turns>,
    waits: Waits,
    timer: Pin<Box<Sleep>>,
    waiting: Waiting,
    /// End of the wait. The timer follows only when there is nothing to read, since most requests come whole.
    until: Instant,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    /// A request is being served.
    No,
    /// The first byte after this many turns.
    Request(u64),
    /// The end of the header after this many turns.
    Header(u64),
    /// Room for more of an answer. The library takes an answer over from its handler long before the client has
    /// it, so this outlasts turns.
    Room,
}

impl Turns {
    pub(super) fn begin(self: &Arc<Self>) -> Turn {
        self.count.fetch_add(1, Ordering::Relaxed);
        Turn(self.clone())
    }

    /// Odd while a request is served, since HTTP/1.1 serves one after the other.
    fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.count.fetch_add(1, Ordering::Relaxed);
        self.0.reader.wake();
    }
}

impl<S> Guarded<S> {
    /// Guards a socket whose client has just sent the first bytes of a header.
    pub(super) fn new(socket: S, turns: Arc<Turns>, waits: Waits) -> Self {
        let timer = Box::pin(tokio::time::sleep(waits.header));
        let until = timer.deadline();
        Self { socket, turns, waits, timer, waiting: Waiting::Header(0), until }
    }

    fn arm(&mut self, waiting: Waiting, wait: Duration) {
        self.waiting = waiting;
        self.until = Instant::now() + wait;
    }

    fn heard(&mut self) {
        let count = self.turns.count();
        if self.waiting == Waiting::Room {
            return;
        }
        if count.is_multiple_of(2) && self.waiting != Waiting::Header(count) {
            self.arm(Waiting::Header(count), self.waits.header);
        }
    }

    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let count = self.turns.count();
        if self.waiting == Waiting::Room {
            return self.poll_timer(cx);
        }
        if !count.is_multiple_of(2) {
            self.waiting = Waiting::No;
            return Poll::Pending;
        }
        if !matches!(self.waiting, Waiting::Request(turn) | Waiting::Header(turn) if turn == count) {
            self.arm(Waiting::Request(count), self.waits.idle);
        }
        self.poll_timer(cx)
    }

    fn poll_timer<T>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if self.timer.deadline() != self.until {
            self.timer.as_mut().reset(self.until);
        }
        ready!(self.timer.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    fn poll_room<T>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if self.waiting != Waiting::Room {
            self.arm(Waiting::Room, self.waits.idle);
        }
        self.poll_timer(cx)
    }

    /// A client that takes nothing in is waited for; one that takes something in begins its time anew.
    fn wrote(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match written {
            Poll::Pending => self.poll_room(cx),
            written => {
                if self.waiting == Waiting::Room {
                    self.waiting = Waiting::No;
                    // The answer may be out with this, and then nobody would set the time to rest.
                    self.turns.reader.wake();
                }
                written
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let this = &mut *self;
        this.turns.reader.register(cx.waker());
        match Pin::new(&mut this.socket).poll_read(cx, buf) {
            Poll::Pending => this.poll_patience(cx),
            read => {
                if buf.filled().len() > before {
                    this.heard();
                }
                read
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(cx, buf);
        self.wrote(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    /// Over TLS the last of an answer and the farewell after it need room, too.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        match Pin::new(&mut this.socket).poll_shutdown(cx) {
            Poll::Pending => this.poll_room(cx),
            ended => ended,
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(cx, bufs);
        self.wrote(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::task::JoinHandle;

    use super::super::body::Answer;
    use super::*;

    const WAITS: Waits = Waits { header: Duration::from_secs(10), idle: Duration::from_secs(75) };

    fn guarded() -> (DuplexStream, Guarded<DuplexStream>, Arc<Turns>) {
        let (client, server) = duplex(64);
        let turns = Arc::new(Turns::default());
        let guarded = Guarded::new(server, turns.clone(), WAITS);
        (client, guarded, turns)
    }

    /// Seconds of the paused clock until the read fails.
    async fn patience(guarded: &mut Guarded<DuplexStream>) -> u64 {
        let start = Instant::now();
        let error = guarded.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        start.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn a_header_under_way_has_the_header_time() {
        let (_client, mut guarded, _) = guarded();
        assert_eq!(patience(&mut guarded).await, 10);
    }

    #[tokio::test(start_paused = true)]
    async fn single_bytes_do_not_stretch_the_header_time() {
        let (mut client, mut guarded, _) = guarded();
        let start = Instant::now();
        let sender = tokio::spawn(async move {
            while client.write_all(b"x").await.is_ok() {
                tokio::time::advance(Duration::from_secs(1)).await;
            }
        });
        while guarded.read_u8().await.is_ok() {}
        drop(guarded);
        sender.await.unwrap();
        assert!((10..13).contains(&start.elapsed().as_secs()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_at_rest_has_the_idle_time_and_then_the_header_time() {
        let (mut client, mut guarded, turns) = guarded();
        drop(turns.begin());
        assert_eq!(patience(&mut guarded).await, 75);
        drop(turns.begin());
        client.write_all(b"G").await.unwrap();
        assert_eq!(guarded.read_u8().await.unwrap(), b'G');
        assert_eq!(patience(&mut guarded).await, 10);
    }

    /// An HTTP/1.1 server whose one answer is larger than anything between it and its client, and its end.
    fn served(guarded: Guarded<DuplexStream>, turns: Arc<Turns>) -> JoinHandle<bool> {
        let service = service_fn(move |_| {
            let turn = turns.begin();
            let body = Answer::new(axum::body::Body::from(vec![b'x'; LARGE]), Some(turn));
            async move { Ok::<_, Infallible>(http::Response::new(body)) }
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .header_read_timeout(None)
            .serve_connection(TokioIo::new(guarded), service);
        tokio::spawn(async move { connection.await.is_ok() })
    }

    const LARGE: usize = 1 << 20;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_slowly_gets_its_whole_answer() {
        let (mut client, guarded, turns) = guarded();
        let ended = served(guarded, turns);
        client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let (start, mut read) = (Instant::now(), 0);
        let mut buffer = vec![0; 64];
        while read < LARGE {
            // Almost two weeks in all, by a clock that waits for nobody.
            tokio::time::sleep(Duration::from_secs(70)).await;
            let length = client.read(&mut buffer).await.unwrap();
            assert_ne!(length, 0, "cut after {read} bytes");
            read += length;
        }
        assert!(start.elapsed() > 100 * WAITS.idle);
        let rest = Instant::now();
        while client.read(&mut buffer).await.is_ok_and(|length| length > 0) {}
        assert_eq!(rest.elapsed().as_secs(), 75);
        ended.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_is_cut_after_the_idle_time() {
        let (mut client, guarded, turns) = guarded();
        let ended = served(guarded, turns);
        client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let start = Instant::now();
        assert!(!ended.await.unwrap());
        assert_eq!(start.elapsed().as_secs(), 75);
    }

    /// Takes no more, so that no farewell gets out.
    struct Full;

    impl AsyncWrite for Full {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Pending
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_no_farewell_in_is_cut_after_the_idle_time() {
        let mut guarded = Guarded::new(Full, Arc::new(Turns::default()), WAITS);
        let start = Instant::now();
        assert_eq!(guarded.shutdown().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(start.elapsed().as_secs(), 75);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_served_has_no_time() {
        let (_client, mut guarded, turns) = guarded();
        let turn = turns.begin();
        let hour = tokio::time::timeout(Duration::from_hours(1), guarded.read_u8());
        assert!(hour.await.is_err());
        drop(turn);
        assert_eq!(patience(&mut guarded).await, 75);
    }
}
