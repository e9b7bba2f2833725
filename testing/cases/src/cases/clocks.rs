//! Clients whose clocks are wrong.

use anyhow::ensure;

use crate::case::{Bench, Case, Found};
use heureka_cluster::checks::{quiet, same};
use heureka_cluster::clock::wall_millis;
use heureka_cluster::draft::Draft;
use heureka_cluster::server::Server;

pub(crate) const CASES: &[Case] =
    &[Case::new("F34", "a client whose clock was ahead is not held to it", |bench| Box::pin(f34(bench)))];

const DAY: u64 = 86_400_000;

async fn f34(bench: Bench) -> Found {
    let server = bench.start(&[]).await?;
    let now = wall_millis();
    server.rest.register(&Draft::new("SKEW", "s1", "UP", now + DAY).with("hostName", "old")).await?;
    let ahead = format!("?lastDirtyTimestamp={}", now + DAY);
    quiet("heartbeat with the stamp ahead", &server.rest.beat("SKEW", "s1", &ahead).await?, 200)?;
    let mended = Draft::new("SKEW", "s1", "UP", now).with("hostName", "new");
    server.rest.register(&mended).await?;
    same("after the clock was mended", host(&server).await?, "new".to_owned())?;
    quiet("cancel", &server.rest.delete("/SKEW/s1").await?, 200)?;
    server.rest.register(&mended).await?;
    same("after a cancel", host(&server).await?, "new".to_owned())?;
    let told = server.rest.metric("heureka_registry_stamps_ahead_total").await?;
    ensure!(told > 0.5, "heureka_registry_stamps_ahead_total: expected to be counted, saw {told}");
    Ok(format!("{told} stamp ahead counted"))
}

async fn host(server: &Server) -> anyhow::Result<String> {
    Ok(server.rest.instance("SKEW", "s1").await?["hostName"].as_str().unwrap_or_default().to_owned())
}
