//! What happens once a second: the sweep of leases, and appointments.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::time::Duration;

use heureka_model::{InstanceKey, Mono, Now, Status, Version, instance_hash};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

use crate::apply::{OwnerWrite, Renewal, Write};
use crate::events::Cause;
use crate::outlook::{Next, Outlook};
use crate::overrides::no_overlay;
use crate::preservation::{Allowance, Census, Guard, Lapsed};
use crate::record::{Life, Record};
use crate::seeded::{Bug, planted};
use crate::timers::Due;
use crate::{Origin, Preservation, PreservationMode, Registry, Removals};

/// A renewal is overdue after one and a half intervals.
const OVERDUE: (u64, u64) = (3, 2);

/// Appointments kept per tick, so that no tick takes long; the rest wait a second.
const APPOINTMENTS: usize = 50_000;

/// Removed instances may take one part in so many of the memory.
const REMEMBERED_SHARE: u64 = 4;

/// State between ticks.
pub(crate) struct Ticker {
    /// Time between the last two ticks, without pauses.
    step: Duration,
    random: SmallRng,
    guard: Guard,
    /// Renewals since the start, once a second over the last minute.
    renewals: VecDeque<(Mono, u64)>,
    /// What the last sweep found.
    pub(crate) seen: Seen,
    /// Leases that ran out before the last sweep and are not removed yet.
    lapsing: Vec<u32>,
}

/// Figures of the last sweep.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) promised: f64,
    pub(crate) held: usize,
    pub(crate) renewals_last_minute: u64,
    live: usize,
    expected: f64,
    heard: f64,
    removed: usize,
    held_for: Option<Duration>,
}

impl Ticker {
    pub(crate) fn new(seed: u64, now: Now) -> Self {
        Self {
            step: Duration::ZERO,
            random: SmallRng::seed_from_u64(seed),
            guard: Guard::default(),
            renewals: VecDeque::from([(now.mono, 0)]),
            seen: Seen::default(),
            lapsing: Vec::new(),
        }
    }
}

impl Registry {
    /// Lets time pass: expiry, ends of overrides, forgetting. To be called once a second; a call more than two
    /// seconds late means that the server itself was paused, and all leases are extended by what was missed.
    pub fn tick(&self, now: Now) {
        let mut ticker = self.ticker.lock();
        ticker.step = self.lease_clock.tick(now.mono);
        self.history.lock().note(self.log.head(), now.mono);
        self.sweep(&mut ticker, now);
        drop(ticker);
        self.keep_appointments(now);
        self.forget_surplus(now);
        self.drop_void();
        self.look_at_readings(now);
    }

    fn sweep(&self, ticker: &mut Ticker, now: Now) {
        let mut census = self.census(now);
        if planted(Bug::RemovedUnseen) {
            census.recall(&ticker.lapsing);
        }
        if planted(Bug::ExpectationKept) {
            census.expect(ticker.seen.promised);
        }
        let renewals = self.renewals_last_minute(ticker, now.mono);
        self.counters.longest_lease_ms.store(census.longest_ms, Ordering::Relaxed);
        let peer_expired = self.counters.peer_expired.swap(0, Ordering::Relaxed) as usize;
        ticker.guard.removed(peer_expired, now.mono);
        ticker.guard.returned(self.counters.returned.swap(0, Ordering::Relaxed) as usize, now.mono);
        let allowance = self.allowance(ticker, &census, renewals, now.mono);
        ticker.lapsing = self.lapsing_of(&census, ticker.step);
        let (chosen, protected) = self.choose(ticker, &census, allowance);
        let gone = chosen.iter().filter(|lapsed| self.expire(lapsed.slot, now)).count();
        ticker.guard.removed(protected, now.mono);
        ticker.seen = Seen {
            promised: census.promised,
            held: census.lapsed.len() - gone,
            renewals_last_minute: renewals,
            live: census.live - gone,
            expected: census.expected,
            heard: census.heard,
            removed: ticker.guard.removed_lately(now.mono),
            held_for: ticker.guard.held_for(now.mono),
        };
        let protecting = ticker.guard.is_protecting();
        if self.protecting.swap(protecting, Ordering::AcqRel) != protecting {
            self.log.wake();
        }
    }

    /// Self-preservation as it stood at the last tick.
    #[must_use]
    pub fn outlook(&self) -> Outlook {
        let mode = self.preservation_mode();
        let ticker = self.ticker.lock();
        let (seen, forecast) = (ticker.seen, ticker.guard.forecast());
        drop(ticker);
        Outlook {
            mode,
            live: seen.live as u64,
            held: seen.held as u64,
            budget: forecast.budget as u64,
            removed: seen.removed as u64,
            expected_per_minute: seen.expected,
            heard_per_minute: seen.heard,
            held_for: seen.held_for,
            next: if mode.is_none() { Next::Never } else { forecast.next },
        }
    }

    /// The way in force; nothing while no lease may be removed.
    fn preservation_mode(&self) -> Option<PreservationMode> {
        match *self.removals.lock() {
            Removals::Configured => Some(self.config.preservation.mode),
            Removals::As(mode) => Some(mode),
            Removals::Frozen => None,
        }
    }

    fn allowance(&self, ticker: &mut Ticker, census: &Census, renewals: u64, now: Mono) -> Allowance {
        let Some(mode) = self.preservation_mode() else { return Allowance::NOTHING };
        let preservation = Preservation { mode, ..self.config.preservation.clone() };
        ticker.guard.decide(&preservation, census, renewals, now)
    }

    /// Leases that ran out since the last tick, if the peers are asked about them.
    fn lapsing_of(&self, census: &Census, step: Duration) -> Vec<u32> {
        let young = |lapsed: &&Lapsed| self.config.asks_peers && lapsed.overdue <= step;
        census.lapsed.iter().filter(young).map(|lapsed| lapsed.slot).collect()
    }

    /// Instances whose leases were found to have run out at the last tick and are not removed yet.
    #[must_use]
    pub fn lapsing(&self) -> Vec<InstanceKey> {
        let lapsing = self.ticker.lock().lapsing.clone();
        lapsing.into_iter().filter_map(|slot| Some(self.slots.record(slot)?.1.key())).collect()
    }

    fn renewals_last_minute(&self, ticker: &mut Ticker, now: Mono) -> u64 {
        let total = self.counters.renewals.load(Ordering::Relaxed);
        ticker.renewals.push_back((now, total));
        while ticker.renewals.get(1).is_some_and(|(at, _)| now.since(*at) >= Duration::from_mins(1)) {
            ticker.renewals.pop_front();
        }
        total - ticker.renewals.front().map_or(0, |(_, before)| *before)
    }

    /// One pass over all leases, without a lock.
    fn census(&self, now: Now) -> Census {
        let reading = self.lease_clock.read(now.mono);
        let double = self.config.eureka_double_lease;
        let mut census = Census::default();
        let mut rate = Rate::default();
        for (first, leases) in self.slots.leases() {
            for (slot, view) in (first..).zip(leases).filter_map(|(slot, lease)| Some((slot, lease.view()?)))
            {
                let per_minute = rate.of(view.interval_ms());
                let duration = view.duration_ms(double);
                let passed = reading.since(view.renewed).as_millis() as u64;
                census.live += 1;
                census.promised += per_minute;
                census.longest_ms = census.longest_ms.max(duration);
                if passed > duration {
                    let overdue = Duration::from_millis(passed - duration);
                    let unprotected = !view.beaten || view.is_down();
                    census.lapsed.push(Lapsed { slot, overdue, unprotected, interval: view.interval() });
                } else if view.beaten {
                    census.expected += per_minute;
                    let heard = passed * OVERDUE.1 <= u64::from(view.interval_ms()) * OVERDUE.0;
                    census.heard += if heard { per_minute } else { 0.0 };
                }
            }
        }
        census
    }

    /// Which lapsed leases go, in random order so that applications share the loss, and how many of them were
    /// protected. An application with several instances keeps one of them for the next tick.
    fn choose(&self, ticker: &mut Ticker, census: &Census, allowance: Allowance) -> (Vec<Lapsed>, usize) {
        let mut lapsed = census.lapsed.clone();
        lapsed.retain(|candidate| !self.config.asks_peers || candidate.overdue > ticker.step);
        self.order(ticker, &mut lapsed);
        let mut gone: HashMap<*const crate::store::App, Gone> = HashMap::new();
        let mut protected = 0;
        let mut chosen = Vec::new();
        for candidate in lapsed {
            let free = candidate.unprotected && allowance.unprotected;
            if !free && (protected == allowance.protected || candidate.overdue < allowance.overdue) {
                continue;
            }
            let Some((_, record)) = self.slots.record(candidate.slot) else { continue };
            let app = record.app();
            let gone = gone.entry(std::sync::Arc::as_ptr(app)).or_insert_with(|| Gone::of(&record));
            if gone.may_take(&record, !free && allowance.keep_last_up) {
                protected += usize::from(!free);
                chosen.push(candidate);
            }
        }
        (chosen, protected)
    }

    /// Servers that share a budget pick the same ones: the order is open, but the same everywhere.
    fn order(&self, ticker: &mut Ticker, lapsed: &mut [Lapsed]) {
        if !self.config.asks_peers {
            return lapsed.shuffle(&mut ticker.random);
        }
        let place = |slot| {
            self.slots
                .record(slot)
                .map(|(_, record)| instance_hash(record.key().as_ref(), &Version::default()))
        };
        lapsed.sort_by_cached_key(|candidate| place(candidate.slot));
    }

    /// Removes an instance if its lease has still run out now that nobody can renew it.
    pub(crate) fn expire(&self, slot: u32, now: Now) -> bool {
        let Some((_, record)) = self.slots.record(slot) else { return false };
        self.with_key(record.key().as_ref(), now, |key| {
            let Ok(held) = key.live() else { return false };
            let lease = self.slots.lease(held.slot).view();
            let lapsed = lease.is_some_and(|lease| self.is_expired(&lease, now));
            if !lapsed && !planted(Bug::RemovedUnseen) {
                return false;
            }
            let owner = OwnerWrite::same(&held.record);
            let life = if planted(Bug::EvictedAsCancelled) { Life::Cancelled } else { Life::Expired };
            let write = Write::owner(owner, life, Renewal::Keep, Cause::Expired);
            let removed = key.write(&write, &Origin::System).is_ok();
            self.counters.expired.fetch_add(u64::from(removed), Ordering::Relaxed);
            removed
        })
    }

    fn keep_appointments(&self, now: Now) {
        for _ in 0..APPOINTMENTS {
            let Some(due) = self.timers.lock().next(now.mono) else { return };
            self.keep(due, now);
        }
    }

    /// Forgets the oldest removals while there are more than may be, by number or by their share of the memory.
    fn forget_surplus(&self, now: Now) {
        while self.remembers_too_much() {
            let Some(due) = self.timers.lock().next_forgotten() else { return };
            self.keep(due, now);
        }
    }

    fn remembers_too_much(&self) -> bool {
        let counters = &self.counters;
        counters.tombstones.load(Ordering::Relaxed) > self.config.tombstone_max as u64
            || counters.removed_bytes.load(Ordering::Relaxed) > self.config.max_bytes / REMEMBERED_SHARE
    }

    /// Drops the appointments that their keys have outlived.
    fn drop_void(&self) {
        let mut timers = self.timers.lock();
        if timers.is_crowded() {
            timers.retain(|due| self.is_valid(due));
        }
    }

    fn is_valid(&self, due: Due) -> bool {
        match due {
            Due::Strip { slot, revision } | Due::Forget { slot, revision } => {
                self.slots.record(slot).is_some_and(|(current, _)| current == revision)
            }
            Due::OverrideEnds { slot, stamp } => {
                self.slots.record(slot).is_some_and(|(_, record)| record.has_overlay_of(stamp))
            }
        }
    }

    fn keep(&self, due: Due, now: Now) {
        let (Due::Strip { slot, .. } | Due::Forget { slot, .. } | Due::OverrideEnds { slot, .. }) = due;
        let Some((_, record)) = self.slots.record(slot) else { return };
        self.with_key(record.key().as_ref(), now, |key| match due {
            Due::Strip { revision, .. } => key.strip(revision),
            Due::Forget { revision, .. } => key.forget(revision),
            Due::OverrideEnds { stamp, .. } => {
                let Some(held) = key.held() else { return };
                let life = held.record.head().life;
                if held.record.has_overlay_of(stamp) {
                    let ended = Write::overlay(Some(no_overlay()), Renewal::Keep, Cause::OverrideEnded);
                    // The key is known already, so room is no question.
                    let _ = key.write(&Write { life, ..ended }, &Origin::System);
                }
            }
        });
    }
}

/// What the sweep has taken from one application at this tick.
struct Gone {
    taken: usize,
    live: usize,
    up: u32,
}

impl Gone {
    fn of(record: &Record) -> Self {
        let app = record.app();
        Self { taken: 0, live: app.live(), up: app.tally.lock().counts.get(Status::Up) }
    }

    fn may_take(&mut self, record: &Record, keep_last_up: bool) -> bool {
        let up = record.status() == Status::Up;
        let empties = self.live > 1 && self.taken + 1 >= self.live;
        if empties || (keep_last_up && up && self.up <= 1) {
            return false;
        }
        self.taken += 1;
        self.up -= u32::from(up && self.up > 0);
        true
    }
}

/// Renewals per minute of an interval. Neighbouring leases mostly share theirs.
#[derive(Default)]
struct Rate {
    interval_ms: u32,
    per_minute: f64,
}

impl Rate {
    fn of(&mut self, interval_ms: u32) -> f64 {
        if self.interval_ms != interval_ms {
            *self = Self { interval_ms, per_minute: 60_000.0 / f64::from(interval_ms.max(1)) };
        }
        self.per_minute
    }
}
