//! Order-free fingerprint of a set of instances.
//!
//! `h(i)` is FNV-1a (64 bits) over `namespace NUL app NUL id NUL` and the five version parts as eight
//! little-endian bytes each, finished with splitmix64's mixer; the hash of a set is the wrapping sum. Adding and
//! removing an instance is an addition and a subtraction, and ten lines in any language repeat it.

use crate::{KeyRef, Status, StatusCounts, Version};

/// Fingerprint of a set of instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetDigest {
    /// Wrapping sum of the instances' hashes.
    pub hash: u64,
    /// Instances by effective status.
    pub counts: StatusCounts,
}

impl SetDigest {
    /// Takes an instance in.
    pub fn add(&mut self, hash: u64, status: Status) {
        self.hash = self.hash.wrapping_add(hash);
        self.counts.add(status);
    }

    /// Takes an instance out.
    pub fn remove(&mut self, hash: u64, status: Status) {
        self.hash = self.hash.wrapping_sub(hash);
        self.counts.remove(status);
    }

    /// Takes a disjoint set in.
    pub fn merge(&mut self, other: &Self) {
        self.hash = self.hash.wrapping_add(other.hash);
        self.counts.merge(&other.counts);
    }
}

/// Hash of one instance at one version.
#[must_use]
pub fn instance_hash(key: KeyRef<'_>, version: &Version) -> u64 {
    KeyHasher::new(key).at(version)
}

/// How much a client is drawn to an instance: of many clients each is drawn to others, and one always to the same.
#[must_use]
pub fn affinity(client: &str, key: KeyRef<'_>) -> u64 {
    let text = |hash, text: &str| fnv(fnv(hash, text.as_bytes()), &[0]);
    // Mixed in between: otherwise clients whose names end alike would be drawn alike.
    splitmix([key.namespace, key.app, key.id].into_iter().fold(splitmix(text(FNV_OFFSET, client)), text))
}

/// The hash of a key so far, for whoever learns the version later.
#[derive(Clone, Copy, Debug)]
pub struct KeyHasher(u64);

impl KeyHasher {
    /// Takes the key in.
    #[must_use]
    pub fn new(key: KeyRef<'_>) -> Self {
        let text = |hash, text: &str| fnv(fnv(hash, text.as_bytes()), &[0]);
        Self([key.namespace, key.app, key.id].into_iter().fold(FNV_OFFSET, text))
    }

    /// The bucket of the key among so many, which is a power of two: by the low bits of what was hashed so far.
    ///
    /// # Panics
    /// There are none.
    #[must_use]
    pub fn bucket(self, buckets: usize) -> usize {
        self.0 as usize & (buckets - 1)
    }

    /// Hash of the instance at that version.
    #[must_use]
    pub fn at(self, version: &Version) -> u64 {
        splitmix(version.parts().iter().fold(self.0, |hash, part| fnv(hash, &part.to_le_bytes())))
    }
}

/// Hashes of a set summed up by bucket, to find where two sets differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketSums(Vec<u64>);

impl BucketSums {
    /// Buckets of one application at most.
    pub const MOST: usize = 1 << 12;
    /// Buckets of all applications that a client names at most.
    pub const MOST_TOGETHER: usize = 1 << 16;

    /// Sums of nothing, in so many buckets: a power of two.
    #[must_use]
    pub fn new(buckets: usize) -> Self {
        Self(vec![0; buckets])
    }

    /// Takes an instance in.
    pub fn add(&mut self, key: KeyRef<'_>, version: &Version) {
        let key = KeyHasher::new(key);
        let bucket = key.bucket(self.0.len());
        self.0[bucket] = self.0[bucket].wrapping_add(key.at(version));
    }

    /// The sums in the order of the buckets.
    #[must_use]
    pub fn into_sums(self) -> Vec<u64> {
        self.0
    }
}

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME))
}

fn splitmix(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stamp;

    fn key<'a>(app: &'a str, id: &'a str) -> KeyRef<'a> {
        KeyRef { namespace: "", app, id }
    }

    #[test]
    fn every_part_of_key_and_version_counts() {
        let base = Version::default();
        let stamp = |clock, boot| Stamp { clock, boot };
        let hashes = [
            instance_hash(key("A", "1"), &base),
            instance_hash(key("A1", ""), &base),
            instance_hash(key("A", "2"), &base),
            instance_hash(KeyRef { namespace: "A", app: "1", id: "" }, &base),
            instance_hash(key("A", "1"), &Version { owner: 1, ..base }),
            instance_hash(key("A", "1"), &Version { written: stamp(1, 0), ..base }),
            instance_hash(key("A", "1"), &Version { written: stamp(0, 1), ..base }),
            instance_hash(key("A", "1"), &Version { overlay: stamp(1, 0), ..base }),
            instance_hash(key("A", "1"), &Version { overlay: stamp(0, 1), ..base }),
        ];
        let distinct: std::collections::BTreeSet<u64> = hashes.into_iter().collect();
        assert_eq!(distinct.len(), hashes.len());
    }

    #[test]
    fn clients_are_drawn_to_different_instances_evenly() {
        let ids: Vec<String> = (0..50).map(|n| format!("10.0.0.{n}:8080")).collect();
        let mut chosen = vec![0_u32; ids.len()];
        for client in 0..2000 {
            let client = format!("client-{client}");
            let drawn = |id: &usize| affinity(&client, key("WEB", &ids[*id]));
            chosen[(0..ids.len()).max_by_key(drawn).unwrap()] += 1;
        }
        // 40 each is expected; a fair draw strays further than this once in some thousands of runs.
        assert!(chosen.iter().all(|times| (12..=80).contains(times)), "{chosen:?}");
    }

    #[test]
    fn adding_and_removing_cancel_out_in_any_order() {
        let mut digest = SetDigest::default();
        digest.add(7, Status::Up);
        digest.add(u64::MAX, Status::Down);
        digest.remove(7, Status::Up);
        digest.remove(u64::MAX, Status::Down);
        assert_eq!(digest, SetDigest::default());
    }
}
