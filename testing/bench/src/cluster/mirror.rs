//! What watchers of each server hold, as a digest, whenever it changes.

use std::time::Duration;

use anyhow::Context as _;
use heureka_cluster::cluster::Cluster;
use heureka_cluster::watcher::{Heard, Watcher, spec};
use heureka_proto::v1;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::PATIENCE;

/// One watcher of each server; they end with the value.
pub(super) struct Mirrors {
    digests: Vec<watch::Receiver<v1::SetDigest>>,
    /// Ids that each saw removed.
    removals: Vec<watch::Receiver<Vec<String>>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Mirrors {
    pub(super) async fn of(cluster: &Cluster) -> anyhow::Result<Self> {
        let mut mirrors = Self { digests: Vec::new(), removals: Vec::new(), tasks: Vec::new() };
        for node in cluster.nodes() {
            let channel = node.running()?.channel().await?;
            let mut watcher = Watcher::open(&channel, spec(None, Duration::from_secs(20))).await?;
            watcher.settle().await?;
            let (digest, digests) = watch::channel(watcher.view.digest());
            let (removed, removals) = watch::channel(Vec::new());
            mirrors.digests.push(digests);
            mirrors.removals.push(removals);
            mirrors.tasks.push(tokio::spawn(async move {
                // Whoever waits for a watcher that ended waits in vain, and says so.
                while let Ok(heard) = watcher.next().await {
                    if matches!(heard, Heard::Changes | Heard::End) {
                        let ids = watcher.view.removals.iter().map(|(key, _)| key.id.to_string());
                        removed.send_replace(ids.collect());
                        digest.send_replace(watcher.view.digest());
                    }
                }
            }));
        }
        Ok(mirrors)
    }

    /// Waits until all hold the same; how long that took.
    pub(super) async fn equal(&mut self) -> anyhow::Result<Duration> {
        let begun = Instant::now();
        let equal = async {
            loop {
                let held: Vec<_> =
                    self.digests.iter_mut().map(|digest| digest.borrow_and_update().clone()).collect();
                if held.iter().all(|one| *one == held[0]) {
                    return anyhow::Ok(());
                }
                let changed = self.digests.iter_mut().map(|digest| Box::pin(digest.changed()));
                futures_util::future::select_all(changed).await.0.context("a watcher ended")?;
            }
        };
        timeout(PATIENCE, equal).await.context("the servers never become equal")??;
        Ok(begun.elapsed())
    }

    /// Whether all hold the same now.
    pub(super) fn are_equal(&self) -> bool {
        self.digests.iter().all(|digest| *digest.borrow() == *self.digests[0].borrow())
    }

    /// Removals of such ids that all of them saw together.
    pub(super) fn removals(&self, of: impl Fn(&str) -> bool) -> usize {
        let seen =
            |removals: &watch::Receiver<Vec<String>>| removals.borrow().iter().filter(|id| of(id)).count();
        self.removals.iter().map(seen).sum()
    }

    /// Waits until they saw so many of such ids.
    pub(super) async fn saw(&mut self, count: usize, of: impl Fn(&str) -> bool) -> anyhow::Result<Duration> {
        let begun = Instant::now();
        let seen = async {
            while self.removals(&of) < count {
                let changed = self.removals.iter_mut().map(|removals| Box::pin(removals.changed()));
                futures_util::future::select_all(changed).await.0.context("a watcher ended")?;
            }
            anyhow::Ok(())
        };
        let removals = timeout(PATIENCE, seen).await;
        removals.with_context(|| format!("{} of {count} removals were seen", self.removals(&of)))??;
        Ok(begun.elapsed())
    }
}

impl Drop for Mirrors {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}
