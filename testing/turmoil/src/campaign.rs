//! Many seeds.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::plan::{END, Plan};
use crate::world::{Outcome, run};

/// Which seeds are run, and how.
#[derive(Clone, Copy, Debug)]
pub struct Campaign {
    /// The first seed.
    pub first: u64,
    /// How many.
    pub seeds: u64,
    /// Threads; each run has one of them.
    pub threads: usize,
    /// End at the first failure.
    pub stop: bool,
}

/// A seed that failed.
#[derive(Debug)]
pub struct Failure {
    /// Its plan.
    pub plan: Plan,
    /// What came of it.
    pub outcome: Outcome,
}

/// What many seeds came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Seeds that were run.
    pub seeds: u64,
    /// Seeds that failed.
    pub failed: u64,
    /// Virtual milliseconds.
    pub virtual_ms: u64,
    /// Faults.
    pub faults: u64,
    /// Steps of watches that were judged.
    pub steps: u64,
    /// Removals of instances whose owners kept them, where faults excuse it.
    pub excused: u64,
}

impl Campaign {
    /// Runs all seeds. `tell` hears of each failure as it comes.
    pub fn run(&self, tell: &(dyn Fn(&Failure) + Sync)) -> Tally {
        let next = AtomicU64::new(0);
        let tallies: Vec<Tally> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.threads).map(|_| scope.spawn(|| self.work(&next, tell))).collect();
            workers.into_iter().filter_map(|worker| worker.join().ok()).collect()
        });
        tallies.into_iter().fold(Tally::default(), Tally::and)
    }

    fn work(&self, next: &AtomicU64, tell: &(dyn Fn(&Failure) + Sync)) -> Tally {
        let mut tally = Tally::default();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= self.seeds {
                return tally;
            }
            let plan = Plan::of(self.first + number);
            let outcome = run(&plan);
            tally.add(&plan, &outcome);
            if !outcome.breaches.is_empty() {
                tally.failed += 1;
                tell(&Failure { plan, outcome });
                if self.stop {
                    next.store(self.seeds, Ordering::Relaxed);
                }
            }
        }
    }
}

impl Tally {
    fn add(&mut self, plan: &Plan, outcome: &Outcome) {
        self.seeds += 1;
        self.virtual_ms += END;
        self.faults += plan.faults.len() as u64;
        self.steps += outcome.recording.steps().len() as u64;
        self.excused += outcome.excused;
    }

    fn and(self, other: Self) -> Self {
        Self {
            seeds: self.seeds + other.seeds,
            failed: self.failed + other.failed,
            virtual_ms: self.virtual_ms + other.virtual_ms,
            faults: self.faults + other.faults,
            steps: self.steps + other.steps,
            excused: self.excused + other.excused,
        }
    }
}
