//! Legal histories of a tiny model are never accused; a single corruption always is, or is legal for a reason that
//! is checked beside the judge.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

mod support;

use std::collections::BTreeMap;

use heureka_history::{Broken, Guarantee, Recording, Step, What, check};
use heureka_proto::v1;
use heureka_proto::v1::SnapshotMode;
use heureka_proto::v1::watch_event::Event;
use proptest::prelude::*;
use proptest::sample::Index;
use prost::Message as _;

use support::*;

/// What happens next.
#[derive(Clone, Debug)]
enum Act {
    Put(u8, bool),
    Remove(u8),
    /// The server tells this many of what is due, as one batch.
    Tell(usize),
    Mark,
    /// A mark while something is due; it has no digest.
    Silent,
    Cut,
    /// The client falls behind what the server remembers.
    Again,
    /// The server begins another life with nothing.
    Restart,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        6 => (0..5_u8, any::<bool>()).prop_map(|(id, up)| Act::Put(id, up)),
        2 => (0..5_u8).prop_map(Act::Remove),
        6 => (1..4_usize).prop_map(Act::Tell),
        2 => Just(Act::Mark),
        1 => Just(Act::Silent),
        1 => Just(Act::Cut),
        1 => Just(Act::Again),
        1 => Just(Act::Restart),
    ];
    proptest::collection::vec(act, 1..60)
}

/// A key in the log: where it stands, its version, and whether it lives.
#[derive(Clone)]
struct Record {
    revision: u64,
    live: Option<v1::Instance>,
    version: u64,
}

/// A registry of one log, and the one stream that reads it.
struct Model {
    only_up: bool,
    boot: u64,
    head: u64,
    versions: u64,
    records: BTreeMap<u8, Record>,
    told: u64,
    /// Revision of the last token that the client has.
    token: Option<u64>,
    steps: Vec<What>,
}

impl Model {
    fn new(only_up: bool) -> Self {
        let records = BTreeMap::new();
        Self { only_up, boot: BOOT, head: 0, versions: 0, records, told: 0, token: None, steps: Vec::new() }
    }

    fn run(&mut self, acts: &[Act]) {
        self.open();
        for act in acts {
            match act {
                Act::Put(id, up) => self.put(*id, *up),
                Act::Remove(id) => self.remove(*id),
                Act::Tell(most) => self.tell(*most, u64::MAX),
                Act::Mark => self.mark(),
                Act::Silent if self.told < self.head => self.push_mark(None),
                Act::Silent => self.mark(),
                Act::Cut => self.cut(),
                Act::Again => self.initial(SnapshotMode::Full),
                Act::Restart => self.restart(),
            }
        }
        self.mark();
    }

    fn spec(&self) -> v1::WatchSpec {
        let up = v1::InstanceSelector { statuses: vec![1], ..v1::InstanceSelector::default() };
        let selectors = if self.only_up { vec![up] } else { Vec::new() };
        let resume_token = self.token.map(|revision| self.sealed(revision)).unwrap_or_default();
        v1::WatchSpec { selectors, resume_token, ..v1::WatchSpec::default() }
    }

    fn sealed(&self, revision: u64) -> bytes::Bytes {
        format!("{} {revision}", self.boot).into()
    }

    fn open(&mut self) {
        self.steps.push(open(self.spec()));
        self.initial(if self.token.is_some() { SnapshotMode::Resume } else { SnapshotMode::Full });
    }

    /// The initial part: from the token on, or from nothing.
    fn initial(&mut self, mode: SnapshotMode) {
        let resumed = mode == SnapshotMode::Resume;
        self.told = self.token.filter(|_| resumed).unwrap_or_default();
        self.steps.push(begin_of(self.boot, mode, self.head));
        let fresh = if resumed { 0 } else { self.head };
        while self.told < self.head {
            self.tell(2, fresh);
        }
        let digest = Some(self.digest());
        self.token = Some(self.told);
        let resume_token = self.sealed(self.told);
        self.steps.push(message(Event::SnapshotEnd(v1::SnapshotEnd {
            resume_token,
            revision: self.told,
            digest,
        })));
    }

    fn put(&mut self, id: u8, up: bool) {
        let mut instance = instance(&format!("n{id}"), 0);
        if !up {
            instance.status = v1::InstanceStatus::Down.into();
            instance.reported_status = instance.status;
        }
        self.write(id, Some(instance));
        let record = &self.records[&id];
        self.steps.push(wrote_by(self.boot, record.live.clone().unwrap(), self.head));
    }

    fn remove(&mut self, id: u8) {
        self.write(id, None);
        let version = version(self.versions);
        self.steps.push(removed_by(self.boot, key(&format!("n{id}")), version, self.head));
    }

    fn write(&mut self, id: u8, mut live: Option<v1::Instance>) {
        self.head += 1;
        self.versions += 1;
        if let Some(live) = &mut live {
            live.version = Some(version(self.versions));
        }
        self.records.insert(id, Record { revision: self.head, live, version: self.versions });
    }

    fn matches(&self, instance: &v1::Instance) -> bool {
        !self.only_up || instance.status == i32::from(v1::InstanceStatus::Up)
    }

    fn matching(&self) -> impl Iterator<Item = &v1::Instance> {
        self.records.values().filter_map(|record| record.live.as_ref()).filter(|live| self.matches(live))
    }

    fn digest(&self) -> v1::SetDigest {
        digest(self.matching())
    }

    /// Tells the next keys of the log; of what is not there, nothing up to `fresh`.
    fn tell(&mut self, most: usize, fresh: u64) {
        let fresh = if fresh == u64::MAX { 0 } else { fresh };
        let mut due: Vec<_> = self.records.iter().filter(|(_, record)| record.revision > self.told).collect();
        due.sort_by_key(|(_, record)| record.revision);
        let due: Vec<_> = due.into_iter().take(most).collect();
        let changes: Vec<_> =
            due.iter().filter_map(|(id, record)| self.change(**id, record, fresh)).collect();
        let reached = due.last().map_or(self.head, |(_, record)| record.revision);
        if !changes.is_empty() {
            self.steps.push(batch(reached, changes));
        }
        self.told = reached;
    }

    fn change(&self, id: u8, record: &Record, fresh: u64) -> Option<v1::Change> {
        let reason = match &record.live {
            Some(live) if self.matches(live) => return Some(told(live.clone())),
            Some(_) => v1::RemovalReason::FilteredOut,
            None => v1::RemovalReason::Cancelled,
        };
        (record.revision > fresh).then(|| gone(&format!("n{id}"), record.version, reason))
    }

    fn mark(&mut self) {
        while self.told < self.head {
            self.tell(3, u64::MAX);
        }
        self.push_mark(Some(self.digest()));
    }

    fn push_mark(&mut self, digest: Option<v1::SetDigest>) {
        self.token = Some(self.told);
        let resume_token = self.sealed(self.told);
        self.steps.push(message(Event::Bookmark(v1::Bookmark { resume_token, revision: self.told, digest })));
    }

    fn cut(&mut self) {
        self.steps.push(closed("UNAVAILABLE"));
        self.open();
    }

    fn restart(&mut self) {
        self.steps.push(closed("UNAVAILABLE"));
        self.steps.push(open(self.spec()));
        let records = BTreeMap::new();
        (self.boot, self.head, self.records) = (self.boot + 1, 0, records);
        self.initial(SnapshotMode::Full);
    }
}

/// What is done to one message.
#[derive(Clone, Copy, Debug)]
enum Fault {
    DropChange,
    DropMessage,
    RepeatMessage,
    RaiseVersion,
    LowerVersion,
    SwapMessages,
    WrongDigest,
    OtherContent,
    OtherKind,
}

const FAULTS: [Fault; 9] = [
    Fault::DropChange,
    Fault::DropMessage,
    Fault::RepeatMessage,
    Fault::RaiseVersion,
    Fault::LowerVersion,
    Fault::SwapMessages,
    Fault::WrongDigest,
    Fault::OtherContent,
    Fault::OtherKind,
];

fn decoded(what: &What) -> Option<Event> {
    let What::Message(bytes) = what else { return None };
    v1::WatchResponse::decode(bytes.clone()).unwrap().event.unwrap().event
}

/// Does it somewhere; nothing when the history has no place for it.
fn corrupt(steps: &mut Vec<What>, fault: Fault, at: Index) -> Option<usize> {
    let fits = |what: &What| match (fault, decoded(what)) {
        (_, None) => false,
        (Fault::DropChange | Fault::RaiseVersion | Fault::LowerVersion, Some(Event::Changes(_))) => true,
        (Fault::OtherKind, Some(Event::Changes(_))) => true,
        (Fault::OtherContent, Some(Event::Changes(batch))) => batch.changes[0].instance.is_some(),
        (Fault::WrongDigest, Some(Event::Bookmark(mark))) => mark.digest.is_some(),
        (Fault::WrongDigest, Some(Event::SnapshotEnd(_))) => true,
        (Fault::DropMessage | Fault::RepeatMessage | Fault::SwapMessages, Some(_)) => true,
        _ => false,
    };
    let places: Vec<_> = (0..steps.len()).filter(|place| fits(&steps[*place])).collect();
    let place = *places.get(at.index(places.len().max(1)))?;
    match fault {
        Fault::DropMessage => drop(steps.remove(place)),
        Fault::RepeatMessage => steps.insert(place, steps[place].clone()),
        Fault::SwapMessages => {
            let next = (place + 1..steps.len()).find(|next| !matches!(steps[*next], What::Wrote(_)))?;
            decoded(&steps[next])?;
            steps.swap(place, next);
        }
        _ => steps[place] = message(spoiled(decoded(&steps[place])?, fault)),
    }
    Some(place)
}

fn spoiled(mut event: Event, fault: Fault) -> Event {
    match &mut event {
        Event::Changes(batch) => {
            let change = &mut batch.changes[0];
            let mut moved = change.version.unwrap();
            match fault {
                Fault::DropChange => drop(batch.changes.remove(0)),
                Fault::OtherContent => change.instance.as_mut().unwrap().host_name = "other".into(),
                Fault::OtherKind => change.r#type = if change.r#type == 3 { 1 } else { 3 },
                Fault::RaiseVersion | Fault::LowerVersion => {
                    let raised = matches!(fault, Fault::RaiseVersion);
                    moved.owner = if raised { moved.owner + 1000 } else { moved.owner - 1 };
                    change.version = Some(moved);
                    if let Some(instance) = &mut change.instance {
                        instance.version = Some(moved);
                    }
                }
                _ => {}
            }
        }
        Event::Bookmark(mark) => mark.digest.as_mut().unwrap().hash ^= 1,
        Event::SnapshotEnd(end) => end.digest.as_mut().unwrap().hash ^= 1,
        _ => {}
    }
    event
}

/// A plain reading of the contract, apart from the judge's: whether a client would find anything wrong.
#[derive(Default)]
struct Reader {
    held: BTreeMap<String, v1::Instance>,
    building: Option<BTreeMap<String, v1::Instance>>,
    stage: u8,
    /// Newest version of each key in this part.
    seen: BTreeMap<String, (u64, u64)>,
    reached: Option<u64>,
    contents: BTreeMap<(String, (u64, u64)), v1::Instance>,
    tokens: Vec<bytes::Bytes>,
}

impl Reader {
    /// Whether all is well; true as well where a token leads out of the history.
    fn lawful(steps: &[What]) -> bool {
        let mut reader = Self::default();
        for what in steps {
            if let What::Open { spec, .. } = what {
                if !spec.resume_token.is_empty() && !reader.tokens.contains(&spec.resume_token) {
                    return true;
                }
                reader.stage = 0;
                reader.building = None;
            }
            if decoded(what).is_some_and(|event| !reader.take(event)) {
                return false;
            }
        }
        true
    }

    fn take(&mut self, event: Event) -> bool {
        match event {
            Event::SnapshotBegin(begin) => {
                self.building = (begin.mode() == SnapshotMode::Full).then(BTreeMap::new);
                (self.stage, self.reached) = (1, None);
                self.seen.clear();
                true
            }
            Event::Changes(batch) => {
                let later = self.reached.is_none_or(|reached| batch.revision > reached);
                self.reached = Some(batch.revision);
                later && self.stage > 0 && batch.changes.into_iter().all(|change| self.change(change))
            }
            Event::SnapshotEnd(end) => {
                let begun = self.stage == 1;
                self.stage = 2;
                self.held = self.building.take().unwrap_or(std::mem::take(&mut self.held));
                begun && self.mark(end.resume_token, end.revision, end.digest)
            }
            Event::Bookmark(mark) => {
                self.stage == 2 && self.mark(mark.resume_token, mark.revision, mark.digest)
            }
            Event::GoAway(_) | Event::Notice(_) | Event::Readings(_) => true,
        }
    }

    fn mark(&mut self, token: bytes::Bytes, revision: u64, digest_told: Option<v1::SetDigest>) -> bool {
        let later = self.reached.is_none_or(|reached| revision >= reached);
        self.reached = Some(revision);
        self.tokens.push(token);
        later && digest_told.is_none_or(|told| told == digest(self.held.values()))
    }

    fn change(&mut self, change: v1::Change) -> bool {
        let (key, version) = (change.key.unwrap().id, change.version.unwrap());
        let version = (version.owner, version.clock);
        let newest = self.seen.insert(key.clone(), version).is_none_or(|seen| seen < version);
        let whole = change.instance.is_none() == (change.r#type == 3);
        let set = self.building.as_mut().unwrap_or(&mut self.held);
        let Some(instance) = change.instance else {
            set.remove(&key);
            return newest && whole;
        };
        set.insert(key.clone(), instance.clone());
        let content = self.contents.entry((key, version)).or_insert(instance.clone());
        newest && whole && *content == instance
    }
}

fn judged(steps: Vec<What>) -> Vec<Broken> {
    check(&recording(steps))
}

fn history(acts: &[Act], only_up: bool) -> Vec<What> {
    let mut model = Model::new(only_up);
    model.run(acts);
    model.steps
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn legal_histories_are_never_accused(acts in acts(), only_up: bool) {
        let steps = history(&acts, only_up);
        prop_assert!(Reader::lawful(&steps));
        prop_assert_eq!(judged(steps), []);
    }

    #[test]
    fn two_histories_in_one_recording_are_never_accused(one in acts(), other in acts()) {
        let mut mixed = Recording::new();
        // The lives of their servers differ, so that they know nothing of each other.
        for (watcher, acts, offset) in [("one", &one, 0), ("other", &other, 1 << 32)] {
            let mut model = Model::new(false);
            (model.boot, model.versions) = (model.boot + offset, offset);
            model.run(acts);
            for what in model.steps {
                mixed.push(Step { watcher: watcher.to_owned(), what }).unwrap();
            }
        }
        prop_assert_eq!(check(&mixed), []);
    }

    #[test]
    fn a_corruption_is_accused_or_no_client_could_notice(
        acts in acts(),
        only_up: bool,
        fault in proptest::sample::select(&FAULTS[..]),
        at: Index,
    ) {
        let mut steps = history(&acts, only_up);
        prop_assume!(corrupt(&mut steps, fault, at).is_some());
        let lawful = Reader::lawful(&steps);
        let broken = judged(steps);
        prop_assert!(lawful || !broken.is_empty(), "{fault:?} went unnoticed");
        if let Fault::WrongDigest | Fault::OtherKind = fault {
            prop_assert_eq!(broken.len(), 1, "{:?}", broken);
        }
    }

    #[test]
    fn a_last_write_that_is_not_told_is_unreliable(acts in acts(), only_up: bool) {
        let mut model = Model::new(only_up);
        model.run(&acts);
        model.put(0, true);
        model.mark();
        let mut steps = model.steps;
        let last = steps.iter().rposition(|what| matches!(decoded(what), Some(Event::Changes(_)))).unwrap();
        steps.remove(last);
        let named: Vec<_> = judged(steps).iter().map(|broken| broken.guarantee).collect();
        prop_assert_eq!(named, [Guarantee::Reliable]);
    }
}
