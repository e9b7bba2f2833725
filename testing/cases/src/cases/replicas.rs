//! Two and three servers of one registry: conflicts, cancels and overrides on their way between them.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use heureka_cluster::checks::{eventually, quiet, same};
use heureka_cluster::cluster::Cluster;
use heureka_cluster::draft::Draft;
use heureka_cluster::figures::{Times, seconds};
use heureka_cluster::rest::Rest;
use heureka_cluster::watcher::{Watcher, spec};
use heureka_cluster::wire::{Fault, Flow};
use tokio::time::{Instant, sleep};

use crate::case::{Bench, Case, Found};

pub(crate) const CASES: &[Case] =
    &[Case::new("F47", "a cancel during a partition stays cancelled", |bench| Box::pin(f47(bench)))];

const SECOND: Duration = Duration::from_secs(1);
/// Longest time for a word from one server to another that it can reach.
const SOON: Duration = Duration::from_secs(5);

/// Waits until a server shows this status.
async fn shows(
    cluster: &Cluster,
    node: usize,
    app: &str,
    id: &str,
    status: &str,
) -> anyhow::Result<Duration> {
    let rest = &cluster.node(node).rest;
    let what = format!("n{node} shows {app}/{id} as {status:?}");
    eventually(what, SOON, || async { Ok(rest.status(app, id).await? == status) }).await
}

/// F28: removed by an operator at one server, the client comes back at the other with the stamp it has.
pub(super) async fn honest_return(bench: &Bench) -> anyhow::Result<String> {
    let cluster = bench.cluster(2).start().await?;
    let draft = Draft::new("LATE", "l3", "UP", 100);
    cluster.node(0).rest.register(&draft).await?;
    shows(&cluster, 1, "LATE", "l3", "UP").await?;
    quiet("cancel at n0", &cluster.node(0).rest.delete("/LATE/l3").await?, 200)?;
    quiet(
        "heartbeat at n0",
        &cluster.node(0).rest.beat("LATE", "l3", "?lastDirtyTimestamp=100").await?,
        404,
    )?;
    shows(&cluster, 1, "LATE", "l3", "").await?;
    cluster.node(1).rest.register(&draft).await?;
    same("at n1", cluster.node(1).rest.status("LATE", "l3").await?, "UP".to_owned())?;
    let took = shows(&cluster, 0, "LATE", "l3", "UP").await?;
    Ok(format!("back on both servers after {}", seconds(took)))
}

/// F44: an override outlives an expiry on both servers, and the restart of one; not a cancel.
pub(super) async fn kept_override(bench: &Bench) -> anyhow::Result<String> {
    let mut cluster = bench.cluster(2).set("preservation.mode", "off").start().await?;
    let draft = |dirty| Draft::new("KEEP", "k1", "UP", dirty).lease(2);
    cluster.node(0).rest.register(&draft(1)).await?;
    quiet("override", &cluster.node(0).rest.put("/KEEP/k1/status?value=OUT_OF_SERVICE").await?, 200)?;
    for node in 0..2 {
        shows(&cluster, node, "KEEP", "k1", "OUT_OF_SERVICE").await?;
    }
    for node in 0..2 {
        let rest = &cluster.node(node).rest;
        eventually(format!("k1 expires on n{node}"), 10 * SECOND, || async {
            Ok(rest.status("KEEP", "k1").await?.is_empty())
        })
        .await?;
    }
    let lasting = |dirty| Draft::new("KEEP", "k1", "UP", dirty);
    cluster.node(0).rest.register(&lasting(2)).await?;
    shows(&cluster, 1, "KEEP", "k1", "OUT_OF_SERVICE").await?;
    cluster.kill(1).await?;
    cluster.restart(&[1]).await?;
    cluster.meet(&[0, 1]).await?;
    same(
        "after the restart of n1",
        cluster.node(1).rest.status("KEEP", "k1").await?,
        "OUT_OF_SERVICE".to_owned(),
    )?;
    quiet("cancel at n1", &cluster.node(1).rest.delete("/KEEP/k1").await?, 200)?;
    shows(&cluster, 0, "KEEP", "k1", "").await?;
    cluster.node(0).rest.register(&lasting(3)).await?;
    shows(&cluster, 1, "KEEP", "k1", "UP").await?;
    Ok("kept over an expiry and a restart, gone with a cancel, on both servers".to_owned())
}

/// F46: two words about one instance at two servers, the older one first or last to arrive.
pub(super) async fn settled_conflicts(bench: &Bench) -> anyhow::Result<String> {
    let count = bench.pick(200, 1000);
    let cluster = bench.cluster(2).start().await?;
    for round in 0..count {
        cluster.between(0, Some(1), Fault::delayed(Duration::from_millis(round % 51)));
        let id = format!("r{round}");
        cluster.node(0).rest.register(&Draft::new("R", &id, "STARTING", 1)).await?;
        sleep(Duration::from_millis(1)).await;
        cluster.node(1).rest.register(&Draft::new("R", &id, "UP", 2)).await?;
    }
    cluster.heal();
    let (took, shown) = cluster.agree(&[0, 1], 60 * SECOND).await?;
    same("instances", shown.len() as u64, count)?;
    let up = shown.values().filter(|(_, status)| *status == heureka_model::Status::Up).count() as u64;
    same("of them UP", up, count)?;
    for node in cluster.nodes() {
        let collisions = node.rest.metric("heureka_registry_version_collisions_total").await?;
        ensure!(collisions < 0.5, "{}: {collisions} versions with two contents", node.name);
    }
    Ok(format!("{count} conflicts settled on both servers {} after the last", seconds(took)))
}

async fn f47(bench: Bench) -> Found {
    let mut cluster = bench.cluster(3).start().await?;
    // Others that live, so that one death is no catastrophe.
    for number in 0..10 {
        cluster.node(0).rest.register(&Draft::new("P", &format!("steady{number}"), "UP", 1)).await?;
    }
    let reappeared = cancelled_beside(&mut cluster).await?;
    let copied = copied_from_the_isolated(&mut cluster).await?;
    Ok(format!("{reappeared}; {copied}"))
}

/// Lease of what is cancelled, in seconds.
const LEASE: u32 = 8;

async fn cancelled_beside(cluster: &mut Cluster) -> anyhow::Result<String> {
    let mut watcher = Watcher::open(&cluster.node(0).channel().await?, spec(Some("P"), SECOND)).await?;
    watcher.settle().await?;
    cluster.node(0).rest.register(&Draft::new("P", "p1", "UP", 1).lease(LEASE.into())).await?;
    shows(cluster, 2, "P", "p1", "UP").await?;
    renew(&cluster.node(0).rest, "p1", 3).await?;
    cluster.between(2, None, Fault::held());
    quiet("cancel at n0", &cluster.node(0).rest.delete("/P/p1").await?, 200)?;
    shows(cluster, 1, "P", "p1", "").await?;
    sleep(2 * SECOND).await;
    same("the isolated one", cluster.node(2).rest.status("P", "p1").await?, "UP".to_owned())?;
    cluster.heal();
    let healed = Instant::now();
    let mut gone = None;
    while healed.elapsed() < (LEASE + 2) * SECOND {
        for node in [0, 1] {
            let status = cluster.node(node).rest.status("P", "p1").await?;
            ensure!(status.is_empty(), "n{node} shows p1 again, as {status}");
        }
        if gone.is_none() && cluster.node(2).rest.status("P", "p1").await?.is_empty() {
            gone = Some(healed.elapsed());
        }
        sleep(Duration::from_millis(50)).await;
    }
    watcher.listen(SECOND).await?;
    let removals = watcher.view.removals.iter().filter(|(key, _)| &*key.id == "p1").count();
    same("removals of p1 that a watcher of n0 saw", removals, 1)?;
    let gone = gone.context("n2 still shows p1 a lease after it was reached again")?;
    Ok(format!("gone from the isolated server {} after it was reached again, never back", seconds(gone)))
}

/// The server that took the cancel comes back with nothing, and can reach only the one that knows nothing of it.
async fn copied_from_the_isolated(cluster: &mut Cluster) -> anyhow::Result<String> {
    cluster.node(0).rest.register(&Draft::new("P", "p2", "UP", 1).lease(LEASE.into())).await?;
    shows(cluster, 2, "P", "p2", "UP").await?;
    renew(&cluster.node(0).rest, "p2", 1).await?;
    let last = Instant::now();
    cluster.between(2, None, Fault::cut());
    quiet("cancel at n0", &cluster.node(0).rest.delete("/P/p2").await?, 200)?;
    shows(cluster, 1, "P", "p2", "").await?;
    cluster.kill(0).await?;
    cluster.between(0, Some(1), Fault::cut());
    cluster.between(0, Some(2), Fault::default());
    cluster.restart(&[0]).await?;
    cluster.meet_each(&[(0, 1), (2, 1)]).await?;
    let copied = cluster.node(0).rest.status("P", "p2").await?;
    cluster.heal();
    sleep(((LEASE + 4) * SECOND).saturating_sub(last.elapsed())).await;
    cluster.agree(&[0, 1, 2], 10 * SECOND).await?;
    for node in 0..3 {
        let status = cluster.node(node).rest.status("P", "p2").await?;
        same(format_args!("n{node} after the lease"), status, String::new())?;
    }
    let shown = if copied.is_empty() { "not shown" } else { "shown" };
    Ok(format!("{shown} by a server that copied it from there, gone with its lease"))
}

async fn renew(rest: &Rest, id: &str, times: u32) -> anyhow::Result<()> {
    for _ in 0..times {
        sleep(SECOND).await;
        quiet("renewal", &rest.beat("P", id, "").await?, 200)?;
    }
    Ok(())
}

/// F54: a server that copies slowly refuses readers until it has everything, and takes writes meanwhile.
pub(super) async fn slow_copy(bench: &Bench) -> anyhow::Result<String> {
    let (count, lasts) = bench.pick((1000, 3), (3000, 10));
    let mut cluster = bench.cluster(2).start().await?;
    let before = cluster.passed(0, 1);
    let channel = cluster.node(0).channel().await?;
    heureka_cluster::native::register_all(&channel, heureka_cluster::native::padded("COPY", count, 100))
        .await?;
    cluster.agree(&[0, 1], 10 * SECOND).await?;
    let size = cluster.passed(0, 1) - before;
    cluster.kill(1).await?;
    let rate = std::num::NonZeroU64::new(size / lasts);
    let slow = Flow { rate, ..Flow::default() };
    cluster.between(0, Some(1), Fault { there: slow, back: slow, ..Fault::default() });
    cluster.restart(&[1]).await?;
    let begun = Instant::now();
    let (mut refused, mut accepted, mut writes) = (0, 0, Times::default());
    let served = loop {
        let rest = &cluster.node(1).rest;
        let answer = rest.get("").await?;
        if answer.status == 200 {
            break serde_json::from_slice::<serde_json::Value>(&answer.body)?;
        }
        same("a read while it copies", [403, 503].contains(&answer.status), true)?;
        refused += 1;
        let write = Instant::now();
        rest.register(&Draft::new("MEANWHILE", &format!("m{accepted}"), "UP", 1)).await?;
        writes.push(write.elapsed());
        accepted += 1;
        ensure!(begun.elapsed() < 60 * SECOND, "it refuses readers for a minute");
        sleep(Duration::from_millis(50)).await;
    };
    let took = begun.elapsed();
    same("instances in its first list", listed(&served), count + accepted)?;
    ensure!(refused > 0, "expected readers to be refused at first");
    Ok(format!(
        "{refused} reads refused over {}, {accepted} writes taken ({writes}), then all {count}",
        seconds(took)
    ))
}

fn listed(list: &serde_json::Value) -> usize {
    let apps = list["applications"]["application"].as_array();
    let instances = |app: &serde_json::Value| app["instance"].as_array().map_or(0, Vec::len);
    apps.into_iter().flatten().map(instances).sum()
}
