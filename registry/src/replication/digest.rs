//! A fingerprint of everything that is live, in buckets, so that two servers find what differs by exchanging a few
//! numbers.
//!
//! It is one more reader of the log: it stands at a revision and catches up when asked, so that no writer pays for
//! it. A key's bucket is given by the highest bits of the key's hash; a bucket is the combination (exclusive or) of
//! its entries.

use super::{BUCKETS, Bucket, BucketEntries, DigestEntry, GROUPS, hash};
use crate::Registry;
use crate::record::Record;

/// Keys examined at a time.
const SHARE: usize = 4096;

/// Keys that may be taken in at once: some tens of milliseconds. A digest that has more to read is not level yet.
const AT_ONCE: usize = 16 * SHARE;

/// Buckets of one group.
const PER_GROUP: usize = BUCKETS / GROUPS;

/// The fingerprint of one server.
pub(super) struct Digest {
    position: u64,
    level: bool,
    root: u64,
    buckets: Vec<u64>,
    /// Per slot: hash of the key, and of the entry while it is live.
    slots: Vec<DigestEntry>,
}

/// A set of buckets.
pub(super) struct Chosen(Vec<bool>);

impl Default for Digest {
    fn default() -> Self {
        Self { position: 0, level: false, root: 0, buckets: vec![0; BUCKETS], slots: Vec::new() }
    }
}

impl Digest {
    /// Catches up with the log, or goes a part of the way.
    pub(super) fn follow(&mut self, registry: &Registry) {
        if self.position < registry.log.floor() {
            // A removal may have been forgotten unseen.
            *self = Self::default();
        }
        let bound = registry.log.settled_head();
        let mut taken = 0;
        while self.position < bound && taken < AT_ONCE {
            let mut met = Vec::new();
            let walked =
                registry.log.walk(&registry.slots, self.position, bound, SHARE, |_, slot, record| {
                    met.push((slot, record));
                });
            met.iter().for_each(|(slot, record)| self.take(*slot, record));
            self.position = walked.position;
            taken += SHARE;
        }
        self.level = self.position >= bound;
    }

    /// Whether the digest is of all that the log holds.
    pub(super) fn is_level(&self) -> bool {
        self.level
    }

    /// Combination of everything.
    pub(super) fn root(&self) -> u64 {
        self.root
    }

    /// Combinations of the groups.
    pub(super) fn groups(&self) -> Vec<u64> {
        let place = |(number, sum): (usize, &u64)| sum.wrapping_mul(2 * number as u64 + 1);
        let combine = |group: &[u64]| group.iter().enumerate().map(place).fold(0, u64::wrapping_add);
        self.buckets.chunks(PER_GROUP).map(combine).collect()
    }

    /// Numbers of the groups in which another server's combinations differ.
    pub(super) fn groups_unlike(&self, groups: &[u64]) -> Vec<u16> {
        let own = self.groups();
        let differs = |group: &u16| groups.get(usize::from(*group)) != own.get(usize::from(*group));
        (0..GROUPS as u16).filter(differs).collect()
    }

    /// Slots of the live instances in some groups.
    pub(super) fn slots_of(&self, groups: &[u16]) -> Vec<u32> {
        let inside = |entry: &DigestEntry| groups.contains(&(bucket(entry.key) / PER_GROUP as u16));
        let slots = (0..).zip(&self.slots).filter(|(_, entry)| entry.entry != 0 && inside(entry));
        slots.map(|(slot, _)| slot).collect()
    }

    /// Buckets of the groups in which another server's combinations differ.
    pub(super) fn buckets_unlike(&self, groups: &[u64]) -> Vec<Bucket> {
        let differing = self.groups_unlike(groups).into_iter().map(usize::from);
        let numbers = differing.flat_map(|group| group * PER_GROUP..(group + 1) * PER_GROUP);
        numbers.map(|number| Bucket { number: number as u16, hash: self.buckets[number] }).collect()
    }

    /// Numbers of the buckets whose sums differ here.
    pub(super) fn unlike(&self, buckets: &[Bucket]) -> Chosen {
        let mut chosen = Chosen::default();
        for bucket in buckets {
            if self.buckets.get(bucket.number as usize).is_some_and(|own| *own != bucket.hash) {
                chosen.choose(bucket.number);
            }
        }
        chosen
    }

    /// What stands in these buckets.
    pub(super) fn entries(&self, chosen: &Chosen) -> Vec<BucketEntries> {
        let mut entries: Vec<_> =
            chosen.numbers().map(|number| BucketEntries { number, entries: vec![] }).collect();
        for entry in self.slots.iter().filter(|entry| entry.entry != 0 && chosen.has(bucket(entry.key))) {
            let place = entries.binary_search_by_key(&bucket(entry.key), |bucket| bucket.number);
            if let Some(bucket) = place.ok().and_then(|place| entries.get_mut(place)) {
                bucket.entries.push(*entry);
            }
        }
        entries.iter_mut().for_each(|bucket| bucket.entries.sort_unstable());
        entries
    }

    /// Slots of what another server lacks or has otherwise in these buckets; removals only where it has a live
    /// instance.
    pub(super) fn unlike_in(&self, theirs: &[BucketEntries]) -> Vec<u32> {
        let chosen = Chosen::of(theirs);
        let mut known: Vec<DigestEntry> =
            theirs.iter().flat_map(|bucket| bucket.entries.iter().copied()).collect();
        known.sort_unstable();
        let differs = |own: &DigestEntry| {
            let place = known.binary_search_by_key(&own.key, |entry| entry.key);
            let their = place.ok().and_then(|place| known.get(place)).map(|entry| entry.entry);
            their.map_or(own.entry != 0, |their| their != own.entry)
        };
        let slots = (0..).zip(&self.slots);
        let unlike = slots.filter(|(_, own)| own.key != 0 && chosen.has(bucket(own.key)) && differs(own));
        unlike.map(|(slot, _)| slot).collect()
    }

    fn take(&mut self, slot: u32, record: &Record) {
        let at = slot as usize;
        if self.slots.len() <= at {
            self.slots.resize(at + 1, DigestEntry::default());
        }
        let entry = entry(record);
        let before = std::mem::replace(&mut self.slots[at], entry);
        self.turn(before);
        self.turn(entry);
    }

    /// Takes an entry into its bucket, or out of it.
    fn turn(&mut self, entry: DigestEntry) {
        let number = bucket(entry.key) as usize;
        let sum = self.buckets[number];
        self.buckets[number] = sum ^ entry.entry;
        self.root = self.root.wrapping_sub(place(number, sum)).wrapping_add(place(number, sum ^ entry.entry));
    }
}

impl Default for Chosen {
    fn default() -> Self {
        Self(vec![false; BUCKETS])
    }
}

impl Chosen {
    /// Those of another server's buckets.
    pub(super) fn of(buckets: &[BucketEntries]) -> Self {
        let mut chosen = Self::default();
        buckets.iter().for_each(|bucket| chosen.choose(bucket.number));
        chosen
    }

    fn choose(&mut self, number: u16) {
        if let Some(chosen) = self.0.get_mut(number as usize) {
            *chosen = true;
        }
    }

    fn has(&self, number: u16) -> bool {
        self.0.get(number as usize).is_some_and(|chosen| *chosen)
    }

    fn numbers(&self) -> impl Iterator<Item = u16> {
        (0..).zip(&self.0).filter(|(_, chosen)| **chosen).map(|(number, _)| number)
    }
}

fn entry(record: &Record) -> DigestEntry {
    let key = hash::key(record.key().as_ref()).max(1);
    if !record.is_live() {
        return DigestEntry { key, entry: 0 };
    }
    DigestEntry { key, entry: hash::entry(key, record) }
}

/// What a bucket adds to the whole. Buckets are told apart by where they stand, so that two of them cannot cancel each
/// other out.
fn place(number: usize, sum: u64) -> u64 {
    sum.rotate_left(number as u32 % 64).wrapping_mul(2 * number as u64 + 1)
}

fn bucket(key: u64) -> u16 {
    (key >> (64 - BUCKETS.trailing_zeros())) as u16
}
