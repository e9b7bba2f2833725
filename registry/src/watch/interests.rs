//! All interests of a registry, by what concerns them: a change wakes those and no others.

use std::collections::HashMap;
use std::ops::{Deref, RangeInclusive};
use std::sync::Arc;

use foldhash::fast::RandomState;
use heureka_model::Selectors;

use super::interest::Interest;
use super::room::Budget;
use crate::Registry;
use crate::store::App;
use crate::sync::{AtomicU64, Mutex, Ordering};

/// Interests that have readers.
#[derive(Debug, Default)]
pub(crate) struct Interests {
    held: Mutex<Held>,
    /// Everything up to here was told to those whom it concerns.
    told: AtomicU64,
    budget: Arc<Budget>,
}

#[derive(Debug, Default)]
struct Held {
    /// With how many readers each has.
    all: HashMap<Selectors, (Arc<Interest>, usize), RandomState>,
    namespaces: HashMap<Box<str>, Concerned, RandomState>,
    protecting: bool,
}

/// Whom changes in a namespace concern.
#[derive(Debug, Default)]
struct Concerned {
    by_all: Vec<Arc<Interest>>,
    by_app: HashMap<Box<str>, Vec<Arc<Interest>>, RandomState>,
}

/// One reader's part in an interest.
#[derive(Debug)]
pub(super) struct Membership {
    interests: Arc<Interests>,
    interest: Arc<Interest>,
}

impl Interests {
    /// Makes a reader of `selectors` one of those who share them.
    pub(super) fn join(self: &Arc<Self>, selectors: Selectors, head: impl FnOnce() -> u64) -> Membership {
        let mut held = self.held.lock();
        let interest = match held.all.get_mut(&selectors) {
            Some((interest, readers)) => {
                *readers += 1;
                interest.share(*readers > 1);
                Arc::clone(interest)
            }
            None => {
                let interest = held.add(selectors);
                // Whatever was told before it stood among the others lies at or below the head that is read since.
                interest.concern(head());
                interest
            }
        };
        Membership { interests: Arc::clone(self), interest }
    }

    /// Revision up to which everybody concerned was woken.
    pub(super) fn told(&self) -> u64 {
        self.told.load(Ordering::Acquire)
    }

    /// What readers keep for each other.
    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// How many selections have readers.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.held.lock().all.len()
    }

    fn leave(&self, interest: &Arc<Interest>) {
        let mut held = self.held.lock();
        let Some((_, readers)) = held.all.get_mut(&interest.selectors) else { return };
        *readers -= 1;
        interest.share(*readers > 1);
        if *readers == 0 {
            held.remove(interest);
        }
    }
}

impl Held {
    fn add(&mut self, selectors: Selectors) -> Arc<Interest> {
        let interest = Arc::new(Interest::new(selectors.clone()));
        for selector in selectors.iter() {
            let concerned = self.namespaces.entry(selector.namespace.as_str().into()).or_default();
            if selector.apps.is_empty() {
                concerned.by_all.push(Arc::clone(&interest));
            }
            for app in &selector.apps {
                concerned.by_app.entry(app.as_str().into()).or_default().push(Arc::clone(&interest));
            }
        }
        self.all.insert(selectors, (Arc::clone(&interest), 1));
        interest
    }

    fn remove(&mut self, interest: &Arc<Interest>) {
        let others = |all: &mut Vec<Arc<Interest>>| {
            all.retain(|other| !Arc::ptr_eq(other, interest));
            !all.is_empty()
        };
        for selector in interest.selectors.iter() {
            let Some(concerned) = self.namespaces.get_mut(selector.namespace.as_str()) else { continue };
            others(&mut concerned.by_all);
            for app in &selector.apps {
                if concerned.by_app.get_mut(app.as_str()).is_some_and(|all| !others(all)) {
                    concerned.by_app.remove(app.as_str());
                }
            }
            if concerned.by_all.is_empty() && concerned.by_app.is_empty() {
                self.namespaces.remove(selector.namespace.as_str());
            }
        }
        self.all.remove(&interest.selectors);
    }

    /// Tells those whom these changes concern; all of them where the ring does not reach back.
    fn hear(&self, registry: &Registry, revisions: RangeInclusive<u64>) {
        let head = *revisions.end();
        for revision in revisions {
            let Some(recent) = registry.recent(revision) else { return self.concern_all(head) };
            self.concern(recent.new.app(), revision);
        }
    }

    fn concern(&self, app: &App, revision: u64) {
        let Some(concerned) = self.namespaces.get(&app.namespace.name) else { return };
        let by_app = concerned.by_app.get(&app.name).into_iter().flatten();
        concerned.by_all.iter().chain(by_app).for_each(|interest| interest.concern(revision));
    }

    fn wake_all(&self) {
        self.all.values().for_each(|(interest, _)| interest.wake());
    }

    fn concern_all(&self, revision: u64) {
        self.all.values().for_each(|(interest, _)| interest.concern(revision));
    }
}

impl Membership {
    /// The interest, for whoever compares it.
    pub(super) fn shared(&self) -> Arc<Interest> {
        Arc::clone(&self.interest)
    }
}

impl Deref for Membership {
    type Target = Interest;

    fn deref(&self) -> &Interest {
        &self.interest
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.interests.leave(&self.interest);
    }
}

impl Registry {
    /// How many subscriptions are open.
    #[must_use]
    pub fn subscriptions(&self) -> usize {
        self.interests.held.lock().all.values().map(|(_, readers)| readers).sum()
    }

    /// Wakes all readers for news that is no change.
    pub fn wake_readers(&self) {
        self.interests.held.lock().wake_all();
    }

    /// Wakes the readers whom the changes since the last call concern, and all of them for self-preservation. Readers
    /// that nobody wakes are told the same when they read.
    pub fn herald(&self) {
        let mut held = self.interests.held.lock();
        let (told, head) = (self.interests.told(), self.head());
        if !held.all.is_empty() {
            held.hear(self, told + 1..=head);
        }
        self.interests.told.store(head, Ordering::Release);
        let protecting = self.protecting();
        if std::mem::replace(&mut held.protecting, protecting) != protecting {
            held.wake_all();
        }
    }
}
