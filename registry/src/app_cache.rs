//! What readers make of an application, kept until the application changes.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use foldhash::fast::RandomState;
use heureka_model::Mono;
use parking_lot::RwLock;

use crate::Registry;
use crate::store::App;

/// Renewal times, and stamps that a registration raised without changing anything else, are no older than this in an
/// answer that was kept.
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

/// An application and the revision of its last change. What is read of the application afterwards says all that this
/// revision says.
#[derive(Clone)]
pub struct AppMark {
    app: Arc<App>,
    revision: u64,
}

#[derive(Debug)]
struct Kept<K, V> {
    values: HashMap<K, Value<V>, RandomState>,
    bytes: usize,
}

#[derive(Debug)]
struct Value<V> {
    value: V,
    bytes: usize,
    mark: AppMark,
    made: Mono,
}

impl Registry {
    /// An application as it is now; nothing when nothing is known of it.
    #[must_use]
    pub fn app_mark(&self, namespace: &str, app: &str) -> Option<AppMark> {
        self.apps.app(namespace, app).map(AppMark::new)
    }
}

impl AppMark {
    fn new(app: Arc<App>) -> Self {
        let revision = app.revision.load(Ordering::Acquire);
        Self { app, revision }
    }

    /// Revision of the application's last change.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Whether nothing has changed since. An application of which nothing is known any more, and which came back as
    /// another, has changed when its last instance went.
    fn is_current(&self) -> bool {
        self.app.revision.load(Ordering::Acquire) == self.revision
    }
}

impl fmt::Debug for AppMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AppMark({} at {})", self.app.name, self.revision)
    }
}

impl<K: Eq + Hash, V: Clone> AppCache<K, V> {
    /// A cache of at most `max` bytes.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self { kept: RwLock::new(Kept { values: HashMap::default(), bytes: 0 }), max }
    }

    /// The value kept under `key`, if it is current.
    pub fn current(&self, key: &K, now: Mono) -> Option<V> {
        let kept = self.kept.read();
        let value = kept.values.get(key).filter(|value| value.is_current(now))?;
        Some(value.value.clone())
    }

    /// Keeps a value of so many bytes, made at `now` of an application with live instances; `mark` was taken before.
    /// One that would take an eighth of the cache or more is not kept.
    pub fn keep(&self, key: K, mark: AppMark, value: V, bytes: usize, now: Mono) {
        if bytes < self.max / LARGEST_PART {
            self.kept.write().put(key, Value { value, bytes, mark, made: now }, self.max);
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
    fn is_current(&self, now: Mono) -> bool {
        self.mark.is_current() && now.since(self.made) <= LIST_AGE_MAX
    }
}

#[cfg(test)]
mod tests {
    use heureka_model::{Instance, InstanceKey, KeyRef, Now, Wall};

    use super::*;
    use crate::{Claim, Config, Origin, RegisterMode, Seeds};

    const START: Now = Now { mono: Mono(0), wall: Wall(0) };
    const KEY: KeyRef<'_> = KeyRef { namespace: "", app: "A", id: "i" };

    fn registry() -> Registry {
        let registry = Registry::new(Config::default(), Seeds { boot: 1, hash: 2, shuffle: 3 }, START);
        register(&registry);
        registry
    }

    fn register(registry: &Registry) {
        let key = InstanceKey { namespace: String::new(), app: "A".into(), id: "i".into() };
        let mode = RegisterMode::Upsert;
        registry.register(&Instance::new(key), Claim::Next, mode, &Origin::System, START).unwrap();
    }

    #[test]
    fn a_value_is_current_until_its_application_changes_and_for_half_a_minute() {
        let registry = registry();
        let cache = AppCache::new(1000);
        let keep = || cache.keep("a", registry.app_mark("", "A").unwrap(), 'v', 10, Mono(1000));
        keep();
        assert_eq!(cache.current(&"a", Mono(31_000)), Some('v'));
        assert_eq!(cache.current(&"a", Mono(31_001)), None);
        assert_eq!(cache.current(&"b", Mono(1000)), None);
        registry.cancel(KEY, Claim::Next, &Origin::System, START).unwrap();
        assert_eq!(cache.current(&"a", Mono(1000)), None);
        register(&registry);
        assert_eq!(cache.current(&"a", Mono(1000)), None);
        keep();
        assert_eq!(cache.current(&"a", Mono(1000)), Some('v'));
    }

    #[test]
    fn a_mark_that_was_taken_before_a_change_keeps_nothing() {
        let registry = registry();
        let mark = registry.app_mark("", "A").unwrap();
        registry.cancel(KEY, Claim::Next, &Origin::System, START).unwrap();
        let cache = AppCache::new(1000);
        cache.keep("a", mark, 'v', 10, Mono(0));
        assert_eq!(cache.current(&"a", Mono(0)), None);
    }

    #[test]
    fn never_more_is_kept_than_the_bound() {
        let registry = registry();
        let cache = AppCache::new(800);
        for round in 0..1000_usize {
            let mark = registry.app_mark("", "A").unwrap();
            cache.keep(round % 50, mark, (), 1 + round % 120, Mono(0));
            let kept = cache.kept.read();
            assert_eq!(kept.bytes, kept.values.values().map(|value| value.bytes).sum::<usize>());
            assert!(kept.bytes <= 800 && kept.values.values().all(|value| value.bytes < 100));
        }
        assert!(cache.kept.read().values.len() > 5);
    }
}
