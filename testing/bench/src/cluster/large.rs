//! Many instances: what their renewals cost between servers, and how soon a server that comes back serves them.

use std::time::Duration;

use anyhow::ensure;
use heureka_cluster::cluster::Cluster;
use heureka_cluster::native::{self, fleet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::{PATIENCE, Scale, three};
use crate::report;

const APP: &str = "LARGE";
/// Each instance renews once in it.
const EVERY: Duration = Duration::from_secs(30);
/// Between two calls that renew some.
const PACE: Duration = Duration::from_millis(100);
/// Time in which what was registered is over and done.
const REST: Duration = Duration::from_secs(3);

pub(super) async fn run(scale: Scale) -> anyhow::Result<()> {
    let mut cluster = three().await?;
    native::register_all(&cluster.node(0).running()?.channel().await?, fleet(APP, scale.large)).await?;
    holds(&cluster, 1, scale.large).await?;
    holds(&cluster, 2, scale.large).await?;
    let bytes = bytes(&cluster, scale).await?;
    let what = format!("replication to each peer, {} instances renewed each 30 s", scale.large);
    report::line(&what, &format!("{:.1} KB/s", bytes / 1e3), "<= 20 KB/s");
    let took = restart(&mut cluster, scale.large).await?;
    let what = format!("kill and restart to serving {} instances", scale.large);
    report::line(&what, &format!("{:.2} s", took.as_secs_f64()), "<= 3 s");
    Ok(())
}

/// Bytes in a second from the server that is renewed to, to each of the others.
async fn bytes(cluster: &Cluster, scale: Scale) -> anyhow::Result<f64> {
    // Handles are told with the first renewal, so the first round is not counted.
    renew(cluster, scale.large, EVERY.min(scale.counted)).await?;
    sleep(REST.min(scale.counted)).await;
    let passed = || [1, 2].map(|peer| cluster.passed(0, peer)).iter().sum::<u64>();
    let (before, begun) = (passed(), Instant::now());
    renew(cluster, scale.large, scale.counted).await?;
    Ok((passed() - before) as f64 / 2.0 / begun.elapsed().as_secs_f64())
}

/// Renews everything evenly for so long.
async fn renew(cluster: &Cluster, instances: usize, lasts: Duration) -> anyhow::Result<()> {
    let channel = cluster.node(0).running()?.channel().await?;
    let some = instances.div_ceil((EVERY.as_millis() / PACE.as_millis()) as usize);
    let (begun, mut pace, mut next) = (Instant::now(), interval(PACE), 0);
    pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
    while begun.elapsed() < lasts {
        pace.tick().await;
        let ids = (next..next + some).map(|number| format!("i{}", number % instances));
        let missing = native::renew_all(&channel, APP, ids).await?;
        ensure!(missing == 0, "{missing} renewals found nothing");
        next = (next + some) % instances;
    }
    Ok(())
}

/// From the start of a process that comes back until it answers readers with everything.
async fn restart(cluster: &mut Cluster, instances: usize) -> anyhow::Result<Duration> {
    cluster.kill(2).await?;
    let begun = Instant::now();
    cluster.restart(&[2]).await?;
    let rest = &cluster.node(2).running()?.rest;
    loop {
        let answer = rest.get(&format!("/{APP}/i{}", instances - 1)).await?;
        if answer.status == 200 {
            break;
        }
        ensure!(answer.status != 404, "it serves before it has everything");
        ensure!(begun.elapsed() < PATIENCE, "it never serves");
        sleep(Duration::from_millis(5)).await;
    }
    let took = begun.elapsed();
    let held = rest.metric("heureka_registry_live_instances").await?;
    ensure!(held + 0.5 > instances as f64, "it serves {held} of {instances}");
    Ok(took)
}

async fn holds(cluster: &Cluster, node: usize, instances: usize) -> anyhow::Result<()> {
    let rest = &cluster.node(node).running()?.rest;
    let begun = Instant::now();
    while rest.metric("heureka_registry_live_instances").await? + 0.5 < instances as f64 {
        ensure!(begun.elapsed() < PATIENCE, "n{node} never holds everything");
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}
