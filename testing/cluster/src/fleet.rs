//! Clients that keep instances registered over both surfaces, go to another server when one fails, and note what
//! they were promised.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail};
use futures_util::StreamExt as _;
use futures_util::future::try_join_all;
use heureka_client::{Client, Lease, LeaseState, Settings};
use heureka_history::{Recorder, Tap};
use heureka_model::{Instance, InstanceKey, LeaseTerms, Port};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tonic::transport::Channel;

use crate::audience::channel;
use crate::draft::Draft;
use crate::ledger::{Fate, Ledger};
use crate::rest::{Answer, Rest};

/// Longest time that a REST client waits for an answer.
const REST_LIMIT: Duration = Duration::from_secs(5);

/// Lease terms of a fleet.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Between two renewals.
    pub interval: Duration,
    /// Of a lease.
    pub lease: Duration,
}

/// What went wrong for clients, as they see it.
#[derive(Debug, Default)]
pub struct Troubles {
    /// Renewals that were answered.
    pub renewals: AtomicU64,
    /// Calls that were made again, at another server.
    pub retries: AtomicU64,
    /// Most calls that one renewal took beyond the first.
    pub most_retries: AtomicU64,
    /// Renewals that no server answered, or that the client told its application of.
    pub failed: AtomicU64,
    /// Renewals that found nothing.
    pub misses: AtomicU64,
}

/// Instances of one client of this workspace. They renew until they are cancelled or the value goes.
#[derive(Debug)]
pub struct Natives {
    client: Client<Tap<Channel>>,
    terms: Terms,
    ledger: Ledger,
    recorder: Recorder,
    leases: Vec<Lease>,
    listeners: Vec<JoinHandle<()>>,
    /// What its instances went through.
    pub troubles: Arc<Troubles>,
}

/// One instance of a REST client, which renews until the value goes.
#[derive(Debug)]
pub struct Legacy {
    key: InstanceKey,
    servers: Vec<Rest>,
    ledger: Ledger,
    task: JoinHandle<()>,
    /// What it went through.
    pub troubles: Arc<Troubles>,
}

impl Troubles {
    /// Renewals, retries, most retries of one, failures and misses of all of these together.
    pub fn sum<'a>(all: impl IntoIterator<Item = &'a Arc<Self>>) -> Self {
        let sum = Self::default();
        for one in all {
            let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            sum.renewals.fetch_add(read(&one.renewals), Ordering::Relaxed);
            sum.retries.fetch_add(read(&one.retries), Ordering::Relaxed);
            sum.most_retries.fetch_max(read(&one.most_retries), Ordering::Relaxed);
            sum.failed.fetch_add(read(&one.failed), Ordering::Relaxed);
            sum.misses.fetch_add(read(&one.misses), Ordering::Relaxed);
        }
        sum
    }
}

impl std::fmt::Display for Troubles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        write!(
            f,
            "{} renewals, {} failed, {} found nothing, {} calls made again (at most {} for one)",
            read(&self.renewals),
            read(&self.failed),
            read(&self.misses),
            read(&self.retries),
            read(&self.most_retries)
        )
    }
}

impl Natives {
    /// A client of these servers.
    ///
    /// # Errors
    /// An address that is none.
    pub fn new(
        addresses: &[String],
        terms: Terms,
        ledger: &Ledger,
        recorder: &Recorder,
    ) -> anyhow::Result<Self> {
        let taps: Result<Vec<_>, tonic::transport::Error> =
            addresses.iter().map(|address| Ok(recorder.tap("writer", channel(address)?))).collect();
        Ok(Self {
            client: Client::over(Settings::default(), taps?)?,
            terms,
            ledger: ledger.clone(),
            recorder: recorder.clone(),
            leases: Vec::new(),
            listeners: Vec::new(),
            troubles: Arc::default(),
        })
    }

    /// Registers instances and renews them from then on.
    ///
    /// # Errors
    /// What no waiting mends.
    pub async fn register(&mut self, app: &str, ids: impl IntoIterator<Item = String>) -> anyhow::Result<()> {
        let leases = ids.into_iter().map(|id| self.client.register(self.instance(app, &id)));
        for lease in try_join_all(leases).await? {
            self.ledger.note(lease.key(), Fate::Lives);
            let (states, troubles) = (lease.states(), Arc::clone(&self.troubles));
            self.listeners.push(tokio::spawn(async move {
                states.for_each(async |state| troubles.hear(&state)).await;
            }));
            self.leases.push(lease);
        }
        Ok(())
    }

    fn instance(&self, app: &str, id: &str) -> Instance {
        let key = InstanceKey { namespace: String::new(), app: app.into(), id: id.into() };
        let port = Some(Port { number: 9100, enabled: true });
        let lease = LeaseTerms::clamped(self.terms.interval, self.terms.lease);
        Instance { lease, port, host_name: format!("{id}.lan"), ..Instance::new(key) }
    }

    /// Cancels its oldest instance.
    ///
    /// # Errors
    /// It has none, no server answers, or the one that does did not hold it.
    pub async fn cancel(&mut self) -> anyhow::Result<InstanceKey> {
        anyhow::ensure!(!self.leases.is_empty(), "no instance is left to cancel");
        let lease = self.leases.remove(0);
        let key = lease.key().clone();
        self.ledger.note(&key, Fate::Leaves);
        let existed = lease.cancel().await.with_context(|| format!("cancel {key}"))?;
        if !existed {
            self.ledger.breach(format!("the server that was told to cancel {key} did not hold it"));
        }
        self.ledger.note(&key, Fate::Left);
        Ok(key)
    }

    /// Lets its oldest instance die: nobody is told, and it renews no more.
    ///
    /// # Errors
    /// It has none.
    pub fn die(&mut self) -> anyhow::Result<InstanceKey> {
        anyhow::ensure!(!self.leases.is_empty(), "no instance is left to die");
        let key = self.leases[0].key().clone();
        self.ledger.note(&key, Fate::Leaves);
        self.recorder.forgot(key.clone());
        self.leases.remove(0);
        Ok(key)
    }
}

impl Drop for Natives {
    fn drop(&mut self) {
        self.leases.iter().for_each(|lease| self.ledger.note(lease.key(), Fate::Leaves));
        self.listeners.iter().for_each(JoinHandle::abort);
    }
}

impl Troubles {
    fn hear(&self, state: &LeaseState) {
        let count = match (&state.fault, state.is_registered) {
            (Some(_), true) => &self.failed,
            (Some(_), false) => &self.misses,
            (None, true) => &self.renewals,
            // Cancelled, as it was asked to be.
            (None, false) => return,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    fn renewed(&self, retries: u64) {
        self.renewals.fetch_add(1, Ordering::Relaxed);
        self.retries.fetch_add(retries, Ordering::Relaxed);
        self.most_retries.fetch_max(retries, Ordering::Relaxed);
    }
}

impl Legacy {
    /// Registers an instance at the first of these servers that takes it, and renews it from then on.
    ///
    /// # Errors
    /// None takes it.
    pub async fn register(
        app: &str,
        id: &str,
        servers: &[std::net::SocketAddr],
        terms: Terms,
        ledger: &Ledger,
    ) -> anyhow::Result<Self> {
        let lease = serde_json::json!({
            "renewalIntervalInSecs": terms.interval.as_secs(), "durationInSecs": terms.lease.as_secs(),
        });
        let draft = Draft::new(app, id, "UP", crate::clock::wall_millis()).with("leaseInfo", lease);
        let key = InstanceKey { namespace: String::new(), app: app.into(), id: id.into() };
        let rests = || servers.iter().map(|server| Rest::new(*server).limit(REST_LIMIT)).collect();
        let mut caller = Caller { draft, servers: rests(), at: 0, troubles: Arc::default() };
        caller.register().await?;
        ledger.note(&key, Fate::Lives);
        let troubles = Arc::clone(&caller.troubles);
        let task = tokio::spawn(caller.renew(terms.interval));
        Ok(Self { key, servers: rests(), ledger: ledger.clone(), task, troubles })
    }

    /// Its key.
    #[must_use]
    pub fn key(&self) -> &InstanceKey {
        &self.key
    }

    /// Cancels it at one of its servers, and at the next when that one does not answer.
    ///
    /// # Errors
    /// None answers 200.
    pub async fn cancel(mut self, at: usize) -> anyhow::Result<InstanceKey> {
        self.task.abort();
        // Nothing of it may be under way when the cancel goes out.
        let _ = (&mut self.task).await;
        self.ledger.note(&self.key, Fate::Leaves);
        let path = format!("/{}/{}", self.key.app, self.key.id);
        let mut answer = self.servers[at].delete(&path).await;
        if answer.as_ref().is_ok_and(|answer| answer.status >= 500) || answer.is_err() {
            answer = self.servers[(at + 1) % self.servers.len()].delete(&path).await;
        }
        crate::checks::code(format_args!("cancel {}", self.key), &answer?, 200)?;
        self.ledger.note(&self.key, Fate::Left);
        Ok(self.key.clone())
    }
}

impl Drop for Legacy {
    fn drop(&mut self) {
        self.task.abort();
        if self.ledger.fate(&self.key) == Some(Fate::Lives) {
            self.ledger.note(&self.key, Fate::Leaves);
        }
    }
}

/// The task behind a [`Legacy`].
struct Caller {
    draft: Draft,
    servers: Vec<Rest>,
    at: usize,
    troubles: Arc<Troubles>,
}

impl Caller {
    async fn renew(mut self, every: Duration) {
        let mut pace = interval_at(Instant::now() + every, every);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            pace.tick().await;
            match self.beat().await {
                Ok((200, retries)) => self.troubles.renewed(retries),
                Ok((404, retries)) => {
                    self.troubles.renewed(retries);
                    self.troubles.misses.fetch_add(1, Ordering::Relaxed);
                    if self.register().await.is_err() {
                        self.troubles.failed.fetch_add(1, Ordering::Relaxed);
                    }
                }
                _ => {
                    self.troubles.failed.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// One renewal: its code and the calls beyond the first.
    async fn beat(&mut self) -> anyhow::Result<(u16, u64)> {
        for retries in 0..self.servers.len() as u64 {
            let answer = self.servers[self.at].beat(&self.draft.app, &self.draft.id, "?status=UP").await;
            if let Some(code) = heard(answer) {
                return Ok((code, retries));
            }
            self.at = (self.at + 1) % self.servers.len();
        }
        bail!("no server answers")
    }

    async fn register(&mut self) -> anyhow::Result<()> {
        for _ in 0..self.servers.len() {
            let answer = self.servers[self.at].post(&self.draft.app, self.draft.json()).await;
            match heard(answer) {
                Some(204) => return Ok(()),
                Some(code) => bail!("register {}/{}: {code}", self.draft.app, self.draft.id),
                None => self.at = (self.at + 1) % self.servers.len(),
            }
        }
        bail!("register {}/{}: no server answers", self.draft.app, self.draft.id)
    }
}

/// The code of an answer; nothing when it is none or the server is at fault: then the next one is asked.
fn heard(answer: anyhow::Result<Answer>) -> Option<u16> {
    answer.ok().map(|answer| answer.status).filter(|code| *code < 500)
}
