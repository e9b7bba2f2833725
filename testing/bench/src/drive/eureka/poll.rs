//! Clients that poll the delta, as those of the original do, and when they see a change.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::try_join_all;
use heureka_model::Instance;
use tokio::time::sleep;

use crate::drive::h1;
use crate::drive::requests::{self, Operation, Population};
use crate::drive::rows::Unit;
use crate::drive::sample::Sample;
use crate::drive::tongue::Writer;
use crate::watch::Latencies;

/// Time between two polls, and how many there are at most.
const POLLS: (Duration, usize) = (Duration::from_millis(100), 900);

/// Version of an instance that no load ever tells of, and an even one, so that its status is the usual one.
const VERSION: usize = 1 << 20;

/// Changes so many instances of a server, each when the one before was seen. The figure is the time from the answer to a
/// change until it was polled.
///
/// # Errors
/// A connection that breaks, a change that is refused or never seen.
pub(super) async fn one_by_one(
    address: SocketAddr,
    population: Population,
    count: usize,
) -> io::Result<Sample> {
    let mut seen = Vec::new();
    for n in 0..count {
        seen.push(after(address, &population.instance(n, VERSION + 2 * n)).await?);
    }
    Ok(sample(seen))
}

/// The same of changes that begin at such times, whatever was seen.
///
/// # Errors
/// As above.
pub(super) async fn spread(
    address: SocketAddr,
    population: Population,
    count: usize,
    apart: Duration,
) -> io::Result<Sample> {
    let one = async |n: usize| {
        sleep(apart * n as u32).await;
        after(address, &population.instance(n, VERSION + 2 * n)).await
    };
    try_join_all((0..count).map(one)).await.map(sample)
}

fn sample(seen: Vec<(Latencies, usize)>) -> Sample {
    let most = seen.iter().map(|(_, polls)| *polls).max().unwrap_or_default();
    let spread = Latencies::merged(seen.into_iter().map(|(latencies, _)| latencies)).spread();
    let sample = Sample { figure: spread.p50 / 1e9, latencies: Some(spread), ..Sample::default() };
    sample.with("polls, at most", most as f64, Unit::Count)
}

/// How long after its answer one change is polled, and by which poll; the first begins at once.
async fn after(address: SocketAddr, instance: &Instance) -> io::Result<(Latencies, usize)> {
    let mut writer = Writer::of(Operation::RestDelta.wire(), address).await?;
    let mut reader = h1::Connection::open(address).await?;
    let poll = requests::get("/delta", false);
    // Of no other instance: each is changed in another version.
    let sign = instance.metadata.values().last().map_or("", |value| value);
    let mut polled = async || {
        let mut body = Vec::new();
        reader.call(&poll, |part| body.extend_from_slice(part)).await?;
        io::Result::Ok(String::from_utf8_lossy(&body).contains(sign))
    };
    // What it polled before may be kept for it.
    polled().await?;
    writer.write(instance).await?;
    let begun = Latencies::begin();
    for polls in 1..=POLLS.1 {
        if polled().await? {
            let mut latencies = Latencies::default();
            latencies.end(begun);
            return Ok((latencies, polls));
        }
        sleep(POLLS.0).await;
    }
    Err(io::Error::other("a change is never seen"))
}
