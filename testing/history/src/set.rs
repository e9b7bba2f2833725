//! A set of instances as somebody knows it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use heureka_model::{InstanceKey, KeyHasher, Registration, SetDigest, Version};

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
    /// Newest removal told of each key, for a set that remembers them: nothing up to that comes back.
    pub(crate) removed: Option<HashMap<InstanceKey, Version>>,
}

/// Applications by namespace and name, whole or in part.
pub(crate) type Apps = HashMap<(String, String), Option<Buckets>>;

/// Some of so many buckets.
#[derive(Clone, Debug)]
pub(crate) struct Buckets {
    pub(crate) count: usize,
    pub(crate) told: HashSet<u32>,
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
        if self.version(key).is_some_and(|held| held > version)
            || live.is_some() && self.outdates(key, version)
        {
            return;
        }
        self.note(key, version, live.is_none());
        match live {
            Some(live) => drop(self.held.insert(key.clone(), Arc::clone(live))),
            None => drop(self.held.remove(key)),
        }
    }

    /// Whether a removal at this version or a later one is remembered.
    fn outdates(&self, key: &InstanceKey, version: Version) -> bool {
        self.removed.as_ref().and_then(|removed| removed.get(key)).is_some_and(|removed| *removed >= version)
    }

    fn note(&mut self, key: &InstanceKey, version: Version, is_removal: bool) {
        if let Some(removed) = self.removed.as_mut().filter(|_| is_removal) {
            let known = removed.entry(key.clone()).or_default();
            *known = version.max(*known);
        }
    }

    /// Puts a snapshot in place of the set, or of the applications that it tells; a newer copy of an instance that it
    /// mentions stays, and what is known to be removed does not come back.
    pub(crate) fn swap(&mut self, built: &Self, apps: Option<&Apps>) {
        self.boot = built.boot;
        self.selectors.clone_from(&built.selectors);
        self.since = if apps.is_none() { built.since } else { self.since };
        self.held.retain(|key, _| built.held.contains_key(key) || !covers(apps, key));
        built.held.iter().for_each(|(key, live)| self.apply(key, live.version, Some(live)));
    }

    pub(crate) fn digest(&self) -> SetDigest {
        let mut digest = SetDigest::default();
        self.held.values().for_each(|held| digest.add(held.hash(), held.status()));
        digest
    }
}

/// Whether a snapshot of these applications, or of all, tells the key.
pub(crate) fn covers(apps: Option<&Apps>, key: &InstanceKey) -> bool {
    let in_part = |buckets: &Buckets| {
        buckets.told.contains(&(KeyHasher::new(key.as_ref()).bucket(buckets.count) as u32))
    };
    apps.is_none_or(|apps| {
        let extent = apps.get(&(key.namespace.clone(), key.app.clone()));
        extent.is_some_and(|buckets| buckets.as_ref().is_none_or(in_part))
    })
}
