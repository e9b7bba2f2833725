//! Status overrides, flapping, and conflicts.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use heureka_model::{Status, Version};
use heureka_proto::v1;
use heureka_proto::v1::discovery_service_client::DiscoveryServiceClient;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::case::{Bench, Case, Found};
use heureka_cluster::checks::{code, eventually, json, quiet, same};
use heureka_cluster::draft::Draft;
use heureka_cluster::native;
use heureka_cluster::rest::Rest;
use heureka_cluster::server::{Server, connect_narrow};
use heureka_cluster::watcher::{View, Watcher, spec};

pub(crate) const CASES: &[Case] = &[
    Case::new("F40", "taken out of service and put back", |bench| Box::pin(f40(bench))),
    Case::new("F44", "an override outlives an expiry and a restart, not a cancel", |bench| {
        Box::pin(f44(bench))
    }),
    Case::new("F45", "flapping and a mass refresh end with the last word", |bench| Box::pin(f45(bench))),
    Case::new("F46", "conflicts resolve, and stop", |bench| Box::pin(f46(bench))),
];

async fn is(server: &Server, app: &str, id: &str, status: &str) -> anyhow::Result<()> {
    same(format!("status of {app}/{id}"), server.rest.status(app, id).await?, status.to_owned())
}

async fn f40(bench: Bench) -> Found {
    let server = bench.start(&[]).await?;
    let mut watcher =
        Watcher::open(&server.channel().await?, spec(Some("OV"), Duration::from_secs(1))).await?;
    watcher.settle().await?;
    let draft = Draft::new("OV", "o1", "UP", 100);
    server.rest.register(&draft).await?;
    server.rest.calls(&[("PUT", "/OV/o1/status?value=OUT_OF_SERVICE&lastDirtyTimestamp=100", 200)]).await?;
    is(&server, "OV", "o1", "OUT_OF_SERVICE").await?;
    watched(&mut watcher, Status::OutOfService).await?;
    quiet("heartbeat", &server.rest.beat("OV", "o1", "?status=UP&lastDirtyTimestamp=100").await?, 200)?;
    server.rest.register(&draft).await?;
    is(&server, "OV", "o1", "OUT_OF_SERVICE").await?;
    quiet("end of the override", &server.rest.delete("/OV/o1/status").await?, 200)?;
    is(&server, "OV", "o1", "UP").await?;
    watched(&mut watcher, Status::Up).await?;
    quiet("heartbeat", &server.rest.beat("OV", "o1", "?status=UP&lastDirtyTimestamp=100").await?, 200)?;
    // The original never comes back from an override whose stamp is ahead of the client's.
    server
        .rest
        .calls(&[
            ("PUT", "/OV/o1/status?value=OUT_OF_SERVICE&lastDirtyTimestamp=900", 200),
            ("DELETE", "/OV/o1/status?value=UP", 200),
            ("PUT", "/OV/o1?status=UP&lastDirtyTimestamp=100", 200),
        ])
        .await?;
    is(&server, "OV", "o1", "UP").await?;
    let delta = server.rest.json("/delta").await?["applications"].take();
    json("status in the delta", &delta["application"][0]["instance"][0]["status"], json!("UP"))?;
    json("hash of the delta", &delta["apps__hashcode"], json!("UP_1_"))?;
    Ok("the owner's status is back at once".to_owned())
}

async fn watched(watcher: &mut Watcher, status: Status) -> anyhow::Result<()> {
    let wanted = move |view: &View| view.status("OV", "o1") == Some(status);
    watcher.until("the watch shows it", Duration::from_secs(5), wanted).await.map(drop)
}

async fn f44(bench: Bench) -> Found {
    let server = bench.start(&[("preservation.mode", "off")]).await?;
    let draft = |dirty| Draft::new("KEEP", "k1", "UP", dirty).lease(2);
    server.rest.register(&draft(1)).await?;
    quiet("override", &server.rest.put("/KEEP/k1/status?value=OUT_OF_SERVICE").await?, 200)?;
    eventually("k1 expires", Duration::from_secs(10), || async {
        Ok(server.rest.status("KEEP", "k1").await?.is_empty())
    })
    .await?;
    server.rest.register(&draft(2)).await?;
    is(&server, "KEEP", "k1", "OUT_OF_SERVICE").await?;
    quiet("cancel", &server.rest.delete("/KEEP/k1").await?, 200)?;
    server.rest.register(&draft(3)).await?;
    is(&server, "KEEP", "k1", "UP").await?;
    drop(server);
    super::replicas::kept_override(&bench).await
}

/// Stamps that are sent out of order.
const FLAPS: u64 = 200;
/// More than a watcher may be behind and still be told each of them.
const MORE: u64 = 2000;

async fn f45(bench: Bench) -> Found {
    let server = Arc::new(bench.start(&[]).await?);
    let mut flapping =
        Watcher::open(&server.channel().await?, spec(Some("FL"), Duration::from_secs(1))).await?;
    let mut refreshed =
        Watcher::open(&server.channel().await?, spec(Some("FM"), Duration::from_secs(1))).await?;
    for id in 0..5 {
        server.rest.register(&Draft::new("FM", &format!("m{id}"), "UP", 1)).await?;
    }
    flapping.settle().await?;
    refreshed.settle().await?;
    let mut tasks = JoinSet::new();
    for caller in 0..10 {
        tasks.spawn(flap(Rest::new(server.address), caller));
    }
    for id in 0..5 {
        tasks.spawn(refresh(Rest::new(server.address), id));
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    is(&server, "FL", "f1", "UP").await?;
    let up = |app: &'static str, count| {
        move |view: &View| {
            view.held.len() == count
                && view.held.iter().all(|(key, held)| *key.app == *app && held.status == Status::Up)
        }
    };
    flapping.until("the last word", Duration::from_secs(5), up("FL", 1)).await?;
    refreshed.until("all are back", Duration::from_secs(5), up("FM", 5)).await?;
    flapping.listen(Duration::from_millis(1500)).await?;
    same("still the last word", flapping.view.status("FL", "f1"), Some(Status::Up))?;
    json("hash", &server.rest.json("").await?["applications"]["apps__hashcode"], json!("UP_6_"))?;
    let (away, gathered) = told_less(&server).await?;
    Ok(format!(
        "{FLAPS} registrations out of order, {} events; of {MORE} in order {away} to one who looked away and \
         {gathered} to one who lets them gather",
        flapping.view.changes
    ))
}

/// Who reads nothing while an instance flaps, and who lets changes gather, is told far fewer, and the last one.
async fn told_less(server: &Server) -> anyhow::Result<(u64, u64)> {
    let narrow = connect_narrow(server.address).await?;
    let at_once = spec(Some("FL"), Duration::from_secs(1));
    let coalesce_window = prost_types::Duration::try_from(Duration::from_millis(500)).ok();
    let gathering = v1::WatchSpec { coalesce_window, ..at_once.clone() };
    let mut away = Watcher::open(&narrow, at_once).await?;
    let mut gathered = Watcher::open(&server.channel().await?, gathering).await?;
    away.settle().await?;
    gathered.settle().await?;
    let before = [&away, &gathered].map(|watcher| watcher.view.changes);
    for stamp in FLAPS + 1..=FLAPS + MORE {
        let status = if stamp % 2 == 0 { "UP" } else { "DOWN" };
        server.rest.register(&Draft::new("FL", "f1", status, stamp)).await?;
    }
    let request = v1::GetInstanceRequest { key: Some(native::key("FL", "f1")) };
    let mut reader = DiscoveryServiceClient::new(server.channel().await?);
    let stored = reader.get_instance(request).await?.into_inner().instance.and_then(|stored| stored.version);
    let stored = Version::from(stored.context("the instance has no version")?);
    let last = |view: &View| view.get("FL", "f1").is_some_and(|held| held.version == stored);
    for watcher in [&mut away, &mut gathered] {
        watcher.until("the last word", Duration::from_secs(5), last).await?;
        same("the last word", watcher.view.status("FL", "f1"), Some(Status::Up))?;
    }
    let told = (away.view.changes - before[0], gathered.view.changes - before[1]);
    let fewer = MORE / 2;
    ensure!(told.0 < fewer && told.1 < fewer, "expected fewer than {fewer} changes each, saw {told:?}");
    Ok(told)
}

/// One of ten callers, which send every tenth stamp each.
async fn flap(rest: Rest, caller: u64) -> anyhow::Result<()> {
    for stamp in (1..=FLAPS).filter(|stamp| stamp % 10 == caller) {
        let status = if stamp % 2 == 0 { "UP" } else { "DOWN" };
        rest.register(&Draft::new("FL", "f1", status, stamp)).await?;
    }
    Ok(())
}

async fn refresh(rest: Rest, id: u64) -> anyhow::Result<()> {
    quiet("cancel", &rest.delete(&format!("/FM/m{id}")).await?, 200)?;
    sleep(Duration::from_millis(60 * id)).await;
    rest.register(&Draft::new("FM", &format!("m{id}"), "UP", 1)).await
}

async fn f46(bench: Bench) -> Found {
    let server = bench.start(&[("peer.trusted", "127.0.0.1")]).await?;
    server.rest.register(&Draft::new("CF", "c1", "UP", 200)).await?;
    quiet("the owner, older", &server.rest.beat("CF", "c1", "?lastDirtyTimestamp=100").await?, 200)?;
    let peer = |stamp: u32| {
        let headers = [("x-netflix-discovery-replication", "true"), ("accept", "application/json")];
        let (path, rest) = (format!("/eureka/apps/CF/c1?lastDirtyTimestamp={stamp}"), &server.rest);
        async move { rest.send("PUT", &path, &headers, "").await }
    };
    let conflict = peer(100).await?;
    code("a peer, older", &conflict, 409)?;
    let record: Value = serde_json::from_slice(&conflict.body)?;
    json("the record it is told", &record["instance"]["lastDirtyTimestamp"], json!("200"))?;
    quiet("a peer, newer", &peer(300).await?, 404)?;
    let late = server.rest.post_replicated("CF", Draft::new("CF", "c1", "STARTING", 150).json()).await?;
    ensure!(late.status == 204, "a peer's older copy: expected 204, saw {}", late.status);
    is(&server, "CF", "c1", "UP").await?;
    drop(server);
    super::replicas::settled_conflicts(&bench).await
}
