//! Load on loopback, against heureka and against the limit in the same run.

mod h1;
mod h2;
mod latency;
mod requests;

use std::cell::Cell;
use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::task::LocalSet;

use crate::report;
use crate::server::{Role, Served};
use crate::watch::{median, timed};

pub(crate) use requests::Operation;

/// Connections over HTTP/2 and calls in flight on each.
const GRPC: (usize, usize) = (16, 16);

/// Connections over HTTP/1.1.
const REST: usize = 64;

/// Time of one measurement.
const TIME: Duration = Duration::from_secs(2);

/// Operations in the order in which they are measured: what is renewed was registered over the same wire.
const ASKED: [(Operation, &str); 4] = [
    (Operation::GrpcRegister, ">= 0.75"),
    (Operation::GrpcRenew, ">= 0.85"),
    (Operation::RestRegister, ">= 0.65"),
    (Operation::RestRenew, ">= 0.80"),
];

/// What all connections of a measurement share.
struct Load {
    address: SocketAddr,
    operation: Operation,
    requests: Vec<Vec<u8>>,
    turn: Cell<usize>,
    ended: Cell<bool>,
    answered: Cell<u64>,
    failed: Cell<u64>,
}

/// Prints every figure of the servers.
///
/// # Errors
/// A server that does not start, a connection that breaks.
pub(crate) fn run() -> io::Result<()> {
    report::part("servers, driver and server share the machine: heureka / limit = ratio");
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let heureka = Served::start(Role::Heureka)?;
    let limit = Served::start(Role::Limit)?;
    for (operation, target) in ASKED {
        let requests = operation.requests();
        let rate = |address| measure(&runtime, address, operation, &requests);
        // Once over all instances and into the caches, then in turns, since the machine changes with time.
        rate(heureka.address)?;
        rate(limit.address)?;
        let mut pairs = Vec::new();
        for _ in 0..3 {
            pairs.push((rate(heureka.address)?, rate(limit.address)?));
        }
        show(operation, &pairs, target);
    }
    drop(limit);
    latency::run(heureka.address)
}

fn show(operation: Operation, pairs: &[(f64, f64)], target: &str) {
    let middle = |pick: fn(&(f64, f64)) -> f64| {
        let mut values = pairs.iter().map(pick);
        median::<3>(|| values.next().unwrap_or_default())
    };
    let (ours, limit) = (middle(|pair| pair.0), middle(|pair| pair.1));
    let figure = format!("{:.0}k / {:.0}k = {:.2}", ours / 1e3, limit / 1e3, middle(|pair| pair.0 / pair.1));
    report::line(operation.name(), &figure, target);
}

/// Successful answers per second.
fn measure(
    runtime: &Runtime,
    address: SocketAddr,
    operation: Operation,
    requests: &[Vec<u8>],
) -> io::Result<f64> {
    let load = Rc::new(Load {
        address,
        operation,
        requests: requests.to_vec(),
        turn: Cell::default(),
        ended: Cell::default(),
        answered: Cell::default(),
        failed: Cell::default(),
    });
    let (seconds, done) = timed(|| LocalSet::new().block_on(runtime, apply(load.clone())));
    done?;
    if load.failed.get() > 0 {
        return Err(io::Error::other(format!("{}: {} failed", operation.name(), load.failed.get())));
    }
    Ok(load.answered.get() as f64 / seconds)
}

async fn apply(load: Rc<Load>) -> io::Result<()> {
    let connections = if load.operation.path().is_some() { GRPC.0 } else { REST };
    let running: Vec<_> =
        (0..connections).map(|_| tokio::task::spawn_local(connection(load.clone()))).collect();
    tokio::time::sleep(TIME).await;
    load.ended.set(true);
    for connection in running {
        connection.await??;
    }
    Ok(())
}

async fn connection(load: Rc<Load>) -> io::Result<()> {
    match load.operation.path() {
        Some(path) => grpc(&load, path).await,
        None => rest(&load).await,
    }
}

async fn grpc(load: &Load, path: &str) -> io::Result<()> {
    let mut connection = h2::Connection::open(load.address, path).await?;
    let mut open = HashSet::with_capacity(GRPC.1);
    loop {
        while open.len() < GRPC.1 && !load.ended.get() {
            open.insert(connection.call(load.next()));
        }
        if open.is_empty() {
            return Ok(());
        }
        let told = |stream, answered| {
            if open.remove(&stream) {
                load.count(answered);
            }
        };
        connection.turn(told).await?;
    }
}

async fn rest(load: &Load) -> io::Result<()> {
    let mut connection = h1::Connection::open(load.address).await?;
    while !load.ended.get() {
        load.count(connection.call(load.next()).await?);
    }
    Ok(())
}

impl Load {
    fn next(&self) -> &[u8] {
        let turn = self.turn.get();
        self.turn.set(turn + 1);
        &self.requests[turn % self.requests.len()]
    }

    fn count(&self, answered: bool) {
        let counter = if answered { &self.answered } else { &self.failed };
        counter.set(counter.get() + 1);
    }
}
