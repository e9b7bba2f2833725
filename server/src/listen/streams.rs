//! The streams of an HTTP/2 connection, which run in the connection's own task.
//!
//! A task for each of them would be woken, queued and moved between processors by itself, and then wake the
//! connection to send what it has. Here a change that concerns a hundred streams of a connection wakes one task, which
//! lets each of them speak, and sends all they said at once.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::FutureExt as _;
use futures_util::task::AtomicWaker;
use hyper::rt::Executor;
use parking_lot::Mutex;
use slab::Slab;
use tokio::io::AsyncWrite;
use tokio::task::unconstrained;

use super::gathering::Gathering;

/// Turns after which a connection lets others have theirs.
const TURNS: usize = 8;

/// The connection itself among those that ring.
const CONNECTION: usize = usize::MAX;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Takes the streams that a connection begins.
#[derive(Clone, Default)]
pub(super) struct Begun(Arc<Mutex<Vec<Work>>>);

/// A connection with its streams.
pub(super) struct Streams<C, S> {
    connection: C,
    socket: Gathering<S>,
    begun: Begun,
    running: Slab<Running>,
    board: Arc<Board>,
    bell: Bell,
}

struct Running {
    work: Work,
    bell: Bell,
}

/// Who wants to be polled.
#[derive(Default)]
struct Board {
    rung: Mutex<Vec<usize>>,
    /// The task, while it sleeps.
    task: AtomicWaker,
}

/// Wakes one of a connection.
struct Bell {
    rope: Arc<Rope>,
    waker: Waker,
}

/// What others have of a bell.
struct Rope {
    key: usize,
    is_pulled: AtomicBool,
    board: Arc<Board>,
}

impl<F: Future<Output: Send> + Send + 'static> Executor<F> for Begun {
    fn execute(&self, stream: F) {
        // One that panics ends alone: the protocol library resets it when it is dropped. Each has its turn, so none
        // needs the runtime's measure, which is made for one task and not for a hundred.
        let alone = AssertUnwindSafe(unconstrained(stream)).catch_unwind().map(drop);
        self.0.lock().push(Box::pin(alone));
    }
}

impl<C: Future + Unpin, S: AsyncWrite + Unpin> Streams<C, S> {
    /// `begun` is where the connection leaves its streams, `socket` what it writes to.
    pub(super) fn new(connection: C, socket: Gathering<S>, begun: Begun) -> Self {
        let board = Arc::new(Board::default());
        let bell = Bell::new(CONNECTION, &board);
        bell.waker.wake_by_ref();
        Self { connection, socket, begun, running: Slab::new(), board, bell }
    }

    /// The connection, which is polled soon after.
    pub(super) fn connection(&mut self) -> &mut C {
        self.bell.waker.wake_by_ref();
        &mut self.connection
    }

    /// Polls who rang: first those who speak, then the connection, which writes what they said.
    fn turn(&mut self) -> Poll<C::Output> {
        let rung = std::mem::take(&mut *self.board.rung.lock());
        rung.iter().for_each(|key| self.run(*key));
        let ended =
            if rung.contains(&CONNECTION) { self.bell.poll(&mut self.connection) } else { Poll::Pending };
        self.take_up();
        ended
    }

    fn run(&mut self, key: usize) {
        let Some(Running { work, bell }) = self.running.get_mut(key) else { return };
        if bell.poll(work).is_ready() {
            self.running.remove(key);
        }
    }

    fn take_up(&mut self) {
        let begun = std::mem::take(&mut *self.begun.0.lock());
        for work in begun {
            let entry = self.running.vacant_entry();
            let bell = Bell::new(entry.key(), &self.board);
            bell.waker.wake_by_ref();
            entry.insert(Running { work, bell });
        }
    }

    /// Sends what was written, until somebody rings again.
    fn send(&mut self) {
        if !self.socket.send(&mut Context::from_waker(&self.bell.waker)) {
            self.bell.waker.wake_by_ref();
        }
    }
}

impl<C: Future + Unpin, S: AsyncWrite + Unpin> Future for Streams<C, S> {
    type Output = C::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // Whoever rings meanwhile is heard without it.
        self.board.task.take();
        for _ in 0..TURNS {
            if let Poll::Ready(ended) = self.turn() {
                return Poll::Ready(ended);
            }
            if self.board.is_quiet() {
                break;
            }
        }
        self.send();
        self.board.task.register(context.waker());
        if !self.board.is_quiet() {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl Board {
    fn is_quiet(&self) -> bool {
        self.rung.lock().is_empty()
    }

    fn ring(&self, key: usize) {
        let mut rung = self.rung.lock();
        rung.push(key);
        // Whoever rang first woke it.
        if rung.len() == 1 {
            drop(rung);
            self.task.wake();
        }
    }
}

impl Bell {
    fn new(key: usize, board: &Arc<Board>) -> Self {
        let rope = Arc::new(Rope { key, is_pulled: AtomicBool::new(false), board: board.clone() });
        Self { waker: rope.clone().into(), rope }
    }

    fn poll<F: Future + Unpin>(&self, work: &mut F) -> Poll<F::Output> {
        self.rope.is_pulled.store(false, Ordering::SeqCst);
        Pin::new(work).poll(&mut Context::from_waker(&self.waker))
    }
}

impl Wake for Rope {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_pulled.swap(true, Ordering::SeqCst) {
            self.board.ring(self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io;

    use tokio::io::{AsyncRead, ReadBuf};
    use tokio::sync::{Notify, mpsc};
    use tokio::task::yield_now;

    use super::*;

    /// How many bytes each write had.
    type Writes = Arc<Mutex<Vec<usize>>>;

    struct Socket(Writes);

    impl AsyncRead for Socket {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    impl AsyncWrite for Socket {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            self.0.lock().push(bytes.len());
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// A connection that writes a byte for each word, and ends with the first that is `.`.
    async fn writes(mut words: mpsc::Receiver<char>, mut socket: Gathering<Socket>) {
        while let Some(word) = words.recv().await {
            if word == '.' {
                return;
            }
            poll_fn(|context| Pin::new(&mut socket).poll_write(context, b"w")).await.unwrap();
        }
    }

    /// A connection that begins with these streams, until it ends; what it wrote.
    async fn run(works: impl FnOnce(&mpsc::Sender<char>, &Begun)) -> Vec<usize> {
        let written = Writes::default();
        let socket = Gathering::new(Socket(written.clone()));
        let (say, words) = mpsc::channel(1000);
        let begun = Begun::default();
        works(&say, &begun);
        Streams::new(Box::pin(writes(words, socket.clone())), socket, begun).await;
        written.lock().clone()
    }

    #[tokio::test]
    async fn what_many_streams_say_is_sent_at_once() {
        let news = Arc::new(Notify::new());
        let written = run(|say, begun| {
            for _ in 0..100 {
                let (say, news) = (say.clone(), news.clone());
                begun.execute(async move {
                    news.notified().await;
                    say.send('w').await.unwrap();
                    news.notified().await;
                });
            }
            let say = say.clone();
            tokio::spawn(async move {
                yield_now().await;
                news.notify_waiters();
                yield_now().await;
                say.send('.').await.unwrap();
            });
        });
        assert_eq!(written.await, [100]);
    }

    #[tokio::test]
    async fn one_that_panics_ends_alone() {
        let written = run(|say, begun| {
            let say = say.clone();
            begun.execute(async { panic!("a fault of its own") });
            begun.execute(async move {
                say.send('w').await.unwrap();
                yield_now().await;
                say.send('.').await.unwrap();
            });
        });
        assert_eq!(written.await, [1]);
    }

    #[tokio::test]
    async fn one_that_never_rests_keeps_nobody_from_speaking() {
        let written = run(|say, begun| {
            let say = say.clone();
            begun.execute(async {
                loop {
                    yield_now().await;
                }
            });
            // Others of the runtime have their turn too.
            tokio::spawn(async move {
                say.send('w').await.unwrap();
                yield_now().await;
                yield_now().await;
                say.send('.').await.unwrap();
            });
        });
        assert_eq!(written.await, [1]);
    }
}
