//! The full list: every application with all its instances.

use std::collections::HashMap;
use std::sync::Arc;

use heureka_model::{Now, StatusCounts};
use heureka_registry::{Entry, Registry};

use super::Kind;
use super::groups::{self, Group, List, Mark, Source, TooLarge, Unit};
use crate::wire;

/// Full lists carry this number, deltas larger ones.
const VERSION: u64 = 1;
/// Instances above which an application is listed in parts of so many.
const PART: usize = 128;

struct Applications<'a> {
    registry: &'a Registry,
    kind: Kind,
    now: Now,
    units: Vec<Unit>,
    /// Instances of the large ones: all parts of an application are of one moment.
    large: HashMap<String, Vec<Entry>>,
}

/// The full list, made of `old` where that still says the same. Its hash counts exactly what it holds.
///
/// # Errors
/// `TooLarge` as soon as the list exceeds `max` bytes.
pub(crate) fn refresh(
    old: &[Arc<Group>],
    registry: &Registry,
    kind: Kind,
    max: usize,
    now: Now,
) -> Result<List, TooLarge> {
    let revision = registry.head();
    let groups = groups::refresh(old, &Applications::new(registry, kind, now), kind.format, max, now)?;
    let mut counts = StatusCounts::default();
    groups.iter().for_each(|group| counts.merge(group.counts()));
    Ok(List { groups, version: VERSION, revision, counts })
}

impl<'a> Applications<'a> {
    fn new(registry: &'a Registry, kind: Kind, now: Now) -> Self {
        let mut list = Self { registry, kind, now, units: Vec::new(), large: HashMap::new() };
        for app in registry.applications("") {
            let instances = app.digest.counts.total() as usize;
            if instances > PART {
                list.split(app.name);
            } else {
                let mark = Mark::Whole { revision: app.revision, instances };
                list.units.push(Unit { app: app.name, part: 0, mark });
            }
        }
        list
    }

    fn split(&mut self, app: String) {
        let entries = self.registry.entries("", &app, self.now);
        let last = entries.len().div_ceil(PART).saturating_sub(1);
        self.units.extend(entries.chunks(PART).enumerate().map(|(part, entries)| {
            let revisions = entries.iter().map(Entry::revision).collect();
            Unit { app: app.clone(), part, mark: Mark::Part { revisions, ends: part == last } }
        }));
        self.large.insert(app, entries);
    }

    fn whole(&self, name: &str, out: &mut Vec<u8>) -> Option<(Mark, StatusCounts)> {
        let Kind { format, shape } = self.kind;
        let app = self.registry.application("", name, self.now)?;
        wire::application(out, name, app.instances.iter().map(|one| (None, one)), format, shape);
        let mark = Mark::Whole { revision: app.revision, instances: app.instances.len() };
        Some((mark, app.instances.iter().collect()))
    }

    fn part(&self, unit: &Unit, ends: bool, out: &mut Vec<u8>) -> Option<StatusCounts> {
        let Kind { format, shape } = self.kind;
        if unit.part == 0 {
            wire::open_application(out, &unit.app, format);
        }
        let mut counts = StatusCounts::default();
        for (position, entry) in self.large.get(&unit.app)?.chunks(PART).nth(unit.part)?.iter().enumerate() {
            if position > 0 {
                out.extend_from_slice(wire::separator(format));
            }
            let registration = entry.registration();
            counts.add(registration.status());
            wire::instance(out, &registration, None, format, shape);
        }
        if ends {
            wire::close_application(out, format);
        }
        Some(counts)
    }
}

impl Source for Applications<'_> {
    fn units(&self) -> &[Unit] {
        &self.units
    }

    fn encode(&self, unit: &Unit, out: &mut Vec<u8>) -> Option<(Mark, StatusCounts)> {
        match &unit.mark {
            Mark::Whole { .. } => self.whole(&unit.app, out),
            Mark::Part { ends, .. } => Some((unit.mark.clone(), self.part(unit, *ends, out)?)),
        }
    }
}
