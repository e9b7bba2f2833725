//! What a watcher holds, and what each message makes of it. Pure, so that every rule has a test.
//!
//! What is held and what the server tells are two things: a server that lags tells what is known here to be
//! superseded. It is not applied, but noted, so that digests can be compared all the same.

mod behind;
mod building;
mod heard;
mod known;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use heureka_model::{InstanceKey, Invalid, Reading, Registration, RemovalReason};
use heureka_proto::convert::duration;
use heureka_proto::v1;
use heureka_proto::v1::watch_event::Event as Wire;
use tokio::time::Instant;

use self::behind::{Behind, Removed};
use self::building::Building;
use self::heard::Heard;
use crate::guard::{Origin, Waiting, shrinks};
use crate::seeded::shows_older;
use crate::set::Set;

/// Digests that differ in a row until the set is fetched anew.
const MISMATCHES: u32 = 2;

/// How long what is known counts for more than what a server tells, when that is older. A server that lags follows
/// sooner; one that does not has forgotten something that nobody else remembers either.
const TRUSTED: Duration = Duration::from_mins(10);

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
    /// What is known of an instance of the set beside its record, as of now: its newest report, and whether it is
    /// overdue. Takes the place of the one before; comes again after every reconnect, as the server has it. Only for
    /// watches that ask for it.
    Reading(Reading),
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
    building: Option<Building>,
    /// Who talks now.
    origin: Origin,
    /// A complete snapshot that lacks most of the set.
    waiting: Option<Waiting>,
    /// How long such a one waits at most.
    hold: Duration,
    token: Bytes,
    mismatches: u32,
    /// What the server tells otherwise than it is held.
    behind: Behind,
    /// What was removed lately.
    removed: Removed,
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
    /// The same on any server, since the connection to this one reached its age.
    Draw(Duration),
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

    /// What the server told of each application; nothing when that is too much to tell, or nothing at all.
    pub(crate) fn known(&self) -> Vec<v1::AppDigest> {
        known::digests(self.told())
    }

    /// What the server has, as far as it told.
    fn told(&self) -> Box<dyn Iterator<Item = &Arc<Registration>> + '_> {
        match &self.waiting {
            Some(waiting) => Box::new(waiting.set.members()),
            None => Box::new(self.behind.seen_through(&self.held)),
        }
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
                self.building = Building::of(&begin);
                self.origin = Origin::from(begin.header.as_ref());
                self.hear_again();
                Ok(Next::Read)
            }
            Wire::Changes(batch) => {
                for change in batch.changes {
                    if let Some(heard) = Heard::read(change)? {
                        self.apply(heard, events, now);
                    }
                }
                Ok(Next::Read)
            }
            Wire::SnapshotEnd(end) => {
                self.complete(events, now);
                let next = self.mark(end.resume_token, end.digest.as_ref(), events, now);
                self.release(events, now);
                if self.waiting.is_none() {
                    events.push_back(Event::Synced { instances: self.held.len() });
                }
                Ok(next)
            }
            Wire::Bookmark(mark) => {
                let next = self.mark(mark.resume_token, mark.digest.as_ref(), events, now);
                self.release(events, now);
                Ok(next)
            }
            Wire::Notice(notice) => {
                events.extend(preserving(notice.kind()).map(Event::Preserving));
                Ok(Next::Read)
            }
            Wire::Readings(told) => {
                for reading in told.readings {
                    let reading = Reading::try_from(reading)?;
                    // Of what is not held, or not yet, nobody asked.
                    if self.held.holds(&reading.key) {
                        events.push_back(Event::Reading(reading));
                    }
                }
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
    fn apply(&mut self, heard: Heard, events: &mut VecDeque<Event>, now: Instant) {
        if let Some(building) = self.building.as_mut().filter(|building| building.covers(&heard.key)) {
            heard.apply_to(&mut building.set);
            return;
        }
        if let Some(waiting) = &mut self.waiting {
            heard.apply_to(&mut waiting.set);
        }
        match heard.registration {
            Some(registration) => self.meet(&registration, events, now),
            None if self.held.is_ahead(&heard.key, heard.version) => self.behind.note(heard.key, None, now),
            None => {
                self.behind.forget(&heard.key);
                let last = self.held.remove(&heard.key);
                events.extend(last.map(|last| Event::Removed { last, reason: heard.reason }));
                if heard.reason == Some(RemovalReason::FilteredOut) {
                    // It lives, and a choice may bring it back as it was.
                    self.removed.note_missing(heard.key, heard.version, now);
                } else {
                    self.removed.note(heard.key, heard.version, now);
                }
            }
        }
    }

    /// A server has this instance: it is taken in, unless something newer is known of its key.
    fn meet(&mut self, registration: &Arc<Registration>, events: &mut VecDeque<Event>, now: Instant) {
        let (key, version) = (&registration.instance.key, registration.version);
        let is_old = self.held.is_ahead(key, version) || self.removed.outdates(key, version, now);
        if is_old && !shows_older() {
            self.behind.note(key.clone(), Some(registration.clone()), now);
        } else {
            self.behind.forget(key);
            events.extend(self.store(registration.clone()));
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
        let waiting_since = self.waiting.as_ref().map(Waiting::since);
        let is_doubtful = waiting_since.is_some() || shrinks(&self.held, self.missing_in(&built).count());
        if is_doubtful && self.hold > Duration::ZERO {
            let since = waiting_since.unwrap_or(now);
            let whole = self.whole(built);
            self.absorb(&whole, events, now);
            self.waiting = Some(Waiting::new(&self.held, self.told_by, whole, self.origin, since));
        } else {
            self.waiting = None;
            self.told_by = self.origin;
            self.swap(&built, events, now);
        }
    }

    /// What is held and not told in a snapshot that should. An application that is not told is as it was told before:
    /// what an earlier server had removed in it is not there.
    fn missing_in<'a>(&'a self, built: &'a Building) -> impl Iterator<Item = &'a Arc<Registration>> {
        let is_missing = |key: &InstanceKey| built.covers(key) || self.behind.lacks(key);
        self.held.missing_in(&built.set).filter(move |missing| is_missing(&missing.instance.key))
    }

    /// All that the server has after a snapshot, which may have told a part of it.
    fn whole(&self, built: Building) -> Set {
        let others: Vec<_> =
            self.told().filter(|member| !built.covers(&member.instance.key)).cloned().collect();
        let mut whole = built.set;
        others.into_iter().for_each(|member| drop(whole.insert(member)));
        whole
    }

    /// Takes the snapshot that waits when it is time.
    fn release(&mut self, events: &mut VecDeque<Event>, now: Instant) {
        if let Some(waiting) = self.waiting.take_if(|waiting| waiting.is_over(&self.held, self.hold, now)) {
            self.told_by = waiting.origin;
            self.swap(&Building { set: waiting.set, apps: None }, events, now);
        }
    }

    /// A snapshot replaces the set, or the applications that it tells.
    fn swap(&mut self, built: &Building, events: &mut VecDeque<Event>, now: Instant) {
        let gone: Vec<_> = self.missing_in(built).cloned().collect();
        for last in gone {
            self.held.remove(&last.instance.key);
            self.behind.forget(&last.instance.key);
            self.removed.note_missing(last.instance.key.clone(), last.version, now);
            events.push_back(Event::Removed { last, reason: None });
        }
        self.absorb(&built.set, events, now);
        self.behind.retain(|key| !built.covers(key) || built.set.holds(key));
    }

    /// Takes over what a snapshot holds. What is newer is kept, since the snapshot may come from a server that lags.
    fn absorb(&mut self, built: &Set, events: &mut VecDeque<Event>, now: Instant) {
        built.members().for_each(|registration| self.meet(registration, events, now));
    }

    fn mark(
        &mut self,
        token: Bytes,
        digest: Option<&v1::SetDigest>,
        events: &mut VecDeque<Event>,
        now: Instant,
    ) -> Next {
        self.token = token;
        let agrees = digest.and_then(|digest| self.agrees(digest));
        if agrees != Some(false) {
            self.give_in(events, now);
        }
        let Some(agrees) = agrees else {
            return Next::Settled;
        };
        if let Some(waiting) = &mut self.waiting {
            waiting.compared(agrees);
        }
        self.mismatches = if agrees { 0 } else { self.mismatches + 1 };
        if self.mismatches < MISMATCHES {
            return if agrees { Next::Settled } else { Next::Read };
        }
        tracing::warn!(instances = self.held.len(), "the set is not the server's, fetching what differs");
        self.mismatches = 0;
        self.drop_token();
        Next::Reconnect(Duration::ZERO)
    }

    /// Takes what servers have told for long enough, older or not.
    fn give_in(&mut self, events: &mut VecDeque<Event>, now: Instant) {
        for (key, copy) in self.behind.older_than(TRUSTED, now) {
            self.removed.forget(&key);
            match copy {
                Some(registration) => events.extend(self.store(registration)),
                None => {
                    let last = self.held.remove(&key);
                    events.extend(last.map(|last| Event::Removed { last, reason: None }));
                }
            }
        }
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
        let held = || self.behind.digest_through(&self.held);
        self.waiting.as_ref().map_or_else(held, |waiting| waiting.set.digest()).into()
    }

    /// What a goodbye asks for; its token is the one to go on from.
    pub(crate) fn leave(&mut self, away: v1::GoAway) -> Next {
        let is_aged = away.reason() == v1::GoAwayReason::MaxAge;
        if !away.resume_token.is_empty() {
            self.token = away.resume_token;
        }
        let jitter = away.reconnect_jitter.unwrap_or_default();
        let within = duration("go_away.reconnect_jitter", &jitter).unwrap_or_default();
        if is_aged { Next::Draw(within) } else { Next::Leave(within) }
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
