//! Peers that are shown as what they are, and one that is slow.

use std::time::Duration;

use anyhow::ensure;
use heureka_cluster::checks::{eventually, same};
use heureka_cluster::cluster::Cluster;
use heureka_cluster::figures::{Times, mebibytes, seconds};
use heureka_cluster::native;
use heureka_cluster::wire::Fault;
use tokio::time::{Instant, interval};

use crate::case::{Bench, Case, Found};

pub(crate) const CASES: &[Case] = &[
    Case::new("F50", "a peer that replicates is shown as available", |bench| Box::pin(f50(bench))),
    Case::new("F51", "one slow peer slows nobody else", |bench| Box::pin(f51(bench))),
];

const SECOND: Duration = Duration::from_secs(1);
/// Time in which a server has to notice that a peer came or went.
const NOTICED: Duration = Duration::from_secs(10);

async fn f50(bench: Bench) -> Found {
    let mut found = Vec::new();
    for host in ["127.0.0.1", "localhost"] {
        let mut cluster = bench.cluster(2).host(host).start().await?;
        let by = |what: &str, took: Duration| format!("{what} after {}", seconds(took));
        cluster.kill(1).await?;
        let lost = available(&cluster, 0.0).await?;
        cluster.restart(&[1]).await?;
        let back = available(&cluster, 1.0).await?;
        cluster.between(0, Some(1), Fault::held());
        let filtered = available(&cluster, 0.0).await?;
        cluster.heal();
        let open = available(&cluster, 1.0).await?;
        let steps = [by("killed", lost), by("back", back), by("filtered", filtered), by("open", open)];
        found.push(format!("by {host}: {}", steps.join(", ")));
    }
    Ok(found.join("; "))
}

/// Waits until n0 has so many peers.
async fn available(cluster: &Cluster, expected: f64) -> anyhow::Result<Duration> {
    let rest = &cluster.node(0).rest;
    eventually(format!("n0 has {expected} peers"), NOTICED, || async {
        Ok((rest.metric("heureka_peer_connected").await? - expected).abs() < 0.5)
    })
    .await
}

/// Instances that renew.
const RENEWING: usize = 3000;
/// Renewals in a call.
const BATCH: usize = 100;

/// What one server used while it was renewed to.
struct Used {
    processor: Duration,
    resident: u64,
    /// From a registration there until a neighbour shows it.
    lag: Times,
}

async fn f51(bench: Bench) -> Found {
    let lasts = bench.seconds(10, 300);
    let cluster = bench.cluster(3).start().await?;
    let channel = cluster.node(0).running()?.channel().await?;
    native::register_all(&channel, native::fleet("BUSY", RENEWING)).await?;
    cluster.agree(&[0, 1, 2], 20 * SECOND).await?;
    let quiet = renewed(&cluster, lasts, "before").await?;
    cluster.node(2).running()?.signal("STOP")?;
    let beside = renewed(&cluster, lasts, "beside").await?;
    let backlog = cluster.node(0).rest.metric("heureka_peer_backlog_revisions").await?;
    cluster.node(2).running()?.signal("CONT")?;
    let (equal, _) = cluster.agree(&[0, 1, 2], 30 * SECOND).await?;
    let most = quiet.resident + quiet.resident / 5 + (8 << 20);
    ensure!(
        beside.resident <= most,
        "memory beside the slow peer: expected {} and a fifth at most, saw {}",
        mebibytes(quiet.resident),
        mebibytes(beside.resident)
    );
    Ok(format!(
        "n0 used {} of processor time in {} s, {} beside a peer that stands; memory {}, {}; to the other peer {}, {}; \
         {backlog} revisions behind, equal {} after it goes on",
        seconds(quiet.processor),
        lasts.as_secs(),
        seconds(beside.processor),
        mebibytes(quiet.resident),
        mebibytes(beside.resident),
        quiet.lag,
        beside.lag,
        seconds(equal)
    ))
}

/// Renews everything each three seconds at n0 and registers now and then, for so long.
async fn renewed(cluster: &Cluster, lasts: Duration, app: &str) -> anyhow::Result<Used> {
    let server = cluster.node(0).running()?;
    let channel = server.channel().await?;
    let before = server.processor_time().unwrap_or_default();
    let (begun, mut pace, mut lag) = (Instant::now(), interval(SECOND / 10), Times::default());
    for turn in 0.. {
        pace.tick().await;
        if begun.elapsed() > lasts {
            break;
        }
        let first = turn * BATCH % RENEWING;
        let ids = (first..first + BATCH).map(|number| format!("i{number}"));
        same("renewals that found nothing", native::renew_all(&channel, "BUSY", ids).await?, 0)?;
        if turn % 10 == 0 {
            lag.push(seen_at_the_neighbour(cluster, app, &format!("{turn}")).await?);
        }
    }
    let processor = server.processor_time().unwrap_or_default().saturating_sub(before);
    Ok(Used { processor, resident: server.rest.resident().await?, lag })
}

async fn seen_at_the_neighbour(cluster: &Cluster, app: &str, id: &str) -> anyhow::Result<Duration> {
    native::register(&cluster.node(0).running()?.channel().await?, native::instance(app, id)).await?;
    let neighbour = &cluster.node(1).running()?.rest;
    eventually("n1 shows it", 10 * SECOND, || async { Ok(neighbour.status(app, id).await? == "UP") }).await
}
