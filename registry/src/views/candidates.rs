//! Instances among which views choose, in the order of their last news.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use foldhash::fast::RandomState;
use heureka_model::{Finite, InstanceKey, RemovalReason, Status, Version};

/// Departures remembered for views that are behind; one that is further behind compares everything.
const REMEMBERED: usize = 4096;

/// Candidates, and those who were some lately.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    seq: u64,
    standings: HashMap<Arc<InstanceKey>, Standing, RandomState>,
    /// Those who are here, the best first.
    ranked: BTreeSet<(Finite, Arc<InstanceKey>)>,
    /// Every key once, at its last news.
    news: BTreeMap<u64, Arc<InstanceKey>>,
    departed: BTreeMap<u64, Arc<InstanceKey>>,
    /// Departures up to here may be forgotten.
    floor: u64,
    /// Which reading of the whole set is under way.
    generation: u64,
}

#[derive(Debug)]
struct Standing {
    seq: u64,
    generation: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    Here(Candidate),
    Gone(Departure),
}

/// An instance that may be chosen, as of its last news.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) revision: u64,
    pub(super) version: Version,
    pub(super) status: Status,
    /// The lower the better; the same for all where no number decides.
    pub(super) rank: Finite,
    pub(super) zone: Box<str>,
}

/// Why an instance may be chosen no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Departure {
    pub(super) revision: u64,
    pub(super) version: Version,
    pub(super) reason: RemovalReason,
}

impl Candidates {
    /// Number of the last news.
    pub(super) fn seq(&self) -> u64 {
        self.seq
    }

    /// Departures up to here may be forgotten.
    pub(super) fn floor(&self) -> u64 {
        self.floor
    }

    pub(super) fn here(&self, key: &InstanceKey) -> Option<&Candidate> {
        match &self.standings.get(key)?.state {
            State::Here(candidate) => Some(candidate),
            State::Gone(_) => None,
        }
    }

    pub(super) fn gone(&self, key: &InstanceKey) -> Option<Departure> {
        match &self.standings.get(key)?.state {
            State::Here(_) => None,
            State::Gone(departure) => Some(*departure),
        }
    }

    /// All who are here, in no particular order.
    pub(super) fn all(&self) -> impl Iterator<Item = (&Arc<InstanceKey>, &Candidate)> {
        self.standings.iter().filter_map(|(key, standing)| match &standing.state {
            State::Here(candidate) => Some((key, candidate)),
            State::Gone(_) => None,
        })
    }

    /// All who are here, the best first.
    pub(super) fn ranked(&self) -> impl Iterator<Item = (Finite, &Arc<InstanceKey>)> {
        self.ranked.iter().map(|(rank, key)| (*rank, key))
    }

    /// Keys with news after `seq`.
    pub(super) fn news_after(&self, seq: u64) -> impl Iterator<Item = &Arc<InstanceKey>> {
        self.news.range(seq + 1..).map(|(_, key)| key)
    }

    /// An instance is a candidate. What is older than what is known changes nothing.
    pub(super) fn put(&mut self, key: &InstanceKey, candidate: Candidate) {
        let generation = self.generation;
        if let Some(standing) = self.standings.get_mut(key) {
            standing.generation = generation;
            match &mut standing.state {
                State::Here(known) if known.revision > candidate.revision => return,
                State::Gone(known) if known.revision > candidate.revision => return,
                State::Here(known) if is_same(known, &candidate) => {
                    known.revision = candidate.revision;
                    return;
                }
                State::Here(_) | State::Gone(_) => {}
            }
        }
        let key = self.key(key);
        let rank = candidate.rank;
        self.set(&key, State::Here(candidate));
        self.ranked.insert((rank, key));
    }

    /// An instance is no candidate any more. What is older than what is known changes nothing.
    pub(super) fn depart(&mut self, key: &InstanceKey, departure: Departure) {
        let Some(known) = self.here(key).map(|known| known.revision) else { return };
        if known > departure.revision {
            return;
        }
        let key = self.key(key);
        self.set(&key, State::Gone(departure));
        self.departed.insert(self.seq, key);
        while self.departed.len() > REMEMBERED
            && let Some((seq, key)) = self.departed.pop_first()
        {
            self.news.remove(&seq);
            self.standings.remove(&key);
            self.floor = seq;
        }
    }

    /// From now on everything is put again.
    pub(super) fn begin_again(&mut self) {
        self.generation += 1;
    }

    /// Those who were not put since it began again.
    pub(super) fn left_over(&self) -> Vec<Arc<InstanceKey>> {
        let is_old = |standing: &Standing| {
            standing.generation < self.generation && matches!(standing.state, State::Here(_))
        };
        self.standings.iter().filter(|(_, old)| is_old(old)).map(|(key, _)| Arc::clone(key)).collect()
    }

    fn key(&self, key: &InstanceKey) -> Arc<InstanceKey> {
        let known = self.standings.get_key_value(key).map(|(known, _)| Arc::clone(known));
        known.unwrap_or_else(|| Arc::new(key.clone()))
    }

    fn set(&mut self, key: &Arc<InstanceKey>, state: State) {
        self.seq += 1;
        let standing = Standing { seq: self.seq, generation: self.generation, state };
        if let Some(before) = self.standings.insert(Arc::clone(key), standing) {
            self.news.remove(&before.seq);
            match before.state {
                State::Here(candidate) => drop(self.ranked.remove(&(candidate.rank, Arc::clone(key)))),
                State::Gone(_) => drop(self.departed.remove(&before.seq)),
            }
        }
        self.news.insert(self.seq, Arc::clone(key));
    }
}

/// Whether readers are told nothing new.
fn is_same(one: &Candidate, other: &Candidate) -> bool {
    (one.version, one.status, one.rank) == (other.version, other.status, other.rank) && one.zone == other.zone
}
