//! The one accept loop: HTTP/1.1 and HTTP/2 on one port, plain or over TLS, under limits and timeouts.
//!
//! A connection shakes hands, where TLS is served, and says with its first bytes which protocol it speaks; it has a time for that, a time for each
//! header, a time to rest and an age. No client can hold more than its connection: a stalled one is closed, and
//! the loop itself never waits for any of them. An error of the system while accepting (too many open files,
//! above all) makes it pause, not spin.

mod bind;
mod body;
mod connection;
mod gathering;
mod guarded;
mod service;
mod sniff;
mod streams;
mod wire;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::app::App;
use crate::config::{DrainConfig, LimitsConfig};
use crate::drain::Ending;
use crate::metrics::{Closed, Metrics};
use crate::tls::Acceptor;

pub use bind::{BindError, bind, connections_max};

/// Pause after an accept that failed for want of something, most likely of files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Where connections come from: a port of the machine, or of a simulated one.
pub trait Listener: Send + Sync + 'static {
    /// A connection.
    type Socket: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// The address that others connect to.
    /// # Errors
    /// It is not known.
    fn local_addr(&self) -> io::Result<SocketAddr>;

    /// The next connection, and where it comes from. A call that is given up loses none.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Socket, SocketAddr)>> + Send;

    /// Makes a connection ready before its first byte is read.
    /// # Errors
    /// It is of no use.
    fn prepare(socket: &Self::Socket) -> io::Result<()>;
}

/// What all connections of a server share.
pub(crate) struct Listen {
    pub(crate) app: App,
    pub(crate) limits: LimitsConfig,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) ending: Ending,
    /// Nothing where connections are plain.
    tls: Option<Acceptor>,
    drain: DrainConfig,
    seats: Arc<Semaphore>,
    jitter: Mutex<SmallRng>,
}

/// A place among the open connections; leaving it makes room and is counted.
pub(crate) struct Seat {
    metrics: Arc<Metrics>,
    _permit: OwnedSemaphorePermit,
}

impl Listen {
    pub(crate) fn new(
        app: App,
        limits: LimitsConfig,
        metrics: Arc<Metrics>,
        ending: Ending,
        drain: DrainConfig,
        seed: u64,
    ) -> Self {
        let seats = Arc::new(Semaphore::new(connections_max(&limits)));
        let jitter = Mutex::new(SmallRng::seed_from_u64(seed));
        Self { app, limits, metrics, ending, tls: None, drain, seats, jitter }
    }

    /// Takes connections over TLS, where there is a certificate.
    pub(crate) fn secured(self, tls: Option<Acceptor>) -> Self {
        Self { tls, ..self }
    }

    /// Accepts until the server is asked to end, then gives the port back.
    pub(crate) async fn run<L: Listener>(self: Arc<Self>, listener: L) {
        loop {
            let accepted = tokio::select! {
                () = self.ending.asked() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((socket, peer)) => self.admit::<L>(socket, peer),
                Err(error) if concerns_one_connection(&error) => {}
                Err(error) => self.pause(&error).await,
            }
        }
    }

    fn admit<L: Listener>(self: &Arc<Self>, socket: L::Socket, peer: SocketAddr) {
        let Ok(permit) = self.seats.clone().try_acquire_owned() else {
            self.metrics.closed(Closed::Limit);
            tracing::warn!("connection refused, all places are taken");
            return;
        };
        let seat = Seat::take(self.metrics.clone(), permit);
        let connection = connection::serve::<L>(self.clone(), socket, canonical(peer), seat);
        self.ending.track(connection);
    }

    async fn pause(&self, error: &io::Error) {
        self.metrics.accept_errors.increment(1);
        tracing::warn!(%error, "cannot accept a connection");
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }

    /// Waits for the moment at which a connection leaves with the server.
    async fn turn(&self) {
        let share = self.jitter.lock().random_range(0.0..1.0);
        self.ending.turn(&self.drain, share).await;
    }

    /// An age within a fifth of the configured one.
    fn age(&self) -> Duration {
        let factor = self.jitter.lock().random_range(0.8..1.2);
        self.limits.connection_age.mul_f64(factor)
    }
}

impl Listener for TcpListener {
    type Socket = TcpStream;

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.local_addr()
    }

    fn accept(&self) -> impl Future<Output = io::Result<(TcpStream, SocketAddr)>> + Send {
        self.accept()
    }

    fn prepare(socket: &TcpStream) -> io::Result<()> {
        connection::prepare(socket)
    }
}

impl Seat {
    fn take(metrics: Arc<Metrics>, permit: OwnedSemaphorePermit) -> Self {
        metrics.connections.increment(1);
        Self { metrics, _permit: permit }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.metrics.connections.decrement(1);
    }
}

/// The client gave up before it was accepted; the listener is fine.
fn concerns_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// An IPv4 client of a dual-stack socket is an IPv4 client.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_addresses_are_reduced() {
        let mapped = "[::ffff:10.1.2.3]:80".parse().unwrap();
        assert_eq!(canonical(mapped), "10.1.2.3:80".parse().unwrap());
        let native = "[2001:db8::1]:80".parse().unwrap();
        assert_eq!(canonical(native), native);
    }

    #[test]
    fn want_of_files_is_no_fault_of_one_connection() {
        assert!(!concerns_one_connection(&io::Error::from_raw_os_error(24)));
        assert!(concerns_one_connection(&io::ErrorKind::ConnectionAborted.into()));
    }
}
