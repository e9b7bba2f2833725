//! Leases and heartbeats: who is asked to come back, who expires, who stays away.

use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use heureka_proto::v1::RemovalReason;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep};

use crate::case::{Bench, Case, Found};
use heureka_cluster::checks::{code, eventually, quiet, refused, same};
use heureka_cluster::draft::Draft;
use heureka_cluster::figures::{Times, seconds};
use heureka_cluster::rest::Rest;
use heureka_cluster::server::Server;
use heureka_cluster::watcher::{Watcher, spec};

pub(crate) const CASES: &[Case] = &[
    Case::new("F25", "stamps on a heartbeat, and junk in its query", |bench| Box::pin(f25(bench))),
    Case::new("F26", "after a restart everyone comes back, once", |bench| Box::pin(f26(bench))),
    Case::new("F27", "a lease ends when it says, and renewers never expire", |bench| Box::pin(f27(bench))),
    Case::new("F28", "a late registration after the cancel", |bench| Box::pin(f28(bench))),
];

async fn f25(bench: Bench) -> Found {
    let server = bench.start(&[("preservation.mode", "off")]).await?;
    server.rest.register(&Draft::new("DT", "d1", "UP", 100).lease(4)).await?;
    for (query, expected) in [("?lastDirtyTimestamp=100", 200), ("?lastDirtyTimestamp=99", 200), ("", 200)] {
        quiet(query, &server.rest.beat("DT", "d1", query).await?, expected)?;
    }
    for junk in ["abc", "", "99999999999999999999"] {
        let answer = server.rest.beat("DT", "d1", &format!("?lastDirtyTimestamp={junk}")).await?;
        refused(format_args!("stamp {junk:?}"), &answer, "lastDirtyTimestamp")?;
    }
    let sideways = server.rest.beat("DT", "d1", "?status=SIDEWAYS&lastDirtyTimestamp=100").await?;
    quiet("an unknown status in a heartbeat", &sideways, 200)?;
    code("an unknown status", &server.rest.put("/DT/d1/status?value=SIDEWAYS").await?, 400)?;
    same("status", server.rest.status("DT", "d1").await?, "UP".to_owned())?;
    // A heartbeat that is told to register has renewed the lease all the same.
    for _ in 0..6 {
        sleep(Duration::from_secs(1)).await;
        quiet("newer stamp", &server.rest.beat("DT", "d1", "?lastDirtyTimestamp=101").await?, 404)?;
    }
    same("after 6 s on a lease of 4", server.rest.status("DT", "d1").await?, "UP".to_owned())?;
    Ok(String::new())
}

/// Clients in one fleet, and how often one of them renews.
const FLEET: usize = 2000;

async fn f26(bench: Bench) -> Found {
    let every = bench.seconds(2, 5);
    let server = bench.start(&[]).await?;
    let before = rejoin(&server, every).await?;
    same("first start", (before.misses, before.registered), (FLEET, FLEET))?;
    drop(server);
    let restarted = bench.start(&[]).await?;
    let back = rejoin(&restarted, every).await?;
    same("404s and registrations after the restart", (back.misses, back.registered), (FLEET, FLEET))?;
    let again = rejoin(&restarted, every).await?;
    same("404s one round later", again.misses, 0)?;
    let there = restarted.rest.metric("heureka_registry_live_instances").await?;
    ensure!((there - 2000.0).abs() < 0.5, "expected 2000 instances, saw {there}");
    Ok(format!(
        "{FLEET} clients back within {} of one interval of {} s; calls {}",
        seconds(back.took),
        every.as_secs(),
        back.times
    ))
}

struct Rejoined {
    misses: usize,
    registered: usize,
    took: Duration,
    times: Times,
}

/// Each client renews once within an interval and registers when it is told 404.
async fn rejoin(server: &Server, every: Duration) -> anyhow::Result<Rejoined> {
    let callers = 20;
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for caller in 0..callers {
        let rest = Rest::new(server.address);
        tasks.spawn(async move { rejoin_some(&rest, (caller..FLEET).step_by(callers), every).await });
    }
    let mut all = Rejoined { misses: 0, registered: 0, took: Duration::ZERO, times: Times::default() };
    while let Some(some) = tasks.join_next().await {
        let some = some??;
        all.misses += some.misses;
        all.registered += some.registered;
        all.times.append(&some.times);
    }
    all.took = begun.elapsed();
    Ok(all)
}

async fn rejoin_some(
    rest: &Rest,
    clients: impl ExactSizeIterator<Item = usize>,
    every: Duration,
) -> anyhow::Result<Rejoined> {
    let mut some = Rejoined { misses: 0, registered: 0, took: Duration::ZERO, times: Times::default() };
    let mut pace = interval(every / u32::try_from(clients.len())?);
    for client in clients {
        pace.tick().await;
        let id = format!("c{client}");
        let begun = Instant::now();
        let answer = rest.beat("FLEET", &id, "?status=UP&lastDirtyTimestamp=7").await?;
        some.times.push(begun.elapsed());
        if answer.status == 200 {
            continue;
        }
        quiet("heartbeat", &answer, 404)?;
        some.misses += 1;
        rest.register(&Draft::new("FLEET", &id, "UP", 7)).await?;
        some.registered += 1;
    }
    Ok(some)
}

async fn f27(bench: Bench) -> Found {
    let server = Arc::new(bench.start(&[("preservation.mode", "off")]).await?);
    let mut watcher =
        Watcher::open(&server.channel().await?, spec(Some("EXP"), Duration::from_secs(1))).await?;
    watcher.settle().await?;
    for id in ["e1", "e2", "e3"] {
        server.rest.register(&Draft::new("EXP", id, "UP", 1).lease(3)).await?;
    }
    let begun = Instant::now();
    let lasts = bench.seconds(12, 60);
    let renewing = tokio::spawn(renew_two(Arc::clone(&server), begun + lasts));
    let gone = eventually("e1 is gone", Duration::from_secs(10), || async {
        Ok(server.rest.status("EXP", "e1").await?.is_empty())
    })
    .await?;
    ensure!(gone >= Duration::from_millis(2900), "e1: expected to last 3 s, saw {}", seconds(gone));
    renewing.await??;
    watcher.listen(Duration::from_millis(200)).await?;
    let removals: Vec<_> =
        watcher.view.removals.iter().map(|(key, why)| (key.id.to_string(), *why)).collect();
    same("removals", removals, vec![("e1".to_owned(), RemovalReason::Expired)])?;
    Ok(format!("a lease of 3 s ended after {}; renewers stayed for {} s", seconds(gone), lasts.as_secs()))
}

/// Renews e2 each second by heartbeats and e3 each two by status calls, and expects both to be there.
async fn renew_two(server: Arc<Server>, until: Instant) -> anyhow::Result<()> {
    let mut pace = interval(Duration::from_secs(1));
    let mut round = 0;
    while Instant::now() < until {
        pace.tick().await;
        round += 1;
        quiet("renewal of e2", &server.rest.beat("EXP", "e2", "").await?, 200)?;
        if round % 2 == 0 {
            quiet("renewal of e3", &server.rest.put("/EXP/e3/status?value=UP").await?, 200)?;
        }
        let lease = server.rest.instance("EXP", "e2").await?["leaseInfo"]["lastRenewalTimestamp"].as_u64();
        let now = heureka_cluster::clock::wall_millis();
        ensure!(lease.is_some_and(|at| at <= now + 50), "lastRenewalTimestamp: expected none in the future");
    }
    Ok(())
}

async fn f28(bench: Bench) -> Found {
    let server = bench.start(&[("peer.trusted", "127.0.0.1")]).await?;
    server.rest.register(&Draft::new("LATE", "l1", "UP", 100).lease(3)).await?;
    quiet("cancel", &server.rest.delete("/LATE/l1").await?, 200)?;
    server.rest.register(&Draft::new("LATE", "l1", "DOWN", 101).lease(3)).await?;
    same("never UP", server.rest.status("LATE", "l1").await?, "DOWN".to_owned())?;
    let gone = eventually("l1 is gone after its lease", Duration::from_secs(10), || async {
        Ok(server.rest.status("LATE", "l1").await?.is_empty())
    })
    .await?;
    let old = Draft::new("LATE", "l2", "UP", 99).json();
    after_cancel(&server, &old, "").await?;
    // Removed by an operator; the client lives on and comes back with the stamp it has.
    server.rest.register(&Draft::new("LATE", "l3", "UP", 100)).await?;
    quiet("cancel", &server.rest.delete("/LATE/l3").await?, 200)?;
    quiet("heartbeat", &server.rest.beat("LATE", "l3", "?lastDirtyTimestamp=100").await?, 404)?;
    server.rest.register(&Draft::new("LATE", "l3", "UP", 100)).await?;
    same("an honest registration", server.rest.status("LATE", "l3").await?, "UP".to_owned())?;
    // Who is no trusted peer is an ordinary client.
    let doubting = bench.start(&[]).await?;
    after_cancel(&doubting, &old, "UP").await?;
    let ignored = doubting.rest.metric("heureka_rest_replication_ignored_total").await?;
    ensure!((ignored - 1.0).abs() < 0.5, "ignored headers: expected 1, saw {ignored}");
    drop((server, doubting));
    let returned = super::replicas::honest_return(&bench).await?;
    Ok(format!("a late DOWN with a lease of 3 s was gone after {}; {returned}", seconds(gone)))
}

/// Registers l2, cancels it, and sends an older copy as a peer would.
async fn after_cancel(server: &Server, old: &str, status: &str) -> anyhow::Result<()> {
    server.rest.register(&Draft::new("LATE", "l2", "UP", 100)).await?;
    quiet("cancel", &server.rest.delete("/LATE/l2").await?, 200)?;
    quiet("a peer's copy", &server.rest.post_replicated("LATE", old.to_owned()).await?, 204)?;
    same("after a peer's copy", server.rest.status("LATE", "l2").await?, status.to_owned())
}
