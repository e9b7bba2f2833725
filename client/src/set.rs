//! A set of instances with its digest at hand.

use std::collections::HashMap;
use std::sync::Arc;

use heureka_model::{InstanceKey, Registration, SetDigest, Version};

/// Instances by key. The digest is kept up to date, so that comparing it costs nothing, however large the set.
#[derive(Debug, Default)]
pub(crate) struct Set {
    instances: HashMap<InstanceKey, Arc<Registration>>,
    digest: SetDigest,
}

impl Set {
    pub(crate) fn insert(&mut self, registration: Arc<Registration>) -> Option<Arc<Registration>> {
        self.digest.add(registration.hash(), registration.status());
        let key = registration.instance.key.clone();
        let replaced = self.instances.insert(key, registration);
        self.forget(replaced.as_ref());
        replaced
    }

    pub(crate) fn remove(&mut self, key: &InstanceKey) -> Option<Arc<Registration>> {
        let removed = self.instances.remove(key);
        self.forget(removed.as_ref());
        removed
    }

    fn forget(&mut self, gone: Option<&Arc<Registration>>) {
        if let Some(gone) = gone {
            self.digest.remove(gone.hash(), gone.status());
        }
    }

    pub(crate) fn get(&self, key: &InstanceKey) -> Option<&Arc<Registration>> {
        self.instances.get(key)
    }

    pub(crate) fn holds(&self, key: &InstanceKey) -> bool {
        self.instances.contains_key(key)
    }

    /// Whether the set holds the key at a version above this one.
    pub(crate) fn is_ahead(&self, key: &InstanceKey, version: Version) -> bool {
        self.instances.get(key).is_some_and(|held| held.version > version)
    }

    /// Members whose keys `other` does not hold.
    pub(crate) fn missing_in<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a Arc<Registration>> {
        let missing = self.instances.iter().filter(|(key, _)| !other.instances.contains_key(*key));
        missing.map(|(_, registration)| registration)
    }

    pub(crate) fn len(&self) -> usize {
        self.instances.len()
    }

    pub(crate) fn digest(&self) -> SetDigest {
        self.digest
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = &Arc<Registration>> {
        self.instances.values()
    }
}

#[cfg(test)]
mod tests {
    use heureka_model::Status;

    use super::*;
    use crate::testing::registration;

    #[test]
    fn the_digest_is_that_of_the_members_whatever_happened_before() {
        let mut set = Set::default();
        for (id, owner) in [("a", 1), ("b", 1), ("a", 2), ("c", 1)] {
            set.insert(registration(id, owner));
        }
        assert_eq!(set.remove(&registration("b", 1).instance.key), Some(registration("b", 1)));
        assert_eq!(set.remove(&registration("b", 1).instance.key), None);
        let mut expected = SetDigest::default();
        expected.add(registration("a", 2).hash(), Status::Up);
        expected.add(registration("c", 1).hash(), Status::Up);
        assert_eq!((set.digest(), set.len()), (expected, 2));
    }
}
