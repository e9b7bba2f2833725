//! Who is woken by news of which applications.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use heureka_model::Selectors;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::store::App;

/// All who listen.
#[derive(Debug, Default)]
pub(super) struct Listeners(Mutex<HashMap<Box<str>, Concerned, RandomState>>);

/// Whom news of a namespace concern.
#[derive(Debug, Default)]
struct Concerned {
    by_all: Vec<Arc<Listener>>,
    by_app: HashMap<Box<str>, Vec<Arc<Listener>>, RandomState>,
}

type Listener = watch::Sender<u64>;

/// One who listens, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Listening {
    listeners: Arc<Listeners>,
    listener: Arc<Listener>,
    /// Namespaces with the applications of each; none means all.
    places: Vec<(Box<str>, Vec<Box<str>>)>,
}

impl Listening {
    pub(super) fn new(listeners: &Arc<Listeners>, selectors: &Selectors) -> Self {
        let apps = |selector: &heureka_model::Selector| {
            selector.apps.iter().map(|app| app.as_str().into()).collect()
        };
        let places = selectors.iter().map(|selector| (selector.namespace.as_str().into(), apps(selector)));
        let listening = Self {
            listeners: Arc::clone(listeners),
            listener: Arc::new(watch::Sender::new(0)),
            places: places.collect(),
        };
        listening.enter();
        listening
    }

    /// Wakes for news of its applications.
    pub(crate) fn news(&self) -> watch::Receiver<u64> {
        self.listener.subscribe()
    }

    fn enter(&self) {
        let mut listeners = self.listeners.0.lock();
        for (namespace, apps) in &self.places {
            let concerned = listeners.entry(namespace.clone()).or_default();
            if apps.is_empty() {
                concerned.by_all.push(Arc::clone(&self.listener));
            }
            for app in apps {
                concerned.by_app.entry(app.clone()).or_default().push(Arc::clone(&self.listener));
            }
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut listeners = self.listeners.0.lock();
        let others = |all: &mut Vec<Arc<Listener>>| {
            all.retain(|other| !Arc::ptr_eq(other, &self.listener));
            !all.is_empty()
        };
        for (namespace, apps) in &self.places {
            let Some(concerned) = listeners.get_mut(namespace) else { continue };
            others(&mut concerned.by_all);
            for app in apps {
                if concerned.by_app.get_mut(app).is_some_and(|all| !others(all)) {
                    concerned.by_app.remove(app);
                }
            }
            if concerned.by_all.is_empty() && concerned.by_app.is_empty() {
                listeners.remove(namespace);
            }
        }
    }
}

impl Listeners {
    /// Wakes those whom news of an application concern.
    pub(super) fn hear(&self, app: &App, seq: u64) {
        let listeners = self.0.lock();
        let Some(concerned) = listeners.get(&app.namespace.name) else { return };
        let by_app = concerned.by_app.get(&app.name).into_iter().flatten();
        for listener in concerned.by_all.iter().chain(by_app) {
            listener.send_replace(seq);
        }
    }

    /// Whether nobody listens.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}
