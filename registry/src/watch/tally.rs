//! The fingerprint of a subscribed set at one revision.

use std::collections::HashMap;
use std::sync::Arc;

use heureka_model::{Registration, Selectors, SetDigest, Status, Wall};

use crate::Registry;
use crate::record::Record;

/// What the registry holds of a selection at `revision`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) revision: u64,
    pub(super) digest: SetDigest,
}

impl Tally {
    /// Of this moment. Where more than the application decides, this looks at every instance the selection may
    /// touch.
    pub(super) fn take(registry: &Registry, selectors: &Selectors) -> Self {
        if selectors.is_by_app() {
            let (revision, digest) = registry.sums_of(selectors);
            return Self { revision, digest };
        }
        let mut held: HashMap<u32, (u64, Status)> = HashMap::new();
        let mut visit =
            |revision: u64, slot: u32, record: &Record| match matching(selectors, record, revision) {
                Some(found) => drop(held.insert(slot, found)),
                None => drop(held.remove(&slot)),
            };
        let start = registry.head();
        for slot in registry.apps_of(selectors).iter().flat_map(|app| app.members()) {
            if let Some((revision, record)) = registry.slots.record(slot) {
                visit(revision, slot, &record);
            }
        }
        let (revision, ()) =
            registry.read_to_head(start, |revision, slot, record| visit(revision, slot, &record), || ());
        let mut digest = SetDigest::default();
        held.values().for_each(|(hash, status)| digest.add(*hash, *status));
        Self { revision, digest }
    }

    /// Takes the next change in: what the selection held of its key before, and holds since.
    pub(super) fn advance(
        &mut self,
        revision: u64,
        old: Option<&Arc<Registration>>,
        new: Option<&Arc<Registration>>,
    ) {
        if let Some(old) = old {
            self.digest.remove(old.hash(), old.status());
        }
        if let Some(new) = new {
            self.digest.add(new.hash(), new.status());
        }
        self.revision = revision;
    }
}

fn matching(selectors: &Selectors, record: &Record, revision: u64) -> Option<(u64, Status)> {
    let app = record.app();
    if !record.is_live() || !selectors.covers_app(&app.namespace.name, &app.name) {
        return None;
    }
    let registration = record.registration(revision, Wall(0));
    selectors.matches(&registration).then(|| (registration.hash(), registration.status()))
}
