//! Key → slot.
//!
//! The only place that knows the concurrent map. No guard leaves this file: callers hand in closures, which run
//! under the shard's lock and must not come back here.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use foldhash::quality::FixedState;
use heureka_model::KeyRef;
use parking_lot::Mutex;

/// Enough that two cores seldom meet, few enough that the empty map stays small.
const SHARDS: usize = 64;

/// Set in a map value when more than one key has the hash; the slots then stand in the overflow.
const SHARED_HASH: u32 = 1 << 31;

/// Two hashes of one key. Together they are taken for the key where only liveness is at stake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct KeyHash {
    primary: u64,
    /// Kept beside the lease, so that a renewal need not read the record.
    pub(crate) fingerprint: u32,
}

/// Slots whose keys have one hash. Nearly always none or one.
#[derive(Debug, Default)]
pub(crate) struct Candidates {
    first: Option<u32>,
    others: Vec<u32>,
}

pub(crate) struct Index {
    map: DashMap<Halves, u32, BuildHasherDefault<Halved>>,
    overflow: Mutex<HashMap<u64, Vec<u32>>>,
    primary: FixedState,
    secondary: FixedState,
    /// Bits of the hash that count. Tests take most away to make keys collide.
    mask: u64,
}

impl Index {
    pub(crate) fn new(seed: u64, mask: u64) -> Self {
        Self {
            map: DashMap::with_hasher_and_shard_amount(BuildHasherDefault::default(), SHARDS),
            overflow: Mutex::default(),
            primary: FixedState::with_seed(seed),
            secondary: FixedState::with_seed(!seed),
            mask,
        }
    }

    pub(crate) fn hash(&self, key: KeyRef<'_>) -> KeyHash {
        let primary = hash_with(&self.primary, key) & self.mask;
        KeyHash { primary, fingerprint: hash_with(&self.secondary, key) as u32 }
    }

    /// Runs `f` with the slots that may hold the key, while no write to that shard can run.
    pub(crate) fn read<R>(&self, hash: KeyHash, f: impl FnOnce(&Candidates) -> R) -> R {
        match self.map.get(&Halves::of(hash.primary)) {
            Some(value) => f(&self.load(hash.primary, *value)),
            None => f(&Candidates::default()),
        }
    }

    /// Runs `f` alone in the shard; the slots it leaves are the ones found from then on.
    pub(crate) fn write<R>(&self, hash: KeyHash, f: impl FnOnce(&mut Candidates) -> R) -> R {
        match self.map.entry(Halves::of(hash.primary)) {
            Entry::Occupied(mut entry) => {
                let shared = *entry.get() & SHARED_HASH != 0;
                let mut slots = self.load(hash.primary, *entry.get());
                let result = f(&mut slots);
                match self.save(hash.primary, slots, shared) {
                    Some(value) => drop(entry.insert(value)),
                    None => drop(entry.remove()),
                }
                result
            }
            Entry::Vacant(entry) => {
                let mut slots = Candidates::default();
                let result = f(&mut slots);
                if let Some(value) = self.save(hash.primary, slots, false) {
                    entry.insert(value);
                }
                result
            }
        }
    }

    fn load(&self, primary: u64, value: u32) -> Candidates {
        if value & SHARED_HASH == 0 {
            return Candidates { first: Some(value), others: Vec::new() };
        }
        let mut others = self.overflow.lock().get(&primary).cloned().unwrap_or_default();
        Candidates { first: others.pop(), others }
    }

    fn save(&self, primary: u64, slots: Candidates, was_shared: bool) -> Option<u32> {
        let Candidates { first, mut others } = slots;
        let first = first.or_else(|| others.pop());
        if was_shared && others.is_empty() {
            self.overflow.lock().remove(&primary);
        }
        if others.is_empty() {
            return first;
        }
        others.extend(first);
        self.overflow.lock().insert(primary, others);
        Some(SHARED_HASH)
    }
}

impl Candidates {
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.first.into_iter().chain(self.others.iter().copied())
    }

    pub(crate) fn insert(&mut self, slot: u32) {
        match self.first {
            None => self.first = Some(slot),
            Some(_) => self.others.push(slot),
        }
    }

    pub(crate) fn remove(&mut self, slot: u32) {
        if self.first == Some(slot) {
            self.first = None;
        }
        self.others.retain(|other| *other != slot);
    }
}

fn hash_with(state: &FixedState, key: KeyRef<'_>) -> u64 {
    let mut hasher = state.build_hasher();
    for text in [key.namespace, key.app, key.id] {
        hasher.write(text.as_bytes());
        hasher.write_u8(0xff);
    }
    hasher.finish()
}

/// A hash in two halves, so that an entry of the map takes 12 bytes instead of 16.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Halves(u32, u32);

impl Halves {
    fn of(hash: u64) -> Self {
        Self((hash >> 32) as u32, hash as u32)
    }
}

impl Hash for Halves {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(u64::from(self.0) << 32 | u64::from(self.1));
    }
}

/// The keys of the map are hashes already.
#[derive(Default)]
struct Halved(u64);

impl Hasher for Halved {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| hash.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: &str) -> KeyRef<'_> {
        KeyRef { namespace: "", app: "A", id }
    }

    #[test]
    fn keys_of_one_hash_are_all_found_and_go_one_by_one() {
        let index = Index::new(1, 0);
        let hash = index.hash(key("x"));
        for slot in 0..3 {
            index.write(hash, |slots| slots.insert(slot));
        }
        let found = || index.read(hash, |slots| slots.iter().collect::<std::collections::BTreeSet<_>>());
        assert_eq!(found(), [0, 1, 2].into());
        index.write(hash, |slots| slots.remove(1));
        assert_eq!(found(), [0, 2].into());
        index.write(hash, |slots| slots.remove(0));
        index.write(hash, |slots| slots.remove(2));
        assert_eq!(found(), [].into());
        assert!(index.overflow.lock().is_empty());
    }

    #[test]
    fn parts_of_a_key_do_not_run_into_each_other() {
        let index = Index::new(7, u64::MAX);
        let one = index.hash(KeyRef { namespace: "", app: "AB", id: "C" });
        let other = index.hash(KeyRef { namespace: "", app: "A", id: "BC" });
        assert_ne!(one, other);
    }
}
