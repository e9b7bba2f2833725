//! A watcher that stops reading: what others notice, and what it costs.

use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use prost::Message;

use super::audience::{Audience, Layout, Way};
use super::crowd::{self, Set};
use super::h2;
use super::load::{Extent, Load};
use super::requests::{Operation, Population};
use super::rows::Unit;
use super::sample::Sample;
use super::tongue::{Interest, Tongue};
use super::{Bench, WARMING};
use crate::instances::PER_APP;
use crate::server::{Program, Served};
use crate::watch::middle;

/// What such a watcher takes before it stops: less than one change.
const WINDOW: u32 = 256;

/// The others.
const OTHERS: Layout = Layout { connections: 100, watchers: 100, way: Way::Each };

/// Watchers that stop, where their memory is measured.
const STOPPED: usize = 50;

/// Instances that they are interested in.
const INSTANCES: usize = 1000;

/// Times that each of these changes: before, so that what a server keeps of recent changes is full, and meanwhile.
const ROUNDS: usize = 20;

/// How many times later the slowest hundredth of deliveries comes beside a watcher that stopped.
///
/// # Errors
/// A server that does not start, a connection that breaks, a watch that ends.
pub(super) fn others(bench: &Bench, program: &Program) -> io::Result<Sample> {
    let mut served = program.start()?;
    bench.block_on(compared(bench, &served)).map_err(|error| served.explain(&error))
}

async fn compared(bench: &Bench, served: &Served) -> io::Result<Sample> {
    let layout = OTHERS.at_most(bench.pace.shared, bench.pace.shared);
    let changes = bench.pace.changes_to(layout.all());
    let mut audience = Audience::open(served.ends(), Tongue::Heureka, layout, Interest::Everything).await?;
    let mut pairs = Vec::new();
    for _ in 0..bench.pace.turns {
        audience.tell(|| served.cpu(), WARMING.min(changes)).await?;
        let without = late(&audience.tell(|| served.cpu(), changes).await?);
        let stopped =
            stop(served.address, &crowd::following(Interest::Everything, Bytes::new(), Vec::new())).await?;
        audience.tell(|| served.cpu(), WARMING.min(changes)).await?;
        let with = late(&audience.tell(|| served.cpu(), changes).await?);
        drop(stopped);
        pairs.push((without, with));
    }
    let of = |pick: fn(&(f64, f64)) -> f64| middle(pairs.iter().map(pick));
    Ok(Sample { figure: of(|(without, with)| with / without), ..Sample::default() }
        .with("p99 beside it", of(|(_, with)| *with), Unit::Seconds)
        .with("p99 without", of(|(without, _)| *without), Unit::Seconds))
}

/// The slowest hundredth of all deliveries.
fn late(sample: &Sample) -> f64 {
    sample.extras.first().map_or(0.0, |extra| extra.value)
}

/// A connection that watches and takes nothing any more. It is closed with the value.
async fn stop(address: SocketAddr, request: &Bytes) -> io::Result<h2::Connection> {
    let mut connection =
        h2::Connection::narrow(address, Tongue::Heureka.watch_path(Way::Each), WINDOW as usize, WINDOW)
            .await?;
    connection.call(request);
    connection.flush().await?;
    Ok(connection)
}

/// Bytes that a server grows by for each, while everything that it is interested in changes over and over.
///
/// # Errors
/// A server that does not start, a connection that breaks, a call that fails.
pub(super) fn memory(bench: &Bench, program: &Program) -> io::Result<Sample> {
    let mut served = program.start()?;
    grown(bench, &served).map_err(|error| served.explain(&error))
}

fn grown(bench: &Bench, served: &Served) -> io::Result<Sample> {
    let population = Population::of(INSTANCES.min(bench.pace.instances), PER_APP);
    let change = |rounds: std::ops::Range<usize>| {
        let mut round = |version| {
            Load::registrations(Operation::BatchRegister, population, version).run(
                bench,
                served,
                Extent::Once,
            )
        };
        rounds.map(&mut round).try_for_each(|done| done.map(|_| ()))
    };
    change(0..ROUNDS)?;
    let Set { changes, .. } = bench.block_on(crowd::whole(served.address, Interest::Everything))?;
    let interest: usize = changes.iter().map(Message::encoded_len).sum();
    let before = served.resident()?;
    let request = crowd::following(Interest::Everything, Bytes::new(), Vec::new());
    let stopped = bench.block_on(async {
        let mut stopped = Vec::new();
        for _ in 0..STOPPED {
            stopped.push(stop(served.address, &request).await?);
        }
        tokio::time::sleep(bench.pace.rest).await;
        io::Result::Ok(stopped)
    })?;
    let idle = served.resident()? - before;
    change(ROUNDS..2 * ROUNDS)?;
    let after = served.resident()? - before;
    drop(stopped);
    let count = STOPPED as f64;
    Ok(Sample { figure: after / count, ..Sample::default() }
        .with("when it has just stopped", idle / count, Unit::Bytes)
        .with("its interest", interest as f64, Unit::Bytes))
}
