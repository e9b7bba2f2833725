//! A wire between two processes, as a relay in this one: it can be cut, held and slowed, each direction by itself,
//! and counts what passes.
//!
//! The relay has its port before the server behind it has one, so that servers can be told of each other before any
//! of them runs, and keeps it when the server comes back elsewhere.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use socket2::SockRef;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

/// Most bytes that travel together.
const PIECE: usize = 16 << 10;
/// Pieces under way in one direction; beyond them the sender feels that nothing moves, as behind any full line.
const UNDER_WAY: usize = 64;

/// A wire to a server. It is gone, with all that it carries, when its value is.
#[derive(Debug)]
pub struct Wire {
    /// Where the near end listens.
    pub address: SocketAddr,
    state: Arc<State>,
    task: JoinHandle<()>,
}

/// What a wire does with what it carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fault {
    /// Connections are reset, and new ones too.
    pub is_cut: bool,
    /// From the one that dials to the server.
    pub there: Flow,
    /// From the server to the one that dialed.
    pub back: Flow,
}

/// One direction of a wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Nothing passes and nobody is told; it arrives when this ends, as what is sent again and again does.
    pub is_held: bool,
    /// Time that each piece takes.
    pub delay: Duration,
    /// Bytes in a second; nothing: as many as there are.
    pub rate: Option<NonZeroU64>,
}

#[derive(Debug)]
struct State {
    server: watch::Sender<Option<SocketAddr>>,
    fault: watch::Sender<Fault>,
    passed: [AtomicU64; 2],
    connections: AtomicU64,
}

#[derive(Clone, Copy)]
enum Way {
    There,
    Back,
}

impl Fault {
    /// Nothing passes in either direction, and nobody is told.
    #[must_use]
    pub fn held() -> Self {
        let held = Flow { is_held: true, ..Flow::default() };
        Self { there: held, back: held, ..Self::default() }
    }

    /// Every connection is reset.
    #[must_use]
    pub fn cut() -> Self {
        Self { is_cut: true, ..Self::default() }
    }

    /// Each piece takes so long, in either direction.
    #[must_use]
    pub fn delayed(delay: Duration) -> Self {
        let slow = Flow { delay, ..Flow::default() };
        Self { there: slow, back: slow, ..Self::default() }
    }

    fn flow(&self, way: Way) -> Flow {
        match way {
            Way::There => self.there,
            Way::Back => self.back,
        }
    }
}

impl Wire {
    /// A wire that leads nowhere yet: it resets whoever calls.
    ///
    /// # Errors
    /// There is no free port.
    pub async fn new() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let state = Arc::new(State {
            server: watch::Sender::new(None),
            fault: watch::Sender::default(),
            passed: Default::default(),
            connections: AtomicU64::new(0),
        });
        let carrying = Arc::clone(&state);
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(Arc::clone(&carrying).carry(near));
            }
        });
        Ok(Self { address, state, task })
    }

    /// From now on calls go to this server, or nowhere. Connections that are there stay as they are.
    pub fn lead_to(&self, server: Option<SocketAddr>) {
        self.state.server.send_replace(server);
    }

    /// From now on this is done with everything, until told otherwise.
    pub fn set(&self, fault: Fault) {
        self.state.fault.send_replace(fault);
    }

    /// Bytes that came out at either end since the start: at the server's, and at that of those who dialed.
    #[must_use]
    pub fn passed(&self) -> [u64; 2] {
        [0, 1].map(|way: usize| self.state.passed[way].load(Ordering::Relaxed))
    }

    /// Connections that reached the server since the start.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.state.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.task.abort();
        self.set(Fault::cut());
    }
}

impl State {
    /// Carries one connection until both ends have closed it, one breaks it, or the wire is cut.
    async fn carry(self: Arc<Self>, near: TcpStream) {
        reset_when_dropped(&near, true);
        let mut fault = self.fault.subscribe();
        if fault.borrow().is_cut {
            return;
        }
        let server = *self.server.borrow();
        let Some(server) = server else { return };
        let Ok(far) = TcpStream::connect(server).await else { return };
        self.connections.fetch_add(1, Ordering::Relaxed);
        reset_when_dropped(&far, true);
        // A connection that waits for more to send would add a delay of its own.
        let _ = (near.set_nodelay(true), far.set_nodelay(true));
        let (from_near, to_near) = near.into_split();
        let (from_far, to_far) = far.into_split();
        let both = async {
            tokio::try_join!(
                self.pump(from_near, to_far, Way::There),
                self.pump(from_far, to_near, Way::Back)
            )
        };
        tokio::select! {
            // One that is broken is reset at its other end as well.
            _ = both => {}
            _ = fault.wait_for(|fault| fault.is_cut) => {}
        }
    }

    /// Carries one direction to its end.
    async fn pump(&self, from: OwnedReadHalf, mut to: OwnedWriteHalf, way: Way) -> std::io::Result<()> {
        let (sender, receiver) = mpsc::channel(UNDER_WAY);
        tokio::try_join!(take_in(from, sender), self.hand_out(receiver, &mut to, way))?;
        reset_when_dropped(to.as_ref(), false);
        to.shutdown().await
    }

    async fn hand_out(
        &self,
        mut pieces: mpsc::Receiver<(Instant, Bytes)>,
        to: &mut OwnedWriteHalf,
        way: Way,
    ) -> std::io::Result<()> {
        let mut fault = self.fault.subscribe();
        while let Some((came, piece)) = pieces.recv().await {
            let delay = fault.borrow_and_update().flow(way).delay;
            if !delay.is_zero() {
                sleep_until(came + delay).await;
            }
            // Fails only with the wire itself, which ends this too.
            let flow = fault.wait_for(|fault| !fault.flow(way).is_held).await.map(|fault| fault.flow(way));
            to.write_all(&piece).await?;
            self.passed[way as usize].fetch_add(piece.len() as u64, Ordering::Relaxed);
            if let Some(rate) = flow.ok().and_then(|flow| flow.rate) {
                sleep(Duration::from_secs(1).mul_f64(piece.len() as f64 / rate.get() as f64)).await;
            }
        }
        Ok(())
    }
}

async fn take_in(mut from: OwnedReadHalf, sender: mpsc::Sender<(Instant, Bytes)>) -> std::io::Result<()> {
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(PIECE);
        if from.read_buf(&mut buffer).await? == 0 {
            return Ok(());
        }
        // Nobody takes it only when the other half has failed and said so.
        let _ = sender.send((Instant::now(), buffer.split().freeze())).await;
    }
}

/// Whether the other end is told of a broken line, or of an end in order.
fn reset_when_dropped(stream: &TcpStream, reset: bool) {
    // A socket that is gone needs neither.
    let _ = SockRef::from(stream).set_linger(reset.then_some(Duration::ZERO));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A wire to something that answers whatever comes with the same.
    async fn to_an_echo() -> Wire {
        let wire = Wire::new().await.unwrap();
        let echo = TcpListener::bind("127.0.0.1:0").await.unwrap();
        wire.lead_to(Some(echo.local_addr().unwrap()));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = echo.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    tokio::io::copy(&mut from, &mut to).await
                });
            }
        });
        wire
    }

    async fn say(stream: &mut TcpStream, word: &[u8]) -> std::io::Result<Vec<u8>> {
        stream.write_all(word).await?;
        let mut heard = vec![0; word.len()];
        stream.read_exact(&mut heard).await.map(|_| heard)
    }

    #[tokio::test]
    async fn what_is_sent_arrives_and_is_counted() {
        let wire = to_an_echo().await;
        let mut stream = TcpStream::connect(wire.address).await.unwrap();
        assert_eq!(say(&mut stream, b"hello").await.unwrap(), b"hello");
        assert_eq!((wire.passed(), wire.connections()), ([5, 5], 1));
    }

    #[tokio::test]
    async fn an_end_in_order_passes_as_such() {
        let wire = to_an_echo().await;
        let mut stream = TcpStream::connect(wire.address).await.unwrap();
        stream.write_all(b"last").await.unwrap();
        stream.shutdown().await.unwrap();
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard, b"last");
    }

    #[tokio::test]
    async fn a_cut_resets_what_is_there_and_what_comes() {
        let wire = to_an_echo().await;
        let mut before = TcpStream::connect(wire.address).await.unwrap();
        say(&mut before, b"x").await.unwrap();
        wire.set(Fault::cut());
        assert!(say(&mut before, b"x").await.is_err());
        let mut after = TcpStream::connect(wire.address).await.unwrap();
        assert!(say(&mut after, b"x").await.is_err());
        wire.set(Fault::default());
        let mut healed = TcpStream::connect(wire.address).await.unwrap();
        assert_eq!(say(&mut healed, b"x").await.unwrap(), b"x");
    }

    #[tokio::test]
    async fn what_is_held_in_one_direction_arrives_when_it_is_let_go() {
        let wire = to_an_echo().await;
        let mut stream = TcpStream::connect(wire.address).await.unwrap();
        say(&mut stream, b"x").await.unwrap();
        wire.set(Fault { back: Flow { is_held: true, ..Flow::default() }, ..Fault::default() });
        stream.write_all(b"late").await.unwrap();
        while wire.passed()[0] < 5 {
            tokio::task::yield_now().await;
        }
        assert_eq!(wire.passed(), [5, 1]);
        wire.set(Fault::default());
        let mut heard = [0; 4];
        stream.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"late");
    }

    #[tokio::test]
    async fn a_wire_that_leads_nowhere_resets_its_callers() {
        let wire = Wire::new().await.unwrap();
        let mut stream = TcpStream::connect(wire.address).await.unwrap();
        assert!(say(&mut stream, b"x").await.is_err());
    }
}
