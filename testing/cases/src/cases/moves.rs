//! Clients of this workspace whose server goes: what they keep, and where they go.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use futures_util::StreamExt as _;
use heureka_client::{Cache, Client, Event, Settings};
use heureka_cluster::checks::{eventually, same};
use heureka_cluster::cluster::Cluster;
use heureka_cluster::figures::seconds;
use heureka_cluster::native::{self, fleet};
use heureka_cluster::watcher::{Heard, View, Watcher, spec};
use heureka_cluster::wire::Wire;
use heureka_proto::v1;
use heureka_proto::v1::registry_service_client::RegistryServiceClient;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::case::{Bench, Case, Found};

pub(crate) const CASES: &[Case] =
    &[Case::new("F39", "what a client keeps when the registry is gone or empty", |bench| {
        Box::pin(f39(bench))
    })];

const SECOND: Duration = Duration::from_secs(1);
/// Instances that are cached.
const CACHED: usize = 20;

async fn f39(bench: Bench) -> Found {
    let away = bench.seconds(5, 300);
    let door = Wire::new().await?;
    let server = bench.start(&[]).await?;
    door.lead_to(Some(server.address));
    native::register_all(&server.channel().await?, fleet("KEPT", CACHED)).await?;
    let settings = Settings { bookmark_interval: SECOND, ..Settings::default() };
    let client = Client::connect_with(settings, [format!("http://{}", door.address)])?;
    let cache = client.cache(Vec::new());
    cache.ready().await?;
    same("cached", cache.up("KEPT").len(), CACHED)?;
    door.lead_to(None);
    drop(server);
    sleep(away).await;
    same("cached while no server is there", cache.up("KEPT").len(), CACHED)?;
    let age = cache.age();
    ensure!(age + 3 * SECOND > away, "age: expected about {} s, saw {}", away.as_secs(), seconds(age));
    let empty = bench.start(&[]).await?;
    door.lead_to(Some(empty.address));
    eventually("the empty list is held back", 40 * SECOND, || async { Ok(cache.withheld().is_some()) })
        .await?;
    same("cached beside an empty server", cache.up("KEPT").len(), CACHED)?;
    same("instances that would go", cache.withheld(), Some(CACHED))?;
    let channel = empty.channel().await?;
    native::register_all(&channel, fleet("KEPT", CACHED)).await?;
    eventually("nothing is held back any more", 10 * SECOND, || async { Ok(cache.withheld().is_none()) })
        .await?;
    let gone = cancelled(&cache, &channel).await?;
    Ok(format!(
        "{CACHED} kept for {} s without a server (age {}) and beside an empty one; a cancel applied after {}",
        away.as_secs(),
        seconds(age),
        seconds(gone)
    ))
}

/// A removal that is meant is applied at once.
async fn cancelled(cache: &Cache, channel: &tonic::transport::Channel) -> anyhow::Result<Duration> {
    let request = v1::CancelRequest { key: Some(native::key("KEPT", "i0")), writer: None };
    RegistryServiceClient::new(channel.clone()).cancel(request).await?;
    eventually("a cancel is applied", 5 * SECOND, || async { Ok(cache.up("KEPT").len() == CACHED - 1) }).await
}

/// F58: the server of an idle watch stands still; the client notices and goes to the other.
pub(super) async fn silent_server(bench: &Bench) -> anyhow::Result<String> {
    let cluster = bench.cluster(2).start().await?;
    let client = Client::connect(cluster.doors())?;
    let mut events = client.watch(Vec::new());
    while !matches!(events.next().await.context("the watch ended")??, Event::Synced { .. }) {}
    let watched = watched(&cluster).await?;
    cluster.node(watched).running()?.signal("STOP")?;
    let begun = Instant::now();
    let synced = async {
        while let Some(event) = events.next().await {
            if matches!(event?, Event::Synced { .. }) {
                return anyhow::Ok(());
            }
        }
        anyhow::bail!("the watch ended")
    };
    timeout(20 * SECOND, synced).await.context("the client stays with a silent server for 20 s")??;
    let moved = begun.elapsed();
    let other = 1 - watched;
    native::register(&cluster.node(other).channel().await?, native::instance("MOVED", "m1")).await?;
    let told = timeout(5 * SECOND, events.next()).await.context("nothing is told")?;
    ensure!(matches!(told, Some(Ok(Event::Added(_)))), "expected the new instance, saw {told:?}");
    Ok(format!("on the other server {} after its own stood still", seconds(moved)))
}

/// The server on which the one watch is.
async fn watched(cluster: &Cluster) -> anyhow::Result<usize> {
    for (number, node) in cluster.nodes().iter().enumerate() {
        if node.rest.metric("heureka_watch_open").await? > 0.5 {
            return Ok(number);
        }
    }
    anyhow::bail!("no server has a watch")
}

/// F59: the watchers of one server go to its peer with their tokens.
pub(super) async fn crowd_moves(bench: &Bench) -> anyhow::Result<String> {
    // Each of them holds its whole view here: more would not fit into the memory of a small machine.
    let (watchers, instances) = bench.pick((200, 1000), (400, 5000));
    let mut cluster = bench.cluster(2).start().await?;
    native::register_all(&cluster.node(0).channel().await?, fleet("CROWD", instances)).await?;
    cluster.agree(&[0, 1], 20 * SECOND).await?;
    let views = crowd(&cluster, 0, vec![View::default(); watchers]).await?.0;
    cluster.kill(0).await?;
    let begun = Instant::now();
    let resets: u32 = views.iter().map(|view| view.resets).sum();
    let (moved, changes) = crowd(&cluster, 1, views).await?;
    let took = begun.elapsed();
    for view in &moved {
        same("instances of a watcher that moved", view.held.len(), instances)?;
    }
    let full = moved.iter().map(|view| view.resets).sum::<u32>() - resets;
    same("watchers that moved and were told everything anew", full, 0)?;
    Ok(format!(
        "{watchers} watchers moved to the peer of a killed server within {}, told {changes} changes",
        seconds(took)
    ))
}

/// Resumes all these views at a server at once; what they hold then, and how many changes that took.
async fn crowd(cluster: &Cluster, node: usize, views: Vec<View>) -> anyhow::Result<(Vec<View>, u64)> {
    let server = cluster.node(node).running()?;
    let before: u64 = views.iter().map(|view| view.changes).sum();
    let mut tasks = JoinSet::new();
    for some in views.chunks(100) {
        let channel = server.channel().await?;
        for view in some {
            let (channel, view) = (channel.clone(), view.clone());
            tasks.spawn(async move {
                let mut watcher = Watcher::resume(&channel, spec(Some("CROWD"), 60 * SECOND), view).await?;
                while watcher.next().await? != Heard::End {}
                anyhow::Ok(watcher.view)
            });
        }
    }
    let mut moved = Vec::new();
    while let Some(view) = tasks.join_next().await {
        moved.push(view??);
    }
    let after: u64 = moved.iter().map(|view| view.changes).sum();
    Ok((moved, after - before))
}
