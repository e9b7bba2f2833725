//! The warm-start store: what the server knew, for its next start.
//!
//! One task reads the compacted log with a cursor, as a peer would, and writes batches; no request ever waits for
//! the disk. A file that is damaged, of another cluster or of another format is set aside and the server starts
//! without it; one that is more than ten minutes old says only how far the clock had come. What was loaded is what
//! the server itself knew once: whatever a peer or an owner says since is newer.

mod figures;
mod file;
mod load;
mod row;
#[cfg(test)]
mod tests;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use heureka_model::Clock;
use heureka_registry::Registry;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

pub(crate) use figures::Figures;
use writer::Writer;

/// Name of the file in its folder.
const FILE: &str = "heureka.redb";

/// Time between two batches.
const PACE: Duration = Duration::from_secs(1);

/// Time for the last batch; a disk that hangs must not hold the exit.
const LAST: Duration = Duration::from_secs(10);

/// What the store works with.
#[derive(Clone)]
pub(crate) struct Deps {
    /// Folder; it is made when it is missing.
    pub(crate) folder: PathBuf,
    /// Name of the cluster; the rows of another one are not ours.
    pub(crate) cluster: String,
    /// Where rows come from and go to.
    pub(crate) registry: Arc<Registry>,
    /// Time.
    pub(crate) clock: Arc<dyn Clock>,
    /// Where figures go.
    pub(crate) figures: Arc<Figures>,
}

/// Why a server does not start with the folder that it was given.
#[derive(Debug, thiserror::Error)]
#[error("server.data_dir: {0}")]
pub struct StoreError(String);

/// A store that was looked at and is not written yet.
pub(crate) struct Opened {
    /// The registry holds what the server knew not long ago.
    pub(crate) warm: bool,
    writer: Writer,
}

/// A store that is written in the background.
pub(crate) struct Store {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// Opens the store and takes in what it holds.
///
/// # Errors
/// A folder that cannot be made, a link or something else in the place of the file, or another process that uses it.
/// Whatever is wrong with the content of the file is none.
pub(crate) async fn open(deps: Deps) -> Result<Opened, StoreError> {
    let loaded = tokio::task::spawn_blocking(move || load::load(deps)).await;
    loaded.map_err(|_| StoreError("looking at the file failed in a way that was not foreseen".into()))?
}

impl Opened {
    /// Writes from now on.
    pub(crate) fn run(self) -> Store {
        let stop = CancellationToken::new();
        let task = tokio::spawn(write(self.writer, stop.clone()));
        Store { stop, task }
    }
}

impl Store {
    /// Writes the last batch.
    pub(crate) async fn finish(self) {
        self.stop.cancel();
        if tokio::time::timeout(LAST, self.task).await.is_err() {
            tracing::warn!("the store was not written to its end");
        }
    }
}

async fn write(mut writer: Writer, stop: CancellationToken) {
    let mut pace = interval(PACE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let last = tokio::select! {
            _ = pace.tick() => false,
            () = stop.cancelled() => true,
        };
        let step = move || {
            writer.step(last);
            writer
        };
        match tokio::task::spawn_blocking(step).await {
            Ok(returned) if !last => writer = returned,
            _ => return,
        }
    }
}
