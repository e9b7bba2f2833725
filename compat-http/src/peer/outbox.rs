//! What one server of the original's kind is told, and what becomes of it.
//!
//! There is no queue: changes are read from the log at a cursor, renewals by a pass over the leases, so a peer that is
//! slow or away costs a number, and is told the present when it is back. Only keys that an answer asked for are held.
//! One batch is under way at a time, which keeps the order of each key.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use heureka_model::{InstanceKey, Mono, Now, Stamp};
use heureka_registry::Registry;
use heureka_registry::replication::{Content, KeyState, Scope, Sighting};

use super::answers::{self, ItemAnswer};
use super::draft::{Asked, Draft, Flight, Reach};
use crate::intake;
use crate::wire::batch::Action;

/// Items of a batch, as the original sends at most.
const ITEMS_MAX: usize = 250;
/// Time between two batches while there is not enough for a full one.
const PERIOD: Duration = Duration::from_millis(500);
/// After so long without news an empty batch asks whether the peer is there.
const IDLE: Duration = Duration::from_secs(4);
/// First wait after the peer was found busy, and after it was not reached.
const BUSY_WAIT: Duration = Duration::from_secs(1);
const NETWORK_WAIT: Duration = Duration::from_millis(100);
/// Longest wait.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// Keys that are held because an answer asked for them; what goes beyond is asked for again later.
const ASKED_MAX: usize = 100_000;

/// The sender to one peer.
#[derive(Debug, Default)]
pub struct Outbox {
    reach: Reach,
    /// Moment up to which renewals were looked for.
    scanned: Mono,
    next_scan: Mono,
    beats: VecDeque<Sighting>,
    asked: VecDeque<Asked>,
    known: HashSet<Asked>,
    /// Items of the next batch, at most; fewer while the peer refuses a batch for one of its items.
    limit: Limit,
    failures: u32,
    wait_until: Mono,
    last_sent: Option<Mono>,
    /// The last batch had no room for everything.
    more: bool,
    flight: Option<Flight>,
    stats: OutboxStats,
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutboxStats {
    /// Batches sent, repeated ones included.
    pub batches: u64,
    /// Items sent, repeated ones included.
    pub items: u64,
    /// Batches to be sent again.
    pub retries: u64,
    /// Items given up: the peer refuses them for what they are.
    pub dropped: u64,
    /// Items that the peer answered with a code that neither side can act on.
    pub refused: u64,
    /// Records taken over because the peer's was newer.
    pub conflicts: u64,
}

/// A batch to send.
#[derive(Debug)]
pub struct Batch {
    /// Its JSON.
    pub body: Vec<u8>,
    /// Number of items.
    pub items: usize,
}

/// What came of a batch.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The peer answered with this code and body.
    Answered(u16, Vec<u8>),
    /// The peer took too long.
    TimedOut,
    /// The peer was not reached, or the connection broke.
    Broken,
}

#[derive(Clone, Copy, Debug)]
struct Limit(usize);

impl Default for Limit {
    fn default() -> Self {
        Self(ITEMS_MAX)
    }
}

impl Outbox {
    /// The next batch, if it is time and there is something to tell. Until [`Self::settle`] there is no other.
    pub fn next(&mut self, registry: &Registry, now: Now) -> Option<Batch> {
        if self.flight.is_some() || now.mono < self.due() {
            return None;
        }
        let mut draft = Draft::new(self.limit.0, self.reach);
        self.take_asked(&mut draft, registry, now);
        self.take_changes(&mut draft, registry, now);
        self.take_beats(&mut draft, registry, now);
        self.more = !draft.has_room();
        if draft.flight.items.is_empty() && !self.is_idle(now.mono) {
            self.finish(&draft.flight);
            return None;
        }
        self.last_sent = Some(now.mono);
        let items = draft.flight.items.len();
        self.stats.batches += 1;
        self.stats.items += items as u64;
        self.flight = Some(draft.flight);
        Some(Batch { body: draft.body.finish(), items })
    }

    /// When to ask for the next batch, at the earliest.
    #[must_use]
    pub fn due(&self) -> Mono {
        let paced = self.last_sent.filter(|_| !self.more).map_or(Mono(0), |sent| sent.plus(PERIOD));
        self.wait_until.max(paced)
    }

    /// Takes what came of the batch that is under way.
    ///
    /// # Errors
    /// What is wrong with the peer or its answer, for people. Nothing is to be done about it: what was not told is
    /// told again.
    pub fn settle(&mut self, outcome: &Outcome, registry: &Registry, now: Now) -> Result<(), String> {
        let Some(flight) = self.flight.take() else { return Ok(()) };
        match outcome {
            Outcome::Answered(200..=299, body) => self.delivered(flight, body, registry, now),
            Outcome::Answered(code, _) if is_passing(*code) => {
                self.put_back(flight, BUSY_WAIT, now);
                Err(format!("the peer answered {code}"))
            }
            Outcome::Answered(code, _) => {
                self.narrow(flight, now);
                Err(format!("the peer answered {code} to a batch"))
            }
            Outcome::TimedOut => {
                self.put_back(flight, BUSY_WAIT, now);
                Err("the peer did not answer in time".into())
            }
            Outcome::Broken => {
                self.put_back(flight, NETWORK_WAIT, now);
                Err("the connection broke".into())
            }
        }
    }

    /// The peer lacks what is known here of a live instance, or holds something older.
    pub fn tell(&mut self, key: InstanceKey) {
        self.ask(key, Action::Register);
    }

    /// The peer holds an instance that was removed here.
    pub fn remove(&mut self, key: InstanceKey) {
        self.ask(key, Action::Cancel);
    }

    /// The operator's status is another one at the peer.
    pub fn tell_status(&mut self, key: InstanceKey) {
        self.ask(key, Action::StatusUpdate);
    }

    /// Revisions, renewals and asked-for keys that the peer was not told yet.
    #[must_use]
    pub fn backlog(&self, registry: &Registry) -> u64 {
        let behind = registry.head().saturating_sub(self.reach.revision);
        behind + (self.beats.len() + self.asked.len()) as u64
    }

    /// Counts since the start.
    #[must_use]
    pub fn stats(&self) -> OutboxStats {
        self.stats
    }

    fn ask(&mut self, key: InstanceKey, action: Action) {
        let asked = Asked { key, action };
        if self.asked.len() < ASKED_MAX && self.known.insert(asked.clone()) {
            self.asked.push_back(asked);
        }
    }

    fn is_idle(&self, now: Mono) -> bool {
        self.last_sent.is_none_or(|sent| now.since(sent) >= IDLE)
    }

    fn take_asked(&mut self, draft: &mut Draft, registry: &Registry, now: Now) {
        while draft.has_room() {
            let Some(asked) = self.asked.pop_front() else { return };
            match (asked.action, registry.get(asked.key.as_ref(), now)) {
                (Action::Cancel, None) => draft.cancel(&asked.key),
                (Action::Cancel, Some(_)) | (_, None) => {}
                (Action::StatusUpdate, Some(live)) => draft.status(&live),
                (_, Some(live)) => {
                    draft.add(Action::Register, &live);
                    draft.status_if_written(&live);
                }
            }
            draft.flight.asked.push(asked);
        }
    }

    fn take_changes(&self, draft: &mut Draft, registry: &Registry, now: Now) {
        while draft.has_room() {
            let changes = registry.changes(draft.flight.reach.revision, Scope::Clients, now);
            for (revision, outgoing) in &changes.records {
                if !draft.has_room() {
                    return;
                }
                self.add_change(draft, &outgoing.state, registry, now);
                draft.flight.reach.revision = *revision;
            }
            draft.flight.reach.revision = changes.position;
            if changes.at_head {
                draft.flight.reach.clock = changes.clock;
                return;
            }
        }
    }

    fn add_change(&self, draft: &mut Draft, state: &KeyState, registry: &Registry, now: Now) {
        if !state.key.namespace.is_empty() {
            return;
        }
        // What a peer of that kind told must not go back there.
        let ours = registry.registers(state.key.as_ref(), Scope::Clients);
        let is_news = |stamp: Stamp| stamp.clock > self.reach.clock;
        match &state.owner.content {
            Content::Cancelled if ours.owner => draft.cancel(&state.key),
            // What this server no longer hears from, the peer may.
            Content::Cancelled | Content::Expired => {}
            Content::Live(_) => {
                let Some(live) = registry.get(state.key.as_ref(), now) else { return };
                if ours.owner && is_news(state.owner.written) {
                    draft.add(Action::Register, &live);
                }
                if ours.operator && is_news(state.overlay_stamp) {
                    draft.status(&live);
                }
            }
        }
    }

    fn take_beats(&mut self, draft: &mut Draft, registry: &Registry, now: Now) {
        if self.beats.is_empty() && now.mono >= self.next_scan && draft.has_room() {
            let (beats, through) = registry.sightings(self.scanned, Scope::Clients, now);
            self.beats = beats.into();
            self.scanned = through;
            self.next_scan = now.mono.plus(PERIOD);
        }
        while draft.has_room() {
            let Some(beat) = self.beats.pop_front() else { return };
            draft.flight.beats.push(beat);
            let Some(key) = registry.sighted(beat).filter(|key| key.namespace.is_empty()) else { continue };
            if draft.registered.contains(&key) {
                continue;
            }
            if let Some(live) = registry.get(key.as_ref(), now) {
                draft.add(Action::Heartbeat, &live);
            }
        }
    }

    fn delivered(
        &mut self,
        flight: Flight,
        body: &[u8],
        registry: &Registry,
        now: Now,
    ) -> Result<(), String> {
        self.failures = 0;
        self.limit.0 = (self.limit.0 * 2).min(ITEMS_MAX);
        self.finish(&flight);
        let answers = answers::read(body, flight.items.len())
            .map_err(|error| format!("the peer's answer cannot be read: {error}"))?;
        if answers.len() != flight.items.len() {
            return Err(format!("the peer answered {} of {} items", answers.len(), flight.items.len()));
        }
        for ((action, key), answer) in flight.items.into_iter().zip(answers) {
            self.answered(action, key, answer, registry, now);
        }
        Ok(())
    }

    fn answered(
        &mut self,
        action: Action,
        key: InstanceKey,
        answer: ItemAnswer,
        registry: &Registry,
        now: Now,
    ) {
        match (action, answer.code, answer.record) {
            (_, 200..=299, _) | (Action::Cancel, 404, _) => {}
            (Action::Heartbeat | Action::StatusUpdate | Action::DeleteStatusOverride, 404, _) => {
                self.ask(key, Action::Register);
            }
            (Action::Heartbeat, 409, Some(newer)) => {
                self.stats.conflicts += 1;
                if intake::register(registry, newer, now).is_err() {
                    self.stats.refused += 1;
                }
            }
            (action, code, _) => {
                self.stats.refused += 1;
                tracing::debug!(%key, action = action.as_str(), code, "a peer refused an item");
            }
        }
    }

    /// Everything of the batch is told again, as it is then.
    fn put_back(&mut self, flight: Flight, first_wait: Duration, now: Now) {
        self.restore(flight);
        self.stats.retries += 1;
        let wait = first_wait.saturating_mul(1 << self.failures.min(16)).min(WAIT_MAX);
        self.failures += 1;
        self.wait_until = now.mono.plus(wait);
    }

    /// The peer refuses the batch for one of its items, and does not say which: halve until it is alone.
    fn narrow(&mut self, flight: Flight, now: Now) {
        self.wait_until = now.mono.plus(NETWORK_WAIT);
        if self.limit.0 > 1 && flight.items.len() > 1 {
            self.limit.0 = (flight.items.len().min(self.limit.0) / 2).max(1);
            self.stats.retries += 1;
            return self.restore(flight);
        }
        self.stats.dropped += flight.items.len() as u64;
        for (action, key) in &flight.items {
            tracing::warn!(%key, action = action.as_str(), "a peer refuses an item, which is not sent again");
        }
        self.finish(&flight);
    }

    /// What the batch told is told.
    fn finish(&mut self, flight: &Flight) {
        self.reach = flight.reach;
        for asked in &flight.asked {
            self.known.remove(asked);
        }
    }

    fn restore(&mut self, flight: Flight) {
        flight.asked.into_iter().rev().for_each(|asked| self.asked.push_front(asked));
        flight.beats.into_iter().rev().for_each(|beat| self.beats.push_front(beat));
    }
}

/// A code that says more about the peer than about the batch.
fn is_passing(code: u16) -> bool {
    matches!(code, 300..=399 | 401 | 403 | 404 | 405 | 407 | 408 | 429 | 502 | 503 | 504)
}
