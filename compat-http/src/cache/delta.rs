//! The delta: what changed within the last minutes, from one snapshot of the core.

use std::collections::BTreeMap;
use std::sync::Arc;

use heureka_model::{Action, Now, StatusCounts};
use heureka_registry::{Delta, Entry, Registry};

use super::Kind;
use super::groups::{self, Group, List, Mark, Source, TooLarge, Unit};
use crate::wire;

/// The changes of each application, oldest first.
struct Changes<'a> {
    apps: BTreeMap<&'a str, Vec<&'a Entry>>,
    units: Vec<Unit>,
    kind: Kind,
}

/// The delta, made of `old` where that still says the same, with the counts of that moment.
///
/// # Errors
/// `TooLarge` as soon as the delta exceeds `max` bytes.
pub(crate) fn refresh(
    old: &[Arc<Group>],
    registry: &Registry,
    kind: Kind,
    max: usize,
    now: Now,
) -> Result<List, TooLarge> {
    let delta = registry.delta(now);
    let groups = groups::refresh(old, &Changes::new(&delta, kind), kind.format, max, now)?;
    Ok(List { groups, version: version(&delta), revision: delta.revision, counts: delta.counts })
}

/// Some clients skip a delta whose number and hash they saw before, so the number grows with every change and
/// whenever something grows too old for the window. It stays above 1, which full lists carry.
fn version(delta: &Delta) -> u64 {
    delta.revision.saturating_add(delta.since).saturating_add(2)
}

impl<'a> Changes<'a> {
    fn new(delta: &'a Delta, kind: Kind) -> Self {
        let mut apps: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
        for change in &delta.changes {
            apps.entry(change.app()).or_default().push(change);
        }
        let unit = |(app, changes): (&&str, &Vec<&Entry>)| Unit {
            app: (*app).to_owned(),
            part: 0,
            mark: mark(changes),
        };
        Self { units: apps.iter().map(unit).collect(), apps, kind }
    }
}

impl Source for Changes<'_> {
    fn units(&self) -> &[Unit] {
        &self.units
    }

    /// Without counts: the delta carries those of all instances, whether they changed or not.
    fn encode(&self, unit: &Unit, out: &mut Vec<u8>) -> Option<(Mark, StatusCounts)> {
        let Kind { format, shape } = self.kind;
        let mut changes = self.apps.get(unit.app.as_str())?.clone();
        let mark = mark(&changes);
        removals_last(&mut changes);
        let entries = changes.iter().map(|change| (Some(change.action()), change.registration()));
        wire::application(out, &unit.app, entries, format, shape);
        Some((mark, StatusCounts::default()))
    }
}

/// A key stands in the delta once, at its last change, so without a newer revision an application can only lose
/// entries: its newest revision and their number tell which they are.
fn mark(changes: &[&Entry]) -> Mark {
    let revision = changes.last().map_or(0, |change| change.revision());
    Mark::Whole { revision, instances: changes.len() }
}

/// A Java client drops an application at its last removal and then adds what follows to a new one, removed
/// entries included: with removals last its count stays right.
fn removals_last(changes: &mut [&Entry]) {
    changes.sort_by_key(|change| change.action() == Action::Deleted);
}
