//! A cluster with clients and watchers, and what becomes of the promises that it makes them.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use futures_util::future::try_join_all;
use heureka_cluster::audience::Watching;
use heureka_cluster::cluster::{Cluster, Layout};
use heureka_cluster::figures::seconds;
use heureka_cluster::fleet::{Legacy, Natives, Terms, Troubles};
use heureka_cluster::ledger::Ledger;
use heureka_history::{Recorder, judge};
use tokio::time::Instant;

use crate::report::{complain, say};

/// Longest time until servers that can reach each other show the same.
pub(crate) const AGREE: Duration = Duration::from_secs(10);
/// Longest time until a watcher was told what all servers show.
const TOLD: Duration = Duration::from_secs(20);
/// Breaches of what a watcher may rely on that are printed.
const PRINTED: usize = 10;

/// How many clients there are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Clients of this workspace.
    pub(crate) clients: usize,
    /// Instances of each.
    pub(crate) instances: usize,
    /// Instances of REST clients.
    pub(crate) legacies: usize,
    /// Servers that each client knows.
    pub(crate) servers: usize,
    pub(crate) terms: Terms,
}

/// All of it.
pub(crate) struct Trial {
    pub(crate) cluster: Cluster,
    pub(crate) ledger: Ledger,
    pub(crate) recorder: Recorder,
    pub(crate) watching: Vec<Watching>,
    pub(crate) natives: Vec<Natives>,
    pub(crate) legacies: Vec<Legacy>,
    size: Size,
    begun: Instant,
}

impl Trial {
    /// Starts servers, watchers at each of them and at all, and clients that begin at different servers.
    pub(crate) async fn begin(layout: Layout, size: Size) -> anyhow::Result<Self> {
        let begun = Instant::now();
        let cluster = layout.start().await?;
        let (ledger, recorder) = (Ledger::default(), Recorder::new());
        let mut watching = Vec::new();
        for (node, door) in cluster.nodes().iter().zip(cluster.doors()) {
            let name = format!("watcher of {}", node.name);
            watching.push(Watching::begin(&name, &[door], &ledger, &recorder)?);
        }
        for number in 0..2 {
            let name = format!("watcher of all, {number}");
            watching.push(Watching::begin(&name, &cluster.doors(), &ledger, &recorder)?);
        }
        try_join_all(watching.iter_mut().map(Watching::synced)).await?;
        let mut trial = Self {
            cluster,
            ledger,
            recorder,
            watching,
            natives: Vec::new(),
            legacies: Vec::new(),
            size,
            begun,
        };
        trial.register().await?;
        Ok(trial)
    }

    async fn register(&mut self) -> anyhow::Result<()> {
        for client in 0..self.size.clients {
            let mut doors = self.cluster.doors();
            doors.rotate_left(client % self.cluster.len());
            doors.truncate(self.size.servers);
            let mut natives = Natives::new(&doors, self.size.terms, &self.ledger, &self.recorder)?;
            let ids = (0..self.size.instances).map(|number| format!("c{client}-{number}"));
            natives.register("NATIVE", ids).await?;
            self.natives.push(natives);
        }
        for number in 0..self.size.legacies {
            self.legacy(&format!("l{number}"), number % self.cluster.len()).await?;
        }
        Ok(())
    }

    /// Registers a REST client's instance at this server; the others are the next that it asks.
    pub(crate) async fn legacy(&mut self, id: &str, at: usize) -> anyhow::Result<()> {
        let mut servers: Vec<_> = self.cluster.nodes().iter().map(|node| node.door.address).collect();
        servers.rotate_left(at);
        servers.truncate(self.size.servers);
        let legacy = Legacy::register("LEGACY", id, &servers, self.size.terms, &self.ledger).await?;
        self.legacies.push(legacy);
        Ok(())
    }

    /// Cancels the oldest instance of a REST client at the server where it began, or at another: its `at`th.
    pub(crate) async fn cancel_legacy(&mut self, at: usize) -> anyhow::Result<()> {
        anyhow::ensure!(!self.legacies.is_empty(), "no REST client is left to cancel");
        self.legacies.remove(0).cancel(at).await.map(drop)
    }

    /// Waits until these servers show the same, and holds that against what was promised.
    pub(crate) async fn agree(&self, when: &str, which: &[usize]) -> anyhow::Result<Duration> {
        let (took, shown) = self.cluster.agree(which, AGREE).await.with_context(|| when.to_owned())?;
        self.ledger.compare(when, |key| shown.contains_key(key));
        self.say(format_args!("{when}: {} instances, equal after {}", shown.len(), seconds(took)));
        Ok(took)
    }

    /// The same of servers that others cannot reach: what was promised elsewhere is none of theirs.
    pub(crate) async fn agree_alone(&self, when: &str, which: &[usize]) -> anyhow::Result<()> {
        let (took, shown) = self.cluster.agree(which, AGREE).await.with_context(|| when.to_owned())?;
        self.say(format_args!("{when}: {} instances, equal after {}", shown.len(), seconds(took)));
        Ok(())
    }

    /// Prints a line with the time since the beginning.
    pub(crate) fn say(&self, line: impl std::fmt::Display) {
        say(format_args!("{:>7}  {line}", seconds(self.begun.elapsed())));
    }

    /// What went wrong for the clients of this workspace, and for those over REST.
    pub(crate) fn troubles(&self) -> [Troubles; 2] {
        let native = Troubles::sum(self.natives.iter().map(|natives| &natives.troubles));
        let legacy = Troubles::sum(self.legacies.iter().map(|legacy| &legacy.troubles));
        [native, legacy]
    }

    /// The end: all servers show the same, all watchers hold it, and what they were told is judged. The number of
    /// broken promises.
    pub(crate) async fn end(self, recording: Option<&Path>) -> anyhow::Result<usize> {
        let all: Vec<usize> = (0..self.cluster.len()).collect();
        let (took, shown) = self.cluster.agree(&all, AGREE).await.context("in the end")?;
        self.ledger.compare("in the end every server", |key| shown.contains_key(key));
        self.say(format_args!("in the end: {} instances, equal after {}", shown.len(), seconds(took)));
        for watching in &self.watching {
            if let Err(error) = watching.holds(&shown, TOLD).await {
                self.ledger.breach(format!("{error:#}"));
            }
        }
        let removals: u64 = self.watching.iter().map(|watching| watching.seen().removals).sum();
        self.say(format_args!("{} watchers saw {removals} removals", self.watching.len()));
        for (who, troubles) in ["gRPC clients", "REST clients"].into_iter().zip(self.troubles()) {
            self.say(format_args!("{who}: {troubles}"));
        }
        let judged = self.judge(recording)?;
        let breaches = self.ledger.breaches();
        breaches.iter().for_each(complain);
        if judged + breaches.len() > 0 {
            self.cluster.complaints().iter().for_each(complain);
        }
        Ok(judged + breaches.len())
    }

    /// Breaches of what watchers may rely on.
    fn judge(&self, file: Option<&Path>) -> anyhow::Result<usize> {
        let recording = self.recorder.recording();
        if let Some(file) = file {
            std::fs::write(file, recording.to_lines()).with_context(|| format!("{}", file.display()))?;
        }
        let verdict = judge(&recording);
        self.say(format_args!("judged: {:?}", verdict.counts));
        for broken in verdict.broken.iter().take(PRINTED) {
            complain(format_args!("{broken}"));
        }
        Ok(verdict.broken.len())
    }
}
