//! What readers make of an application, kept until the application changes.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use foldhash::fast::FixedState;
use heureka_model::Mono;
use parking_lot::RwLock;

/// Renewal times in an answer that was kept are no older than this.
pub const LIST_AGE_MAX: Duration = Duration::from_secs(30);

/// A value larger than this part of the cache is not kept.
const LARGEST_PART: usize = 8;

/// Values made of one application each: encodings, mostly. A value is current as long as its application has the
/// revision that it had before the value was made, and for at most [`LIST_AGE_MAX`], since renewals change no
/// revision.
#[derive(Debug)]
pub struct AppCache<K, V> {
    kept: RwLock<Kept<K, V>>,
    max: usize,
}

#[derive(Debug)]
struct Kept<K, V> {
    values: HashMap<K, Value<V>, FixedState>,
    bytes: usize,
}

#[derive(Debug)]
struct Value<V> {
    value: V,
    bytes: usize,
    revision: u64,
    made: Mono,
}

impl<K: Eq + Hash, V: Clone> AppCache<K, V> {
    /// A cache of at most `max` bytes.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self { kept: RwLock::new(Kept { values: HashMap::default(), bytes: 0 }), max }
    }

    /// The value kept under `key`, if it is current for an application of this
    /// [revision](crate::Registry::app_revision).
    pub fn current(&self, key: &K, revision: u64, now: Mono) -> Option<V> {
        let kept = self.kept.read();
        let value = kept.values.get(key).filter(|value| value.is_current(revision, now))?;
        Some(value.value.clone())
    }

    /// Keeps a value of so many bytes, made at `now` of what the application holds; `revision` was read before that.
    /// One that would take an eighth of the cache or more is not kept.
    pub fn keep(&self, key: K, revision: u64, value: V, bytes: usize, now: Mono) {
        if bytes < self.max / LARGEST_PART {
            self.kept.write().put(key, Value { value, bytes, revision, made: now }, self.max);
        }
    }
}

impl<K: Eq + Hash, V> Kept<K, V> {
    fn put(&mut self, key: K, value: Value<V>, max: usize) {
        self.bytes += value.bytes;
        let replaced = self.values.insert(key, value);
        self.bytes -= replaced.map_or(0, |replaced| replaced.bytes);
        if self.bytes > max {
            self.halve();
        }
    }

    /// Drops every other value, whichever: what is read often is made again, and no reader pays for an order.
    fn halve(&mut self) {
        let mut stays = false;
        self.values.retain(|_, _| {
            stays = !stays;
            stays
        });
        self.bytes = self.values.values().map(|value| value.bytes).sum();
    }
}

impl<V> Value<V> {
    /// Another revision, not only a higher one: an application that comes back begins anew.
    fn is_current(&self, revision: u64, now: Mono) -> bool {
        self.revision == revision && now.since(self.made) <= LIST_AGE_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_current_for_its_revision_and_half_a_minute() {
        let cache = AppCache::new(1000);
        cache.keep("a", 7, 'v', 10, Mono(1000));
        assert_eq!(cache.current(&"a", 7, Mono(31_000)), Some('v'));
        assert_eq!(cache.current(&"a", 7, Mono(31_001)), None);
        assert_eq!(cache.current(&"a", 8, Mono(1000)), None);
        assert_eq!(cache.current(&"a", 6, Mono(1000)), None);
        assert_eq!(cache.current(&"b", 7, Mono(1000)), None);
    }

    #[test]
    fn never_more_is_kept_than_the_bound() {
        let cache = AppCache::new(800);
        for round in 0..1000_usize {
            cache.keep(round % 50, round as u64, (), 1 + round % 120, Mono(0));
            let kept = cache.kept.read();
            assert_eq!(kept.bytes, kept.values.values().map(|value| value.bytes).sum::<usize>());
            assert!(kept.bytes <= 800 && kept.values.values().all(|value| value.bytes < 100));
        }
        assert!(cache.kept.read().values.len() > 5);
    }
}
