//! Figures of three servers that are each other's peers, on one machine with whoever asks them.

mod beats;
mod change;
mod heal;
mod large;
mod loss;
mod mirror;

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use heureka_cluster::cluster::{Cluster, Layout};
use heureka_cluster::server::Program;
use tokio::runtime::Builder;
use tokio::task::LocalSet;

use crate::report;
use crate::server::{NODE, ROLE};

/// How large and how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// Connections of watchers, and watchers on each.
    connections: usize,
    streams: usize,
    /// Changes to them.
    changes: usize,
    /// Instances of a cluster that is cut and heals.
    divided: usize,
    /// Times that it does, and for how long each.
    partitions: (usize, Duration),
    /// Instances of a large cluster.
    large: usize,
    /// Time for which its replication is counted.
    counted: Duration,
    /// Watchers of three servers, one of which is killed.
    watchers: usize,
    /// Instances whose beats are cut, their lease, and for how long.
    beating: usize,
    lease: Duration,
    cut: Duration,
}

/// Longest time that a row waits for what has to happen.
const PATIENCE: Duration = Duration::from_secs(600);

impl Scale {
    /// What was asked for; more than half an hour.
    pub(crate) const FULL: Self = Self {
        connections: 20,
        streams: 100,
        changes: 200,
        divided: 10_000,
        partitions: (5, Duration::from_secs(60)),
        large: 100_000,
        counted: Duration::from_secs(60),
        watchers: 300,
        beating: 1000,
        lease: Duration::from_secs(90),
        cut: Duration::from_secs(600),
    };

    /// The same with shorter times where they cost most; some minutes.
    pub(crate) const QUICK: Self = Self {
        partitions: (3, Duration::from_secs(15)),
        counted: Duration::from_secs(30),
        lease: Duration::from_secs(6),
        cut: Duration::from_secs(60),
        ..Self::FULL
    };

    /// Enough to see that everything runs.
    pub(crate) const TINY: Self = Self {
        connections: 2,
        streams: 5,
        changes: 3,
        divided: 200,
        partitions: (1, Duration::from_secs(1)),
        large: 500,
        counted: Duration::from_secs(1),
        watchers: 9,
        ..Self::FULL
    };
}

type Body = fn(Scale) -> Pin<Box<dyn Future<Output = anyhow::Result<()>>>>;

/// Every part, by the words that choose it.
const PARTS: [(&str, Body); 5] = [
    ("change", |scale| Box::pin(change::run(scale))),
    ("heal", |scale| Box::pin(heal::run(scale))),
    ("large", |scale| Box::pin(large::run(scale))),
    ("kill", |scale| Box::pin(loss::run(scale))),
    ("beats", |scale| Box::pin(beats::run(scale))),
];

/// Those that can be run for a moment: how long beats are missed for is counted in minutes.
pub(crate) const SHORT: [&str; 4] = ["change", "heal", "large", "kill"];

/// Whether a part has this name.
pub(crate) fn is_part(word: &str) -> bool {
    PARTS.iter().any(|(name, _)| *name == word)
}

/// Prints the parts with these names, all of them when there is none.
///
/// # Errors
/// A server that does not start or dies, a call that fails, something that never happens.
pub(crate) fn run(parts: &[impl AsRef<str>], scale: Scale) -> io::Result<()> {
    // Wires are carried on other threads than watchers, as they would be elsewhere.
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    report::part("three servers; driver and servers share the machine");
    for (name, body) in
        PARTS.iter().filter(|(name, _)| parts.is_empty() || parts.iter().any(|part| part.as_ref() == *name))
    {
        let done = LocalSet::new().block_on(&runtime, body(scale));
        done.map_err(|error| io::Error::other(format!("{name}: {error:#}")))?;
    }
    Ok(())
}

/// Three servers of this very program.
async fn three() -> anyhow::Result<Cluster> {
    let program = Program::new(std::env::current_exe()?).leading(ROLE).leading(NODE);
    Layout::new(&program, 3).start().await
}
