//! What goes out on a stream: the log from a cursor, what was asked for, and renewals.

use std::collections::VecDeque;
use std::time::Duration;

use heureka_model::{InstanceKey, Mono, Now};

use super::outlet::has_room;
use super::{
    Beaten, Binding, FRAME_KEYS, Frame, Position, Records, Renewals, Reported, Scope, Sighting, Standing,
};
use crate::Registry;
use crate::seeded::{Bug, planted};

/// Time between two passes over the leases.
const RENEWALS_EVERY: Duration = Duration::from_millis(500);

/// The same while everybody's renewals are passed on, which may come late themselves.
const RELAY_EVERY: Duration = Duration::from_secs(2);

/// Slots and renewals waiting to be told on a stream that takes none; more than a server has instances.
const WAITING: usize = 4 << 20;

/// The sending half of a stream.
pub(super) struct Sender {
    /// Everything in this server's log up to here was sent, as far as the peer is to hear of it.
    position: u64,
    /// The position that the peer was told.
    told: u64,
    /// It is time to tell the position although nothing goes with it.
    tell: bool,
    /// Nothing was left to send after the last look.
    level: bool,
    /// The peer lacks a stream to a server that this one has: it is told of everybody's writes and renewals.
    relaying: bool,
    pull: Option<Pull>,
    wanted: VecDeque<u32>,
    renewals: Beats,
    reports: Reports,
}

/// A pass over everything, for a peer that knows nothing.
struct Pull {
    position: u64,
    bound: u64,
    vector: Vec<Position>,
}

/// Renewals on their way out.
struct Beats {
    /// Moment up to which renewals were looked for.
    after: Mono,
    due: Mono,
    waiting: VecDeque<Sighting>,
    /// Per slot the fingerprint of the key that the peer knows it stands for.
    bound: Vec<u32>,
}

/// Reports on their way out, by a cursor into the lane of readings: the newest of each instance, once in a while.
struct Reports {
    /// Everything up to here was sent.
    after: u64,
    due: Mono,
}

impl Sender {
    pub(super) fn new(position: u64, registry: &Registry, now: Now) -> Self {
        let renewals = Beats { after: Mono(0), due: now.mono, waiting: VecDeque::new(), bound: Vec::new() };
        let position = position.min(registry.head());
        Self {
            position,
            told: position,
            tell: false,
            level: false,
            relaying: false,
            pull: None,
            wanted: VecDeque::new(),
            renewals,
            reports: Reports { after: 0, due: now.mono },
        }
    }

    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Sends everything from now on, and once what there is already.
    pub(super) fn pull(&mut self, registry: &Registry) {
        let Standing { vector, revision: bound } = registry.standing();
        self.pull = Some(Pull { position: 0, bound, vector });
        self.position = bound;
    }

    /// Puts what is known of the key in a slot among what goes out.
    pub(super) fn want(&mut self, slot: u32) {
        if self.wanted.len() < WAITING {
            self.wanted.push_back(slot);
        }
    }

    /// Whether the peer is told of everybody's writes and renewals from now on.
    pub(super) fn relay(&mut self, relaying: bool) {
        self.relaying = relaying;
    }

    /// Has the position told even if nothing goes with it.
    pub(super) fn tell_position(&mut self) {
        self.tell = true;
    }

    /// When the next pass over the leases is due, or now when there is more to send.
    pub(super) fn due(&self) -> Mono {
        if self.level { self.renewals.due.min(self.reports.due) } else { Mono(0) }
    }

    /// Answers to what a peer asks before it evicts: signs of life within the lease, or what became of the key.
    pub(super) fn answer_probe(&mut self, registry: &Registry, keys: &[InstanceKey], now: Now) {
        for slot in keys.iter().filter_map(|key| registry.slot_of(key.as_ref())) {
            match registry.sighting(slot, now) {
                Some(sighting) if self.renewals.waiting.len() < WAITING => {
                    self.renewals.waiting.push_back(sighting);
                }
                Some(_) => {}
                None => self.want(slot),
            }
        }
    }

    pub(super) fn next(&mut self, registry: &Registry, now: Now) -> Option<Frame> {
        self.level = true;
        if let Some(renewals) = self.renewals.next(registry, self.scope(), self.relaying, now) {
            return Some(Frame::Renewals(renewals));
        }
        let records = self.wanted(registry, now).or_else(|| self.pulled(registry, now));
        // After the records, so that the peer knows whose reports they are.
        records
            .or_else(|| self.changed(registry, now))
            .map(Frame::Records)
            .or_else(|| self.reports.next(registry, self.relaying, now).map(Frame::Reports))
    }

    fn scope(&self) -> Scope {
        if self.relaying { Scope::All } else { Scope::Here }
    }

    fn wanted(&mut self, registry: &Registry, now: Now) -> Option<Records> {
        let mut records = Vec::new();
        let mut bytes = 0;
        while has_room(records.len(), bytes) {
            let Some(slot) = self.wanted.pop_front() else { break };
            if let Some((outgoing, weight)) = registry.outgoing_of(slot, now) {
                bytes += weight;
                records.push(outgoing);
            }
        }
        (!records.is_empty()).then(|| Records { records, ..Records::default() })
    }

    fn pulled(&mut self, registry: &Registry, now: Now) -> Option<Records> {
        let pull = self.pull.as_mut()?;
        let changes = registry.changes_to(pull.position, pull.bound, Scope::All, now);
        pull.position = changes.position;
        let mut records = Records { records: told(changes.records), ..Records::default() };
        if changes.at_head {
            let Pull { bound, vector, .. } = self.pull.take()?;
            records = Records { revision: bound, complete: true, vector, ..records };
            self.told = self.told.max(bound);
        }
        Some(records)
    }

    fn changed(&mut self, registry: &Registry, now: Now) -> Option<Records> {
        let changes = registry.changes(self.position, self.scope(), now);
        self.position = changes.position;
        if planted(Bug::CursorJumps) && changes.records.len() > 1 {
            return self.jump(registry);
        }
        self.level = changes.at_head;
        let due = self.tell && self.position > self.told;
        if changes.records.is_empty() && !due {
            return None;
        }
        self.tell = false;
        self.told = self.position;
        let covered = changes.at_head.then_some(changes.clock);
        let records = told(changes.records);
        Some(Records { records, revision: self.position, covered, ..Records::default() })
    }
}

impl Sender {
    /// Leaves out what is between.
    fn jump(&mut self, registry: &Registry) -> Option<Records> {
        self.position = registry.head();
        self.told = self.position;
        Some(Records { revision: self.position, ..Records::default() })
    }
}

impl Reports {
    fn next(&mut self, registry: &Registry, relaying: bool, now: Now) -> Option<Vec<Reported>> {
        if now.mono < self.due {
            return None;
        }
        let (reports, upto) = registry.reports_after(self.after, relaying, now);
        self.after = upto;
        if reports.is_empty() {
            self.due = now.mono.plus(if relaying { RELAY_EVERY } else { RENEWALS_EVERY });
        }
        (!reports.is_empty()).then_some(reports)
    }
}

impl Beats {
    fn next(&mut self, registry: &Registry, scope: Scope, relaying: bool, now: Now) -> Option<Renewals> {
        if now.mono >= self.due {
            let every = if relaying { RELAY_EVERY } else { RENEWALS_EVERY };
            // What is passed on came with its own delay, so the pass looks back over the time between two.
            let back = if relaying { every.as_millis() as u64 } else { 0 };
            let (found, through) = registry.sightings(Mono(self.after.0.saturating_sub(back)), scope, now);
            self.waiting.extend(found);
            self.after = through;
            self.due = now.mono.plus(every);
        }
        let mut renewals = Renewals::default();
        while renewals.beats.len() < FRAME_KEYS {
            let Some(sighting) = self.waiting.pop_front() else { break };
            self.tell(registry, sighting, &mut renewals, now);
        }
        renewals.beats.sort_by_key(|beat| beat.handle);
        (!renewals.beats.is_empty()).then_some(renewals)
    }

    fn tell(&mut self, registry: &Registry, sighting: Sighting, renewals: &mut Renewals, now: Now) {
        let Sighting { slot, fingerprint, at } = sighting;
        let place = slot as usize;
        if self.bound.len() <= place {
            self.bound.resize(place + 1, 0);
        }
        if self.bound[place] != fingerprint {
            let Some(key) = registry.sighted(sighting) else { return };
            renewals.bindings.push(Binding { handle: slot, key });
            self.bound[place] = fingerprint;
        }
        renewals.beats.push(Beaten { handle: slot, age: registry.age(at, now) });
    }
}

fn told(records: Vec<(u64, super::Outgoing)>) -> Vec<super::Outgoing> {
    records.into_iter().map(|(_, outgoing)| outgoing).collect()
}
