//! Who wakes watchers.

use std::sync::{Arc, Weak};
use std::time::Duration;

use heureka_model::Clock;
use heureka_registry::Registry;
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

/// Longest time that changes are held back while watchers are busy with those before.
const LONGEST: Duration = Duration::from_millis(250);
/// Holding back for less is not worth a timer.
const SHORTEST: Duration = Duration::from_millis(1);

/// Time in which watchers are woken for readings once: readings are many and the last one counts.
const READINGS: Duration = Duration::from_millis(50);

/// Wakes the watchers whom changes concern, for as long as the registry lives.
///
/// A change that comes when nothing else goes on wakes them at once. After that, changes are collected for as long as
/// those who were woken kept the processors: a burst costs each watcher one message for all that happened meanwhile,
/// and half of the time at least is left for everything else.
pub(in crate::grpc) async fn herald(registry: Weak<Registry>, mut heads: watch::Receiver<u64>) {
    while heads.changed().await.is_ok() {
        let Some(registry) = registry.upgrade() else { return };
        registry.herald();
        drop(registry);
        let begun = Instant::now();
        // Whoever was woken is ahead in the queue.
        yield_now().await;
        let busy = begun.elapsed().min(LONGEST);
        if busy >= SHORTEST {
            sleep(busy).await;
        }
    }
}

/// Wakes the watchers whom readings concern, for as long as the registry lives: the first at once, others after a while.
pub(in crate::grpc) async fn herald_readings(
    registry: Weak<Registry>,
    clock: Arc<dyn Clock>,
    mut news: watch::Receiver<u64>,
) {
    let mut due = None;
    loop {
        tokio::select! {
            changed = news.changed() => if changed.is_err() { return },
            () = until(due) => {}
        }
        let Some(registry) = registry.upgrade() else { return };
        due = registry.herald_readings(clock.now());
        drop(registry);
        sleep(READINGS).await;
    }
}

async fn until(due: Option<Duration>) {
    match due {
        Some(wait) => sleep(wait).await,
        None => std::future::pending().await,
    }
}
