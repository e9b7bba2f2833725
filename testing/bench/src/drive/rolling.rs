//! A rolling restart: every instance of a large application is cancelled and registered anew, under many watchers.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use heureka_proto::v1;
use prost::Message as _;
use tokio::time::{MissedTickBehavior, interval};

use super::Bench;
use super::audience::{Layout, Way};
use super::crowd::{self, Crowd, Sent, Set};
use super::h2::{self, Event, framed};
use super::load::{Extent, Load, finish};
use super::requests::{self, Operation, Population};
use super::rows::Unit;
use super::sample::Sample;
use super::tongue::Interest;
use crate::server::Program;
use crate::watch::timed_async;

const WATCHERS: Layout = Layout { connections: 100, watchers: 10, way: Way::Each };

/// Instances that go and come back together, and the time between two such groups: five hundred instances in a second.
const WAVE: (usize, Duration) = (50, Duration::from_millis(100));

/// Time without a byte after which everything was told.
const QUIET: Duration = Duration::from_secs(2);

const ROOM: usize = 64 << 10;

/// Bytes to each watcher over those of the changes.
///
/// # Errors
/// A server that does not start, a connection that breaks, a call that fails.
pub(super) fn measure(bench: &Bench, program: &Program) -> io::Result<Sample> {
    let instances = bench.pace.large.1;
    let population = Population::of(instances, instances);
    let layout = WATCHERS.at_most(bench.pace.shared, bench.pace.shared);
    let mut served = program.start()?;
    let measured = Load::registrations(Operation::BatchRegister, population, 0)
        .run(bench, &served, Extent::Once)
        .and_then(|_| bench.block_on(restart(served.address, population, layout, || served.cpu())));
    measured.map_err(|error| served.explain(&error))
}

async fn restart(
    address: SocketAddr,
    population: Population,
    layout: Layout,
    cpu: impl Fn() -> f64,
) -> io::Result<Sample> {
    let Set { token, .. } = crowd::whole(address, Interest::FirstApp).await?;
    let crowd = Crowd::begin(address, layout, &crowd::following(Interest::FirstApp, token, Vec::new()));
    crowd.settle().await?;
    crowd.sent();
    let before = cpu();
    let (seconds, done) = timed_async(async {
        replace(address, population).await?;
        crowd.rest(QUIET).await
    })
    .await;
    done?;
    let used = cpu() - before;
    let Sent { bytes, changes, again } = crowd.sent();
    let Set { changes: returned, .. } = crowd::whole(address, Interest::FirstApp).await?;
    if returned.len() != population.instances {
        return Err(io::Error::other(format!("{} of {} came back", returned.len(), population.instances)));
    }
    let changed = changed(&returned) as f64;
    let watchers = layout.all() as f64;
    let most = bytes.iter().max().copied().unwrap_or_default() as f64;
    let least = bytes.iter().min().copied().unwrap_or_default() as f64;
    let mean = bytes.iter().sum::<usize>() as f64 / watchers;
    Ok(Sample { figure: mean / changed, ..Sample::default() }
        .with("of the least told", least / changed, Unit::Times)
        .with("of the most told", most / changed, Unit::Times)
        .with("to each watcher", mean, Unit::Bytes)
        .with("of them in messages of changes", changes as f64 / watchers, Unit::Bytes)
        .with("snapshots begun meanwhile", again as f64, Unit::Count)
        .with("until all have everything", seconds - QUIET.as_secs_f64(), Unit::Seconds)
        .with("server CPU in all", used, Unit::Seconds))
}

/// Bytes of two changes of each instance: its removal, and its return.
fn changed(returned: &[v1::Change]) -> usize {
    let removal = |change: &v1::Change| v1::Change {
        r#type: v1::ChangeType::Removed.into(),
        key: change.key.clone(),
        version: change.version,
        instance: None,
        removal_reason: v1::RemovalReason::Cancelled.into(),
    };
    returned.iter().map(|change| change.encoded_len() + removal(change).encoded_len()).sum()
}

/// Cancels some and registers them again, until all of them were.
async fn replace(address: SocketAddr, population: Population) -> io::Result<()> {
    let mut cancels = h2::Connection::open(address, requests::CANCEL, ROOM).await?;
    let mut registers = h2::Connection::open(address, requests::BATCH_REGISTER, ROOM).await?;
    let mut pace = interval(WAVE.1);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for from in (0..population.instances).step_by(WAVE.0) {
        pace.tick().await;
        let wave: Vec<_> = (from..population.instances.min(from + WAVE.0)).collect();
        let cancelled = wave.iter().map(|n| framed(&requests::cancel(&population.instance(*n, 0))));
        all(&mut cancels, cancelled).await?;
        let requests = wave.iter().map(|n| requests::register(&population.instance(*n, 2))).collect();
        let answer = finish(&mut registers, &framed(&v1::BatchRegisterRequest { requests })).await?;
        let answer = v1::BatchRegisterResponse::decode(answer.get(5..).unwrap_or_default());
        if !answer.is_ok_and(|answer| answer.results.iter().all(|result| result.response.is_some())) {
            return Err(io::Error::other("an instance was refused"));
        }
    }
    Ok(())
}

/// Makes these calls at once and waits until all are answered.
async fn all(connection: &mut h2::Connection, calls: impl Iterator<Item = Bytes>) -> io::Result<()> {
    let mut open = calls.map(|call| connection.call(&call)).count();
    let mut answered = 0;
    let expected = open;
    while open > 0 {
        let turned = connection.turn(|_, event| match event {
            Event::Data(_) => answered += 1,
            Event::Ended | Event::Reset => open -= 1,
            Event::Begun => {}
        });
        turned.await?;
    }
    if answered < expected { Err(io::Error::other("a cancel was refused")) } else { Ok(()) }
}
