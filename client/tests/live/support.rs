//! Real servers in this process that can be killed, and transports that note what goes over them.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use heureka_client::model::{Clock, Instance, InstanceKey, LeaseTerms, Mono, Now, Port, Wall};
use heureka_client::{Client, Event, Settings, Watch};
use heureka_registry::replication::{Identity, Replicator};
use heureka_registry::{Registry, Seeds};
use heureka_server::clock::SystemClock;
use heureka_server::config::{Config, Sources};
use heureka_server::telemetry::LineBudget;
use heureka_server::{Running, Server, World, listen};
use http::{Request, Response};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_stream::StreamExt as _;
use tonic::body::Body;
use tonic::codegen::BoxFuture;
use tonic::transport::{Channel, Endpoint};
use tower_service::Service;

/// Attempts to take a port again, some seconds' worth.
const BINDS: u32 = 1_000_000;

/// A server in a runtime of its own.
pub struct Node {
    runtime: Runtime,
    running: Running,
}

/// A clock that moves by hand.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicU64);

impl Node {
    /// On a free port.
    pub async fn start() -> Self {
        Self::at((Ipv4Addr::LOCALHOST, 0).into(), config(), Arc::new(SystemClock::new())).await
    }

    pub async fn at(address: SocketAddr, config: Config, clock: Arc<dyn Clock>) -> Self {
        // No two lives share one.
        static BOOT: AtomicU64 = AtomicU64::new(1);
        let seeds = Seeds { boot: BOOT.fetch_add(1, Ordering::SeqCst), hash: 2, shuffle: 3 };
        let world = World { clock, seeds, lines: LineBudget::new(100) };
        let start = move || {
            let runtime = Runtime::new().unwrap();
            let running = runtime.block_on(async {
                // A client that calls while nobody listens may for a moment sit on the port itself.
                let bound = (0..BINDS).find_map(|_| listen::bind(address).ok());
                let listener = bound.expect("the port stays taken");
                Server::new(config, world).start(vec![listener]).await.unwrap()
            });
            Self { runtime, running }
        };
        tokio::task::spawn_blocking(start).await.unwrap()
    }

    pub fn address(&self) -> SocketAddr {
        self.running.addresses()[0]
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    pub fn core(&self) -> &Arc<Registry> {
        self.running.core()
    }

    /// Ends the server as a crash does: nobody is told.
    pub async fn kill(self) {
        let end = move || self.runtime.shutdown_timeout(Duration::from_secs(60));
        tokio::task::spawn_blocking(end).await.unwrap();
    }

    /// Kills the server and starts another one with nothing in its memory at the same address.
    pub async fn restart(self) -> Self {
        let address = self.address();
        self.kill().await;
        Self::at(address, config(), Arc::new(SystemClock::new())).await
    }
}

/// A test that waits for what never comes fails instead.
pub async fn bounded(test: impl Future<Output = ()>) {
    assert!(tokio::time::timeout(Duration::from_mins(2), test).await.is_ok(), "nothing more happened");
}

/// The defaults; no environment is read.
pub fn config() -> Config {
    Config::load(&Sources::default()).unwrap()
}

impl ManualClock {
    pub fn pass(&self, time: Duration) {
        self.0.fetch_add(u64::try_from(time.as_millis()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Now {
        let millis = self.0.load(Ordering::SeqCst);
        Now { mono: Mono(millis), wall: Wall(1_800_000_000_000 + millis) }
    }
}

/// Signs of life as often as a server gives them.
pub fn quick() -> Settings {
    Settings { bookmark_interval: Duration::from_secs(1), ..Settings::default() }
}

pub fn client(nodes: &[&Node]) -> Client {
    Client::connect_with(quick(), nodes.iter().map(|node| node.url())).unwrap()
}

pub fn key(app: &str, id: &str) -> InstanceKey {
    InstanceKey { namespace: String::new(), app: app.into(), id: id.into() }
}

/// An instance that renews every second.
pub fn instance(app: &str, id: &str) -> Instance {
    let lease = LeaseTerms::clamped(Duration::from_secs(1), Duration::from_secs(90));
    let port = Some(Port { number: 9100, enabled: true });
    Instance { lease, port, host_name: format!("{id}.lan"), ..Instance::new(key(app, id)) }
}

/// Ids that a watch told until it was complete.
pub async fn synced(watch: &mut Watch) -> (Vec<String>, Vec<String>) {
    let (mut came, mut went) = (Vec::new(), Vec::new());
    loop {
        match watch.next().await.unwrap().unwrap() {
            Event::Added(now) => came.push(now.instance.key.id.clone()),
            Event::Removed { last, .. } => went.push(last.instance.key.id.clone()),
            Event::Synced { .. } => break,
            Event::Modified(_) | Event::Preserving(_) | Event::Reading(_) => {}
        }
    }
    came.sort();
    went.sort();
    (came, went)
}

/// A call that went over a [`Recorder`]: its name, and its outcome when there was one.
#[derive(Clone, Debug)]
pub struct Call {
    pub method: String,
    /// Code of gRPC; nothing when there was no answer.
    pub code: Option<i32>,
}

/// Notes the calls of one client in the order in which they begin, and how many are under way.
#[derive(Clone)]
pub struct Recorder {
    channel: Channel,
    pub calls: Arc<Mutex<Vec<Call>>>,
    under_way: Arc<AtomicU64>,
    /// Most that were ever under way together.
    pub together: Arc<AtomicU64>,
}

impl Recorder {
    pub fn new(node: &Node) -> Self {
        let channel = Endpoint::from_shared(node.url()).unwrap().connect_lazy();
        let (calls, under_way, together) = Default::default();
        Self { channel, calls, under_way, together }
    }

    pub fn client(&self) -> Client<Self> {
        Client::over(quick(), vec![self.clone()]).unwrap()
    }

    pub fn methods(&self) -> Vec<String> {
        self.calls.lock().unwrap().iter().map(|call| call.method.clone()).collect()
    }

    /// Calls of a method with that outcome.
    pub fn count(&self, method: &str, code: i32) -> usize {
        let calls = self.calls.lock().unwrap();
        calls.iter().filter(|call| call.method == method && call.code == Some(code)).count()
    }

    fn begin(&self, request: &Request<Body>) -> usize {
        let now = self.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        self.together.fetch_max(now, Ordering::SeqCst);
        let method = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
        let mut calls = self.calls.lock().unwrap();
        calls.push(Call { method, code: None });
        calls.len() - 1
    }

    fn end(&self, call: usize, response: &Result<Response<Body>, tonic::transport::Error>) {
        self.under_way.fetch_sub(1, Ordering::SeqCst);
        // A refusal stands in the head; what has a body is an answer.
        let told =
            |response: &Response<Body>| response.headers().get("grpc-status")?.to_str().ok()?.parse().ok();
        let code = response.as_ref().ok().map(|response| told(response).unwrap_or(0));
        self.calls.lock().unwrap()[call].code = code;
    }
}

impl Service<Request<Body>> for Recorder {
    type Response = Response<Body>;
    type Error = tonic::transport::Error;
    type Future = BoxFuture<Response<Body>, tonic::transport::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.channel.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let call = self.begin(&request);
        let (answer, recorder) = (self.channel.call(request), self.clone());
        Box::pin(async move {
            let response = answer.await;
            recorder.end(call, &response);
            response
        })
    }
}

/// Two servers between which frames are carried for as long as this lives.
pub struct Linked(JoinHandle<()>);

impl Linked {
    pub fn new(one: &Node, other: &Node, clock: Arc<SystemClock>) -> Self {
        let replicator = |node: &Node, name: &str| {
            let identity = Identity { cluster: "c".into(), node: name.into(), address: String::new() };
            Arc::new(Replicator::new(node.core().clone(), identity))
        };
        let (one, other) = (replicator(one, "one"), replicator(other, "other"));
        let now = clock.now();
        let mut first = one.join(&other.hello(now), "b", true, now).unwrap();
        let mut second = other.join(&one.hello(now), "a", false, now).unwrap();
        Self(tokio::spawn(async move {
            loop {
                let now = clock.now();
                while let Some(frame) = first.next(now) {
                    second.receive(frame, now).unwrap();
                }
                while let Some(frame) = second.next(now) {
                    first.receive(frame, now).unwrap();
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }))
    }
}

impl Drop for Linked {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Passes bytes on to a server until it is cut.
pub struct Proxy {
    address: SocketAddr,
    way: watch::Sender<Way>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Open,
    /// Connections stand, and nothing passes.
    Silent,
    Cut,
}

impl Proxy {
    pub async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (way, ways) = watch::channel(Way::Open);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass(client, server, ways.clone()));
            }
        });
        Self { address, way }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Ends every connection, and new ones at once, until it is opened again.
    pub fn cut(&self) {
        self.way.send_replace(Way::Cut);
    }

    /// Swallows everything, as when a cable is pulled.
    pub fn silence(&self) {
        self.way.send_replace(Way::Silent);
    }

    pub fn open(&self) {
        self.way.send_replace(Way::Open);
    }
}

async fn pass(mut client: TcpStream, server: SocketAddr, mut ways: watch::Receiver<Way>) {
    if *ways.borrow() == Way::Cut {
        return;
    }
    let mut server = TcpStream::connect(server).await.unwrap();
    loop {
        let changed = |before: Way| move |way: &Way| *way != before;
        let way = *ways.borrow();
        let passes = async {
            match way {
                Way::Open => drop(tokio::io::copy_bidirectional(&mut client, &mut server).await),
                Way::Silent => std::future::pending().await,
                Way::Cut => {}
            }
        };
        tokio::select! {
            () = passes => return,
            told = ways.wait_for(changed(way)) => if told.is_err() { return },
        }
    }
}
