//! What goes out to another server: changes by a cursor into the log, renewals by a pass over the leases. Neither
//! needs a queue, so a peer that is slow or away costs a number.

use std::time::Duration;

use heureka_model::{InstanceKey, KeyRef, Mono, Now};

use super::merge::state;
use super::{FRAME_KEYS, Outgoing, Reported};
use crate::Registry;
use crate::leases::Heard;
use crate::readings::Found;
use crate::record::Record;

/// Bytes of texts read at a time; the record that goes beyond is the last.
const BYTES: usize = 96 << 10;

/// What a record costs beside its texts, at most.
const OVERHEAD: usize = 256;

/// Longer than any lease lives, doubled or not.
const UNHEARD: Duration = Duration::from_hours(3 * 24);

/// Keys examined at a time when hardly any is of interest.
const EXAMINED: usize = 64 * FRAME_KEYS;

/// Which writes a reader asks for, by where they entered the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Written to this server by clients, operators or itself.
    Clients,
    /// Those and the ones that a Eureka server passed on to this one.
    Here,
    /// All.
    All,
}

/// What changed after a position.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// Keys with what is known of them now, in the order of their last changes, each with its revision.
    pub records: Vec<(u64, Outgoing)>,
    /// Everything of the scope up to here is told once these are.
    pub position: u64,
    /// Nothing more is there for now.
    pub at_head: bool,
    /// With `at_head`: this server's clock at the position.
    pub clock: u64,
}

/// A lease that was renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    pub(super) slot: u32,
    pub(super) fingerprint: u32,
    /// Moment of the renewal.
    pub(super) at: Mono,
}

/// Which registers of a key were last written within a scope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// The owner's.
    pub owner: bool,
    /// The operator's; not, while nobody ever wrote it.
    pub operator: bool,
}

impl Scope {
    fn nearest(self) -> Heard {
        match self {
            Self::Clients => Heard::Owner,
            Self::Here => Heard::Eureka,
            Self::All => Heard::Peer,
        }
    }

    fn holds(self, record: &Record) -> bool {
        record.head().by() >= self.nearest()
    }
}

impl Registry {
    /// What changed after revision `after`, removals included, bounded in number and size. An empty answer that is
    /// not `at_head` only says that nothing of the scope was met yet.
    #[must_use]
    pub fn changes(&self, after: u64, scope: Scope, now: Now) -> Changes {
        let (bound, clock) = self.log.hold().position();
        Changes { clock, ..self.changes_to(after, bound, scope, now) }
    }

    /// Which registers of a key were last written within the scope. What is told of a key by [`Self::changes`] holds
    /// both, and a reader that tells them apart must not tell one of them to where it came from.
    #[must_use]
    pub fn registers(&self, key: KeyRef<'_>, scope: Scope) -> Registers {
        let found = self.index.read(self.index.hash(key), |slots| {
            slots.iter().find_map(|slot| {
                let (_, record) = self.slots.record(slot)?;
                crate::apply::is_key(&record, key).then_some(record)
            })
        });
        let Some(record) = found else { return Registers::default() };
        let head = record.head();
        Registers {
            owner: head.owner_by >= scope.nearest(),
            operator: head.overlay.is_some() && head.overlay_by >= scope.nearest(),
        }
    }

    /// The same, as far as `bound`.
    pub(super) fn changes_to(&self, after: u64, bound: u64, scope: Scope, now: Now) -> Changes {
        let mut changes = Changes { position: after, ..Changes::default() };
        let mut met = Vec::new();
        let mut examined = 0;
        while met.is_empty() && examined < EXAMINED && !changes.at_head {
            let walked =
                self.log.walk(&self.slots, changes.position, bound, FRAME_KEYS, |revision, slot, record| {
                    if scope.holds(&record) {
                        met.push((revision, slot, record));
                    }
                });
            changes.position = walked.position;
            changes.at_head = walked.done;
            examined += FRAME_KEYS;
        }
        self.read_out(met, &mut changes, now);
        changes
    }

    /// Reads records out until there are enough bytes of them.
    fn read_out(&self, met: Vec<(u64, u32, Record)>, changes: &mut Changes, now: Now) {
        let mut bytes = 0;
        for (revision, slot, record) in met {
            if bytes > BYTES {
                changes.at_head = false;
                changes.position = changes.records.last().map_or(changes.position, |(last, _)| *last);
                return;
            }
            let outgoing = self.outgoing(slot, &record, now);
            bytes += weight(&outgoing);
            changes.records.push((revision, outgoing));
        }
    }

    fn outgoing(&self, slot: u32, record: &Record, now: Now) -> Outgoing {
        let view = self.slots.lease(slot).view();
        let heard = view.filter(|view| view.heard > Heard::Nobody);
        // Of what a restart found nobody knows when it was last heard of.
        let unheard = if view.is_some() { UNHEARD } else { Duration::ZERO };
        Outgoing {
            state: state(record),
            age: heard.map_or(unheard, |view| self.age(view.renewed, now)),
            beaten: view.is_some_and(|view| view.beaten),
        }
    }

    /// What is known of the key in a slot, and how much it weighs.
    pub(super) fn outgoing_of(&self, slot: u32, now: Now) -> Option<(Outgoing, usize)> {
        let (_, record) = self.slots.record(slot)?;
        let outgoing = self.outgoing(slot, &record, now);
        let weight = weight(&outgoing);
        Some((outgoing, weight))
    }

    /// Leases of the scope that were renewed after the moment `after`, and the moment to ask with next. One
    /// pass over all leases, without a lock.
    #[must_use]
    pub fn sightings(&self, after: Mono, scope: Scope, now: Now) -> (Vec<Sighting>, Mono) {
        // Renewals of this very millisecond may still come: they are told again rather than never.
        let through = Mono(self.moment(now).0.saturating_sub(1));
        let mut sightings = Vec::new();
        for (first, leases) in self.slots.leases() {
            for (slot, lease) in (first..).zip(leases) {
                let Some(view) = lease.view() else { continue };
                if view.renewed > after && view.heard >= scope.nearest() && view.beaten {
                    sightings.push(Sighting { slot, fingerprint: lease.fingerprint(), at: view.renewed });
                }
            }
        }
        (sightings, through)
    }

    /// The last sign of life of the instance in a slot, if it came within the lease.
    pub(super) fn sighting(&self, slot: u32, now: Now) -> Option<Sighting> {
        let lease = self.slots.lease(slot);
        let view = lease.view()?;
        let holds = view.heard > Heard::Nobody && !self.is_expired(&view, now);
        holds.then(|| Sighting { slot, fingerprint: lease.fingerprint(), at: view.renewed })
    }

    /// What instances reported to this server after `after` in its lane, or to anybody when everything is passed on,
    /// bounded in number and size; and where to go on. None are told only when there are none.
    pub(super) fn reports_after(&self, after: u64, all: bool, now: Now) -> (Vec<Reported>, u64) {
        let (mut reports, mut bytes, mut position) = (Vec::new(), 0, after);
        while reports.is_empty() {
            let (news, upto) = self.all_news_after(position, FRAME_KEYS);
            if news.is_empty() {
                return (reports, upto);
            }
            position = upto;
            for found in news {
                if bytes > BYTES {
                    return (reports, found.seq - 1);
                }
                if let Some(reported) = self.passed_on(&found, all, now) {
                    bytes += OVERHEAD + reported.report.text_size() + reported.key.id.len();
                    reports.push(reported);
                }
            }
        }
        (reports, position)
    }

    fn passed_on(&self, found: &Found, all: bool, now: Now) -> Option<Reported> {
        let (report, at) =
            found.report.clone().filter(|_| found.reported && (all || found.heard == Heard::Owner))?;
        let (_, record) = self.slots.record(found.slot)?;
        let is_it = record.is_live() && self.life_of(found.slot, &record) == found.life;
        let age = Duration::from_millis(now.wall.0.saturating_sub(at.0));
        is_it.then(|| Reported { key: record.key(), report, age })
    }

    /// The key that was seen, unless it is gone by now.
    #[must_use]
    pub fn sighted(&self, sighting: Sighting) -> Option<InstanceKey> {
        let (_, record) = self.slots.record(sighting.slot)?;
        let key = record.key();
        (self.index.hash(key.as_ref()).fingerprint == sighting.fingerprint).then_some(key)
    }
}

/// What a record takes on the wire, roughly.
fn weight(outgoing: &Outgoing) -> usize {
    let texts = match &outgoing.state.owner.content {
        super::Content::Live(instance) => instance.text_size() * 9 / 8,
        super::Content::Cancelled | super::Content::Expired => 0,
    };
    let key = &outgoing.state.key;
    OVERHEAD + texts + key.namespace.len() + key.app.len() + key.id.len()
}

/// Whether a frame that holds so much has room for more.
pub(super) fn has_room(keys: usize, bytes: usize) -> bool {
    keys < FRAME_KEYS && bytes <= BYTES
}
