//! A subscription to a choice: those that fit by their numbers, the best, or a client's own part.
//!
//! It knows what it told and tells the difference to what it holds by now, each key once and as it is. So it needs no
//! queue either: what changes while its reader is busy is one more key to compare.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use foldhash::fast::RandomState;
use heureka_model::{
    Change, ChangeKind, InstanceKey, Now, Registration, RemovalReason, Selectors, SetDigest, Status, Version,
    instance_hash,
};
use tokio::sync::watch;

use super::candidates::{Candidate, Candidates};
use super::choice::{Choice, Members};
use super::pool::{Wanted, fate};
use super::pools::Place;
use crate::log::Told;
use crate::watch::{BYTES, Batch, Frame};
use crate::{Refused, Registry};

/// Keys compared at a time at most.
const SHARE: usize = 2048;

/// A choice of a selection, and what of it was told.
#[derive(Debug)]
pub struct View {
    place: Place,
    choice: Choice,
    /// News of candidates up to here were looked at.
    seen: u64,
    /// Those chosen; of a choice of all they are the candidates themselves.
    members: Members,
    told: HashMap<Arc<InstanceKey>, Held, RandomState>,
    digest: SetDigest,
    owed: Owed,
    /// Nothing more was to be told when it was read last.
    settled: bool,
    /// An instance stands below the version that was told: what was removed has been forgotten since.
    lost: bool,
    /// Everything is to be compared, whatever changed.
    rereads: bool,
    position: u64,
}

/// What the reader holds of a member.
#[derive(Clone, Copy, Debug)]
struct Held {
    version: Version,
    status: Status,
}

/// Keys to compare, each once, in the order in which they came.
#[derive(Debug, Default)]
struct Owed {
    queue: VecDeque<Arc<InstanceKey>>,
    keys: HashSet<Arc<InstanceKey>, RandomState>,
}

impl View {
    /// A view that begins with everything it holds.
    ///
    /// # Errors
    /// [`Refused::Full`] when views hold as many candidates as they may.
    pub fn new(registry: &Registry, selectors: Selectors, choice: Choice) -> Result<Self, Refused> {
        let wanted = Wanted { selectors, order: choice.order() };
        let place = Place::take(registry, wanted, &choice)?;
        Ok(Self {
            place,
            choice,
            seen: 0,
            members: Members::default(),
            told: HashMap::default(),
            digest: SetDigest::default(),
            owed: Owed::default(),
            settled: false,
            lost: false,
            rereads: false,
            position: 0,
        })
    }

    /// The next changes, at most `max` of them and about 64 KiB; a batch may be empty and not yet `at_head`.
    pub fn poll(&mut self, registry: &Registry, max: usize, now: Now) -> Batch {
        self.poll_beside(registry, max, now, || {})
    }

    /// The same; what happens `meanwhile` happens between the look at who is chosen and the look at what they are.
    pub(crate) fn poll_beside(
        &mut self,
        registry: &Registry,
        max: usize,
        now: Now,
        meanwhile: impl FnOnce(),
    ) -> Batch {
        let pool = Arc::clone(self.place.pool());
        let (changes, revision) = pool.advance(registry, now, |candidates, revision| {
            self.follow(candidates, revision.is_some());
            meanwhile();
            (self.compare(registry, candidates, max, now), revision)
        });
        let is_first = !self.settled && self.position == 0;
        let level = revision.filter(|_| self.owed.keys.is_empty());
        self.settled = level.is_some() && !self.lost;
        self.position = level.map_or(self.position, |revision| revision.max(self.position));
        let told = |change: Change| {
            let change = Change { revision: self.position, ..change };
            Arc::new(if is_first { Told::of_now(change, now) } else { Told::new(change) })
        };
        let frame = Arc::new(Frame::of(changes.into_iter().map(told).collect()));
        Batch { revision: self.position, at_head: self.settled, frame }
    }

    /// Wakes for changes that may concern the selection, and for self-preservation.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.place.pool().changes()
    }

    /// Wakes for reports, where they decide.
    #[must_use]
    pub fn news(&self) -> Option<watch::Receiver<u64>> {
        self.place.pool().news()
    }

    /// Goes on to where nothing that concerns the selection is to be told, and says where that is.
    pub fn pass(&mut self, registry: &Registry) -> u64 {
        let (seen, revision) = self.place.pool().pass(registry);
        if self.settled && seen == self.seen {
            self.position = self.position.max(revision);
        }
        self.position
    }

    /// Revision up to which everything was told.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// What was told cannot be brought up to date by changes: begin again.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.lost
    }

    /// Tells everything that it holds once more, to a reader who holds nothing.
    pub fn begin_again(&mut self) {
        self.told.clear();
        self.digest = SetDigest::default();
        self.owed = Owed::default();
        (self.settled, self.lost, self.position) = (false, false, 0);
        self.rereads = true;
    }

    /// Fingerprint of what was told, when that was everything.
    #[must_use]
    pub fn digest(&self) -> Option<SetDigest> {
        self.settled.then_some(self.digest)
    }

    /// Whether the reader was told of this instance.
    #[must_use]
    pub fn holds(&self, key: &InstanceKey) -> bool {
        self.told.contains_key(key)
    }

    /// Finds out what to compare: what changed, and whoever was chosen or dropped. A choice that depends on all
    /// candidates waits until they are of one moment.
    fn follow(&mut self, candidates: &Candidates, is_level: bool) {
        if !is_level && self.choice != Choice::All {
            return;
        }
        let news: Vec<_> = if self.seen < candidates.floor() || std::mem::take(&mut self.rereads) {
            candidates.all().map(|(key, _)| key).chain(self.told.keys()).cloned().collect()
        } else {
            candidates.news_after(self.seen).cloned().collect()
        };
        self.seen = candidates.seq();
        if self.choice == Choice::All {
            return news.into_iter().for_each(|key| self.owed.add(key));
        }
        if news.is_empty() {
            return;
        }
        let before = self.members.clone();
        self.choice.choose(candidates, &mut self.members, &news);
        let changed = self.members.symmetric_difference(&before).cloned();
        let touched = news.into_iter().filter(|key| self.members.contains(key));
        changed.chain(touched).for_each(|key| self.owed.add(key));
    }

    /// What the reader is told next.
    fn compare(&mut self, registry: &Registry, candidates: &Candidates, max: usize, now: Now) -> Vec<Change> {
        let (mut changes, mut bytes, mut later) = (Vec::new(), 0, Vec::new());
        for _ in 0..SHARE {
            if changes.len() >= max || bytes >= BYTES {
                break;
            }
            let Some(key) = self.owed.next() else { break };
            match self.difference(registry, candidates, &key, now) {
                Difference::None => {}
                Difference::Told(change) => {
                    bytes += change.registration.as_ref().map_or(0, |told| told.instance.text_size());
                    self.note(&key, &change);
                    changes.push(change);
                }
                Difference::Unknown => later.push(key),
                Difference::Back => self.lost = true,
            }
        }
        later.into_iter().for_each(|key| self.owed.add(key));
        changes
    }

    fn difference(
        &self,
        registry: &Registry,
        candidates: &Candidates,
        key: &Arc<InstanceKey>,
        now: Now,
    ) -> Difference {
        match (self.wanted(candidates, key), self.told.get(key)) {
            (None, None) => Difference::None,
            (None, Some(held)) => Difference::Told(left(registry, candidates, key, held)),
            (Some(wanted), Some(held)) if (wanted.version, wanted.status) == (held.version, held.status) => {
                Difference::None
            }
            (Some(wanted), Some(held)) if wanted.version < held.version => Difference::Back,
            (Some(wanted), held) => {
                // What changed since is still to be looked at.
                let read = registry.get(key.as_ref().as_ref(), now);
                let Some(read) = read.filter(|read| read.revision == wanted.revision) else {
                    return Difference::Unknown;
                };
                let kind = if held.is_some() { ChangeKind::Modified } else { ChangeKind::Added };
                Difference::Told(change(kind, key, read.version, Some(read)))
            }
        }
    }

    fn wanted<'a>(&self, candidates: &'a Candidates, key: &Arc<InstanceKey>) -> Option<&'a Candidate> {
        let is_chosen = self.choice == Choice::All || self.members.contains(key);
        candidates.here(key).filter(|_| is_chosen)
    }

    fn note(&mut self, key: &Arc<InstanceKey>, change: &Change) {
        let hash = |held: &Held| instance_hash(key.as_ref().as_ref(), &held.version);
        let registration = change.registration.as_ref();
        let held = registration.map(|told| Held { version: told.version, status: told.status() });
        let before = match held {
            Some(held) => self.told.insert(Arc::clone(key), held),
            None => self.told.remove(key),
        };
        if let Some(before) = before {
            self.digest.remove(hash(&before), before.status);
        }
        if let Some(held) = held {
            self.digest.add(hash(&held), held.status);
        }
    }
}

/// What stands between what was told of a key and what is.
enum Difference {
    None,
    Told(Change),
    /// The key is changing at this moment.
    Unknown,
    /// The reader holds a newer version.
    Back,
}

impl Owed {
    fn add(&mut self, key: Arc<InstanceKey>) {
        if self.keys.insert(Arc::clone(&key)) {
            self.queue.push_back(key);
        }
    }

    fn next(&mut self) -> Option<Arc<InstanceKey>> {
        let key = self.queue.pop_front()?;
        self.keys.remove(&key);
        Some(key)
    }
}

/// A member leaves: since it is no candidate any more, or since others are chosen.
fn left(registry: &Registry, candidates: &Candidates, key: &InstanceKey, held: &Held) -> Change {
    let gone = candidates.gone(key).map(|gone| (gone.version, gone.reason));
    let passed_over = || candidates.here(key).map(|here| (here.version, RemovalReason::FilteredOut));
    let (version, reason) = gone.or_else(passed_over).unwrap_or_else(|| fate(registry, key, held.version));
    change(ChangeKind::Removed(reason), key, version.max(held.version), None)
}

fn change(
    kind: ChangeKind,
    key: &InstanceKey,
    version: Version,
    registration: Option<Registration>,
) -> Change {
    Change { kind, key: key.clone(), version, revision: 0, registration: registration.map(Arc::new) }
}
