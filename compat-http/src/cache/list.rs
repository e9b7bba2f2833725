//! The full list: every application with all its instances.

use std::sync::Arc;

use heureka_model::{Now, StatusCounts};
use heureka_registry::Registry;

use super::Kind;
use super::groups::{self, Group, List, Mark, Source, TooLarge};
use crate::wire;

/// Full lists carry this number, deltas larger ones.
const VERSION: u64 = 1;

struct Applications<'a> {
    registry: &'a Registry,
    kind: Kind,
    now: Now,
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
    let groups = groups::refresh(old, &Applications { registry, kind, now }, kind.format, max, now)?;
    let mut counts = StatusCounts::default();
    groups.iter().for_each(|group| counts.merge(group.counts()));
    Ok(List { groups, version: VERSION, revision, counts })
}

impl Source for Applications<'_> {
    fn applications(&self) -> Vec<(String, Mark)> {
        let mark = |revision, instances| Mark { revision, instances: instances as usize };
        let summaries = self.registry.applications("").into_iter();
        summaries.map(|app| (app.name, mark(app.revision, app.digest.counts.total()))).collect()
    }

    fn encode(&self, name: &str, out: &mut Vec<u8>) -> Option<(Mark, StatusCounts)> {
        let Kind { format, shape } = self.kind;
        let app = self.registry.application("", name, self.now)?;
        wire::application(out, name, app.instances.iter().map(|one| (None, one)), format, shape);
        let mark = Mark { revision: app.revision, instances: app.instances.len() };
        Some((mark, app.instances.iter().collect()))
    }
}
