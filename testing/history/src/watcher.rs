//! A watcher: what it was told, from one stream to the next.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use heureka_model::{InstanceKey, Version};
use heureka_proto::v1;
use heureka_proto::v1::watch_event::Event;
use heureka_proto::v1::{SnapshotMode, StartMode};
use prost::Message as _;

use crate::court::{Charge, Court, Place};
use crate::guarantee::{Guarantee, shown};
use crate::lists::Lists;
use crate::set::{Apps, Buckets, Set};
use crate::stream::{Part, Stage, Stream};

/// What a watcher was told.
#[derive(Default)]
pub(crate) struct Watcher {
    pub(crate) name: String,
    pub(crate) stream: Option<Stream>,
    /// The set as the servers told it.
    pub(crate) told: Set,
    /// The set as a client of the contract holds it, which never goes back.
    pub(crate) view: Set,
    /// The set goes on at another server than it came from, whose digest has not confirmed it yet.
    pub(crate) adrift: bool,
    /// What the client itself showed of each key last, and whether it was there.
    pub(crate) shown: HashMap<InstanceKey, (Version, bool)>,
    /// Revision of the last mark, while that is a mark of the set as it was told.
    pub(crate) reached: Option<u64>,
    /// Newest version of each key that a life of a server told.
    pub(crate) newest: HashMap<u64, HashMap<InstanceKey, Version>>,
    /// Something was broken since the set was last known to be right: what differs now follows from that.
    pub(crate) spoiled: bool,
    /// Writes found missing already.
    pub(crate) accused: HashSet<(InstanceKey, Version)>,
    pub(crate) lists: Lists,
}

impl Watcher {
    pub(crate) fn new(name: &str) -> Self {
        let view = Set { removed: Some(HashMap::new()), ..Set::default() };
        Self { name: name.to_owned(), view, ..Self::default() }
    }

    pub(crate) fn open(&mut self, spec: &v1::WatchSpec, court: &mut Court<'_>) {
        self.settle(court);
        court.counts.streams += 1;
        self.stream = Some(Stream::new(spec));
    }

    pub(crate) fn message(&mut self, bytes: &Bytes, court: &mut Court<'_>) {
        court.counts.messages += 1;
        let Some(mut stream) = self.stream.take() else { return };
        match v1::WatchResponse::decode(bytes.clone()) {
            // A kind of event that a later server may send is skipped.
            Ok(response) => {
                if let Some(event) = response.event.and_then(|event| event.event) {
                    self.event(&mut stream, event, court);
                }
            }
            Err(fault) => {
                self.accuse(court, Charge::new(Guarantee::Atomic, "a whole message", fault.to_string()));
            }
        }
        self.stream = Some(stream);
    }

    pub(crate) fn closed(&mut self, code: &str, court: &mut Court<'_>) {
        self.settle(court);
        let Some(stream) = self.stream.take() else { return };
        let asked = &stream.asked;
        if code == "OK" && !stream.parted {
            let expected = "a stream that the server ends to say so before";
            self.accuse(court, Charge::new(Guarantee::Ordered, expected, "an end unannounced"));
        }
        if code == "OUT_OF_RANGE" && asked.start != StartMode::ResumeOnly {
            let expected = "a whole set where a token is of no use";
            self.accuse(court, Charge::new(Guarantee::Resumable, expected, "OUT_OF_RANGE"));
        }
        let resumes = matches!(asked.start, StartMode::Follow | StartMode::ResumeOnly);
        let issued =
            court.place(&asked.token, &self.name).is_some_and(|place| place.selectors == asked.encoded);
        if code == "INVALID_ARGUMENT" && resumes && issued {
            let expected = "a token that was issued for this set to be taken";
            self.accuse(court, Charge::new(Guarantee::Resumable, expected, "INVALID_ARGUMENT"));
        }
    }

    /// Accuses of what was still open: nothing that explains it can come any more.
    pub(crate) fn settle(&mut self, court: &mut Court<'_>) {
        if let Some(mut stream) = self.stream.take() {
            self.settle_part(&mut stream.part, court);
            self.stream = Some(stream);
        }
    }

    pub(crate) fn settle_part(&mut self, part: &mut Part, court: &mut Court<'_>) {
        court.broken.extend(part.unequal.take());
        for (key, version, broken) in part.missing.drain(..) {
            if self.accused.insert((key, version)) {
                court.broken.push(broken);
            }
        }
    }

    pub(crate) fn accuse(&mut self, court: &mut Court<'_>, charge: Charge) {
        self.spoiled = true;
        let broken = court.broken(&self.name, charge);
        court.broken.push(broken);
    }

    fn event(&mut self, stream: &mut Stream, event: Event, court: &mut Court<'_>) {
        let (fits, name) = match (&event, stream.stage) {
            (Event::SnapshotBegin(_), stage) => (stage != Stage::Over, "SnapshotBegin"),
            (Event::Changes(_), Stage::Initial) => (stream.part.mode != SnapshotMode::None, "ChangeBatch"),
            (Event::Changes(_), stage) => (stage == Stage::Live, "ChangeBatch"),
            (Event::SnapshotEnd(_), stage) => (stage == Stage::Initial, "SnapshotEnd"),
            (Event::Bookmark(_), stage) => (stage == Stage::Live, "Bookmark"),
            (Event::Notice(_), stage) => (stage == Stage::Live, "Notice"),
            (Event::Readings(_), stage) => (stage == Stage::Live, "Readings"),
            (Event::GoAway(_), stage) => (stage != Stage::Over, "GoAway"),
        };
        if !fits {
            let seen = format!("{name} where the stream is {:?}", stream.stage);
            let expected = "SnapshotBegin, changes, SnapshotEnd, then the rest, GoAway last";
            return self.accuse(court, Charge::new(Guarantee::Ordered, expected, seen));
        }
        match event {
            Event::SnapshotBegin(begin) => self.begin(stream, &begin, court),
            Event::Changes(batch) => self.changes(stream, batch, court),
            Event::SnapshotEnd(end) => {
                self.end(stream, court);
                self.mark(stream, end.resume_token, end.revision, end.digest.as_ref(), court);
                let once = stream.asked.start == StartMode::SnapshotOnly;
                stream.stage = if once { Stage::Over } else { Stage::Live };
                stream.parted = once;
            }
            Event::Bookmark(mark) => {
                self.mark(stream, mark.resume_token, mark.revision, mark.digest.as_ref(), court);
            }
            Event::GoAway(away) => self.go_away(stream, away.resume_token, court),
            Event::Notice(_) | Event::Readings(_) => {}
        }
    }

    fn begin(&mut self, stream: &mut Stream, begin: &v1::SnapshotBegin, court: &mut Court<'_>) {
        self.settle_part(&mut stream.part, court);
        let header = begin.header.clone().unwrap_or_default();
        if begin.header.is_none() || stream.boot.is_some_and(|boot| boot != header.boot) {
            let expected = "a header with the life of this one server";
            self.accuse(court, Charge::new(Guarantee::Ordered, expected, format!("{:?}", begin.header)));
        }
        if stream.asked.selectors.is_none() {
            let seen = "a stream of them";
            self.accuse(court, Charge::new(Guarantee::Filtered, "unusable selectors to be refused", seen));
        }
        let mode = begin.mode();
        let again = stream.stage != Stage::Opened && mode == SnapshotMode::Resume;
        if !again && !stream.asked.allows(mode) {
            let seen =
                format!("{mode:?} for {:?}, token of {} bytes", stream.asked.start, stream.asked.token.len());
            self.accuse(court, Charge::new(Guarantee::Resumable, "a start as asked for", seen));
        }
        stream.boot = Some(header.boot);
        self.reached = None;
        let before = std::mem::take(&mut stream.part);
        stream.part.mode = mode;
        let blank = Set { boot: header.boot, selectors: stream.asked.encoded.clone(), ..Set::default() };
        match mode {
            SnapshotMode::Full => {
                (self.spoiled, self.adrift) = (false, false);
                stream.part.building = Some(blank);
            }
            SnapshotMode::Diff => {
                stream.part.apps = Some(told(begin));
                self.goes_on(&blank);
                self.adrift = false;
                stream.part.building = Some(blank);
            }
            SnapshotMode::Resume if again => stream.part.mark = before.mark,
            SnapshotMode::Resume => self.resume(stream, blank, header.revision, court),
            SnapshotMode::None | SnapshotMode::Unspecified => {
                self.begins(Set { since: header.revision.max(1), ..blank });
            }
        }
        stream.stage = Stage::Initial;
    }

    /// Finds the set that the token stands for.
    fn resume(&mut self, stream: &mut Stream, blank: Set, head: u64, court: &mut Court<'_>) {
        let Some(place) = court.place(&stream.asked.token, &self.name).cloned() else {
            // The recording does not reach back to where the token came from.
            self.begins(Set { since: head.max(1), ..blank });
            return;
        };
        if place.selectors != blank.selectors {
            let expected = "a whole set after a token of other selectors";
            self.accuse(court, Charge::new(Guarantee::Resumable, expected, "RESUME"));
        }
        let moves = place.boot != blank.boot;
        // Revisions of one server's log say nothing of another's.
        stream.part.mark = (!moves).then_some(place.revision);
        let same = self.told.boot == place.boot && self.told.selectors == blank.selectors;
        match place.list {
            Some(list) => self.begins(list),
            None if same && place.watcher == self.name => {}
            None => self.begins(Set {
                since: if moves { head.max(1) } else { place.revision.max(1) },
                ..blank.clone()
            }),
        }
        self.adrift |= moves;
        self.goes_on(&blank);
    }

    /// The set is this one from now on.
    fn begins(&mut self, set: Set) {
        self.view = Set { removed: self.view.removed.take(), ..set.clone() };
        self.told = set;
    }

    /// The set is told by this server from now on.
    fn goes_on(&mut self, blank: &Set) {
        for set in [&mut self.told, &mut self.view] {
            set.boot = blank.boot;
            set.selectors.clone_from(&blank.selectors);
        }
    }

    /// The client's own set changed.
    pub(crate) fn shows(&mut self, key: &InstanceKey, version: Version, live: bool, court: &mut Court<'_>) {
        let (before, was_live) = self.shown.insert(key.clone(), (version, live)).unwrap_or_default();
        if version < before || live && !was_live && version == before {
            let expected =
                if was_live { "nothing older than" } else { "nothing as old as what was removed with" };
            let charge =
                Charge::new(Guarantee::Steady, format!("{expected} {}", shown(&before)), shown(&version));
            self.accuse(court, charge.of(key));
        }
    }

    fn go_away(&mut self, stream: &mut Stream, token: Bytes, court: &mut Court<'_>) {
        let resumable = stream.stage == Stage::Live
            || stream.stage == Stage::Initial && stream.part.mode == SnapshotMode::Resume;
        if resumable == token.is_empty() {
            let expected = if resumable { "a token" } else { "no token of what is not a whole set" };
            let seen = format!("a GoAway with a token of {} bytes", token.len());
            self.accuse(court, Charge::new(Guarantee::Resumable, expected, seen));
        }
        self.issue(stream, token, stream.part.reached(), court);
        stream.stage = Stage::Over;
        stream.parted = true;
    }

    pub(crate) fn issue(&self, stream: &Stream, token: Bytes, revision: u64, court: &mut Court<'_>) {
        if token.is_empty() {
            return;
        }
        let place = Place {
            watcher: self.name.clone(),
            boot: stream.boot.unwrap_or_default(),
            selectors: stream.asked.encoded.clone(),
            revision,
            list: None,
        };
        court.issue(token, place);
    }
}

/// What a DIFF part tells whole.
fn told(begin: &v1::SnapshotBegin) -> Apps {
    let whole = begin.apps.iter().map(|app| ((app.namespace.clone(), app.app.clone()), None));
    let part = |app: &v1::AppBuckets| {
        let buckets =
            Buckets { count: app.bucket_count as usize, told: app.buckets.iter().copied().collect() };
        ((app.namespace.clone(), app.app.clone()), Some(buckets))
    };
    whole.chain(begin.parts.iter().map(part)).collect()
}
