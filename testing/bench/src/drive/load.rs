//! Closed loops: connections that ask as fast as they are answered.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::Bench;
use super::h1::{self, Head};
use super::h2::{self, Event};
use super::nacos;
use super::requests::{Operation, Population, Wire};
use super::sample::Sample;
use super::tongue::{Tongue, Writer};
use crate::server::{ANSWER, Served};
use crate::watch::{Latencies, timed};

/// What is read at a time of a connection over HTTP/2.
const ROOM: usize = 64 << 10;

/// Content type of gRPC.
const GRPC: &str = "application/grpc";

/// Rest between two changes of a busy server: ten in a second.
const BETWEEN_CHANGES: Duration = Duration::from_millis(100);

/// How long a load lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// Until each request was sent once.
    Once,
    For(Duration),
}

/// What is sent.
pub(super) struct Load {
    pub(super) operation: Operation,
    pub(super) requests: Vec<Bytes>,
    pub(super) population: Population,
    /// How the requests are said.
    pub(super) tongue: Tongue,
    /// Versions of each instance that they tell of.
    versions: Vec<usize>,
    /// Changes so far beside the load, where there are any.
    changes: Option<Rc<Cell<usize>>>,
}

/// What all connections of a load share.
struct Shared {
    requests: Vec<Bytes>,
    turn: Cell<usize>,
    /// Requests to send; those in flight are still taken.
    end: Cell<usize>,
    failed: Cell<usize>,
    latencies: RefCell<Latencies>,
}

enum Connection {
    Grpc(h2::Connection, usize),
    Rest(h1::Connection),
}

impl Load {
    /// Requests to send over and over.
    pub(super) fn new(operation: Operation, population: Population, busy: bool) -> Self {
        Self::of(operation, population, vec![0, 1], busy.then(Rc::default))
    }

    /// Registrations to send once.
    pub(super) fn registrations(operation: Operation, population: Population, version: usize) -> Self {
        Self::of(operation, population, vec![version], None)
    }

    fn of(
        operation: Operation,
        population: Population,
        versions: Vec<usize>,
        changes: Option<Rc<Cell<usize>>>,
    ) -> Self {
        let requests = operation.requests(population, &versions);
        Self { operation, requests, population, tongue: Tongue::Heureka, versions, changes }
    }

    /// The same as it is said to such a server, as far as it can be.
    pub(super) fn told_by(&self, tongue: Tongue) -> Self {
        let others = (tongue == Tongue::Nacos)
            .then(|| nacos::requests(self.operation, self.population, &self.versions))
            .flatten();
        let requests = others.unwrap_or_else(|| self.requests.clone());
        let (versions, changes) = (self.versions.clone(), self.changes.clone());
        Self { operation: self.operation, requests, population: self.population, tongue, versions, changes }
    }

    /// What has to be registered before.
    pub(super) fn before(&self) -> Option<Operation> {
        let before = self.operation.before();
        if self.tongue == Tongue::Nacos { before.map(|_| Operation::RestRegister) } else { before }
    }

    /// Loads a server.
    ///
    /// # Errors
    /// A connection that breaks, a call that fails.
    pub(super) fn run(&self, bench: &Bench, served: &Served, extent: Extent) -> io::Result<Sample> {
        let shared = Rc::new(Shared {
            requests: self.requests.clone(),
            turn: Cell::default(),
            end: Cell::new(if extent == Extent::Once { self.requests.len() } else { usize::MAX }),
            failed: Cell::default(),
            latencies: RefCell::default(),
        });
        let opened = bench.block_on(open(served.writes, self.operation.wire()))?;
        let before = served.cpu();
        let running = self.apply(served.writes, shared.clone(), opened, extent);
        let (seconds, done) = timed(|| bench.block_on(running));
        done?;
        let used = served.cpu() - before;
        if shared.failed.get() > 0 {
            return Err(io::Error::other(format!("{} calls failed", shared.failed.get())));
        }
        let latencies = shared.latencies.take().sorted();
        let done = (latencies.len() * self.operation.units(self.population)) as f64;
        Ok(Sample {
            figure: done / seconds,
            latencies: Some(latencies.spread()),
            cpu: Some(used / done),
            extras: Vec::new(),
        })
    }

    /// The whole answer to the first request; of gRPC the message.
    ///
    /// # Errors
    /// A connection that breaks, an answer that is no success.
    pub(super) fn answer(&self, bench: &Bench, address: SocketAddr) -> io::Result<(Head, Vec<u8>)> {
        let request = &self.requests[0];
        let (head, body) = bench.block_on(async {
            match self.operation.wire() {
                Wire::Grpc { path, .. } => one_call(address, path, request).await,
                Wire::Rest { .. } => one_request(address, request).await,
            }
        })?;
        if !head.is_success || !self.operation.is_done(&body) {
            return Err(io::Error::other("the first call was not answered as it should be"));
        }
        Ok((head, body))
    }

    async fn apply(
        &self,
        address: SocketAddr,
        shared: Rc<Shared>,
        opened: Vec<Connection>,
        extent: Extent,
    ) -> io::Result<()> {
        let running: Vec<_> = opened
            .into_iter()
            .map(|connection| tokio::task::spawn_local(connection.run(shared.clone())))
            .collect();
        let wire = self.operation.wire();
        let change = |count: &Rc<Cell<usize>>| change(address, wire, self.population, count.clone());
        let changes = self.changes.as_ref().map(|count| tokio::task::spawn_local(change(count)));
        if let Extent::For(time) = extent {
            tokio::time::sleep(time).await;
            shared.end.set(0);
        }
        for connection in running {
            connection.await??;
        }
        match changes {
            Some(changes) if changes.is_finished() => changes.await?,
            Some(changes) => {
                changes.abort();
                Ok(())
            }
            None => Ok(()),
        }
    }
}

async fn open(address: SocketAddr, wire: Wire) -> io::Result<Vec<Connection>> {
    let mut opened = Vec::new();
    match wire {
        Wire::Grpc { path, connections, depth } => {
            for _ in 0..connections {
                opened.push(Connection::Grpc(h2::Connection::open(address, path, ROOM).await?, depth));
            }
        }
        Wire::Rest { connections } => {
            for _ in 0..connections {
                opened.push(Connection::Rest(h1::Connection::open(address).await?));
            }
        }
    }
    Ok(opened)
}

impl Connection {
    async fn run(self, shared: Rc<Shared>) -> io::Result<()> {
        match self {
            Self::Grpc(connection, depth) => grpc(connection, depth, &shared).await,
            Self::Rest(connection) => rest(connection, &shared).await,
        }
    }
}

/// A call that is not answered.
struct Call {
    stream: u32,
    begun: Instant,
    has_message: bool,
}

async fn grpc(mut connection: h2::Connection, depth: usize, shared: &Shared) -> io::Result<()> {
    let mut calls: Vec<Call> = Vec::with_capacity(depth);
    loop {
        while calls.len() < depth
            && let Some(request) = shared.next()
        {
            let begun = Latencies::begin();
            calls.push(Call { stream: connection.call(request), begun, has_message: false });
        }
        if calls.is_empty() {
            return Ok(());
        }
        let told = |stream, event: Event<'_>| {
            let Some(place) = calls.iter().position(|call| call.stream == stream) else { return };
            match event {
                Event::Begun => {}
                Event::Data(_) => calls[place].has_message = true,
                Event::Ended => shared.count(&calls.swap_remove(place)),
                Event::Reset => shared.count(&Call { has_message: false, ..calls.swap_remove(place) }),
            }
        };
        connection.turn(told).await?;
    }
}

async fn rest(mut connection: h1::Connection, shared: &Shared) -> io::Result<()> {
    while let Some(request) = shared.next() {
        let begun = Latencies::begin();
        let head = connection.call(request, |_| {}).await?;
        shared.count(&Call { stream: 0, begun, has_message: head.is_success });
    }
    Ok(())
}

impl Shared {
    fn next(&self) -> Option<&Bytes> {
        let turn = self.turn.get();
        if turn >= self.end.get() {
            return None;
        }
        self.turn.set(turn + 1);
        Some(&self.requests[turn % self.requests.len()])
    }

    fn count(&self, call: &Call) {
        if call.has_message {
            self.latencies.borrow_mut().end(call.begun);
        } else {
            self.failed.set(self.failed.get() + 1);
        }
    }
}

/// Changes one instance after the other, ten in a second, until it is dropped; over the wire of the load. `count` goes
/// on from load to load, so that each says something new.
async fn change(
    address: SocketAddr,
    wire: Wire,
    population: Population,
    count: Rc<Cell<usize>>,
) -> io::Result<()> {
    let mut writer = Writer::of(wire, address).await?;
    loop {
        let turn = count.replace(count.get() + 1);
        // Far apart, so that each is of another application.
        writer.write(&population.instance(turn * 101, turn + 2)).await?;
        tokio::time::sleep(BETWEEN_CHANGES).await;
    }
}

async fn one_call(address: SocketAddr, path: &str, request: &Bytes) -> io::Result<(Head, Vec<u8>)> {
    let mut connection = h2::Connection::open(address, path, ROOM).await?;
    let body = finish(&mut connection, request).await?;
    let head = Head { is_success: !body.is_empty(), content_type: GRPC.to_owned(), ..Head::default() };
    Ok((head, body.get(5..).unwrap_or_default().to_vec()))
}

async fn one_request(address: SocketAddr, request: &Bytes) -> io::Result<(Head, Vec<u8>)> {
    let mut body = Vec::new();
    let mut connection = h1::Connection::open(address).await?;
    let head = connection.call(request, |part| body.extend_from_slice(part)).await?;
    Ok((head, body))
}

/// Gives the limit the answer to every read.
///
/// # Errors
/// A connection that breaks, a limit that has an answer already.
pub(super) async fn teach(address: SocketAddr, (head, body): (Head, Vec<u8>)) -> io::Result<()> {
    let Head { content_type, content_encoding, .. } = head;
    let coding = if content_encoding.is_empty() { "" } else { "answer-encoding: gzip\r\n" };
    let head = format!(
        "PUT {ANSWER} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {content_type}\r\n{coding}\
         content-length: {}\r\n\r\n",
        body.len()
    );
    let request = [head.as_bytes(), &body].concat();
    let taught = h1::Connection::open(address).await?.call(&request, |_| {}).await?;
    if taught.is_success { Ok(()) } else { Err(io::Error::other("the limit refused the answer")) }
}

/// Makes one call and takes the whole answer; an error has none.
pub(super) async fn finish(connection: &mut h2::Connection, request: &Bytes) -> io::Result<Vec<u8>> {
    let called = connection.call(request);
    let mut body = Vec::new();
    let mut ended = false;
    while !ended {
        let told = |stream, event: Event<'_>| match event {
            Event::Data(part) if stream == called => body.extend_from_slice(part),
            Event::Ended | Event::Reset => ended |= stream == called,
            _ => {}
        };
        connection.turn(told).await?;
    }
    Ok(body)
}
