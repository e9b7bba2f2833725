//! Reads. None of them holds up a writer for longer than it takes to copy a pointer, except the last step of
//! readings that must belong to one revision.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use foldhash::fast::FixedState;
use heureka_model::{InstanceKey, KeyRef, Now, Registration, Selectors, SetDigest, StatusCounts};
use tokio::sync::watch;

use crate::log::Recent;
use crate::record::Record;
use crate::seeded;
use crate::store::App;
use crate::{AppSummary, Application, Delta, Entry, Page, Registry, Stats};

/// Changes that may be read while writers wait: small enough to pass unnoticed.
const LAST_STEP: u64 = 64;

impl Registry {
    /// One live instance.
    #[must_use]
    pub fn get(&self, key: KeyRef<'_>, now: Now) -> Option<Registration> {
        let found = self.index.read(self.index.hash(key), |slots| {
            slots.iter().find_map(|slot| {
                let (revision, record) = self.slots.record(slot)?;
                crate::apply::is_key(&record, key).then_some((slot, revision, record))
            })
        });
        let (slot, revision, record) = found.filter(|(_, _, record)| record.is_live())?;
        Some(record.registration(revision, self.renewed(slot, now)))
    }

    /// Any live instance with this id; which one is open when several applications hold it. Looks at every
    /// application of the namespace.
    #[must_use]
    pub fn find_by_id(&self, namespace: &str, id: &str, now: Now) -> Option<Registration> {
        let apps = self.apps.namespace(namespace)?.all();
        apps.iter().find_map(|app| self.get(KeyRef { namespace, app: &app.name, id }, now))
    }

    /// The live instances of an application; nothing when there are none.
    #[must_use]
    pub fn application(&self, namespace: &str, app: &str, now: Now) -> Option<Application> {
        let app = self.apps.app(namespace, app)?;
        let revision = app.revision.load(Ordering::Acquire);
        let instances: Vec<_> = self.entries_of(&app, now).iter().map(Entry::registration).collect();
        (!instances.is_empty()).then(|| Application { name: app.name.to_string(), revision, instances })
    }

    /// Applications with a live instance, by name.
    #[must_use]
    pub fn applications(&self, namespace: &str) -> Vec<AppSummary> {
        let apps = self.apps.namespace(namespace).map(|namespace| namespace.all()).unwrap_or_default();
        let mut summaries: Vec<AppSummary> = apps.iter().filter_map(|app| summary(app)).collect();
        summaries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        summaries
    }

    /// The live instances of an application in no particular order, each read out only when it is looked at.
    #[must_use]
    pub fn entries(&self, namespace: &str, app: &str, now: Now) -> Vec<Entry> {
        self.apps.app(namespace, app).map(|app| self.entries_of(&app, now)).unwrap_or_default()
    }

    /// Live instances in the applications that a selection may touch: how much work it is to look at all.
    #[must_use]
    pub fn weight(&self, selectors: &Selectors) -> usize {
        self.apps_of(selectors).iter().map(|app| app.live()).sum()
    }

    /// Live instances that match, in key order after `after`, at most `max`. Of an application that the page
    /// touches every id is read, but only the instances of the page are read in full.
    #[must_use]
    pub fn page(&self, selectors: &Selectors, after: Option<&InstanceKey>, max: usize, now: Now) -> Page {
        let revision = self.head();
        let mut instances: Vec<Registration> = Vec::new();
        for app in self.apps_after(selectors, after) {
            let begun =
                after.filter(|after| *after.app == *app.name && *after.namespace == *app.namespace.name);
            let sorted = self.by_id(&app, begun.map(|after| after.id.as_str()), now);
            let matching = sorted
                .into_iter()
                .map(|entry| entry.registration())
                .filter(|found| self.selects(selectors, found));
            instances.extend(matching.take(max.saturating_add(1) - instances.len()));
            if instances.len() > max {
                break;
            }
        }
        let more = instances.len() > max;
        instances.truncate(max);
        let next = instances.last().filter(|_| more).map(|last| last.instance.key.clone());
        Page { instances, next, revision }
    }

    /// Whether an instance of this moment qualifies, by what it reported as well.
    fn selects(&self, selectors: &Selectors, found: &Registration) -> bool {
        if !selectors.has_numbers() {
            return selectors.matches(found);
        }
        let report = self.reported(found.instance.key.as_ref());
        selectors.matches_reported(found, report.as_ref().map(|(report, _)| &**report))
    }

    /// The Eureka delta: what changed within the window, and the counts of that very moment.
    #[must_use]
    pub fn delta(&self, now: Now) -> Delta {
        let since = self.history.lock().start(now.mono);
        let mut visited: Vec<(u32, u64, Record)> = Vec::new();
        let visit = |revision: u64, slot: u32, record: Record| visited.push((slot, revision, record));
        let (revision, counts) = self.read_to_head(since, visit, || self.counts(""));
        let mut seen = HashSet::with_capacity_and_hasher(visited.len(), FixedState::default());
        // From the end: a key that changed while the log was read stands there more than once.
        visited.reverse();
        visited.retain(|(slot, _, record)| seen.insert(*slot) && is_told(record));
        let changed = |(slot, revision, record)| Entry { record, revision, renewed: self.renewed(slot, now) };
        Delta { revision, since, counts, changes: visited.into_iter().rev().map(changed).collect() }
    }

    /// Revision of the last change; 0 before the first.
    #[must_use]
    pub fn head(&self) -> u64 {
        self.log.head()
    }

    /// Tells each new head, and wakes for each entry into and exit from self-preservation. A receiver that is slow
    /// hears of the last one only.
    #[must_use]
    pub fn head_changes(&self) -> watch::Receiver<u64> {
        self.log.heads()
    }

    /// Highest revision of a removal that was forgotten: nobody can resume from below it.
    #[must_use]
    pub fn floor(&self) -> u64 {
        self.log.floor()
    }

    /// Whether lapsed leases are held back.
    #[must_use]
    pub fn protecting(&self) -> bool {
        self.protecting.load(Ordering::Acquire)
    }

    /// Figures. Those of the leases are of the last tick.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let seen = self.ticker.lock().seen;
        let counters = &self.counters;
        Stats {
            instances: count(&counters.live),
            applications: self.apps.all().iter().filter(|app| app.live() > 0).count() as u64,
            tombstones: count(&counters.tombstones),
            counts: self.counts(""),
            record_bytes: self.bytes(),
            templates: count(&self.usage.live),
            renewals: count(&counters.renewals),
            renewals_last_minute: seen.renewals_last_minute,
            expected_per_minute: seen.promised,
            protecting: self.protecting(),
            held: seen.held as u64,
            expired: count(&counters.expired),
            registered_after_cancel: count(&counters.after_cancel),
            stamps_ahead: count(&counters.stamps_ahead),
            endpoints_replaced: count(&counters.endpoints_replaced),
            version_collisions: count(&counters.collisions),
            reports_accepted: count(&counters.reports_accepted),
            reports_capped: count(&counters.reports_capped),
            reports_refused: count(&counters.reports_refused),
        }
    }

    /// Reads the log above `start` to its head and takes `reading` there, both of one revision. Keys that change
    /// meanwhile are visited again; only the last few changes are read while writers wait.
    pub(crate) fn read_to_head<R>(
        &self,
        start: u64,
        mut visit: impl FnMut(u64, u32, Record),
        reading: impl FnOnce() -> R,
    ) -> (u64, R) {
        let mut position = start;
        while self.head().saturating_sub(position) > LAST_STEP {
            position = self.log.walk(&self.slots, position, self.head(), usize::MAX, &mut visit).position;
        }
        let held = self.log.hold();
        self.log.walk(&self.slots, position, held.head(), usize::MAX, &mut visit);
        (held.head(), reading())
    }

    pub(crate) fn recent(&self, revision: u64) -> Option<Recent> {
        self.log.recent(seeded::place_of(revision, self.head()))
    }

    pub(crate) fn app(&self, namespace: &str, name: &str) -> Option<Arc<App>> {
        self.apps.app(namespace, name)
    }

    /// Applications that a selection may touch, each once.
    pub(crate) fn apps_of(&self, selectors: &Selectors) -> Vec<Arc<App>> {
        let mut named = BTreeSet::new();
        for selector in selectors.iter() {
            if selector.apps.is_empty() {
                let apps = self.apps.all().into_iter();
                return apps.filter(|app| selectors.covers_app(&app.namespace.name, &app.name)).collect();
            }
            named.extend(selector.apps.iter().map(|app| (selector.namespace.as_str(), app.as_str())));
        }
        named.into_iter().filter_map(|(namespace, app)| self.apps.app(namespace, app)).collect()
    }

    /// Sums of a selection by application, and the revision they belong to.
    pub(crate) fn sums_of(&self, selectors: &Selectors) -> (u64, SetDigest) {
        let mut whole = BTreeSet::new();
        let mut named = BTreeSet::new();
        for selector in selectors.iter() {
            let namespace = selector.namespace.as_str();
            if selector.apps.is_empty() {
                whole.insert(namespace);
            }
            named.extend(selector.apps.iter().map(|app| (namespace, app.as_str())));
        }
        named.retain(|(namespace, _)| !whole.contains(namespace));
        // Looked up while nothing changes: an application that comes in meanwhile would be missed.
        let held = self.log.hold();
        let namespaces = whole.into_iter().filter_map(|name| Some(*self.apps.namespace(name)?.tally.lock()));
        let apps = named
            .into_iter()
            .filter_map(|(namespace, app)| Some(*self.apps.app(namespace, app)?.tally.lock()));
        let mut sum = SetDigest::default();
        namespaces.chain(apps).for_each(|tally| sum.merge(&tally));
        (held.head(), sum)
    }

    fn entries_of(&self, app: &App, now: Now) -> Vec<Entry> {
        let live = |slot: u32| {
            let (revision, record) = self.slots.record(slot)?;
            let here = record.is_live() && std::ptr::eq(&raw const **record.app(), app);
            here.then(|| Entry { record, revision, renewed: self.renewed(slot, now) })
        };
        app.members().into_iter().filter_map(live).collect()
    }

    /// An application's live instances by id, those after `after`.
    fn by_id(&self, app: &App, after: Option<&str>, now: Now) -> Vec<Entry> {
        let named = self.entries_of(app, now).into_iter().map(|entry| (entry.record.id(), entry));
        let mut named: Vec<(String, Entry)> =
            named.filter(|(id, _)| after.is_none_or(|after| id.as_str() > after)).collect();
        named.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        named.into_iter().map(|(_, entry)| entry).collect()
    }

    fn apps_after(&self, selectors: &Selectors, after: Option<&InstanceKey>) -> Vec<Arc<App>> {
        let mut apps = self.apps_of(selectors);
        if let Some(after) = after {
            let start = (after.namespace.as_str(), after.app.as_str());
            apps.retain(|app| (&*app.namespace.name, &*app.name) >= start);
        }
        apps.sort_unstable_by(|one, other| {
            (&one.namespace.name, &one.name).cmp(&(&other.namespace.name, &other.name))
        });
        apps
    }

    fn counts(&self, namespace: &str) -> StatusCounts {
        self.apps
            .namespace(namespace)
            .map_or_else(StatusCounts::default, |namespace| namespace.tally.lock().counts)
    }
}

fn summary(app: &App) -> Option<AppSummary> {
    let revision = app.revision.load(Ordering::Acquire);
    let digest = *app.tally.lock();
    (digest.counts.total() > 0).then(|| AppSummary { name: app.name.to_string(), revision, digest })
}

/// The Eureka surface sees the default namespace, and of removals those whose content is still known.
fn is_told(record: &Record) -> bool {
    record.app().namespace.name.is_empty() && !record.is_stripped()
}
