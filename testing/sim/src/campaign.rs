//! Many seeds.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::monitors::{Findings, Violation};
use crate::plan::{Plan, Temper};
use crate::trace::Trace;
use crate::world::{Outcome, run};

/// One seed of so many is run twice, to see that it gives the same.
const TWICE: u64 = 50;

/// Failures kept; one is enough to look at.
const FAILURES: usize = 20;

/// Which seeds are run, and how.
#[derive(Clone, Copy, Debug)]
pub struct Campaign {
    /// The first seed.
    pub first: u64,
    /// How many.
    pub seeds: u64,
    /// All of this temper instead of what they say.
    pub temper: Option<Temper>,
    /// Threads.
    pub threads: usize,
    /// End at the first failure.
    pub stop: bool,
}

/// A seed that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its plan.
    pub plan: Plan,
    /// What broke first.
    pub violation: Violation,
}

/// What many seeds came to.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Seeds that were run.
    pub seeds: u64,
    /// Events.
    pub events: u64,
    /// Virtual milliseconds.
    pub virtual_ms: u64,
    /// Seeds that failed.
    pub failed: u64,
    /// The first of them.
    pub failures: Vec<Failure>,
    /// Times from heal to agreement.
    pub converged: Vec<u64>,
    /// Seeds that had not agreed when they ended.
    pub apart: u64,
    /// Times from the last sign of life to removal, undisturbed.
    pub removals: Vec<u64>,
    /// Removals of instances that were renewed somewhere.
    pub mistaken: u64,
    /// Writes that were answered with a second server.
    pub confirmed: u64,
    /// Seeds that were run twice.
    pub twice: u64,
}

/// Runs a plan and says what broke; with `twice`, a second time, which must be the same.
#[must_use]
pub fn judge(plan: &Plan, twice: bool) -> (Outcome, Option<Violation>) {
    let outcome = run(plan, Trace::off());
    let mut violation = outcome.findings.violations.first().cloned();
    if twice && run(plan, Trace::off()).fingerprint != outcome.fingerprint {
        let text = "the same seed gave two runs".to_owned();
        violation = Some(Violation { invariant: "determinism", at: 0, node: 0, key: 0, text });
    }
    (outcome, violation)
}

/// Seeds that failed once, with what broke then.
pub fn regressions() -> impl Iterator<Item = (u64, &'static str)> {
    let lines = include_str!("../regressions.txt").lines();
    let told = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    told.filter_map(|line| {
        let (seed, what) = line.split_once(' ')?;
        Some((seed.parse().ok()?, what))
    })
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
            let seed = self.first + number;
            let plan = self.temper.map_or_else(|| Plan::of(seed), |temper| Plan::with(seed, temper));
            let twice = number.is_multiple_of(TWICE);
            let (outcome, violation) = judge(&plan, twice);
            tally.add(&plan, outcome, twice);
            if let Some(violation) = violation {
                let failure = Failure { plan, violation };
                tell(&failure);
                tally.fail(failure);
                if self.stop {
                    next.store(self.seeds, Ordering::Relaxed);
                }
            }
        }
    }
}

impl Tally {
    fn add(&mut self, plan: &Plan, outcome: Outcome, twice: bool) {
        let Findings { converged, removals, mistaken, confirmed, .. } = outcome.findings;
        self.seeds += 1;
        self.twice += u64::from(twice);
        self.events += outcome.events;
        self.virtual_ms += plan.shape.end;
        self.mistaken += mistaken;
        self.confirmed += confirmed;
        self.removals.extend(removals);
        self.apart += u64::from(converged.is_none());
        self.converged.extend(converged);
    }

    fn fail(&mut self, failure: Failure) {
        self.failed += 1;
        if self.failures.len() < FAILURES {
            self.failures.push(failure);
        }
    }

    fn and(mut self, other: Self) -> Self {
        self.seeds += other.seeds;
        self.events += other.events;
        self.virtual_ms += other.virtual_ms;
        self.failed += other.failed;
        self.failures.extend(other.failures);
        self.converged.extend(other.converged);
        self.apart += other.apart;
        self.removals.extend(other.removals);
        self.mistaken += other.mistaken;
        self.confirmed += other.confirmed;
        self.twice += other.twice;
        self
    }
}
