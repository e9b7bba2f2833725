//! A set of instances as somebody knows it.

use std::collections::HashMap;
use std::sync::Arc;

use heureka_model::{InstanceKey, Registration, SetDigest, Version};

/// What is known of a set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Set {
    /// Life of the server that told it.
    pub(crate) boot: u64,
    /// Selectors in their encoding.
    pub(crate) selectors: Vec<u8>,
    /// From this revision on every change was told; from 0 on the set is whole.
    pub(crate) since: u64,
    pub(crate) held: HashMap<InstanceKey, Arc<Registration>>,
}

impl Set {
    pub(crate) fn is_whole(&self) -> bool {
        self.since == 0
    }

    pub(crate) fn version(&self, key: &InstanceKey) -> Option<Version> {
        self.held.get(key).map(|held| held.version)
    }

    /// Takes a change in as a client does: only what is newer counts.
    pub(crate) fn apply(&mut self, key: &InstanceKey, version: Version, live: Option<&Arc<Registration>>) {
        if self.version(key).is_some_and(|held| held > version) {
            return;
        }
        match live {
            Some(live) => drop(self.held.insert(key.clone(), Arc::clone(live))),
            None => drop(self.held.remove(key)),
        }
    }

    /// Puts a whole snapshot in place of the set; a newer copy of an instance that it mentions stays.
    pub(crate) fn swap(&mut self, built: &Self) {
        let mut next = built.clone();
        for (key, newer) in &mut next.held {
            if let Some(held) = self.held.get(key).filter(|held| held.version > newer.version) {
                *newer = Arc::clone(held);
            }
        }
        *self = next;
    }

    pub(crate) fn digest(&self) -> SetDigest {
        let mut digest = SetDigest::default();
        self.held.values().for_each(|held| digest.add(held.hash(), held.status()));
        digest
    }
}
