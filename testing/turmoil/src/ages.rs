//! Many watchers of three servers whose connections end when they are old: where they go.

use std::cell::RefCell;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::StreamExt as _;
use heureka_client::{Client, Settings};
use heureka_proto::v1;
use heureka_proto::v1::discovery_service_client::DiscoveryServiceClient;
use heureka_proto::v1::watch_event::Event;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tonic::Status;
use tonic::body::Body;
use tonic::transport::Channel;
use tower::Service;
use turmoil::{Builder, Sim};

use crate::ledger::{millis, now, until};
use crate::net;
use crate::plan::SERVERS;
use crate::server;

/// Watchers of each machine; each has a client and connections of its own.
const PER_MACHINE: usize = 40;
/// Machines of watchers.
const MACHINES: usize = 4;
/// What virtual time moves by.
const TICK: Duration = Duration::from_millis(50);
/// When the first server dies, in virtual milliseconds.
const DEATH: u64 = 110_000;
/// When watchers come: servers that wait for each other are ready by then.
const BEGIN: u64 = 15_000;
/// How long it is away.
const AWAY: u64 = 1_000;

/// What became of the watchers.
#[derive(Clone, Debug)]
pub struct Ages {
    /// Watchers at each server just after one died.
    pub before: [usize; SERVERS],
    /// The same two ages later.
    pub after: [usize; SERVERS],
    /// When connections of before the death ended for their age, in virtual milliseconds.
    pub ends: Vec<u64>,
    /// How streams of a stock client ended: with a goodbye and in order, or otherwise.
    pub stock: Vec<Result<(), String>>,
    /// Calls of that client beside its streams that failed.
    pub failed_calls: Vec<String>,
}

#[derive(Debug, Default)]
struct Book {
    /// Server of each watcher's stream.
    at: Vec<usize>,
    ends: Vec<u64>,
    stock: Vec<Result<(), String>>,
    failed_calls: Vec<String>,
}

/// A connection that notes who watches over it.
#[derive(Clone, Debug)]
struct Noted {
    channel: Channel,
    server: usize,
    watcher: usize,
    book: Arc<Mutex<Book>>,
}

/// Lets watchers stay for two ages after a server died and came back.
#[must_use]
pub fn ages(seed: u64, age: Duration) -> Ages {
    net::clients_of(seed);
    let book = Arc::new(Mutex::new(Book { at: vec![0; PER_MACHINE * MACHINES], ..Book::default() }));
    let mut sim = Builder::new()
        .rng_seed(seed)
        .tick_duration(TICK)
        .simulation_duration(Duration::from_hours(1))
        .max_message_latency(Duration::from_millis(20))
        .tcp_capacity(4096)
        .build();
    populate(&mut sim, seed, age, &book);
    pass(&mut sim, DEATH);
    sim.crash(address(0));
    pass(&mut sim, DEATH + AWAY);
    sim.bounce(address(0));
    // All of them have noticed by then.
    pass(&mut sim, DEATH + 20_000);
    let before = spread(&book);
    // An age lasts a fifth longer at most, and who is sent away takes some seconds to come back.
    pass(&mut sim, DEATH + 20_000 + millis(age) * 12 / 5 + 10_000);
    let after = spread(&book);
    drop(sim);
    let mut book = locked(&book);
    Ages {
        before,
        after,
        ends: std::mem::take(&mut book.ends),
        stock: std::mem::take(&mut book.stock),
        failed_calls: std::mem::take(&mut book.failed_calls),
    }
}

fn populate(sim: &mut Sim<'_>, seed: u64, age: Duration, book: &Arc<Mutex<Book>>) {
    for number in 0..SERVERS {
        let lives = Rc::new(RefCell::new(0));
        sim.host(address(number), move || {
            *lives.borrow_mut() += 1;
            server::stand(seed, number, *lives.borrow(), age)
        });
    }
    for machine in 0..MACHINES {
        let book = book.clone();
        sim.host(machine_address(2, machine), move || watchers(machine * PER_MACHINE, book.clone()));
    }
    let book = book.clone();
    sim.host(machine_address(3, 0), move || stock(book.clone()));
}

fn pass(sim: &mut Sim<'_>, until: u64) {
    while millis(sim.elapsed()) < until {
        sim.step().expect("every machine runs");
    }
}

fn spread(book: &Mutex<Book>) -> [usize; SERVERS] {
    let book = locked(book);
    std::array::from_fn(|server| book.at.iter().filter(|at| **at == server).count())
}

async fn watchers(first: usize, book: Arc<Mutex<Book>>) -> turmoil::Result {
    let watch = |watcher: usize| {
        let book = book.clone();
        async move {
            // So that they do not come in one moment.
            until(BEGIN + watcher as u64 * 20).await;
            let channel = |server| -> turmoil::Result<Noted> {
                let channel = net::channel(server)?;
                Ok(Noted { channel, server, watcher, book: book.clone() })
            };
            let channels: turmoil::Result<Vec<_>> = (0..SERVERS).map(channel).collect();
            let client = Client::over(Settings::default(), channels?)?;
            client.watch(Vec::new()).for_each(|_| std::future::ready(())).await;
            Err::<(), Box<dyn std::error::Error>>("a watch ended".into())
        }
    };
    futures_util::future::try_join_all((first..first + PER_MACHINE).map(watch)).await.map(drop)
}

/// A client that knows nothing but gRPC: it reads each stream to its end, and makes calls beside it.
async fn stock(book: Arc<Mutex<Book>>) -> turmoil::Result {
    // Its server is not the one that dies.
    let channel = net::channel(1)?;
    let calls = calls(channel.clone(), book.clone());
    let streams = async {
        until(BEGIN).await;
        loop {
            sleep(Duration::from_secs(1)).await;
            let outcome = stream(DiscoveryServiceClient::new(channel.clone())).await;
            locked(&book).stock.push(outcome);
        }
    };
    futures_util::future::join(calls, streams).await;
    Ok(())
}

async fn calls(channel: Channel, book: Arc<Mutex<Book>>) {
    let mut every = interval(Duration::from_millis(100));
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut client = DiscoveryServiceClient::new(channel);
    loop {
        every.tick().await;
        let began = now();
        let mut answer = client.list_applications(v1::ListApplicationsRequest::default()).await;
        if answer.as_ref().is_err_and(was_not_sent) {
            answer = client.list_applications(v1::ListApplicationsRequest::default()).await;
        }
        if let Err(status) = answer
            && began > BEGIN
        {
            locked(&book).failed_calls.push(format!("{began}: {status}"));
        }
    }
}

/// Whether the client gave a call to a connection that it had just been told to leave. The libraries of gRPC send such a
/// call once more by themselves, on the next connection; this one leaves that to its user.
fn was_not_sent(status: &Status) -> bool {
    let told = format!("{status:?}");
    let unsent = ["kind: GoAway(b\"\", NO_ERROR, Remote)", "hyper::Error(Canceled, \"connection closed\")"];
    unsent.iter().any(|cause| told.contains(cause))
}

/// How a stream ends: in order is after a goodbye for its age, with OK.
async fn stream(mut client: DiscoveryServiceClient<Channel>) -> Result<(), String> {
    let mut stream =
        client.watch(v1::WatchRequest::default()).await.map_err(|status| status.to_string())?.into_inner();
    let mut last = None;
    loop {
        match stream.message().await {
            Ok(Some(message)) => last = message.event.and_then(|event| event.event),
            Ok(None) => break,
            Err(status) => return Err(status.to_string()),
        }
    }
    match last {
        Some(Event::GoAway(away)) if away.reason() == v1::GoAwayReason::MaxAge => Ok(()),
        other => Err(format!("the last message is {other:?}")),
    }
}

impl Service<http::Request<Body>> for Noted {
    type Response = http::Response<Body>;
    type Error = tonic::transport::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.channel.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let next = self.channel.clone();
        let mut channel = std::mem::replace(&mut self.channel, next);
        let Self { server, watcher, book, .. } = self.clone();
        Box::pin(async move {
            let response = channel.call(request).await?;
            // A refusal has its code among the headers.
            if !response.headers().contains_key("grpc-status") {
                let mut book = locked(&book);
                if (2 * BEGIN..DEATH).contains(&now()) {
                    book.ends.push(now());
                }
                book.at[watcher] = server;
            }
            Ok(response)
        })
    }
}

fn locked(book: &Mutex<Book>) -> MutexGuard<'_, Book> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

fn address(server: usize) -> IpAddr {
    SocketAddr::ip(&net::address(server))
}

fn machine_address(net: u8, number: usize) -> IpAddr {
    Ipv4Addr::new(10, 0, net, number as u8 + 1).into()
}
