//! The steps of a recording, one after the other.

use std::collections::BTreeMap;

use crate::court::Court;
use crate::facts::Facts;
use crate::guarantee::Broken;
use crate::recording::{Counts, Recording, Step, What};
use crate::watcher::Watcher;

/// What became of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// What was judged.
    pub counts: Counts,
    /// What was found, in the order of the lines.
    pub broken: Vec<Broken>,
}

/// Every guarantee that the recording breaks. What follows from a breach is not told again: a set that lacks a
/// change differs from every digest until it is right again.
#[must_use]
pub fn check(recording: &Recording) -> Vec<Broken> {
    judge(recording).broken
}

/// The same, with how much there was to judge.
#[must_use]
pub fn judge(recording: &Recording) -> Verdict {
    let mut court = Court::new(Facts::gather(recording));
    let mut watchers: BTreeMap<&str, Watcher> = BTreeMap::new();
    for (index, step) in recording.steps().iter().enumerate() {
        court.line = index + 1;
        let watcher = watchers.entry(&step.watcher).or_insert_with(|| Watcher::new(&step.watcher));
        take(watcher, step, &mut court);
    }
    watchers.values_mut().for_each(|watcher| watcher.settle(&mut court));
    court.broken.sort_by_key(|broken| broken.line);
    Verdict { counts: court.counts, broken: court.broken }
}

fn take(watcher: &mut Watcher, step: &Step, court: &mut Court<'_>) {
    match &step.what {
        What::Open { spec, .. } => watcher.open(spec, court),
        What::Message(bytes) => watcher.message(bytes, court),
        What::Closed { code } => watcher.closed(code, court),
        What::Listed(page) => watcher.listed(page, court),
        What::Rested(page) => watcher.rested(page, court),
        What::Held { count, hash } => watcher.holds(*count, *hash, court),
        What::Shows { key, version, live } => watcher.shows(key, *version, *live, court),
        What::Wrote(_) | What::Forgot(_) => {}
    }
}
