//! Applications and their instances, read by anyone while one task writes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use heureka_model::{InstanceKey, Registration, Status, canonical_app};

use crate::surroundings::chance;
use crate::{Endpoint, Error, Event};

/// Names an application: `"BILLING"` in the default namespace, `("blue", "BILLING")` in another. Case does not
/// matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppName<'a> {
    /// Namespace; empty is the default one.
    pub namespace: &'a str,
    /// Application.
    pub app: &'a str,
}

impl<'a> From<&'a str> for AppName<'a> {
    fn from(app: &'a str) -> Self {
        Self { namespace: "", app }
    }
}

impl<'a> From<(&'a str, &'a str)> for AppName<'a> {
    fn from((namespace, app): (&'a str, &'a str)) -> Self {
        Self { namespace, app }
    }
}

impl<'a> AppName<'a> {
    fn of(key: &'a InstanceKey) -> Self {
        Self { namespace: &key.namespace, app: &key.app }
    }

    /// One text for both parts. Neither can hold a zero byte, so no two names share one.
    fn to_text(self) -> Cow<'a, str> {
        let app = canonical_app(self.app);
        if self.namespace.is_empty() { app } else { Cow::Owned(format!("{}\0{app}", self.namespace)) }
    }
}

/// All applications that have an instance. One task publishes.
#[derive(Debug, Default)]
pub(super) struct Apps {
    apps: ArcSwap<HashMap<String, Arc<App>>>,
    len: AtomicUsize,
}

/// One application.
#[derive(Debug)]
pub(super) struct App {
    snapshot: ArcSwap<Snapshot>,
    turn: AtomicUsize,
}

/// The instances of one application at one moment, by id.
#[derive(Debug)]
struct Snapshot {
    all: Arc<[Arc<Registration>]>,
    up: Arc<[Arc<Registration>]>,
    /// Of those that are UP and can be called.
    endpoints: Box<[Endpoint]>,
}

/// What becomes of ids: a registration, or nothing.
type Edits<'a> = HashMap<&'a str, Option<&'a Arc<Registration>>>;

impl Apps {
    pub(super) fn find<R: Default>(&self, name: AppName<'_>, read: impl FnOnce(&App) -> R) -> R {
        let apps = self.apps.load();
        apps.get(name.to_text().as_ref()).map(|app| read(app)).unwrap_or_default()
    }

    pub(super) fn instance(&self, key: &InstanceKey) -> Option<Arc<Registration>> {
        self.find(AppName::of(key), |app| {
            let all = &app.snapshot.load().all;
            let place = all.binary_search_by(|held| held.instance.key.id.cmp(&key.id)).ok()?;
            Some(all[place].clone())
        })
    }

    pub(super) fn pick(&self, name: AppName<'_>) -> Result<Endpoint, Error> {
        let picked = self.find(name, App::pick);
        picked.unwrap_or_else(|| Err(Error::NoInstance(name.app.to_owned())))
    }

    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Takes changes in, each application at once.
    pub(super) fn publish(&self, events: &[Event]) {
        let mut edits: HashMap<Cow<'_, str>, Edits<'_>> = HashMap::new();
        for event in events {
            let (registration, stays) = match event {
                Event::Added(now) | Event::Modified(now) => (now, true),
                Event::Removed { last, .. } => (last, false),
                Event::Synced { .. } | Event::Preserving(_) | Event::Reading(_) => continue,
            };
            let key = &registration.instance.key;
            let app = edits.entry(AppName::of(key).to_text()).or_default();
            app.insert(&key.id, stays.then_some(registration));
        }
        let replaced =
            edits.into_iter().filter_map(|(name, edits)| Some((name.clone(), self.edit(&name, &edits)?)));
        self.replace(replaced.collect());
    }

    /// Takes changes of one application in; what takes its place when it comes or goes.
    fn edit(&self, name: &str, edits: &Edits<'_>) -> Option<Option<Arc<App>>> {
        let apps = self.apps.load();
        let known = apps.get(name);
        let before = known.map(|app| app.all()).unwrap_or_default();
        let after = edited(&before, edits);
        self.len.fetch_add(after.len().wrapping_sub(before.len()), Ordering::Relaxed);
        match known {
            Some(app) if !after.is_empty() => {
                app.snapshot.store(Arc::new(Snapshot::new(after)));
                None
            }
            _ => Some((!after.is_empty()).then(|| Arc::new(App::new(after)))),
        }
    }

    /// Applications come and go, all of them at once: the map is copied for that.
    fn replace(&self, replaced: Vec<(Cow<'_, str>, Option<Arc<App>>)>) {
        if replaced.is_empty() {
            return;
        }
        let mut apps = HashMap::clone(&self.apps.load());
        for (name, app) in replaced {
            match app {
                Some(app) => drop(apps.insert(name.into_owned(), app)),
                None => drop(apps.remove(name.as_ref())),
            }
        }
        self.apps.store(Arc::new(apps));
    }
}

impl App {
    fn new(instances: Vec<Arc<Registration>>) -> Self {
        let snapshot = ArcSwap::from_pointee(Snapshot::new(instances));
        Self { snapshot, turn: AtomicUsize::new(chance::<u32>() as usize) }
    }

    pub(super) fn all(&self) -> Arc<[Arc<Registration>]> {
        self.snapshot.load().all.clone()
    }

    pub(super) fn up(&self) -> Arc<[Arc<Registration>]> {
        self.snapshot.load().up.clone()
    }

    /// Nothing when no instance is UP.
    fn pick(&self) -> Option<Result<Endpoint, Error>> {
        let snapshot = self.snapshot.load();
        if snapshot.endpoints.is_empty() {
            return Some(Endpoint::of(snapshot.up.first()?.clone()));
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        Some(Ok(snapshot.endpoints[turn % snapshot.endpoints.len()].clone()))
    }
}

impl Snapshot {
    fn new(all: Vec<Arc<Registration>>) -> Self {
        let up: Arc<[_]> = all.iter().filter(|held| held.status() == Status::Up).cloned().collect();
        let endpoints = up.iter().filter_map(|held| Endpoint::of(held.clone()).ok()).collect();
        Self { all: all.into(), up, endpoints }
    }
}

/// The instances after the edits, by id.
fn edited(before: &[Arc<Registration>], edits: &Edits<'_>) -> Vec<Arc<Registration>> {
    let kept = before.iter().filter(|held| !edits.contains_key(held.instance.key.id.as_str()));
    let mut after: Vec<_> = kept.chain(edits.values().flatten().copied()).cloned().collect();
    after.sort_by(|one, other| one.instance.key.id.cmp(&other.instance.key.id));
    after
}

#[cfg(test)]
mod tests {
    use heureka_model::{Instance, Port};

    use super::*;
    use crate::testing::registered;

    fn instance(namespace: &str, app: &str, id: &str, status: Status, port: u16) -> Arc<Registration> {
        let key = InstanceKey { namespace: namespace.into(), app: app.into(), id: id.into() };
        let port = Some(Port { number: port, enabled: port > 0 });
        registered(Instance { status, port, host_name: id.into(), ..Instance::new(key) }, 1)
    }

    fn web(id: &str, status: Status, port: u16) -> Arc<Registration> {
        instance("", "WEB", id, status, port)
    }

    fn added(registrations: &[Arc<Registration>]) -> Vec<Event> {
        registrations.iter().cloned().map(Event::Added).collect()
    }

    fn ids(registrations: &[Arc<Registration>]) -> Vec<&str> {
        registrations.iter().map(|held| held.instance.key.id.as_str()).collect()
    }

    #[test]
    fn look_ups_find_what_was_published_by_id_whatever_the_case_of_the_application() {
        let apps = Apps::default();
        let (a, b) = (web("a", Status::Down, 80), web("b", Status::Up, 80));
        apps.publish(&added(&[b.clone(), a.clone()]));
        assert_eq!(ids(&apps.find("web".into(), App::all)), ["a", "b"]);
        assert_eq!(ids(&apps.find("WEB".into(), App::up)), ["b"]);
        assert_eq!(apps.instance(&a.instance.key), Some(a));
        assert!(apps.find("WE".into(), App::all).is_empty());
        assert_eq!(apps.len(), 2);
    }

    #[test]
    fn namespaces_do_not_mix() {
        let apps = Apps::default();
        apps.publish(&added(&[instance("blue", "WEB", "x", Status::Up, 80), web("a", Status::Up, 80)]));
        assert_eq!(ids(&apps.find("WEB".into(), App::all)), ["a"]);
        assert_eq!(ids(&apps.find(("blue", "web").into(), App::all)), ["x"]);
        assert!(apps.find(("green", "WEB").into(), App::all).is_empty());
    }

    #[test]
    fn the_last_edit_of_an_id_counts_and_empty_applications_go() {
        let apps = Apps::default();
        let (a, b) = (web("a", Status::Up, 80), web("b", Status::Up, 80));
        let gone = |last: &Arc<Registration>| Event::Removed { last: last.clone(), reason: None };
        apps.publish(&[Event::Added(a.clone()), gone(&a), Event::Added(b.clone())]);
        assert_eq!(ids(&apps.find("WEB".into(), App::all)), ["b"]);
        apps.publish(&[Event::Modified(web("b", Status::Down, 80))]);
        assert_eq!((apps.find("WEB".into(), App::up).len(), apps.len()), (0, 1));
        apps.publish(&[gone(&b)]);
        assert_eq!((apps.apps.load().len(), apps.len()), (0, 0));
    }

    #[test]
    fn applications_of_one_message_come_and_go_together() {
        let apps = Apps::default();
        let all: Vec<_> = (0..2000).map(|n| instance("", &format!("A{n}"), "a", Status::Up, 80)).collect();
        let gone: Vec<_> =
            all.iter().map(|last| Event::Removed { last: last.clone(), reason: None }).collect();
        let (begun, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while done.load(Ordering::Relaxed) == 0 {
                    let applications = apps.apps.load().len();
                    assert!(applications == 0 || applications == all.len(), "{applications} at once");
                    begun.store(1, Ordering::Relaxed);
                }
            });
            while begun.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            apps.publish(&added(&all));
            assert_eq!((apps.len(), apps.apps.load().len()), (all.len(), all.len()));
            apps.publish(&gone);
            done.store(1, Ordering::Relaxed);
        });
        assert_eq!((apps.len(), apps.apps.load().len()), (0, 0));
    }

    #[test]
    fn picks_take_turns_among_those_that_can_be_called() {
        let apps = Apps::default();
        let all = [
            web("a", Status::Up, 80),
            web("b", Status::Up, 0),
            web("c", Status::Down, 80),
            web("d", Status::Up, 80),
        ];
        apps.publish(&added(&all));
        let picked: Vec<String> = (0..4).map(|_| apps.pick("WEB".into()).unwrap().to_string()).collect();
        let rotated = |first: usize| ["http://a:80", "http://d:80"].into_iter().cycle().skip(first).take(4);
        assert!((0..2).any(|first| rotated(first).eq(picked.iter())), "{picked:?}");
    }

    #[test]
    fn turns_go_on_when_the_application_changes() {
        let apps = Apps::default();
        apps.publish(&added(&[web("a", Status::Up, 80), web("b", Status::Up, 80)]));
        let first = apps.pick("WEB".into()).unwrap();
        apps.publish(&[Event::Modified(web("a", Status::Up, 80))]);
        assert_ne!(apps.pick("WEB".into()).unwrap().host(), first.host());
    }

    #[test]
    fn a_pick_without_a_candidate_says_why() {
        let apps = Apps::default();
        assert_eq!(apps.pick("NONE".into()), Err(Error::NoInstance("NONE".into())));
        apps.publish(&added(&[web("c", Status::Down, 80)]));
        assert_eq!(apps.pick("WEB".into()), Err(Error::NoInstance("WEB".into())));
        let portless = web("b", Status::Up, 0);
        apps.publish(&added(std::slice::from_ref(&portless)));
        assert_eq!(apps.pick("WEB".into()), Err(Error::NoEndpoint(portless.instance.key.clone())));
    }
}
