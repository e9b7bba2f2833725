//! Watches of large sets and by many at once.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use heureka_model::{InstanceKey, SetDigest, Status, Version, instance_hash};
use heureka_proto::v1;
use heureka_proto::v1::discovery_service_client::DiscoveryServiceClient;
use heureka_proto::v1::watch_event::Event;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval};
use tonic::transport::Channel;

use crate::case::{Bench, Case, Found};
use heureka_cluster::checks::same;
use heureka_cluster::figures::{Times, mebibytes, seconds};
use heureka_cluster::native::{self, fleet, padded};
use heureka_cluster::server::Server;
use heureka_cluster::watcher::{Heard, Watcher, open, spec};

pub(crate) const CASES: &[Case] = &[
    Case::new("F59", "everybody reconnects at once", |bench| Box::pin(f59(bench))),
    Case::new("F60", "a snapshot larger than 4 MiB", |bench| Box::pin(f60(bench))),
];

const SECOND: Duration = Duration::from_secs(1);

async fn f59(bench: Bench) -> Found {
    let (watchers, instances) = bench.pick((200, 1000), (2000, 5000));
    let first = bench.start(&[]).await?;
    let token = crowd(&first, watchers, instances, Bytes::new()).await?.0;
    drop(first);
    let second = Arc::new(bench.start(&[]).await?);
    native::register_all(&second.channel().await?, fleet("CROWD", instances)).await?;
    let before = second.rest.resident().await?;
    let end = Instant::now() + bench.seconds(3, 30);
    let writer = tokio::spawn(write_beside(Arc::clone(&second), end));
    let (_, took) = crowd(&second, watchers, 0, token).await?;
    let grown = second.rest.resident().await?.saturating_sub(before);
    let times = writer.await??;
    let full = second.rest.metric("heureka_watch_started_total").await?;
    drop(second);
    let moved = super::moves::crowd_moves(&bench).await?;
    Ok(format!(
        "{watchers} watchers of {instances} live {} after they came back at once; {full} snapshots, memory +{}; writes beside {times}; {moved}",
        seconds(took),
        mebibytes(grown)
    ))
}

/// Opens that many watches at once and reads each to the end of its snapshot; one of their tokens, and the time
/// until the last was live.
async fn crowd(
    server: &Server,
    watchers: usize,
    instances: usize,
    token: Bytes,
) -> anyhow::Result<(Bytes, Duration)> {
    if instances > 0 {
        native::register_all(&server.channel().await?, fleet("CROWD", instances)).await?;
    }
    let mut channels = Vec::new();
    for _ in 0..watchers.div_ceil(100) {
        channels.push(server.channel().await?);
    }
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for number in 0..watchers {
        tasks.spawn(tally(channels[number / 100].clone(), token.clone()));
    }
    let mut last = Bytes::new();
    while let Some(done) = tasks.join_next().await {
        last = done??;
    }
    Ok((last, begun.elapsed()))
}

/// Reads a snapshot without keeping it; its digest must be that of what came. Changes that writers make beside it
/// leave the digest out.
async fn tally(channel: Channel, token: Bytes) -> anyhow::Result<Bytes> {
    let mut stream =
        open(&channel, v1::WatchSpec { resume_token: token, ..spec(Some("CROWD"), 60 * SECOND) }).await?;
    let mut digest = SetDigest::default();
    loop {
        let message = stream.message().await?.context("the stream ended within its snapshot")?;
        match message.event.and_then(|event| event.event) {
            Some(Event::SnapshotBegin(begin)) => same("mode", begin.mode(), v1::SnapshotMode::Full)?,
            Some(Event::Changes(batch)) => {
                for change in batch.changes {
                    let key = InstanceKey::from(change.key.unwrap_or_default());
                    let version = Version::from(change.version.unwrap_or_default());
                    digest.add(instance_hash(key.as_ref(), &version), Status::Up);
                }
            }
            Some(Event::SnapshotEnd(end)) => {
                if let Some(expected) = end.digest {
                    same("digest", v1::SetDigest::from(digest), expected)?;
                }
                return Ok(end.resume_token);
            }
            _ => {}
        }
    }
}

/// Registrations of another application while the crowd comes.
async fn write_beside(server: Arc<Server>, until: Instant) -> anyhow::Result<Times> {
    let channel = server.channel().await?;
    let (mut pace, mut times, mut number) = (interval(Duration::from_millis(10)), Times::default(), 0);
    while Instant::now() < until {
        pace.tick().await;
        let begun = Instant::now();
        native::register(&channel, native::instance("BESIDE", &format!("b{number}"))).await?;
        times.push(begun.elapsed());
        number += 1;
    }
    Ok(times)
}

async fn f60(bench: Bench) -> Found {
    let server = bench.start(&[]).await?;
    let channel = server.channel().await?;
    native::register_all(&channel, padded("LARGE", 10_000, 1 << 10)).await?;
    let begun = Instant::now();
    let mut watcher = Watcher::open(&channel, spec(None, SECOND)).await?;
    while watcher.next().await? != Heard::End {
        same("nothing is shown before the end", watcher.view.held.len(), 0)?;
    }
    let took = begun.elapsed();
    same("instances", watcher.view.held.len(), 10_000)?;
    ensure!(
        watcher.view.largest_message < 1 << 20,
        "message: expected below 1 MiB, saw {}",
        watcher.view.largest_message
    );
    let (listed, pages) = list(&channel).await?;
    same("listed", listed, 10_000)?;
    let mut large = native::instance("LARGE", "too-large");
    for number in 0..3 {
        large.metadata.insert(format!("k{number}"), "x".repeat(250 << 10));
    }
    let status = native::register(&channel, large).await.err().context("too large: expected a refusal")?;
    same("too large", status.code(), tonic::Code::InvalidArgument)?;
    Ok(format!(
        "10,000 instances of 1 KiB in {}, largest message {}; listed in {pages} pages",
        seconds(took),
        mebibytes(watcher.view.largest_message as u64)
    ))
}

async fn list(channel: &Channel) -> anyhow::Result<(usize, usize)> {
    let mut client = DiscoveryServiceClient::new(channel.clone());
    let (mut listed, mut pages, mut token) = (0, 0, String::new());
    loop {
        let request = v1::ListInstancesRequest { page_size: 5000, page_token: token, ..Default::default() };
        let page = client.list_instances(request).await?.into_inner();
        listed += page.instances.len();
        pages += 1;
        token = page.next_page_token;
        if token.is_empty() {
            return Ok((listed, pages));
        }
    }
}
