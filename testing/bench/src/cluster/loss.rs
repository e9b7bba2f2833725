//! One of three servers is killed: how soon its watchers hear another, and whether anybody sees a removal.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::ensure;
use futures_util::StreamExt as _;
use heureka_client::{Client, Event};
use heureka_cluster::figures::{Times, millis};
use heureka_cluster::native::{self, fleet, leased};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use super::{Scale, three};
use crate::report;

const INSTANCES: usize = 1000;
const LONG: Duration = Duration::from_hours(24);
/// Longest time until every watcher is back.
const BACK: Duration = Duration::from_secs(60);
/// Time for removals to be seen after that.
const AFTER: Duration = Duration::from_secs(5);

pub(super) async fn run(scale: Scale) -> anyhow::Result<()> {
    let mut cluster = three().await?;
    let all = fleet("KEPT", INSTANCES).into_iter().map(|instance| leased(instance, LONG, LONG)).collect();
    native::register_all(&cluster.node(0).running()?.channel().await?, all).await?;
    cluster.agree(&[0, 1, 2], BACK).await?;
    let addresses: Vec<String> = (0..3)
        .map(|node| Ok(format!("http://{}", cluster.node(node).running()?.address)))
        .collect::<anyhow::Result<_>>()?;
    let removals = Arc::new(AtomicUsize::new(0));
    let (syncs, mut synced) = mpsc::channel(scale.watchers);
    let mut watching = JoinSet::new();
    for _ in 0..scale.watchers {
        let client = Client::connect(&addresses)?;
        watching.spawn(watch(client, syncs.clone(), Arc::clone(&removals)));
    }
    ensure!(all_of(&mut synced, scale.watchers).await.len() == scale.watchers, "a watcher is told nothing");
    let there = cluster.node(0).running()?.rest.metric("heureka_watch_open").await?;
    let there = there.round() as usize;
    cluster.strike(0)?;
    let killed = Instant::now();
    cluster.kill(0).await?;
    let mut back = Times::default();
    all_of(&mut synced, there).await.iter().for_each(|at| back.push(at.saturating_duration_since(killed)));
    ensure!(back.len() == there, "{} of {there} watchers are back", back.len());
    sleep(AFTER).await;
    let figure = format!("{} / {}", millis(back.quantile(0.5)), millis(back.quantile(0.99)));
    let what = format!("kill -9: {there} of {} watchers hear another server, p50 / p99", scale.watchers);
    report::line(&what, &figure, "< 1 s");
    report::line("  removals that any watcher saw", &removals.load(Ordering::Relaxed).to_string(), "0");
    Ok(())
}

/// Moments at which so many watchers were told everything, fewer when it takes too long.
async fn all_of(synced: &mut mpsc::Receiver<Instant>, count: usize) -> Vec<Instant> {
    let (mut moments, end) = (Vec::new(), Instant::now() + BACK);
    while moments.len() < count {
        match timeout_at(end, synced.recv()).await {
            Ok(Some(moment)) => moments.push(moment),
            _ => break,
        }
    }
    moments
}

async fn watch(client: Client, syncs: mpsc::Sender<Instant>, removals: Arc<AtomicUsize>) {
    let mut events = client.watch(Vec::new());
    while let Some(Ok(event)) = events.next().await {
        match event {
            // Nobody asks any more once everything is measured.
            Event::Synced { .. } => drop(syncs.try_send(Instant::now())),
            Event::Removed { .. } => {
                removals.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
    }
}
