//! Self-preservation and pauses: who stays while many are silent.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval, sleep};

use crate::case::{Bench, Case, Found};
use heureka_cluster::checks::{code, eventually, quiet, same};
use heureka_cluster::draft::Draft;
use heureka_cluster::figures::{millis, seconds};
use heureka_cluster::rest::Rest;
use heureka_cluster::server::Server;
use heureka_cluster::watcher::{Watcher, spec};

pub(crate) const CASES: &[Case] = &[
    Case::new("F30", "churn does not raise the threshold, and a scale-in ends", |bench| Box::pin(f30(bench))),
    Case::new("F33", "a pause removes nobody, a failure of half is held", |bench| Box::pin(f33(bench))),
    Case::new("F54", "a server that has just started never answers with less than all", |bench| {
        Box::pin(f54(bench))
    }),
];

/// Instances that renew until the value goes.
struct Renewing(JoinHandle<()>);

impl Renewing {
    /// Registers these instances with leases and renews them. A call that fails is made again with the next round,
    /// as clients do.
    async fn start(
        server: &Server,
        app: &str,
        ids: Range<usize>,
        lease: u64,
        every: Duration,
    ) -> anyhow::Result<Self> {
        for id in ids.clone() {
            server.rest.register(&Draft::new(app, &format!("s{id}"), "UP", 1).lease(lease)).await?;
        }
        let (rest, app) = (Rest::new(server.address), app.to_owned());
        Ok(Self(tokio::spawn(async move {
            let mut pace = interval(every);
            loop {
                pace.tick().await;
                for id in ids.clone() {
                    let _ = rest.beat(&app, &format!("s{id}"), "").await;
                }
            }
        })))
    }
}

impl Drop for Renewing {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn listed(server: &Server, app: &str) -> anyhow::Result<BTreeSet<String>> {
    let answer = server.rest.get(&format!("/{app}")).await?;
    if answer.status == 404 {
        return Ok(BTreeSet::new());
    }
    code(app, &answer, 200)?;
    let document: Value = serde_json::from_slice(&answer.body)?;
    let instances = document["application"]["instance"].as_array().cloned().unwrap_or_default();
    Ok(instances.iter().filter_map(|one| one["instanceId"].as_str().map(str::to_owned)).collect())
}

async fn protecting(server: &Server) -> anyhow::Result<bool> {
    Ok(server.rest.metric("heureka_preservation_active").await? > 0.5)
}

async fn f30(bench: Bench) -> Found {
    let server = Arc::new(bench.start(&[]).await?);
    let second = Duration::from_secs(1);
    let steady = Renewing::start(&server, "STEADY", 0..4, 3, second).await?;
    let scaled = Renewing::start(&server, "STEADY", 4..10, 3, second).await?;
    let churn = bench.pick(15, 50);
    let mut most = 0.0_f64;
    for number in 0..churn {
        server.rest.register(&Draft::new("CH", &format!("c{number}"), "UP", 1).lease(3)).await?;
        sleep(second).await;
        most = most.max(server.rest.metric("heureka_lease_expected_renewals_per_minute").await?);
    }
    let cleared =
        eventually("nobody of the churn is listed and the flag is off", Duration::from_secs(60), || async {
            Ok(listed(&server, "CH").await?.is_empty() && !protecting(&server).await?)
        })
        .await?;
    same("the steady ones", listed(&server, "STEADY").await?.len(), 10)?;
    drop(scaled);
    for id in 4..10 {
        quiet("cancel", &server.rest.delete(&format!("/STEADY/s{id}")).await?, 200)?;
    }
    eventually("cancels lower what is expected", Duration::from_secs(5), || async {
        Ok(server.rest.metric("heureka_lease_expected_renewals_per_minute").await? < 241.0)
    })
    .await?;
    let held = hard_scale_in(&bench, &server).await?;
    drop(steady);
    Ok(format!(
        "{churn} crashed ones gone {} after the last; expected rate at most {most}/min; {held}",
        seconds(cleared)
    ))
}

/// Six of ten fall silent: they are held first, and go by the rule in the end.
async fn hard_scale_in(bench: &Bench, server: &Server) -> anyhow::Result<String> {
    let silent = Renewing::start(server, "STEADY", 4..10, 3, Duration::from_secs(1)).await?;
    sleep(Duration::from_secs(3)).await;
    drop(silent);
    eventually("protection begins", Duration::from_secs(10), || protecting(server)).await?;
    sleep(Duration::from_secs(4)).await;
    let held = listed(server, "STEADY").await?.len();
    ensure!(held > 4, "a hard scale-in: expected lapsed leases to be held, saw {held} of 10");
    if !bench.full {
        return Ok(format!("{held} of 10 held when 6 fell silent (their end: --full)"));
    }
    let ended = eventually("the held ones go and protection ends", Duration::from_secs(600), || async {
        Ok(listed(server, "STEADY").await?.len() == 4 && !protecting(server).await?)
    })
    .await?;
    Ok(format!("{held} of 10 held when 6 fell silent, the dead gone after {}", seconds(ended)))
}

/// Instances of the paused server.
const PAUSED: usize = 200;

async fn f33(bench: Bench) -> Found {
    let server = bench.start(&[]).await?;
    let every = Duration::from_secs(2);
    let mut renewing = Vec::new();
    for app in 0..10 {
        let ids = app * PAUSED / 10..(app + 1) * PAUSED / 10;
        renewing.push(Renewing::start(&server, &format!("P{app}"), ids, 6, every).await?);
    }
    let mut watcher = Watcher::open(&server.channel().await?, spec(None, Duration::from_secs(1))).await?;
    watcher.settle().await?;
    let pause = bench.seconds(10, 20);
    server.signal("STOP")?;
    sleep(pause).await;
    server.signal("CONT")?;
    watcher.listen(Duration::from_secs(8)).await?;
    same("removals after the pause", watcher.view.removals.len(), 0)?;
    same("instances after the pause", watcher.view.held.len(), PAUSED)?;
    // Half of them fall silent for good.
    renewing.truncate(5);
    let begun = Instant::now();
    eventually("protection begins", Duration::from_secs(20), || protecting(&server)).await?;
    let engaged = begun.elapsed();
    watcher.listen(Duration::from_secs(6)).await?;
    let removed = watcher.view.removals.len();
    ensure!(
        removed <= PAUSED * 15 / 100,
        "half silent: expected at most 15 % removed, saw {removed} of {PAUSED}"
    );
    let apps: BTreeSet<_> = watcher.view.removals.iter().map(|(key, _)| key.app.to_string()).collect();
    ensure!(apps.iter().all(|app| app.as_str() >= "P5"), "expected only silent ones removed, saw {apps:?}");
    for app in 5..10 {
        let app = format!("P{app}");
        let left = watcher.view.held.keys().filter(|key| *key.app == *app).count();
        ensure!(left > 0, "{app}: expected the last ones to stay");
    }
    Ok(format!(
        "paused for {} s with leases of 6 s: none removed; half silent: {removed} of {PAUSED} removed over {} applications, held after {}",
        pause.as_secs(),
        apps.len(),
        seconds(engaged)
    ))
}

async fn f54(bench: Bench) -> Found {
    let begun = Instant::now();
    let server = bench.start(&[]).await?;
    eventually("ready", Duration::from_secs(20), || async {
        Ok(server.rest.send("GET", "/health/ready", &[], "").await?.status == 200)
    })
    .await?;
    let ready = begun.elapsed();
    code("list", &server.rest.get("").await?, 200)?;
    drop(server);
    let copied = super::replicas::slow_copy(&bench).await?;
    Ok(format!("alone: ready {} after the start; with a peer: {copied}", millis(ready)))
}
