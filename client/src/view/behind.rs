//! What a server that lags tells otherwise than it is known.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use heureka_model::{InstanceKey, Registration, SetDigest, Version};
use tokio::time::Instant;

use super::TRUSTED;
use crate::set::Set;

/// Removals remembered; with more of them the oldest are forgotten.
const REMOVALS: usize = 10_000;

/// Keys of which the server tells something older than what is known.
#[derive(Debug, Default)]
pub(super) struct Behind(HashMap<InstanceKey, Copy>);

#[derive(Debug)]
struct Copy {
    /// What the server has; nothing when it has removed it.
    registration: Option<Arc<Registration>>,
    /// When a server was first heard to be behind with the key.
    since: Instant,
}

impl Behind {
    pub(super) fn note(&mut self, key: InstanceKey, registration: Option<Arc<Registration>>, now: Instant) {
        let copy = self.0.entry(key).or_insert(Copy { registration: None, since: now });
        copy.registration = registration;
    }

    pub(super) fn forget(&mut self, key: &InstanceKey) {
        self.0.remove(key);
    }

    /// Whether the server has removed the key.
    pub(super) fn lacks(&self, key: &InstanceKey) -> bool {
        self.0.get(key).is_some_and(|copy| copy.registration.is_none())
    }

    pub(super) fn retain(&mut self, stays: impl Fn(&InstanceKey) -> bool) {
        self.0.retain(|key, _| stays(key));
    }

    /// Takes out what servers have been behind with for so long.
    pub(super) fn older_than(
        &mut self,
        age: Duration,
        now: Instant,
    ) -> Vec<(InstanceKey, Option<Arc<Registration>>)> {
        let is_old = |_: &InstanceKey, copy: &mut Copy| now.saturating_duration_since(copy.since) >= age;
        self.0.extract_if(is_old).map(|(key, copy)| (key, copy.registration)).collect()
    }

    /// The set as the server has it.
    pub(super) fn seen_through<'a>(&'a self, held: &'a Set) -> impl Iterator<Item = &'a Arc<Registration>> {
        let level = held.members().filter(|member| !self.0.contains_key(&member.instance.key));
        level.chain(self.0.values().filter_map(|copy| copy.registration.as_ref()))
    }

    /// Digest of the set as the server has it.
    pub(super) fn digest_through(&self, held: &Set) -> SetDigest {
        let mut digest = held.digest();
        for (key, copy) in &self.0 {
            if let Some(held) = held.get(key) {
                digest.remove(held.hash(), held.status());
            }
            if let Some(copy) = &copy.registration {
                digest.add(copy.hash(), copy.status());
            }
        }
        digest
    }
}

/// What was removed lately, and at which version: a server that lags may not have heard of it.
#[derive(Debug, Default)]
pub(super) struct Removed {
    versions: HashMap<InstanceKey, Gone>,
    /// Keys in the order of their removals; one that was removed again stands here twice.
    order: VecDeque<(InstanceKey, Instant)>,
}

/// How a key was removed.
#[derive(Clone, Copy, Debug)]
struct Gone {
    version: Version,
    /// A server said so. Otherwise one lacked what was held at this version, which another may still have.
    is_told: bool,
    at: Instant,
}

impl Removed {
    /// A server told the removal, with this version.
    pub(super) fn note(&mut self, key: InstanceKey, version: Version, now: Instant) {
        self.insert(key, Gone { version, is_told: true, at: now });
    }

    /// A server lacks what was held at this version.
    pub(super) fn note_missing(&mut self, key: InstanceKey, version: Version, now: Instant) {
        self.insert(key, Gone { version, is_told: false, at: now });
    }

    fn insert(&mut self, key: InstanceKey, gone: Gone) {
        let now = gone.at;
        let known = self.versions.entry(key.clone()).or_insert(gone);
        let newest = if gone.rank() > known.rank() { gone } else { *known };
        *known = Gone { at: now, ..newest };
        self.order.push_back((key, now));
        while self.order.len() > REMOVALS || self.order.front().is_some_and(|(_, at)| is_over(*at, now)) {
            self.forget_oldest();
        }
    }

    /// Whether the key was removed at this version or a later one, or was held at a later one and then missing.
    pub(super) fn outdates(&self, key: &InstanceKey, version: Version, now: Instant) -> bool {
        let gone = self.versions.get(key).filter(|gone| !is_over(gone.at, now));
        gone.is_some_and(|gone| gone.rank() > (version, false))
    }

    pub(super) fn forget(&mut self, key: &InstanceKey) {
        self.versions.remove(key);
    }

    fn forget_oldest(&mut self) {
        let Some((key, at)) = self.order.pop_front() else { return };
        if self.versions.get(&key).is_some_and(|gone| gone.at == at) {
            self.versions.remove(&key);
        }
    }
}

impl Gone {
    fn rank(&self) -> (Version, bool) {
        (self.version, self.is_told)
    }
}

fn is_over(removed: Instant, now: Instant) -> bool {
    now.saturating_duration_since(removed) >= TRUSTED
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{key, registration};

    fn version(owner: u64) -> Version {
        Version { owner, ..Version::default() }
    }

    #[test]
    fn a_removal_counts_for_ten_minutes_and_against_what_is_no_newer() {
        let (mut removed, start) = (Removed::default(), Instant::now());
        removed.note(key("a"), version(5), start);
        let outdated = |owner, after: Duration| removed.outdates(&key("a"), version(owner), start + after);
        assert_eq!([4, 5, 6].map(|owner| outdated(owner, Duration::ZERO)), [true, true, false]);
        assert!(outdated(5, TRUSTED - Duration::from_millis(1)));
        assert!(!outdated(5, TRUSTED));
        assert!(!removed.outdates(&key("b"), version(1), start));
    }

    #[test]
    fn removals_are_bounded_and_the_oldest_goes_first() {
        let (mut removed, start) = (Removed::default(), Instant::now());
        for id in 0..=REMOVALS {
            removed.note(key(&id.to_string()), version(5), start);
        }
        assert_eq!((removed.versions.len(), removed.order.len()), (REMOVALS, REMOVALS));
        assert!(!removed.outdates(&key("0"), version(5), start));
        assert!(removed.outdates(&key("1"), version(5), start));
        removed.note(key("x"), version(5), start + TRUSTED);
        assert_eq!((removed.versions.len(), removed.order.len()), (1, 1));
    }

    #[test]
    fn a_key_that_is_removed_again_keeps_its_later_version_and_time() {
        let (mut removed, start) = (Removed::default(), Instant::now());
        let later = start + TRUSTED / 2;
        removed.note(key("a"), version(7), start);
        removed.note(key("a"), version(6), later);
        assert!(removed.outdates(&key("a"), version(7), start + TRUSTED));
        removed.note(key("b"), version(1), start + TRUSTED);
        assert!(removed.outdates(&key("a"), version(7), start + TRUSTED));
    }

    #[test]
    fn the_servers_set_is_the_held_one_but_for_what_it_is_behind_with() {
        let (mut behind, mut held, now) = (Behind::default(), Set::default(), Instant::now());
        for (id, owner) in [("a", 5), ("b", 5), ("c", 5)] {
            held.insert(registration(id, owner));
        }
        behind.note(key("a"), Some(registration("a", 3)), now);
        behind.note(key("b"), None, now);
        behind.note(key("gone"), Some(registration("gone", 1)), now);
        let mut theirs = Set::default();
        behind.seen_through(&held).for_each(|member| drop(theirs.insert(member.clone())));
        assert_eq!((theirs.len(), theirs.digest()), (3, behind.digest_through(&held)));
        assert_eq!(theirs.get(&key("a")), Some(&registration("a", 3)));
    }

    #[test]
    fn the_time_of_a_key_begins_with_the_first_server_that_is_behind() {
        let (mut behind, start) = (Behind::default(), Instant::now());
        behind.note(key("a"), Some(registration("a", 3)), start);
        behind.note(key("a"), Some(registration("a", 4)), start + TRUSTED / 2);
        assert!(behind.older_than(TRUSTED, start + TRUSTED / 2).is_empty());
        let old = behind.older_than(TRUSTED, start + TRUSTED);
        assert_eq!(old, [(key("a"), Some(registration("a", 4)))]);
        assert!(behind.older_than(TRUSTED, start + TRUSTED * 2).is_empty());
    }
}
