//! What a view holds of its candidates.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;

use foldhash::fast::RandomState;
use heureka_model::{Finite, InstanceKey, Registration, Report, affinity};

use super::candidates::{Candidate, Candidates};

/// Which candidates a view holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// All of them.
    #[default]
    All,
    /// The best by a number.
    Best(Best),
    /// A part of fixed size that is a client's own.
    Subset(Subset),
}

/// The best by a number. Candidates without it are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Best {
    /// What decides.
    pub by: By,
    /// The lowest are the best.
    pub ascending: bool,
    /// How many; at least one.
    pub limit: usize,
    /// A candidate takes the place of the worst only when it is better by more than this; not below 0.
    pub hysteresis: Finite,
}

/// A number that instances report.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum By {
    /// A gauge.
    Gauge(String),
    /// A free amount; what was not reported is as registered.
    Available(String),
}

/// A part of fixed size: those to which the client is drawn most, of the preferred zone first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subset {
    /// Names the client.
    pub key: String,
    /// How many; at least one.
    pub size: usize,
    /// Zone to prefer; empty prefers none.
    pub zone: String,
}

/// Those whom a view holds, or is about to.
pub(super) type Members = HashSet<Arc<InstanceKey>, RandomState>;

impl Choice {
    /// What decides who is better, the same for all where no number does.
    pub(super) fn order(&self) -> Option<Order> {
        match self {
            Self::Best(best) => Some(Order { by: best.by.clone(), ascending: best.ascending }),
            Self::All | Self::Subset(_) => None,
        }
    }

    /// Most that are held; nothing when all may be.
    pub(super) fn most(&self) -> Option<usize> {
        match self {
            Self::All => None,
            Self::Best(best) => Some(best.limit),
            Self::Subset(subset) => Some(subset.size),
        }
    }

    /// Brings the members to what the candidates are by now; `news` are the keys that changed since the last time.
    pub(super) fn choose(&self, candidates: &Candidates, members: &mut Members, news: &[Arc<InstanceKey>]) {
        match self {
            Self::All => {}
            Self::Best(best) => best.choose(candidates, members),
            Self::Subset(subset) => subset.choose(candidates, members, news),
        }
    }
}

/// What decides who is better.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Order {
    by: By,
    ascending: bool,
}

impl Order {
    /// The lower the better; nothing when the number is not known.
    pub(super) fn rank(&self, registration: &Registration, report: Option<&Report>) -> Option<Finite> {
        let value = match &self.by {
            By::Gauge(name) => report?.gauges.get(name).copied()?,
            By::Available(name) => Report::available(report, &registration.instance, name) as f64,
        };
        Finite::new(if self.ascending { value } else { -value })
    }
}

impl Best {
    fn choose(&self, candidates: &Candidates, members: &mut Members) {
        members.retain(|member| candidates.here(member).is_some());
        let rank = |key: &Arc<InstanceKey>| candidates.here(key).map(|candidate| candidate.rank);
        let mut worst: Vec<(Finite, Arc<InstanceKey>)> =
            members.iter().filter_map(|member| Some((rank(member)?, Arc::clone(member)))).collect();
        worst.sort_unstable();
        for (rank, key) in candidates.ranked() {
            if members.contains(key) {
                continue;
            }
            if members.len() >= self.limit {
                let Some((lowest, last)) = worst.pop() else { return };
                if lowest.value() - rank.value() <= self.hysteresis.value() {
                    return;
                }
                members.remove(&last);
            }
            members.insert(Arc::clone(key));
        }
    }
}

impl Subset {
    fn choose(&self, candidates: &Candidates, members: &mut Members, news: &[Arc<InstanceKey>]) {
        let moved = |key: &Arc<InstanceKey>| members.contains(key);
        let chosen = if news.iter().any(moved) {
            self.first(candidates.all())
        } else {
            // Nobody made room, so whoever else is there was passed over already.
            let contenders = members.iter().chain(news);
            self.first(contenders.filter_map(|key| Some((key, candidates.here(key)?))))
        };
        *members = chosen;
    }

    /// Those to whom the client is drawn most.
    fn first<'a>(&self, among: impl Iterator<Item = (&'a Arc<InstanceKey>, &'a Candidate)>) -> Members {
        let mut drawn: Vec<_> = among.map(|(key, candidate)| (self.place(key, candidate), key)).collect();
        if drawn.len() > self.size {
            drawn.select_nth_unstable(self.size);
            drawn.truncate(self.size);
        }
        drawn.into_iter().map(|(_, key)| Arc::clone(key)).collect()
    }

    /// The lower the earlier.
    fn place(&self, key: &InstanceKey, candidate: &Candidate) -> (bool, Reverse<u64>) {
        let elsewhere = !self.zone.is_empty() && *candidate.zone != *self.zone;
        (elsewhere, Reverse(affinity(&self.key, key.as_ref())))
    }
}
