//! Watch streams: old tokens, slow readers, proxies, dead lines.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use futures_util::future::try_join_all;
use heureka_proto::v1;
use heureka_proto::v1::discovery_service_client::DiscoveryServiceClient;
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval, sleep};
use tonic::transport::Channel;

use crate::case::{Bench, Case, Found};
use crate::relay::Relay;
use heureka_cluster::checks::{eventually, quiet, same};
use heureka_cluster::figures::{Times, mebibytes, seconds};
use heureka_cluster::native::{self, fleet, padded};
use heureka_cluster::rest::Rest;
use heureka_cluster::server::{Server, connect, connect_narrow};
use heureka_cluster::watcher::{Heard, View, Watcher, spec};

pub(crate) const CASES: &[Case] = &[
    Case::new("F55", "a token older than what is remembered", |bench| Box::pin(f55(bench))),
    Case::new("F56", "watchers that do not read", |bench| Box::pin(f56(bench))),
    Case::new("F57", "a proxy that cuts quiet streams", |bench| Box::pin(f57(bench))),
    Case::new("F58", "the cable is pulled", |bench| Box::pin(f58(bench))),
];

const SECOND: Duration = Duration::from_secs(1);

async fn head(server: &Server) -> anyhow::Result<u64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a revision of a young server"
    )]
    Ok(server.rest.metric("heureka_log_head").await? as u64)
}

/// Reads until a mark says that everything up to `revision` was told.
async fn catch_up(watcher: &mut Watcher, revision: u64) -> anyhow::Result<()> {
    watcher
        .until("everything is told", Duration::from_secs(30), |view| view.revision >= revision)
        .await
        .map(drop)
}

async fn f55(bench: Bench) -> Found {
    let server = bench.start(&[("tombstones.max", "50")]).await?;
    let channel = server.channel().await?;
    native::register_all(&channel, fleet("GAP", 120)).await?;
    let mut watcher = Watcher::open(&channel, spec(None, SECOND)).await?;
    watcher.settle().await?;
    let old = watcher.view;
    let token = old.token.clone();
    for id in 0..100 {
        quiet("cancel", &server.rest.delete(&format!("/GAP/i{id}")).await?, 200)?;
    }
    for turn in 0..400 {
        let path = format!("/GAP/i{}/metadata?turn={turn}", 100 + turn % 20);
        quiet("change", &server.rest.put(&path).await?, 200)?;
    }
    eventually("the removals are forgotten", Duration::from_secs(10), || async {
        Ok(server.rest.metric("heureka_registry_tombstones").await? < 51.0)
    })
    .await?;
    let mut back = Watcher::resume(&channel, spec(None, SECOND), old).await?;
    same("an old token", back.next().await?, Heard::Begin(v1::SnapshotMode::Full))?;
    back.settle().await?;
    same("instances after the reset", back.view.held.len(), 20)?;
    refused(&channel, v1::StartMode::ResumeOnly, token.clone(), tonic::Code::OutOfRange).await?;
    let mut damaged = token.to_vec();
    damaged.iter_mut().for_each(|byte| *byte ^= 0x55);
    refused(&channel, v1::StartMode::Follow, damaged.into(), tonic::Code::InvalidArgument).await?;
    let view = missed_only(&server, &channel, back.view).await?;
    drop(server);
    let next = bench.start(&[]).await?;
    let mut moved = Watcher::resume(&next.channel().await?, spec(None, SECOND), view).await?;
    same("the token of an earlier life", moved.next().await?, Heard::Begin(v1::SnapshotMode::Full))?;
    moved.settle().await?;
    same("instances of an empty server", moved.view.held.len(), 0)?;
    Ok("500 changes beyond the memory: one reset; inside it: only the missed change".to_owned())
}

/// Inside the history only what was missed comes.
async fn missed_only(server: &Server, channel: &Channel, mut view: View) -> anyhow::Result<View> {
    quiet("change", &server.rest.put("/GAP/i100/metadata?turn=last").await?, 200)?;
    let before = view.changes;
    view.resets = 0;
    let mut again = Watcher::resume(channel, spec(None, SECOND), view).await?;
    same("a young token", again.next().await?, Heard::Begin(v1::SnapshotMode::Resume))?;
    again.settle().await?;
    same("changes after a young token", again.view.changes - before, 1)?;
    Ok(again.view)
}

async fn refused(
    channel: &Channel,
    mode: v1::StartMode,
    token: Bytes,
    code: tonic::Code,
) -> anyhow::Result<()> {
    let spec = v1::WatchSpec { start_mode: mode.into(), resume_token: token, ..spec(None, SECOND) };
    let request = v1::WatchRequest { spec: Some(spec), client_name: String::new() };
    match DiscoveryServiceClient::new(channel.clone()).watch(request).await {
        Ok(_) => bail!("expected {code:?}, saw a stream"),
        Err(status) => same("the refusal", status.code(), code),
    }
}

const CHANGING: usize = 2000;
/// Those of them that change.
const HOT: usize = 200;
const HEALTHY: usize = 40;
const SLOW: usize = 10;

async fn f56(bench: Bench) -> Found {
    let server = Arc::new(bench.start(&[]).await?);
    // Those that change are large, so that the changes leave the short memory in which each of them is kept.
    let mut instances = padded("FLOOD", HOT, 8 << 10);
    instances.extend(fleet("FLOOD", CHANGING).split_off(HOT));
    native::register_all(&server.channel().await?, instances).await?;
    let mut slow = Vec::new();
    for _ in 0..SLOW {
        // A connection each: one that is full would hold up all its streams.
        let mut watcher = Watcher::open(&connect_narrow(server.address).await?, spec(None, SECOND)).await?;
        watcher.settle().await?;
        slow.push(watcher);
    }
    let mut healthy = Vec::new();
    for _ in 0..HEALTHY {
        let mut watcher = Watcher::open(&server.channel().await?, spec(None, SECOND)).await?;
        watcher.settle().await?;
        healthy.push(watcher);
    }
    let before = server.rest.resident().await?;
    let changes = bench.pick(2000, 60_000);
    let lasts = PACE * u32::try_from(changes)?;
    let writer = tokio::spawn(change(Arc::clone(&server), changes));
    let readers: Vec<JoinHandle<anyhow::Result<Watcher>>> = healthy
        .into_iter()
        .map(|mut watcher| {
            tokio::spawn(async move {
                watcher.listen(lasts).await?;
                Ok(watcher)
            })
        })
        .collect();
    let times = writer.await??;
    let grown = server.rest.resident().await?.saturating_sub(before);
    let last = head(&server).await?;
    for reader in readers {
        catch_up(&mut reader.await??, last).await?;
    }
    let most = try_join_all(slow.iter_mut().map(|watcher| come_back(watcher, last))).await?;
    let most = most.into_iter().max().unwrap_or_default();
    ensure!(grown < 100 << 20, "memory: expected less than 100 MiB more, saw {}", mebibytes(grown));
    // What stood in the windows and once more each key that changed since: far fewer than there were changes.
    ensure!(
        most * 2 < changes as u64,
        "slow readers: expected the latest of each key, saw {most} of {changes}"
    );
    let stalled = server.rest.metric("heureka_watch_stalled_total").await?;
    ensure!(stalled < 0.5, "expected none closed for lag, saw {stalled}");
    Ok(format!(
        "{} changes in {} s; writes {times}; memory +{}; the slow ones read at most {most} changes when they came back",
        times.len(),
        lasts.as_secs(),
        mebibytes(grown)
    ))
}

/// What a watcher reads that has not read for long: how many changes it takes until it is up to date.
async fn come_back(watcher: &mut Watcher, revision: u64) -> anyhow::Result<u64> {
    let before = watcher.view.changes;
    catch_up(watcher, revision).await?;
    same("instances", watcher.view.held.len(), CHANGING)?;
    same("resets", watcher.view.resets, 1)?;
    Ok(watcher.view.changes - before)
}

/// Time between two changes.
const PACE: Duration = Duration::from_millis(5);

async fn change(server: Arc<Server>, changes: usize) -> anyhow::Result<Times> {
    let rest = Rest::new(server.address);
    let (mut pace, mut times) = (interval(PACE), Times::default());
    for turn in 0..changes {
        pace.tick().await;
        let path = format!("/FLOOD/i{}/metadata?turn={turn}", turn % HOT);
        let begun = Instant::now();
        quiet("change", &rest.put(&path).await?, 200)?;
        times.push(begun.elapsed());
    }
    Ok(times)
}

async fn f57(bench: Bench) -> Found {
    let server = bench.start(&[("preservation.mode", "off")]).await?;
    let (bookmarks, quiet_limit, lasts) =
        bench.pick((SECOND, 3 * SECOND, 8 * SECOND), (3 * SECOND, 10 * SECOND, 120 * SECOND));
    server.rest.register(&heureka_cluster::draft::Draft::new("SELF", "me", "UP", 1).lease(4)).await?;
    let relay = Relay::start(server.address, quiet_limit).await?;
    let mut watcher = Watcher::open(&connect(relay.address).await?, spec(Some("QUIET"), bookmarks)).await?;
    watcher.settle().await?;
    let begun = watcher.view.revision;
    let end = Instant::now() + lasts;
    while Instant::now() < end {
        // Its own lease, renewed beside the stream, and a change that the selector does not let through.
        quiet("renewal", &server.rest.beat("SELF", "me", "").await?, 200)?;
        quiet("change", &server.rest.put("/SELF/me/metadata?k=v").await?, 200)?;
        watcher.listen(SECOND).await?;
    }
    same("streams cut while bookmarks flow", relay.cut(), 0)?;
    ensure!(watcher.view.revision > begun, "expected bookmarks of an idle selector to advance");
    let heard = watcher.view.bookmarks;
    drop(watcher);
    let (changes, cuts) = cut_again_and_again(&server, bench.pick(4, 12)).await?;
    Ok(format!(
        "{} s quiet with {heard} bookmarks: kept; without: cut {cuts} times, {changes} changes each seen once",
        lasts.as_secs()
    ))
}

/// A stream without bookmarks behind a proxy that cuts after 2 s, with a change every 3 s.
async fn cut_again_and_again(server: &Server, changes: u64) -> anyhow::Result<(u64, u64)> {
    let relay = Relay::start(server.address, 2 * SECOND).await?;
    let address = relay.address;
    let (told, mut heard) = tokio::sync::watch::channel(0);
    let reader: JoinHandle<anyhow::Result<()>> = tokio::spawn(async move {
        let mut view = View::default();
        loop {
            let mut watcher =
                Watcher::resume(&connect(address).await?, spec(Some("CUT"), 60 * SECOND), view).await?;
            while watcher.next().await.is_ok() {
                told.send_replace(watcher.view.changes);
            }
            view = watcher.view;
            ensure!(view.resets == 1, "expected the first snapshot only, saw {}", view.resets);
        }
    });
    for change in 1..=changes {
        sleep(3 * SECOND).await;
        native::register(&server.channel().await?, native::instance("CUT", &format!("i{change}"))).await?;
    }
    let all = tokio::time::timeout(10 * SECOND, heard.wait_for(|seen| *seen >= changes)).await;
    all.context("a change was lost")??;
    sleep(SECOND).await;
    let seen = *heard.borrow();
    ensure!(!reader.is_finished(), "the reader ended: {:?}", reader.await);
    reader.abort();
    same("changes that were applied", seen, changes)?;
    Ok((changes, relay.cut()))
}

async fn f58(bench: Bench) -> Found {
    let server = bench.start(&[]).await?;
    let relay = Relay::start(server.address, Duration::from_secs(3600)).await?;
    let channel = connect(relay.address).await?;
    let mut watcher = Watcher::open(&channel, spec(None, 60 * SECOND)).await?;
    watcher.settle().await?;
    relay.swallow();
    let freed = eventually("the server frees the dead stream", 60 * SECOND, || async {
        Ok(server.rest.metric("heureka_watch_open").await? < 0.5)
    })
    .await?;
    drop(watcher);
    drop(server);
    let moved = super::moves::silent_server(&bench).await?;
    Ok(format!("freed after {} (35 at most); the client: {moved}", seconds(freed)))
}
