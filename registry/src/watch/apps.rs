//! A selection by application: what each adds to it, and which of them are told.

use std::collections::HashMap;

use heureka_model::{BucketSums, KeyHasher, KeyRef, Registration, Selectors, SetDigest, Wall};

use crate::Registry;
use crate::store::App;

/// Applications that are told, each in its namespace, whole or in part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToldApps(HashMap<Box<str>, HashMap<Box<str>, Extent>>);

/// How much of an application is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    Whole,
    /// The instances in the buckets that are marked, in the order of their numbers.
    Buckets(Box<[bool]>),
}

/// What a selection holds of one application.
#[derive(Clone, Debug, PartialEq)]
pub struct AppDigest {
    /// Namespace.
    pub namespace: String,
    /// Application.
    pub app: String,
    /// Sums over its instances in the selection; at least one.
    pub digest: SetDigest,
}

impl ToldApps {
    /// Adds an application.
    pub fn insert(&mut self, namespace: &str, app: &str, extent: Extent) {
        self.0.entry(namespace.into()).or_default().insert(app.into(), extent);
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a key is told.
    #[must_use]
    pub fn tell(&self, key: KeyRef<'_>) -> bool {
        let extent = self.0.get(key.namespace).and_then(|apps| apps.get(key.app));
        extent.is_some_and(|extent| extent.covers(key))
    }

    /// All of them, namespace first, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, &Extent)> {
        self.0.iter().flat_map(|(namespace, apps)| {
            apps.iter().map(move |(app, extent)| (&**namespace, &**app, extent))
        })
    }
}

impl Extent {
    fn covers(&self, key: KeyRef<'_>) -> bool {
        match self {
            Self::Whole => true,
            Self::Buckets(told) => told[KeyHasher::new(key).bucket(told.len())],
        }
    }
}

impl Registry {
    /// What a selection holds of each application, those without an instance left out. Nothing is held up: each
    /// instance counts as it is when it is looked at, and whatever changes meanwhile stands in the log above the head
    /// of before. Where more than the application decides, this looks at every instance the selection may touch.
    #[must_use]
    pub fn digests(&self, selectors: &Selectors) -> Vec<AppDigest> {
        let by_app = selectors.is_by_app();
        let sum = |app: &App| if by_app { *app.tally.lock() } else { self.sum_of(app, selectors) };
        let digest = |app: &App| AppDigest {
            namespace: app.namespace.name.to_string(),
            app: app.name.to_string(),
            digest: sum(app),
        };
        let mut digests: Vec<_> = self.apps_of(selectors).iter().map(|app| digest(app)).collect();
        digests.retain(|app| app.digest.counts.total() > 0);
        digests
    }

    /// Hashes of what a selection holds of one application, summed up by bucket. Looks at each of its instances; as
    /// with [`Registry::digests`] nothing is held up.
    ///
    /// # Panics
    /// `buckets` is no power of two.
    #[must_use]
    pub fn bucket_sums(&self, selectors: &Selectors, namespace: &str, app: &str, buckets: usize) -> Vec<u64> {
        let mut sums = BucketSums::new(buckets);
        if let Some(app) = self.app(namespace, app) {
            let add = |held: &Registration| sums.add(held.instance.key.as_ref(), &held.version);
            self.each_of(&app, selectors, add);
        }
        sums.into_sums()
    }

    fn sum_of(&self, app: &App, selectors: &Selectors) -> SetDigest {
        let mut sum = SetDigest::default();
        self.each_of(app, selectors, |registration| sum.add(registration.hash(), registration.status()));
        sum
    }

    fn each_of(&self, app: &App, selectors: &Selectors, mut visit: impl FnMut(&Registration)) {
        for slot in app.members() {
            let Some((revision, record)) = self.slots.record(slot).filter(|(_, record)| record.is_live())
            else {
                continue;
            };
            if !std::ptr::eq(&raw const **record.app(), app) {
                continue;
            }
            let registration = record.registration(revision, Wall(0));
            if selectors.matches(&registration) {
                visit(&registration);
            }
        }
    }
}
