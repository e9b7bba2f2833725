//! New files while the server runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval};

use crate::files::{Files, Found};

/// Time between two looks at the files.
const POLL: Duration = Duration::from_secs(1);

/// Puts contents into force, or says what is wrong with them.
pub(super) type Take = Box<dyn Fn(&[Vec<u8>]) -> Result<(), String> + Send + Sync>;

/// Files of one kind and how they get into force.
pub(super) struct Watched {
    files: Files,
    take: Take,
}

/// Looks at all of them.
pub(super) struct Reload {
    watched: Vec<Watched>,
    figures: Arc<Figures>,
    bell: Arc<Notify>,
}

/// What became of new files.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    taken: AtomicU64,
    refused: AtomicU64,
    problems: Mutex<Vec<String>>,
}

impl Figures {
    /// New files that got into force.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// New files that cannot be used.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// What is wrong with files as they stand now, a sentence for each kind.
    pub(crate) fn problems(&self) -> Vec<String> {
        self.problems.lock().clone()
    }
}

impl Watched {
    pub(super) fn new(files: Files, take: Take) -> Self {
        Self { files, take }
    }

    async fn look(&mut self, whole: bool, figures: &Figures) {
        match self.files.look(whole, &self.take).await {
            Found::Same => {}
            Found::New(()) => {
                figures.taken.fetch_add(1, Ordering::Relaxed);
                tracing::info!(files = %self.files, "new certificates, connections begin with them from now on");
            }
            Found::Wrong(problem) => {
                figures.refused.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(%problem, "cannot use new certificates, the last ones stay in force");
            }
        }
    }

    fn problem(&self) -> Option<String> {
        let problem = self.files.problem();
        (!problem.is_empty()).then(|| problem.to_owned())
    }
}

impl Reload {
    pub(super) fn new(watched: Vec<Watched>, figures: Arc<Figures>) -> Self {
        Self { watched, figures, bell: Arc::default() }
    }

    /// Rung by whoever knows that the files are whole.
    pub(super) fn bell(&self) -> Arc<Notify> {
        self.bell.clone()
    }

    /// Looks for as long as it is polled; returns at once when there is nothing to look at.
    pub(super) async fn run(mut self) {
        if self.watched.is_empty() {
            return;
        }
        let bell = self.bell.clone();
        let mut polls = interval(POLL);
        polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let whole = tokio::select! {
                _ = polls.tick() => false,
                () = bell.notified() => true,
            };
            self.look(whole).await;
        }
    }

    pub(super) async fn look(&mut self, whole: bool) {
        for watched in &mut self.watched {
            watched.look(whole, &self.figures).await;
        }
        *self.figures.problems.lock() = self.watched.iter().filter_map(Watched::problem).collect();
    }
}
