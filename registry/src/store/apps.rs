//! Namespaces and applications: their members, and sums over them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use foldhash::fast::RandomState;
use heureka_model::SetDigest;
use parking_lot::{Mutex, RwLock};

use super::Slots;
use crate::record::Templates;

/// All applications of which anything is known, the removed instances included.
#[derive(Default)]
pub(crate) struct Apps {
    namespaces: RwLock<HashMap<Box<str>, Arc<Namespace>, RandomState>>,
    bytes: AtomicU64,
}

/// A tenant's applications.
pub(crate) struct Namespace {
    pub(crate) name: Box<str>,
    apps: RwLock<HashMap<Box<str>, Arc<App>, RandomState>>,
    /// Sums over its live instances. Written inside the sequencer.
    pub(crate) tally: Mutex<SetDigest>,
}

/// One application.
pub(crate) struct App {
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) name: Box<str>,
    /// Slots of the live instances.
    members: Mutex<Vec<u32>>,
    /// Keys of which anything is known; the application goes with the last.
    keys: AtomicU32,
    /// Sums over the live instances. Written inside the sequencer.
    pub(crate) tally: Mutex<SetDigest>,
    /// Revision of the last change. Written inside the sequencer, after the change's cell.
    pub(crate) revision: AtomicU64,
    pub(crate) templates: Templates,
}

impl Apps {
    pub(crate) fn namespace(&self, name: &str) -> Option<Arc<Namespace>> {
        self.namespaces.read().get(name).cloned()
    }

    pub(crate) fn app(&self, namespace: &str, name: &str) -> Option<Arc<App>> {
        self.namespace(namespace)?.apps.read().get(name).cloned()
    }

    /// The application for one more key.
    pub(crate) fn enter(&self, namespace: &str, name: &str) -> Arc<App> {
        loop {
            let namespace = self.namespace_or_new(namespace);
            if let Some(app) = namespace.enter(name) {
                return app;
            }
            self.add_app(&namespace, name);
        }
    }

    /// Takes a key out of its application, and the application out when that was its last.
    pub(crate) fn leave(&self, app: &Arc<App>) {
        if app.keys.fetch_sub(1, Ordering::Relaxed) > 1 {
            return;
        }
        let mut namespaces = self.namespaces.write();
        let mut apps = app.namespace.apps.write();
        if app.keys.load(Ordering::Relaxed) == 0 && apps.remove(&app.name).is_some() {
            self.bytes.fetch_sub(app.size(), Ordering::Relaxed);
        }
        if apps.is_empty() {
            namespaces.remove(&app.namespace.name);
        }
    }

    /// Bytes of all applications without their instances.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn all(&self) -> Vec<Arc<App>> {
        let namespaces: Vec<_> = self.namespaces.read().values().cloned().collect();
        namespaces.iter().flat_map(|namespace| namespace.all()).collect()
    }

    fn namespace_or_new(&self, name: &str) -> Arc<Namespace> {
        if let Some(namespace) = self.namespace(name) {
            return namespace;
        }
        let new =
            || Arc::new(Namespace { name: name.into(), apps: RwLock::default(), tally: Mutex::default() });
        Arc::clone(self.namespaces.write().entry(name.into()).or_insert_with(new))
    }

    /// Under the outer lock, so that a namespace is not taken out while its first application comes in.
    fn add_app(&self, namespace: &Arc<Namespace>, name: &str) {
        let mut namespaces = self.namespaces.write();
        let current = namespaces.entry(namespace.name.clone()).or_insert_with(|| Arc::clone(namespace));
        let new = || {
            let app = Arc::new(App::new(Arc::clone(current), name));
            self.bytes.fetch_add(app.size(), Ordering::Relaxed);
            app
        };
        current.apps.write().entry(name.into()).or_insert_with(new);
    }
}

impl Namespace {
    pub(crate) fn all(&self) -> Vec<Arc<App>> {
        self.apps.read().values().cloned().collect()
    }

    fn enter(&self, name: &str) -> Option<Arc<App>> {
        let apps = self.apps.read();
        let app = apps.get(name)?;
        app.keys.fetch_add(1, Ordering::Relaxed);
        Some(Arc::clone(app))
    }
}

impl App {
    fn new(namespace: Arc<Namespace>, name: &str) -> Self {
        Self {
            namespace,
            name: name.into(),
            members: Mutex::default(),
            keys: AtomicU32::new(0),
            tally: Mutex::default(),
            revision: AtomicU64::new(0),
            templates: Templates::default(),
        }
    }

    /// About what it takes, its name in two places and a namespace of its own included.
    pub(crate) fn size(&self) -> u64 {
        (2 * (size_of::<Self>() + self.name.len() + self.namespace.name.len())) as u64
    }

    pub(crate) fn live(&self) -> usize {
        self.members.lock().len()
    }

    /// Slots of the live instances at this moment.
    pub(crate) fn members(&self) -> Vec<u32> {
        self.members.lock().clone()
    }

    pub(crate) fn add(&self, slot: u32, slots: &Slots) {
        let mut members = self.members.lock();
        slots.set_place(slot, members.len() as u32);
        members.push(slot);
    }

    pub(crate) fn remove(&self, slot: u32, slots: &Slots) {
        let mut members = self.members.lock();
        let place = slots.place(slot) as usize;
        members.swap_remove(place);
        if let Some(moved) = members.get(place) {
            slots.set_place(*moved, place as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_and_its_namespace_go_with_their_last_key() {
        let apps = Apps::default();
        let first = apps.enter("tenant", "A");
        let second = apps.enter("tenant", "A");
        assert!(Arc::ptr_eq(&first, &second));
        apps.leave(&first);
        assert!(apps.app("tenant", "A").is_some());
        apps.leave(&second);
        assert!(apps.namespace("tenant").is_none());
    }

    #[test]
    fn members_leave_in_any_order() {
        let (apps, slots) = (Apps::default(), Slots::new());
        let app = apps.enter("", "A");
        let taken: Vec<u32> = (0..4).map(|_| slots.take().unwrap()).collect();
        taken.iter().for_each(|slot| app.add(*slot, &slots));
        app.remove(taken[0], &slots);
        app.remove(taken[3], &slots);
        let left: std::collections::BTreeSet<u32> = app.members().into_iter().collect();
        assert_eq!(left, [taken[1], taken[2]].into());
    }
}
