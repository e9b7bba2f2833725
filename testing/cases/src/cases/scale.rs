//! Many instances, pollers and watchers at once.

use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use heureka_proto::v1;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, interval};

use crate::case::{Bench, Case, Found};
use heureka_cluster::checks::{code, quiet};
use heureka_cluster::draft::Draft;
use heureka_cluster::figures::{Times, mebibytes};
use heureka_cluster::native;
use heureka_cluster::rest::{JSON, Rest};
use heureka_cluster::server::Server;
use heureka_cluster::watcher::{open, spec};

pub(crate) const CASES: &[Case] =
    &[Case::new("F70", "ten thousand instances, and staying flat", |bench| Box::pin(f70(bench)))];

const INSTANCES: usize = 10_000;
const APPS: usize = 1000;

async fn f70(bench: Bench) -> Found {
    // Few tombstones, so that what churn leaves behind does not hide what leaks.
    let server = Arc::new(bench.start(&[("tombstones.max", "1000")]).await?);
    let instances = (0..INSTANCES)
        .map(|number| native::instance(&format!("APP{}", number % APPS), &format!("i{number}")));
    native::register_all(&server.channel().await?, instances.collect()).await?;
    let watchers = watch(&server, bench.pick(200, 1000)).await?;
    let lasts = bench.seconds(15, 1800);
    let end = Instant::now() + lasts;
    let (begun, used) = (Instant::now(), server.processor_time());
    let renewals = load(&server, 334, end, |rest, turn| async move {
        let number = turn * 7919 % INSTANCES;
        quiet("renewal", &rest.beat(&format!("APP{}", number % APPS), &format!("i{number}"), "").await?, 200)
    });
    let changes = load(&server, 3, end, |rest, turn| async move {
        let (number, status) = (turn * 31 % INSTANCES, ["OUT_OF_SERVICE", "UP"][turn % 2]);
        quiet(
            "change",
            &rest.put(&format!("/APP{}/i{number}/status?value={status}", number % APPS)).await?,
            200,
        )
    });
    let deltas =
        load(&server, 17, end, |rest, _| async move { code("delta", &rest.get("/delta").await?, 200) });
    let lists = load(&server, 20, end, |rest, turn| async move {
        let gzip = [JSON, ("accept-encoding", "gzip")];
        let headers = if turn % 2 == 0 { &gzip[..] } else { &gzip[..1] };
        code("list", &rest.send("GET", "/eureka/apps", headers, "").await?, 200)
    });
    let (renewals, changes) = (renewals.await??, changes.await??);
    let (deltas, lists) = (deltas.await??, lists.await??);
    let processor = share(used, server.processor_time(), begun.elapsed());
    drop(watchers);
    let flat = stays_flat(&server, bench.pick(3000, 100_000)).await?;
    Ok(format!(
        "{} s: renewals {renewals}, lists {lists}, deltas {deltas}, {} changes, processor {processor}; {flat}",
        lasts.as_secs(),
        changes.len()
    ))
}

/// Watchers of everything that happens from now on.
async fn watch(server: &Server, count: usize) -> anyhow::Result<JoinSet<()>> {
    let mut tasks = JoinSet::new();
    let mut channel = server.channel().await?;
    for number in 0..count {
        if number % 100 == 99 {
            channel = server.channel().await?;
        }
        let live = v1::StartMode::LiveOnly.into();
        let spec = v1::WatchSpec { start_mode: live, ..spec(None, Duration::from_secs(10)) };
        let mut stream = open(&channel, spec).await?;
        tasks.spawn(async move { while let Ok(Some(_)) = stream.message().await {} });
    }
    Ok(tasks)
}

/// So many calls a second on one connection until then.
fn load<F>(
    server: &Server,
    rate: u32,
    until: Instant,
    call: impl Fn(Arc<Rest>, usize) -> F + Send + 'static,
) -> JoinHandle<anyhow::Result<Times>>
where
    F: Future<Output = anyhow::Result<()>> + Send,
{
    let rest = Arc::new(Rest::new(server.address));
    tokio::spawn(async move {
        let (mut pace, mut times, mut turn) = (interval(Duration::from_secs(1) / rate), Times::default(), 0);
        while Instant::now() < until {
            pace.tick().await;
            let begun = Instant::now();
            call(Arc::clone(&rest), turn).await?;
            times.push(begun.elapsed());
            turn += 1;
        }
        Ok(times)
    })
}

fn share(before: Option<Duration>, after: Option<Duration>, passed: Duration) -> String {
    match (before, after) {
        (Some(before), Some(after)) => {
            format!("{:.0} % of one core", (after - before).as_secs_f64() / passed.as_secs_f64() * 100.0)
        }
        _ => "not told by this system".to_owned(),
    }
}

/// Fresh ids come and go; nothing may be left of them.
async fn stays_flat(server: &Server, pairs: usize) -> anyhow::Result<String> {
    churn(server, pairs).await?;
    let warm = server.rest.resident().await?;
    churn(server, pairs).await?;
    let after = server.rest.resident().await?;
    ensure!(
        after <= warm + warm / 10,
        "memory: expected {} within 10 %, saw {}",
        mebibytes(warm),
        mebibytes(after)
    );
    ensure!(after < 500 << 20, "memory: expected less than 500 MiB, saw {}", mebibytes(after));
    let plain = server.rest.send("GET", "/eureka/apps", &[JSON], "").await?.body.len();
    let gzip =
        server.rest.send("GET", "/eureka/apps", &[JSON, ("accept-encoding", "gzip")], "").await?.body.len();
    ensure!(plain >= 8 * gzip, "gzip: expected 8:1, saw {plain} to {gzip}");
    Ok(format!(
        "{pairs} ids came and went twice: memory {} then {}; gzip {}:1",
        mebibytes(warm),
        mebibytes(after),
        plain / gzip
    ))
}

async fn churn(server: &Server, pairs: usize) -> anyhow::Result<()> {
    static ROUND: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let round = ROUND.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    for pair in 0..pairs {
        let id = format!("r{round}p{pair}");
        server.rest.register(&Draft::new("CHURN", &id, "UP", 1)).await?;
        quiet("cancel", &server.rest.delete(&format!("/CHURN/{id}")).await?, 200)?;
    }
    Ok(())
}
