//! A selection by application: what each adds to it, and names of some.

use std::collections::{HashMap, HashSet};

use heureka_model::{Selectors, SetDigest, Wall};

use crate::Registry;
use crate::store::App;

/// Names of applications, each in its namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppNames(HashMap<Box<str>, HashSet<Box<str>>>);

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

impl AppNames {
    /// Adds a name.
    pub fn insert(&mut self, namespace: &str, app: &str) {
        self.0.entry(namespace.into()).or_default().insert(app.into());
    }

    /// Whether the name is among them.
    #[must_use]
    pub fn contains(&self, namespace: &str, app: &str) -> bool {
        self.0.get(namespace).is_some_and(|apps| apps.contains(app))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.values().map(HashSet::len).sum()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of them, namespace first, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().flat_map(|(namespace, apps)| apps.iter().map(move |app| (&**namespace, &**app)))
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

    fn sum_of(&self, app: &App, selectors: &Selectors) -> SetDigest {
        let mut sum = SetDigest::default();
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
                sum.add(registration.hash(), registration.status());
            }
        }
        sum
    }
}
