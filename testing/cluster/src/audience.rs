//! Watchers with the client of this workspace, each a task. Whatever they are told is held against a ledger.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use heureka_client::{Client, Event, Settings};
use heureka_history::Recorder;
use heureka_model::{InstanceKey, Version};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::transport::Endpoint;

use crate::checks::eventually;
use crate::cluster::Shown;
use crate::ledger::{Fate, Ledger};

/// Signs of life on a watch.
const BOOKMARKS: Duration = Duration::from_secs(1);

/// A watcher of everything; it ends with the value.
#[derive(Debug)]
pub struct Watching {
    /// Its name.
    pub name: String,
    seen: Arc<Mutex<Seen>>,
    synced: watch::Receiver<u64>,
    task: JoinHandle<()>,
}

/// What a watcher was told.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// What it holds.
    pub held: BTreeMap<InstanceKey, Version>,
    /// Removals of any kind.
    pub removals: u64,
    gone: BTreeSet<InstanceKey>,
}

impl Watching {
    /// Watches what the servers behind these addresses tell, one of them at a time. All of it is recorded.
    ///
    /// # Errors
    /// An address that is none.
    pub fn begin(
        name: &str,
        addresses: &[String],
        ledger: &Ledger,
        recorder: &Recorder,
    ) -> anyhow::Result<Self> {
        let taps: Result<Vec<_>, tonic::transport::Error> =
            addresses.iter().map(|address| Ok(recorder.tap(name, channel(address)?))).collect();
        let settings = Settings { bookmark_interval: BOOKMARKS, ..Settings::default() };
        let client = Client::over(settings, taps?)?;
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (syncs, synced) = watch::channel(0);
        let (told, ledger, watcher) = (Arc::clone(&seen), ledger.clone(), name.to_owned());
        let task = tokio::spawn(async move {
            let mut events = client.watch(Vec::new());
            while let Some(event) = events.next().await {
                match event {
                    Ok(Event::Synced { .. }) => syncs.send_modify(|syncs| *syncs += 1),
                    Ok(event) => lock(&told).take(&watcher, event, &ledger),
                    Err(error) => return ledger.breach(format!("watcher {watcher} ended: {error}")),
                }
            }
        });
        Ok(Self { name: name.to_owned(), seen, synced, task })
    }

    /// Waits until it was told everything once.
    ///
    /// # Errors
    /// It ended before.
    pub async fn synced(&mut self) -> anyhow::Result<()> {
        self.synced
            .wait_for(|syncs| *syncs > 0)
            .await
            .map(drop)
            .map_err(|_| anyhow::anyhow!("{} ended", self.name))
    }

    /// What it was told so far.
    #[must_use]
    pub fn seen(&self) -> Seen {
        lock(&self.seen).clone()
    }

    /// Waits until it holds exactly this.
    ///
    /// # Errors
    /// It does not within that time.
    pub async fn holds(&self, shown: &Shown, within: Duration) -> anyhow::Result<Duration> {
        let equal = || async {
            let seen = lock(&self.seen);
            let versions = shown.iter().map(|(key, (version, _))| (key, version));
            Ok(seen.held.iter().eq(versions))
        };
        eventually(format!("{} holds what the servers show", self.name), within, equal).await
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Seen {
    fn take(&mut self, watcher: &str, event: Event, ledger: &Ledger) {
        match event {
            Event::Added(now) | Event::Modified(now) => {
                let key = now.instance.key.clone();
                if self.gone.contains(&key) && ledger.fate(&key) == Some(Fate::Left) {
                    ledger.breach(format!("{watcher} saw {key} come back after its cancel"));
                }
                self.held.insert(key, now.version);
            }
            Event::Removed { last, reason } => {
                let key = last.instance.key.clone();
                if ledger.fate(&key) == Some(Fate::Lives) {
                    ledger.breach(format!("{watcher} saw {key} removed ({reason:?}), which lives"));
                }
                self.removals += 1;
                self.held.remove(&key);
                self.gone.insert(key);
            }
            Event::Synced { .. } | Event::Preserving(_) | Event::Reading(_) => {}
        }
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection as the client of this workspace makes it.
///
/// # Errors
/// An address that is none.
pub fn channel(address: &str) -> Result<tonic::transport::Channel, tonic::transport::Error> {
    let endpoint = Endpoint::from_shared(address.to_owned())?
        .connect_timeout(Duration::from_secs(5))
        .http2_keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(10))
        .keep_alive_while_idle(true);
    Ok(endpoint.connect_lazy())
}

#[cfg(test)]
mod tests {
    use super::*;
    use heureka_model::Registration;

    fn registration(id: &str) -> Arc<Registration> {
        let wire = crate::native::instance("A", id);
        let version = heureka_proto::v1::Version { owner: 1, ..Default::default() };
        let wire = heureka_proto::v1::Instance { version: Some(version), ..wire };
        Arc::new(Registration::try_from(wire).unwrap())
    }

    #[test]
    fn removals_of_the_living_and_returns_of_the_cancelled_are_breaches() {
        let (ledger, mut seen) = (Ledger::default(), Seen::default());
        let (lives, left) = (registration("lives"), registration("left"));
        ledger.note(&lives.instance.key, Fate::Lives);
        ledger.note(&left.instance.key, Fate::Left);
        let gone = |last: &Arc<Registration>| Event::Removed { last: Arc::clone(last), reason: None };
        // Told late of what came and went before.
        seen.take("w", Event::Added(Arc::clone(&left)), &ledger);
        seen.take("w", gone(&left), &ledger);
        assert_eq!(ledger.breaches(), [""; 0]);
        seen.take("w", Event::Added(left), &ledger);
        seen.take("w", gone(&lives), &ledger);
        let told = ledger.breaches();
        assert!(told[0].contains("A/left come back") && told[1].contains("A/lives removed"), "{told:?}");
    }
}
