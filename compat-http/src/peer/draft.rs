//! A batch in the making.

use std::collections::HashSet;

use heureka_model::{InstanceKey, KeyRef, Registration, Stamp};
use heureka_registry::replication::Sighting;

use super::items::Body;
use crate::wire::batch::Action;

/// Size of a batch at which no more items are added.
const BYTES_MAX: usize = 1 << 20;
/// A batch in the making.
pub(super) struct Draft {
    pub(super) body: Body,
    pub(super) limit: usize,
    pub(super) flight: Flight,
    pub(super) registered: HashSet<InstanceKey>,
}

/// Position up to which everything is told.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reach {
    pub(super) revision: u64,
    /// This server's clock when the head was reached last: registers written later are news.
    pub(super) clock: u64,
}

/// A key that is to be told whatever the log says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Asked {
    pub(super) key: InstanceKey,
    pub(super) action: Action,
}

/// A batch that is under way.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) items: Vec<(Action, InstanceKey)>,
    pub(super) reach: Reach,
    pub(super) asked: Vec<Asked>,
    pub(super) beats: Vec<Sighting>,
}

impl Draft {
    pub(super) fn new(limit: usize, reach: Reach) -> Self {
        let flight = Flight { items: Vec::new(), reach, asked: Vec::new(), beats: Vec::new() };
        Self { body: Body::new(), limit, flight, registered: HashSet::new() }
    }

    pub(super) fn has_room(&self) -> bool {
        self.flight.items.len() < self.limit && self.body.len() < BYTES_MAX
    }

    pub(super) fn add(&mut self, action: Action, live: &Registration) {
        self.body.add(action, live, None);
        let key = live.instance.key.clone();
        if action == Action::Register {
            self.registered.insert(key.clone());
        }
        self.flight.items.push((action, key));
    }

    /// The operator's status as it is.
    pub(super) fn status(&mut self, live: &Registration) {
        let action = match live.override_status() {
            Some(_) => Action::StatusUpdate,
            None => Action::DeleteStatusOverride,
        };
        self.body.add(action, live, live.override_status());
        self.flight.items.push((action, live.instance.key.clone()));
    }

    pub(super) fn status_if_written(&mut self, live: &Registration) {
        if live.version.overlay != Stamp::default() {
            self.status(live);
        }
    }

    pub(super) fn cancel(&mut self, key: &InstanceKey) {
        self.body.add_cancel(KeyRef { namespace: "", app: &key.app, id: &key.id });
        self.flight.items.push((Action::Cancel, key.clone()));
    }
}
