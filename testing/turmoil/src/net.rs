//! The simulated network in the place of the machine's.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use heureka_client::{Client, surroundings};
use heureka_history::{Recorder, Tap};
use heureka_model::Wall;
use heureka_server::listen::Listener;
use heureka_server::peers::{Dial, Socket};
use hyper_util::rt::TokioIo;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;
use turmoil::net::{TcpListener, TcpStream};

use crate::ledger::now;
use crate::plan::Machine;
use crate::server::WALL;

/// The port of every server.
pub(crate) const PORT: u16 = 8761;

/// Those of the client's own connections.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const PING_EVERY: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// A native client that is recorded.
pub(crate) type Native = Client<Tap<Channel>>;

/// The port of a simulated machine.
pub(crate) struct Port(TcpListener);

impl Port {
    pub(crate) async fn open() -> io::Result<Self> {
        TcpListener::bind((IpAddr::from(Ipv4Addr::UNSPECIFIED), PORT)).await.map(Self)
    }
}

impl Listener for Port {
    type Socket = TcpStream;

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        self.0.accept().await
    }

    fn prepare(_socket: &TcpStream) -> io::Result<()> {
        Ok(())
    }
}

/// How servers reach their peers.
pub(crate) fn dial() -> Dial {
    Arc::new(|address| {
        Box::pin(async move {
            TcpStream::connect(address).await.map(|socket| Box::new(socket) as Box<dyn Socket>)
        })
    })
}

/// Address of a server.
pub(crate) fn address(server: usize) -> SocketAddr {
    (Machine::Server(server).address(), PORT).into()
}

/// What clients of this thread leave to chance is the seed's from now on, and their wall clock the simulation's.
pub(crate) fn clients_of(seed: u64) {
    surroundings::simulate(seed, || Wall(WALL + now()));
}

/// A client that knows these servers and whose watches are recorded under a name.
pub(crate) fn client(
    settings: heureka_client::Settings,
    servers: &[usize],
    recorder: &Recorder,
    name: &str,
) -> turmoil::Result<Native> {
    let channels: turmoil::Result<Vec<_>> =
        servers.iter().map(|server| Ok(recorder.tap(name, channel(*server)?))).collect();
    Ok(Client::over(settings, channels?)?)
}

/// A connection as the client makes them.
pub(crate) fn channel(server: usize) -> turmoil::Result<Channel> {
    Ok(dialled(server, &endpoint(server)?))
}

/// A connection on which a server may send so many bytes of a stream ahead of its reader.
pub(crate) fn narrow_channel(server: usize, window: u32) -> turmoil::Result<Channel> {
    Ok(dialled(server, &endpoint(server)?.initial_stream_window_size(window)))
}

fn endpoint(server: usize) -> turmoil::Result<Endpoint> {
    let endpoint = Endpoint::from_shared(format!("http://{}", address(server)))?
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_TIMEOUT)
        .keep_alive_while_idle(true);
    Ok(endpoint)
}

fn dialled(server: usize, endpoint: &Endpoint) -> Channel {
    let address = address(server);
    let connector = service_fn(move |_| async move { TcpStream::connect(address).await.map(TokioIo::new) });
    endpoint.connect_with_connector_lazy(connector)
}
