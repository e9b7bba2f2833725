//! What a watcher holds, and what each message makes of it. Pure, so that every rule has a test.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use heureka_model::{InstanceKey, Invalid, Registration, RemovalReason, Version};
use heureka_proto::convert::{duration, removal_reason};
use heureka_proto::v1;
use heureka_proto::v1::watch_event::Event as Wire;
use tokio::time::Instant;

use crate::guard::{Origin, Waiting, shrinks};
use crate::set::Set;

/// Digests that differ in a row until the set is fetched anew.
const MISMATCHES: u32 = 2;

/// What a watch tells.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// An instance entered the set.
    Added(Arc<Registration>),
    /// An instance of the set changed.
    Modified(Arc<Registration>),
    /// An instance left the set.
    Removed {
        /// What it was.
        last: Arc<Registration>,
        /// Why it left; unknown when it left unobserved.
        reason: Option<RemovalReason>,
    },
    /// Everything that the server knew at some moment was told. Comes again after every reconnect.
    Synced {
        /// Instances in the set.
        instances: usize,
    },
    /// The server holds lapsed leases back (true), or removes them again (false).
    Preserving(bool),
}

/// A watched set.
#[derive(Debug, Default)]
pub(crate) struct View {
    held: Set,
    /// Who told what is held.
    told_by: Origin,
    /// The set as a snapshot shows it, until the snapshot is complete: readers keep the old one meanwhile.
    building: Option<Set>,
    /// Who talks now.
    origin: Origin,
    /// A complete snapshot that lacks most of the set.
    waiting: Option<Waiting>,
    /// How long such a one waits at most.
    hold: Duration,
    token: Bytes,
    mismatches: u32,
    /// Digests differed so often that what is held counts for less than the next whole snapshot.
    is_doubted: bool,
}

/// A change as it was heard: without an instance, a removal.
struct Heard {
    key: InstanceKey,
    version: Version,
    registration: Option<Arc<Registration>>,
    reason: Option<RemovalReason>,
}

impl Heard {
    /// Nothing for a change of a type that a later server may send, when it has no instance: the digest tells whether
    /// it mattered. With an instance it is what the key is now, whatever the type.
    fn read(wire: v1::Change) -> Result<Option<Self>, Invalid> {
        let kind = wire.r#type();
        if kind == v1::ChangeType::Unspecified && wire.instance.is_none() {
            return Ok(None);
        }
        let is_removal = kind == v1::ChangeType::Removed;
        let registration = if is_removal { None } else { Some(read_instance(wire.instance)?) };
        Ok(Some(Self {
            key: wire.key.ok_or_else(|| Invalid::missing("key"))?.into(),
            version: wire.version.ok_or_else(|| Invalid::missing("version"))?.into(),
            registration,
            reason: removal_reason(wire.removal_reason),
        }))
    }
}

fn read_instance(wire: Option<v1::Instance>) -> Result<Arc<Registration>, Invalid> {
    let wire = wire.ok_or_else(|| Invalid::missing("instance"))?;
    Registration::try_from(of_this_time(wire)).map(Arc::new).map_err(|invalid| invalid.within("instance"))
}

/// The instance without a status that only a later server knows. UNKNOWN stands for the effective one, whatever it is
/// made of; what that is made of reads as the effective one.
fn of_this_time(mut wire: v1::Instance) -> v1::Instance {
    let unknown: i32 = v1::InstanceStatus::Unknown.into();
    let is_strange = |number: i32| v1::InstanceStatus::try_from(number).is_err();
    if is_strange(wire.status) {
        wire.status_override = if wire.status_override == 0 { 0 } else { unknown };
        (wire.status, wire.reported_status) = (unknown, unknown);
    }
    let effective = if wire.status == 0 { unknown } else { wire.status };
    for number in [&mut wire.reported_status, &mut wire.status_override] {
        if is_strange(*number) {
            *number = effective;
        }
    }
    wire
}

/// What a message asks of the stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Next {
    /// Read on.
    Read,
    /// Everything was told, and no digest contradicts: the server is fine.
    Settled,
    /// Open another stream, within this time.
    Reconnect(Duration),
    /// The same on another server.
    Leave(Duration),
}

impl View {
    /// A view that holds suspicious snapshots back, for so long at most.
    pub(crate) fn holding(hold: Duration) -> Self {
        Self { hold, ..Self::default() }
    }

    /// Token to resume with; empty without one.
    pub(crate) fn token(&self) -> Bytes {
        self.token.clone()
    }

    /// The next stream starts with everything.
    pub(crate) fn drop_token(&mut self) {
        self.token.clear();
    }

    /// Whether a snapshot waits, and how many instances would leave with it.
    pub(crate) fn withheld(&self) -> Option<usize> {
        let waiting = self.waiting.as_ref()?;
        Some(self.held.missing_in(&waiting.set).count())
    }

    /// Takes a message in; what it means is appended to `events`.
    ///
    /// # Errors
    /// A change that cannot be read. Those before it in the message are taken; the next snapshot brings the rest.
    pub(crate) fn take(
        &mut self,
        message: Wire,
        events: &mut VecDeque<Event>,
        now: Instant,
    ) -> Result<Next, Invalid> {
        match message {
            Wire::SnapshotBegin(begin) => {
                let full = begin.mode() == v1::SnapshotMode::Full;
                self.building = full.then(Set::default);
                self.origin = Origin::from(begin.header.as_ref());
                self.hear_again();
                Ok(Next::Read)
            }
            Wire::Changes(batch) => {
                for change in batch.changes {
                    if let Some(heard) = Heard::read(change)? {
                        self.apply(heard, events);
                    }
                }
                Ok(Next::Read)
            }
            Wire::SnapshotEnd(end) => {
                self.complete(events, now);
                let next = self.mark(end.resume_token, end.digest.as_ref());
                self.release(events, now);
                if self.waiting.is_none() {
                    events.push_back(Event::Synced { instances: self.held.len() });
                }
                Ok(next)
            }
            Wire::Bookmark(mark) => {
                let next = self.mark(mark.resume_token, mark.digest.as_ref());
                self.release(events, now);
                Ok(next)
            }
            Wire::Notice(notice) => {
                events.extend(preserving(notice.kind()).map(Event::Preserving));
                Ok(Next::Read)
            }
            Wire::GoAway(away) => Ok(self.leave(away)),
        }
    }

    /// The server behind the snapshot that waits says anew how it is.
    fn hear_again(&mut self) {
        if let Some(waiting) = self.waiting.as_mut().filter(|waiting| waiting.origin.boot == self.origin.boot)
        {
            waiting.origin = self.origin;
        }
    }

    /// A change outside a snapshot concerns what is held, and what waits as well.
    fn apply(&mut self, heard: Heard, events: &mut VecDeque<Event>) {
        if let Some(building) = &mut self.building {
            heard.apply_to(building);
            return;
        }
        if let Some(waiting) = &mut self.waiting {
            heard.apply_to(&mut waiting.set);
        }
        if self.held.is_ahead(&heard.key, heard.version) {
            return;
        }
        match heard.registration {
            Some(registration) => events.extend(self.store(registration)),
            None => {
                let last = self.held.remove(&heard.key);
                events.extend(last.map(|last| Event::Removed { last, reason: heard.reason }));
            }
        }
    }

    /// The client's own set decides between entering and changing; the same version is no event.
    fn store(&mut self, registration: Arc<Registration>) -> Option<Event> {
        match self.held.insert(registration.clone()) {
            Some(held) if held.version == registration.version => None,
            Some(_) => Some(Event::Modified(registration)),
            None => Some(Event::Added(registration)),
        }
    }

    /// A snapshot is complete. What it holds is taken; what it lacks goes, or waits.
    fn complete(&mut self, events: &mut VecDeque<Event>, now: Instant) {
        let Some(built) = self.building.take() else {
            return;
        };
        let overrides = std::mem::take(&mut self.is_doubted);
        let waiting_since = self.waiting.take().map(|earlier| earlier.since());
        let is_doubtful = waiting_since.is_some() || shrinks(&self.held, &built);
        if is_doubtful && self.hold > Duration::ZERO {
            let since = waiting_since.unwrap_or(now);
            self.absorb(&built, overrides, events);
            self.waiting = Some(Waiting::new(&self.held, self.told_by, built, self.origin, since));
        } else {
            self.told_by = self.origin;
            self.swap(&built, overrides, events);
        }
    }

    /// Takes the snapshot that waits when it is time.
    fn release(&mut self, events: &mut VecDeque<Event>, now: Instant) {
        if let Some(waiting) = self.waiting.take_if(|waiting| waiting.is_over(&self.held, self.hold, now)) {
            self.told_by = waiting.origin;
            self.swap(&waiting.set, false, events);
        }
    }

    /// A whole snapshot replaces the set.
    fn swap(&mut self, built: &Set, overrides: bool, events: &mut VecDeque<Event>) {
        let gone: Vec<_> = self.held.missing_in(built).cloned().collect();
        for last in gone {
            self.held.remove(&last.instance.key);
            events.push_back(Event::Removed { last, reason: None });
        }
        self.absorb(built, overrides, events);
    }

    /// Takes over what a snapshot holds. A newer copy of an instance is kept, since the snapshot may come from a server
    /// that lags, unless the snapshot overrides: it was fetched because what is held contradicted the digests, so the
    /// newer copy may come from a server that lives no more.
    fn absorb(&mut self, built: &Set, overrides: bool, events: &mut VecDeque<Event>) {
        for registration in built.members() {
            if overrides || !self.held.is_ahead(&registration.instance.key, registration.version) {
                events.extend(self.store(registration.clone()));
            }
        }
    }

    fn mark(&mut self, token: Bytes, digest: Option<&v1::SetDigest>) -> Next {
        self.token = token;
        let Some(agrees) = digest.and_then(|digest| self.agrees(digest)) else {
            return Next::Settled;
        };
        if let Some(waiting) = &mut self.waiting {
            waiting.compared(agrees);
        }
        self.mismatches = if agrees { 0 } else { self.mismatches + 1 };
        if self.mismatches < MISMATCHES {
            return if agrees { Next::Settled } else { Next::Read };
        }
        tracing::warn!(instances = self.held.len(), "the set is not the server's, fetching it anew");
        self.mismatches = 0;
        self.is_doubted = true;
        self.drop_token();
        Next::Reconnect(Duration::ZERO)
    }

    /// Whether what the server told adds up to its digest; nothing when the digest was made in a way that is not known
    /// here. How many there are of each status is left out: a later server may count statuses that are not known
    /// either.
    fn agrees(&self, digest: &v1::SetDigest) -> Option<bool> {
        let own = self.digest();
        let is_equal = (digest.hash, digest.instance_count) == (own.hash, own.instance_count);
        (digest.algorithm == own.algorithm).then_some(is_equal)
    }

    /// Digest of what the server told.
    fn digest(&self) -> v1::SetDigest {
        let told = self.waiting.as_ref().map_or(&self.held, |waiting| &waiting.set);
        told.digest().into()
    }

    fn leave(&mut self, away: v1::GoAway) -> Next {
        let is_to_stay = away.reason() == v1::GoAwayReason::MaxAge;
        if !away.resume_token.is_empty() {
            self.token = away.resume_token;
        }
        let jitter = away.reconnect_jitter.unwrap_or_default();
        let within = duration("go_away.reconnect_jitter", &jitter).unwrap_or_default();
        if is_to_stay { Next::Reconnect(within) } else { Next::Leave(within) }
    }
}

impl Heard {
    fn apply_to(&self, set: &mut Set) {
        if set.is_ahead(&self.key, self.version) {
            return;
        }
        match &self.registration {
            Some(registration) => drop(set.insert(registration.clone())),
            None => drop(set.remove(&self.key)),
        }
    }
}

fn preserving(kind: v1::NoticeKind) -> Option<bool> {
    match kind {
        v1::NoticeKind::SelfPreservationEntered => Some(true),
        v1::NoticeKind::SelfPreservationExited => Some(false),
        v1::NoticeKind::Unspecified => None,
    }
}

#[cfg(test)]
mod tests;
