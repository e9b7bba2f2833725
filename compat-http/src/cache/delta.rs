//! The delta: what changed within the last minutes, from one snapshot of the core.

use std::collections::BTreeMap;

use heureka_model::{Action, Now, StatusCounts};
use heureka_registry::{Delta, Entry, Registry};

use super::Kind;
use super::piece::{Document, Piece};
use crate::wire;

/// The delta as a document, the revision that it tells, and the counts of that moment.
pub(crate) fn document(registry: &Registry, kind: Kind, now: Now) -> (Document, u64, StatusCounts) {
    let delta = registry.delta(now);
    (Document::new(vec![Piece::new(encode(&delta, kind))]), delta.revision, delta.counts)
}

fn encode(delta: &Delta, kind: Kind) -> Vec<u8> {
    let Kind { format, shape } = kind;
    let mut out = wire::open_list(&version(delta), &delta.counts.hash_code(), format);
    for (position, (app, mut changes)) in by_application(delta).into_iter().enumerate() {
        if position > 0 {
            out.extend_from_slice(wire::separator(format));
        }
        removals_last(&mut changes);
        let read: Vec<_> = changes.iter().map(|change| (change.action(), change.registration())).collect();
        let entries = read.iter().map(|(action, registration)| (Some(*action), registration));
        wire::application(&mut out, app, entries, format, shape);
    }
    out.extend_from_slice(wire::close_list(format));
    out
}

/// Some clients skip a delta whose number and hash they saw before, so the number grows with every change and
/// whenever something grows too old for the window. It stays above 1, which full lists carry.
fn version(delta: &Delta) -> String {
    delta.revision.saturating_add(delta.since).saturating_add(2).to_string()
}

fn by_application(delta: &Delta) -> BTreeMap<&str, Vec<&Entry>> {
    let mut apps: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
    for change in &delta.changes {
        apps.entry(change.app()).or_default().push(change);
    }
    apps
}

/// A Java client drops an application at its last removal and then adds what follows to a new one, removed
/// entries included: with removals last its count stays right.
fn removals_last(changes: &mut [&Entry]) {
    changes.sort_by_key(|change| change.action() == Action::Deleted);
}
