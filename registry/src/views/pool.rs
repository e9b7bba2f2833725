//! The candidates of a selection, shared by all views that choose among them.

use heureka_model::{
    Change, ChangeKind, Finite, InstanceKey, Now, Registration, RemovalReason, Selectors, Version,
};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::candidates::{Candidate, Candidates, Departure};
use super::choice::Order;
use super::pools::Room;
use crate::Registry;
use crate::readings::Listening;
use crate::seeded::{Bug, planted};
use crate::watch::{Start, Subscription, left};

/// Changes taken in at a time.
const SHARE: usize = 512;

/// What a pool holds: views that agree in this share one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Wanted {
    pub(super) selectors: Selectors,
    pub(super) order: Option<Order>,
}

/// Candidates that follow the log and the reports, brought on by whichever view reads next.
#[derive(Debug)]
pub(super) struct Pool {
    wanted: Wanted,
    /// Wakes for reports, where they decide.
    listening: Option<Listening>,
    state: Mutex<PoolState>,
    _room: Room,
}

/// A pool while a view reads it.
#[derive(Debug)]
pub(super) struct PoolState {
    pub(super) candidates: Candidates,
    base: Subscription,
    /// The base reads the whole set anew.
    rereads: bool,
    /// News of reports up to here were taken in.
    reports: u64,
}

impl Pool {
    pub(super) fn new(registry: &Registry, wanted: Wanted, room: Room) -> Self {
        let base = Subscription::new(registry, wanted.selectors.by_record(), Start::Full);
        let decides = wanted.order.is_some() || wanted.selectors.has_numbers();
        let state = PoolState { candidates: Candidates::default(), base, rereads: false, reports: 0 };
        let listening = decides.then(|| registry.listen(&wanted.selectors));
        Self { wanted, listening, state: Mutex::new(state), _room: room }
    }

    /// Wakes for changes that may concern the selection.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.state.lock().base.changes()
    }

    /// Wakes for reports, where they decide.
    pub(super) fn news(&self) -> Option<watch::Receiver<u64>> {
        self.listening.as_ref().map(Listening::news)
    }

    /// Takes the next changes and reports in, and gives the candidates to `read` together with the revision that they
    /// are of; nothing while they are of no single one.
    pub(super) fn advance<R>(
        &self,
        registry: &Registry,
        now: Now,
        read: impl FnOnce(&Candidates, Option<u64>) -> R,
    ) -> R {
        let mut state = self.state.lock();
        let is_level =
            state.follow(registry, &self.wanted, now) && self.follow_reports(&mut state, registry, now);
        let revision = is_level.then(|| state.base.position());
        read(&state.candidates, revision)
    }

    /// Goes on to where nothing that concerns the selection is to be told: number of the last news, and the revision.
    pub(super) fn pass(&self, registry: &Registry) -> (u64, u64) {
        let mut state = self.state.lock();
        let revision = state.base.pass(registry);
        (state.candidates.seq(), revision)
    }

    /// Takes reports in; whether that were all.
    fn follow_reports(&self, state: &mut PoolState, registry: &Registry, now: Now) -> bool {
        if self.listening.is_none() || planted(Bug::NumbersUnseen) {
            return true;
        }
        let (news, upto) = registry.news_after(&self.wanted.selectors, state.reports, SHARE);
        let is_last = news.len() < SHARE;
        for found in news {
            let Some((revision, record)) = registry.slots.record(found.slot) else { continue };
            if record.is_live() && registry.life_of(found.slot, &record) == found.life {
                let registration = record.registration(revision, registry.renewed(found.slot, now));
                state.examine(registry, &self.wanted, revision, &registration);
            }
        }
        state.reports = upto;
        is_last
    }
}

impl PoolState {
    /// Takes the next changes in; whether that were all.
    fn follow(&mut self, registry: &Registry, wanted: &Wanted, now: Now) -> bool {
        if self.base.is_lost(registry) {
            self.begin_again(registry, wanted);
        }
        let batch = self.base.poll(registry, SHARE, now);
        if self.base.is_lost(registry) {
            self.begin_again(registry, wanted);
            return false;
        }
        batch.changes.iter().for_each(|told| self.take(registry, wanted, told));
        if batch.at_head && std::mem::take(&mut self.rereads) {
            self.drop_left_over(registry);
        }
        batch.at_head
    }

    fn begin_again(&mut self, registry: &Registry, wanted: &Wanted) {
        self.base = Subscription::new(registry, wanted.selectors.by_record(), Start::Full);
        self.candidates.begin_again();
        self.rereads = true;
    }

    /// What the whole set does not hold any more is gone.
    fn drop_left_over(&mut self, registry: &Registry) {
        let revision = self.base.position();
        for key in self.candidates.left_over() {
            let Some(version) = self.candidates.here(&key).map(|known| known.version) else { continue };
            let (version, reason) = fate(registry, &key, version);
            self.candidates.depart(&key, Departure { revision, version, reason });
        }
    }

    fn take(&mut self, registry: &Registry, wanted: &Wanted, change: &Change) {
        match (change.kind, &change.registration) {
            (ChangeKind::Removed(reason), _) => {
                let departure = Departure { revision: change.revision, version: change.version, reason };
                self.candidates.depart(&change.key, departure);
            }
            (_, Some(registration)) => self.examine(registry, wanted, change.revision, registration),
            (_, None) => {}
        }
    }

    /// Finds out whether an instance is a candidate.
    fn examine(&mut self, registry: &Registry, wanted: &Wanted, revision: u64, registration: &Registration) {
        let key = &registration.instance.key;
        let decides = wanted.order.is_some() || wanted.selectors.has_numbers();
        let report = if decides { registry.reported(key.as_ref()) } else { None };
        let report = report.as_ref().map(|(report, _)| &**report);
        let rank = match &wanted.order {
            Some(order) => order.rank(registration, report),
            None => Some(Finite::default()),
        };
        let version = registration.version;
        match rank.filter(|_| wanted.selectors.matches_reported(registration, report)) {
            Some(rank) => {
                let zone = registration.instance.locality.zone.as_str().into();
                let candidate = Candidate { revision, version, status: registration.status(), rank, zone };
                self.candidates.put(key, candidate);
            }
            None => {
                let reason = RemovalReason::FilteredOut;
                self.candidates.depart(key, Departure { revision, version, reason });
            }
        }
    }
}

/// What became of an instance that was held at `version` and is no candidate any more.
pub(super) fn fate(registry: &Registry, key: &InstanceKey, version: Version) -> (Version, RemovalReason) {
    let record = registry.slot_of(key.as_ref()).and_then(|slot| registry.slots.record(slot));
    match record.map(|(_, record)| (record.version(), left(&record))) {
        Some((version, ChangeKind::Removed(reason))) => (version, reason),
        // Nothing is remembered: it went long ago.
        _ => (version, RemovalReason::Expired),
    }
}
