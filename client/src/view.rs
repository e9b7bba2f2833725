//! What a watcher holds, and what each message makes of it. Pure, so that every rule has a test.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use heureka_model::{InstanceKey, Invalid, Registration, RemovalReason, SetDigest, Version};
use heureka_proto::convert::{duration, removal_reason};
use heureka_proto::v1;
use heureka_proto::v1::watch_event::Event as Wire;

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

type Set = HashMap<InstanceKey, Arc<Registration>>;

/// A watched set.
#[derive(Debug, Default)]
pub(crate) struct View {
    held: Set,
    /// The set as a snapshot shows it, until the snapshot is complete: readers keep the old one meanwhile.
    building: Option<Set>,
    token: Bytes,
    mismatches: u32,
}

/// A change as it was heard: without an instance, a removal.
struct Heard {
    key: InstanceKey,
    version: Version,
    registration: Option<Arc<Registration>>,
    reason: Option<RemovalReason>,
}

impl Heard {
    fn read(wire: v1::Change) -> Result<Self, Invalid> {
        let removed = wire.r#type() == v1::ChangeType::Removed;
        let registration = if removed { None } else { Some(read_instance(wire.instance)?) };
        Ok(Self {
            key: wire.key.ok_or_else(|| Invalid::missing("key"))?.into(),
            version: wire.version.ok_or_else(|| Invalid::missing("version"))?.into(),
            registration,
            reason: removal_reason(wire.removal_reason),
        })
    }
}

fn read_instance(wire: Option<v1::Instance>) -> Result<Arc<Registration>, Invalid> {
    let wire = wire.ok_or_else(|| Invalid::missing("instance"))?;
    Registration::try_from(wire).map(Arc::new).map_err(|invalid| invalid.within("instance"))
}

/// What a message asks of the stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Next {
    /// Read on.
    Read,
    /// Everything was told: the server is fine.
    Settled,
    /// Open another stream, within this time.
    Reconnect(Duration),
}

impl View {
    /// Token to resume with; empty without one.
    pub(crate) fn token(&self) -> Bytes {
        self.token.clone()
    }

    /// The next stream starts with everything.
    pub(crate) fn drop_token(&mut self) {
        self.token.clear();
    }

    /// Takes a message in; what it means is appended to `events`.
    pub(crate) fn take(&mut self, message: Wire, events: &mut Vec<Event>) -> Result<Next, Invalid> {
        match message {
            Wire::SnapshotBegin(begin) => {
                let full = begin.mode() == v1::SnapshotMode::Full;
                self.building = full.then(Set::new);
                Ok(Next::Read)
            }
            Wire::Changes(batch) => {
                for change in batch.changes {
                    self.apply(Heard::read(change)?, events);
                }
                Ok(Next::Read)
            }
            Wire::SnapshotEnd(end) => {
                if let Some(built) = self.building.take() {
                    self.swap(built, events);
                }
                events.push(Event::Synced { instances: self.held.len() });
                Ok(self.mark(end.resume_token, end.digest.as_ref()))
            }
            Wire::Bookmark(mark) => Ok(self.mark(mark.resume_token, mark.digest.as_ref())),
            Wire::Notice(notice) => {
                events.extend(preserving(notice.kind()).map(Event::Preserving));
                Ok(Next::Read)
            }
            Wire::GoAway(away) => Ok(self.leave(away)),
        }
    }

    fn apply(&mut self, heard: Heard, events: &mut Vec<Event>) {
        let set = self.building.as_ref().unwrap_or(&self.held);
        if set.get(&heard.key).is_some_and(|held| held.version > heard.version) {
            return;
        }
        match (&mut self.building, heard.registration) {
            (Some(building), Some(registration)) => drop(building.insert(heard.key, registration)),
            (Some(building), None) => drop(building.remove(&heard.key)),
            (None, Some(registration)) => events.extend(self.store(registration)),
            (None, None) => {
                let last = self.held.remove(&heard.key);
                events.extend(last.map(|last| Event::Removed { last, reason: heard.reason }));
            }
        }
    }

    /// The client's own set decides between entering and changing; the same version is no event.
    fn store(&mut self, registration: Arc<Registration>) -> Option<Event> {
        let key = registration.instance.key.clone();
        let version = registration.version;
        match self.held.insert(key, registration.clone()) {
            Some(held) if held.version == version => None,
            Some(_) => Some(Event::Modified(registration)),
            None => Some(Event::Added(registration)),
        }
    }

    /// A whole snapshot replaces the set, except that a newer copy of an instance is kept: the snapshot may come
    /// from a server that lags.
    fn swap(&mut self, built: Set, events: &mut Vec<Event>) {
        let gone: Vec<InstanceKey> =
            self.held.keys().filter(|key| !built.contains_key(*key)).cloned().collect();
        for key in gone {
            let last = self.held.remove(&key);
            events.extend(last.map(|last| Event::Removed { last, reason: None }));
        }
        for (key, registration) in built {
            let newer = self.held.get(&key).is_some_and(|held| held.version > registration.version);
            if !newer {
                events.extend(self.store(registration));
            }
        }
    }

    fn mark(&mut self, token: Bytes, digest: Option<&v1::SetDigest>) -> Next {
        self.token = token;
        let Some(digest) = digest else {
            return Next::Settled;
        };
        self.mismatches = if *digest == self.digest() { 0 } else { self.mismatches + 1 };
        if self.mismatches < MISMATCHES {
            return Next::Settled;
        }
        self.mismatches = 0;
        self.drop_token();
        Next::Reconnect(Duration::ZERO)
    }

    fn digest(&self) -> v1::SetDigest {
        let mut digest = SetDigest::default();
        self.held.values().for_each(|held| digest.add(held.hash(), held.status()));
        digest.into()
    }

    fn leave(&mut self, away: v1::GoAway) -> Next {
        if !away.resume_token.is_empty() {
            self.token = away.resume_token;
        }
        let jitter = away.reconnect_jitter.unwrap_or_default();
        Next::Reconnect(duration("go_away.reconnect_jitter", &jitter).unwrap_or_default())
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
mod tests {
    use heureka_model::{Change, ChangeKind, Instance, LeaseTimes, Overlay};

    use super::*;

    fn registration(id: &str, owner: u64) -> Arc<Registration> {
        let key = InstanceKey { namespace: String::new(), app: "WEB".into(), id: id.into() };
        Arc::new(Registration {
            instance: Instance::new(key),
            overlay: Overlay::default(),
            version: Version { owner, ..Version::default() },
            times: LeaseTimes::default(),
            revision: 0,
        })
    }

    fn put(id: &str, owner: u64) -> v1::Change {
        let registration = registration(id, owner);
        let (key, version) = (registration.instance.key.clone(), registration.version);
        let kind = ChangeKind::Added;
        Change { kind, key, version, revision: 0, registration: Some(registration) }.into()
    }

    fn remove(id: &str, owner: u64) -> v1::Change {
        let registration = registration(id, owner);
        let (key, version) = (registration.instance.key.clone(), registration.version);
        let kind = ChangeKind::Removed(RemovalReason::Expired);
        Change { kind, key, version, revision: 0, registration: None }.into()
    }

    fn begin(mode: v1::SnapshotMode) -> Wire {
        Wire::SnapshotBegin(v1::SnapshotBegin { header: None, mode: mode.into() })
    }

    fn changes(changes: Vec<v1::Change>) -> Wire {
        Wire::Changes(v1::ChangeBatch { changes, revision: 1, commit_time: None })
    }

    fn end(digest: Option<v1::SetDigest>) -> Wire {
        Wire::SnapshotEnd(v1::SnapshotEnd { resume_token: Bytes::from_static(b"t"), revision: 1, digest })
    }

    fn take(view: &mut View, messages: Vec<Wire>) -> Vec<Event> {
        let mut events = Vec::new();
        for message in messages {
            view.take(message, &mut events).unwrap();
        }
        events
    }

    fn snapshot(view: &mut View, set: Vec<v1::Change>) -> Vec<Event> {
        take(view, vec![begin(v1::SnapshotMode::Full), changes(set), end(None)])
    }

    #[test]
    fn nothing_is_told_before_a_snapshot_is_complete() {
        let mut view = View::default();
        assert_eq!(take(&mut view, vec![begin(v1::SnapshotMode::Full), changes(vec![put("a", 1)])]), []);
        let told = take(&mut view, vec![end(None)]);
        assert_eq!(told, [Event::Added(registration("a", 1)), Event::Synced { instances: 1 }]);
    }

    #[test]
    fn a_second_snapshot_is_told_as_its_difference() {
        let mut view = View::default();
        snapshot(&mut view, vec![put("a", 1), put("b", 1), put("c", 1)]);
        let told = snapshot(&mut view, vec![put("b", 1), put("c", 2)]);
        assert_eq!(
            told,
            [
                Event::Removed { last: registration("a", 1), reason: None },
                Event::Modified(registration("c", 2)),
                Event::Synced { instances: 2 },
            ]
        );
    }

    #[test]
    fn nothing_older_is_applied() {
        let mut view = View::default();
        snapshot(&mut view, vec![put("a", 5)]);
        assert_eq!(take(&mut view, vec![changes(vec![put("a", 4), remove("a", 4), put("a", 5)])]), []);
        assert_eq!(snapshot(&mut view, vec![put("a", 3)]), [Event::Synced { instances: 1 }]);
        assert_eq!(view.held[&registration("a", 5).instance.key].version.owner, 5);
    }

    #[test]
    fn changes_are_named_by_what_the_client_holds() {
        let mut view = View::default();
        snapshot(&mut view, vec![]);
        let told = take(
            &mut view,
            vec![
                begin(v1::SnapshotMode::Resume),
                changes(vec![put("a", 1), put("a", 2), remove("a", 3), remove("never", 1)]),
                end(None),
            ],
        );
        assert_eq!(
            told,
            [
                Event::Added(registration("a", 1)),
                Event::Modified(registration("a", 2)),
                Event::Removed { last: registration("a", 2), reason: Some(RemovalReason::Expired) },
                Event::Synced { instances: 0 },
            ]
        );
    }

    #[test]
    fn two_digests_in_a_row_that_differ_fetch_the_set_anew() {
        let mut view = View::default();
        let mut events = Vec::new();
        take(&mut view, vec![begin(v1::SnapshotMode::Full), changes(vec![put("a", 1)])]);
        let right = {
            let mut other = View::default();
            snapshot(&mut other, vec![put("a", 1)]);
            other.digest()
        };
        let wrong = v1::SetDigest { hash: 1, ..right.clone() };
        let mut settle = |digest: &v1::SetDigest| {
            let message = end(Some(digest.clone()));
            let next = view.take(message, &mut events).unwrap();
            (next, view.token().is_empty())
        };
        assert_eq!(settle(&wrong), (Next::Settled, false));
        assert_eq!(settle(&right), (Next::Settled, false));
        assert_eq!(settle(&wrong), (Next::Settled, false));
        assert_eq!(settle(&wrong), (Next::Reconnect(Duration::ZERO), true));
    }

    #[test]
    fn a_goodbye_keeps_an_older_token_when_it_brings_none() {
        let mut view = View::default();
        snapshot(&mut view, vec![]);
        let jitter = Some(heureka_proto::convert::wire_duration(Duration::from_secs(5)));
        let away = |token: &'static [u8]| {
            let resume_token = Bytes::from_static(token);
            Wire::GoAway(v1::GoAway { reconnect_jitter: jitter, resume_token, ..Default::default() })
        };
        let mut events = Vec::new();
        assert_eq!(view.take(away(b""), &mut events), Ok(Next::Reconnect(Duration::from_secs(5))));
        assert_eq!(view.token(), "t");
        view.take(away(b"u"), &mut events).unwrap();
        assert_eq!(view.token(), "u");
    }

    #[test]
    fn unreadable_changes_are_an_error_that_names_the_field() {
        let port = Some(v1::Port { number: 70_000, enabled: true });
        let broken_instance = v1::Instance { port, ..put("a", 1).instance.unwrap() };
        let table = [
            ("key", v1::Change { key: None, ..remove("a", 1) }),
            ("version", v1::Change { version: None, ..remove("a", 1) }),
            ("instance", v1::Change { instance: None, ..put("a", 1) }),
            ("instance.port.number", v1::Change { instance: Some(broken_instance), ..put("a", 1) }),
        ];
        for (field, broken) in table {
            let refused = View::default().take(changes(vec![broken]), &mut Vec::new());
            assert_eq!(refused.unwrap_err().field, field);
        }
    }

    #[test]
    fn a_removal_for_a_reason_of_a_later_server_is_a_removal() {
        let mut view = View::default();
        snapshot(&mut view, vec![put("a", 1)]);
        let told = take(&mut view, vec![changes(vec![v1::Change { removal_reason: 99, ..remove("a", 2) }])]);
        assert_eq!(told, [Event::Removed { last: registration("a", 1), reason: None }]);
    }
}
