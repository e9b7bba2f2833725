//! A server that is killed and comes back with what its store has, and everybody who watched it at once.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use heureka_proto::v1;
use prost::Message as _;
use tokio::runtime::Builder;
use tokio::time::{Instant, sleep, sleep_until};

use super::audience::{Layout, Way};
use super::crowd::{self, Beginnings, Crowd, Set};
use super::h1;
use super::h2::{self, framed};
use super::load::{Extent, Load, finish};
use super::requests::{self, Operation, Population};
use super::rows::Unit;
use super::sample::Sample;
use super::tongue::Interest;
use super::{Bench, OTHER_FILES};
use crate::instances::PER_APP;
use crate::machine;
use crate::server::Program;
use crate::watch::{Latencies, Spread};

/// Connections that renew meanwhile, and the time between two renewals of each: what 15,000 instances do that renew
/// every thirty seconds.
const RENEWALS: (usize, Duration) = (10, Duration::from_millis(20));

/// Time for which renewals are measured at least.
const LEAST: Duration = Duration::from_secs(2);

/// Time between two looks at what a store has, and how often it is looked at.
const LOOK: (Duration, usize) = (Duration::from_millis(20), 3000);

const ROOM: usize = 16 << 10;

/// Share of watchers that are brought up to date without a whole set.
///
/// # Errors
/// A server that does not start or has not what its store should have, a connection that breaks, a renewal that fails.
pub(super) fn measure(bench: &Bench) -> io::Result<Sample> {
    let layout = Layout { connections: bench.pace.single, watchers: 1, way: Way::Each };
    machine::need_files(layout.connections as u64 + OTHER_FILES)?;
    let folder = Folder::new()?;
    let population = Population::of(bench.pace.instances, PER_APP);
    let request = before(bench, &folder.0, population)?;
    let mut served = Program::Kept(folder.0.clone()).start()?;
    let measured = bench.block_on(async {
        h1::ready(served.address, "/health/ready").await?;
        let renewals = Renewals::begin(served.address, population);
        let crowd = Crowd::begin(served.address, layout, &request);
        let beginnings = crowd.settle().await?;
        sleep(LEAST.min(bench.pace.time * 2)).await;
        Ok(sample(&beginnings, layout, renewals.end()?))
    });
    measured.map_err(|error| served.explain(&error))
}

/// What watchers bring from the life of the server before, which is killed when its store has everything.
fn before(bench: &Bench, folder: &Path, population: Population) -> io::Result<Bytes> {
    let mut served = Program::Kept(folder.to_owned()).start()?;
    let registered =
        Load::registrations(Operation::BatchRegister, population, 0).run(bench, &served, Extent::Once);
    let request = registered.and_then(|_| {
        bench.block_on(async {
            let Set { token, .. } = crowd::whole(served.address, Interest::Everything).await?;
            let known = digests(served.address).await?;
            stored(served.address).await?;
            Ok(crowd::following(Interest::Everything, token, known))
        })
    });
    let request = request.map_err(|error| served.explain(&error))?;
    served.kill()?;
    Ok(request)
}

fn sample(beginnings: &Beginnings, layout: Layout, renewals: Spread) -> Sample {
    let of = |mode: v1::SnapshotMode| beginnings.modes[mode as usize] as f64;
    let (resumed, differing) = (of(v1::SnapshotMode::Resume), of(v1::SnapshotMode::Diff));
    let figure = (resumed + differing) / layout.all() as f64;
    Sample { figure, latencies: Some(beginnings.latencies), ..Sample::default() }
        .with("RESUME", resumed, Unit::Count)
        .with("DIFF", differing, Unit::Count)
        .with("FULL", of(v1::SnapshotMode::Full), Unit::Count)
        .with("asked again", beginnings.retries as f64, Unit::Count)
        .with("renewals p50", renewals.p50 / 1e9, Unit::Seconds)
        .with("renewals p99", renewals.p99 / 1e9, Unit::Seconds)
        .with("renewals max", renewals.max / 1e9, Unit::Seconds)
}

/// What a client that holds everything says of it.
async fn digests(address: SocketAddr) -> io::Result<Vec<v1::AppDigest>> {
    let mut connection = h2::Connection::open(address, requests::APPLICATIONS, ROOM).await?;
    let request = v1::ListApplicationsRequest { page_size: 5000, ..v1::ListApplicationsRequest::default() };
    let answer = finish(&mut connection, &framed(&request)).await?;
    let answer = v1::ListApplicationsResponse::decode(answer.get(5..).unwrap_or_default());
    let mut known = answer.map_err(io::Error::other)?.applications;
    known.iter_mut().filter_map(|app| app.digest.as_mut()).for_each(|digest| digest.status_counts.clear());
    Ok(known)
}

/// Waits until the store has every change.
async fn stored(address: SocketAddr) -> io::Result<()> {
    for _ in 0..LOOK.1 {
        let text = h1::get(address, "/metrics").await?.unwrap_or_default();
        let metric = |name: &str| -> Option<f64> {
            text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
        };
        let (head, stored) = (metric("heureka_log_head"), metric("heureka_store_revision"));
        if head.is_some() && stored >= head {
            return Ok(());
        }
        sleep(LOOK.0).await;
    }
    Err(io::Error::other("the store never has everything"))
}

/// Renewals at an even pace, measured from when each was due; on a thread of their own, since the one that drives the
/// herd has its hands full.
struct Renewals {
    over: Arc<AtomicBool>,
    running: JoinHandle<io::Result<Latencies>>,
}

impl Renewals {
    fn begin(address: SocketAddr, population: Population) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let until = over.clone();
        let running = thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let renew = |number| renew(address, population, number, until.clone());
            runtime.block_on(async {
                let all = futures_util::future::try_join_all((0..RENEWALS.0).map(renew)).await?;
                Ok(Latencies::merged(all))
            })
        });
        Self { over, running }
    }

    fn end(self) -> io::Result<Spread> {
        self.over.store(true, Ordering::Relaxed);
        let done = self.running.join().map_err(|_| io::Error::other("the renewals ended by a fault"))?;
        Ok(done?.spread())
    }
}

/// One connection that renews, each time another instance of its share.
async fn renew(
    address: SocketAddr,
    population: Population,
    number: usize,
    over: Arc<AtomicBool>,
) -> io::Result<Latencies> {
    let mut connection = h2::Connection::open(address, requests::RENEW, ROOM).await?;
    let (mut latencies, mut due) = (Latencies::default(), Instant::now());
    for n in (number..).step_by(RENEWALS.0) {
        sleep_until(due).await;
        if over.load(Ordering::Relaxed) {
            break;
        }
        let request = framed(&requests::renew(&population.instance(n, 0)));
        if finish(&mut connection, &request).await?.is_empty() {
            return Err(io::Error::other("a renewal failed"));
        }
        latencies.end(due.into_std());
        due += RENEWALS.1;
    }
    Ok(latencies)
}

/// A folder for a store, which goes with the value.
struct Folder(PathBuf);

impl Folder {
    fn new() -> io::Result<Self> {
        let folder = std::env::temp_dir().join(format!("heureka-bench-{}", std::process::id()));
        std::fs::create_dir(&folder)?;
        Ok(Self(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed now is left to whoever looks after the machine.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
