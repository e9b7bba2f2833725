//! A whole server on a free port under a clock of the test's own, and clients of few words.
#![allow(dead_code, unreachable_pub, clippy::allow_attributes, reason = "each test file uses its part")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use heureka_model::{Clock, Mono, Now, Wall};
use heureka_registry::Seeds;
use heureka_server::config::{Config, Sources};
use heureka_server::telemetry::LineBudget;
use heureka_server::{Running, Server, World, listen};
use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A clock that moves by hand.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicU64);

impl Clock for ManualClock {
    fn now(&self) -> Now {
        let millis = self.0.load(Ordering::SeqCst);
        Now { mono: Mono(millis), wall: Wall(1_800_000_000_000 + millis) }
    }
}

pub fn world() -> World {
    world_of(1)
}

pub fn world_of(boot: u64) -> World {
    let seeds = Seeds { boot, hash: 2, shuffle: 3 };
    World { clock: Arc::new(ManualClock::default()), seeds, lines: LineBudget::new(100) }
}

/// The defaults on a free port of the loopback address; no environment is read.
pub fn config() -> Config {
    let mut config = Config::load(&Sources::default()).unwrap();
    config.server.listen = "127.0.0.1:0".parse().unwrap();
    config
}

pub async fn start(config: Config, routes: Router) -> (Running, SocketAddr) {
    let listener = listen::bind(config.server.listen).unwrap();
    let running = Server::new(config, world()).routes(routes).start(vec![listener]).await.unwrap();
    let address = running.addresses()[0];
    (running, address)
}

pub async fn start_plain() -> (Running, SocketAddr) {
    start(config(), Router::new()).await
}

/// A connection of bare bytes.
pub struct Raw(TcpStream);

impl Raw {
    pub async fn open(address: SocketAddr) -> Self {
        Self(TcpStream::connect(address).await.unwrap())
    }

    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Everything until the server closes. A reset after the answer counts as a close.
    pub async fn rest(&mut self) -> String {
        let mut all = Vec::new();
        let _ = self.0.read_to_end(&mut all).await;
        String::from_utf8_lossy(&all).into_owned()
    }

    /// Bytes until they contain `end`.
    pub async fn until(&mut self, end: &str) -> String {
        let mut all = Vec::new();
        while !String::from_utf8_lossy(&all).contains(end) {
            let byte = self.0.read_u8().await.unwrap_or_else(|_| panic!("closed after {all:?}"));
            all.push(byte);
        }
        String::from_utf8(all).unwrap()
    }
}

/// What a server says to bytes after which the client waits.
pub async fn said_to(address: SocketAddr, bytes: impl AsRef<[u8]>) -> String {
    let mut raw = Raw::open(address).await;
    // The server may answer and close before it has read everything.
    let _ = raw.0.write_all(bytes.as_ref()).await;
    raw.rest().await
}

pub async fn h1(address: SocketAddr) -> http1::SendRequest<Body> {
    let socket = TcpStream::connect(address).await.unwrap();
    let (sender, connection) = http1::handshake(TokioIo::new(socket)).await.unwrap();
    tokio::spawn(connection);
    sender
}

pub async fn h2(address: SocketAddr) -> http2::SendRequest<Body> {
    let socket = TcpStream::connect(address).await.unwrap();
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(socket)).await.unwrap();
    tokio::spawn(connection);
    sender
}

pub fn get(address: SocketAddr, path: &str) -> Request<Body> {
    Request::get(format!("http://{address}{path}")).body(Body::empty()).unwrap()
}

pub fn grpc(address: SocketAddr, path: &str) -> Request<Body> {
    let request = Request::post(format!("http://{address}{path}")).header("content-type", "application/grpc");
    request.header("te", "trailers").body(Body::from(Bytes::from_static(&[0; 5]))).unwrap()
}

pub async fn text(response: Response<hyper::body::Incoming>) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Status and body of one request on a connection of its own.
pub async fn fetch(address: SocketAddr, path: &str) -> (u16, String) {
    let request = Request::get(path).header("host", "test").body(Body::empty()).unwrap();
    let response = h1(address).await.send_request(request).await.unwrap();
    (response.status().as_u16(), text(response).await)
}

/// The value of a series in `/metrics`, nothing when it was never touched.
pub async fn metric(address: SocketAddr, series: &str) -> Option<f64> {
    let (_, page) = fetch(address, "/metrics").await;
    let value = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
    value.parse().ok()
}
