//! The core's watchers, over a registry that is as small as a model checker needs.

use std::collections::BTreeMap;
use std::sync::Arc;

use heureka_model::{
    ChangeKind, KeyHasher, KeyRef, Mono, Now, Selector, Selectors, SetDigest, Status, Wall, instance_hash,
};
use tokio::sync::watch;

use crate::log::{Entry, Log, Recent, Stamps, Sums};
use crate::record::{Body, Draft, Head, Record};
use crate::store::{App, Slots};
use crate::sync::Mutex;
use crate::watch::{Horizon, Interests, Start, Subscription};

/// Changes that the ring holds.
const RING: usize = 2;
/// Applications: instances belong to them in turn.
const APPS: [&str; 2] = ["A", "B"];
const NOW: Now = Now { mono: Mono(0), wall: Wall(0) };

/// Stands for the core's registry: a few keys, each in the slot of its number and alone in its shard, and everything
/// that watchers read.
pub struct Registry {
    pub(crate) log: Log,
    pub(crate) slots: Slots,
    pub(crate) interests: Arc<Interests>,
    pub(crate) horizon: Mutex<Horizon>,
    apps: Vec<Arc<App>>,
    shards: Vec<Mutex<()>>,
}

/// A change that a reader was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// Number of its key.
    pub key: u32,
    /// Content, which says which change it is.
    pub content: u64,
    /// The key is in the set since.
    pub live: bool,
}

/// A watcher: its cursor, what it was told, and what wakes it.
pub struct Reader {
    subscription: Subscription,
    news: watch::Receiver<u64>,
    /// Content of each key of the set.
    pub set: BTreeMap<u32, u64>,
    /// Everything, in order.
    pub told: Vec<Told>,
}

impl Registry {
    /// A registry of `keys` keys, at most four, all of them UP. Key `k` has content `k` and came with revision `k + 1`.
    ///
    /// # Panics
    /// With more keys than slots.
    #[must_use]
    pub fn new(keys: u32) -> Self {
        let registry = Self {
            log: Log::new(1, RING),
            slots: Slots::new(),
            interests: Arc::default(),
            horizon: Mutex::default(),
            apps: APPS.map(|name| Arc::new(App::named(name))).into(),
            shards: (0..keys).map(|_| Mutex::default()).collect(),
        };
        for key in 0..keys {
            registry.slots.take().expect("there are four slots");
            registry.change(key, u64::from(key), Status::Up);
        }
        registry.herald();
        registry
    }

    /// Writes new content with a status.
    pub fn change(&self, key: u32, content: u64, status: Status) {
        let _shard = self.shards[key as usize].lock();
        self.commit(key, content, Some(status));
    }

    /// Turns a key into a tombstone.
    pub fn remove(&self, key: u32, content: u64) {
        let _shard = self.shards[key as usize].lock();
        self.commit(key, content, None);
    }

    /// Last revision that readers may count on.
    #[must_use]
    pub fn head(&self) -> u64 {
        self.log.head()
    }

    pub(crate) fn floor(&self) -> u64 {
        self.log.floor()
    }

    pub(crate) fn recent(&self, revision: u64) -> Option<Recent> {
        self.log.recent(revision)
    }

    pub(crate) fn protecting(&self) -> bool {
        false
    }

    pub(crate) fn renewed(&self, _slot: u32, now: Now) -> Wall {
        now.wall
    }

    pub(crate) fn apps_of(&self, selectors: &Selectors) -> Vec<Arc<App>> {
        let covers = |app: &&Arc<App>| selectors.covers_app(&app.namespace.name, &app.name);
        self.apps.iter().filter(covers).cloned().collect()
    }

    pub(crate) fn app(&self, namespace: &str, name: &str) -> Option<Arc<App>> {
        let is_it = |app: &&Arc<App>| *app.namespace.name == *namespace && *app.name == *name;
        self.apps.iter().find(is_it).cloned()
    }

    pub(crate) fn sums_of(&self, selectors: &Selectors) -> (u64, SetDigest) {
        let apps = self.apps_of(selectors);
        let held = self.log.hold();
        let mut sum = SetDigest::default();
        apps.iter().for_each(|app| sum.merge(&app.tally.lock()));
        (held.head(), sum)
    }

    pub(crate) fn read_to_head<R>(
        &self,
        start: u64,
        visit: impl FnMut(u64, u32, Record),
        reading: impl FnOnce() -> R,
    ) -> (u64, R) {
        let held = self.log.hold();
        self.log.walk(&self.slots, start, held.head(), usize::MAX, visit);
        (held.head(), reading())
    }

    /// As the core's funnel, under the lock of the key's shard.
    fn commit(&self, slot: u32, content: u64, status: Option<Status>) {
        let app = &self.apps[slot as usize % APPS.len()];
        let id = slot.to_string();
        let key = KeyHasher::new(KeyRef { namespace: "", app: &app.name, id: &id });
        let held = self.slots.record(slot).filter(|(_, record)| record.is_live());
        let old = held.map(|(_, record)| (key.at(&record.version()), record.status()));
        let head = Head::new(status.is_some());
        let status_or_last = status.unwrap_or(Status::Up);
        if old.is_none() && status.is_some() {
            app.add(slot);
        }
        let draft = Draft(Body { head, app: Arc::clone(app), id: slot, content, status: status_or_last });
        let entry = Entry { slot, draft, stamps: Stamps::default(), sums: Sums { key, old } };
        self.log.commit(&self.slots, entry, 0);
        if old.is_some() && status.is_none() {
            app.remove(slot);
        }
    }
}

/// Selectors of everything, of the first application, or of what is UP.
fn selectors(of: &str) -> Selectors {
    let selector = match of {
        "all" => return Selectors::default(),
        "up" => Selector { statuses: vec![Status::Up], ..Selector::default() },
        app => Selector { apps: [app.to_owned()].into(), ..Selector::default() },
    };
    Selectors::new(vec![selector])
}

impl Reader {
    /// A watcher of everything (`all`), of what is UP (`up`), or of an application, that begins with the whole set.
    #[must_use]
    pub fn full(registry: &Registry, of: &str) -> Self {
        Self::starting(registry, of, Start::Full)
    }

    /// The same, going on from the head: `set` is what it holds.
    #[must_use]
    pub fn at_head(registry: &Registry, of: &str, set: BTreeMap<u32, u64>) -> Self {
        Self::resuming(registry, of, registry.head(), set)
    }

    /// The same, going on from where everything up to `revision` was told.
    #[must_use]
    pub fn resuming(registry: &Registry, of: &str, revision: u64, set: BTreeMap<u32, u64>) -> Self {
        Self { set, ..Self::starting(registry, of, Start::After(revision)) }
    }

    fn starting(registry: &Registry, of: &str, start: Start) -> Self {
        let subscription = Subscription::new(registry, selectors(of), start);
        let news = subscription.changes();
        Self { subscription, news, set: BTreeMap::new(), told: Vec::new() }
    }

    /// Takes the next changes in, at most `max` of them; whether there is nothing more for now.
    ///
    /// # Panics
    /// When what is held already is told, and when what was missed cannot be told any more, which no model brings
    /// about.
    pub fn poll(&mut self, registry: &Registry, max: usize) -> bool {
        let batch = self.subscription.poll(registry, max, NOW);
        assert!(!self.subscription.is_lost(registry), "nothing is forgotten in this model");
        for change in &batch.changes {
            let key = change.key.id.parse().expect("keys are numbers");
            let live = !matches!(change.kind, ChangeKind::Removed(_));
            let held = self.set.get(&key);
            assert!(
                held < Some(&change.version.owner),
                "{key}: {:?} is told to who holds {held:?}",
                change.version
            );
            self.told.push(Told { key, content: change.version.owner, live });
            if live {
                self.set.insert(key, change.version.owner)
            } else {
                self.set.remove(&key)
            };
        }
        batch.at_head
    }

    /// Goes on until there is nothing more.
    pub fn catch_up(&mut self, registry: &Registry) {
        while !self.poll(registry, usize::MAX) {}
    }

    /// Goes on to where nothing that concerns it is to be told, as before a bookmark.
    pub fn pass(&mut self, registry: &Registry) -> u64 {
        self.subscription.pass(registry)
    }

    /// Revision up to which it was told everything.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.subscription.position()
    }

    /// Whether it was woken for something that it was not told.
    #[must_use]
    pub fn is_woken(&self) -> bool {
        *self.news.borrow() > self.position()
    }

    /// Hash of the set as the registry has it at this position, once that is known.
    pub fn digest(&mut self, registry: &Registry) -> Option<u64> {
        self.subscription.digest(registry).map(|digest| digest.hash)
    }

    /// Hash of the set as it was told, whose instances are all UP.
    #[must_use]
    pub fn hash(&self, registry: &Registry) -> u64 {
        let hash = |(key, _): (&u32, &u64)| {
            let (_, record) = registry.slots.record(*key).expect("it was told of this key");
            let version = heureka_model::Version { owner: self.set[key], ..record.version() };
            instance_hash(record.key().as_ref(), &version)
        };
        self.set.iter().map(hash).fold(0, u64::wrapping_add)
    }
}
