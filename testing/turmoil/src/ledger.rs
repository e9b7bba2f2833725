//! What owners were promised, what watchers hold, and everything that happened, in order.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use heureka_model::{InstanceKey, Report, Status, Version};

use crate::plan::{FLOCK, Plan};
use crate::scout::Sight;

/// The ledger of a run, shared by all machines: they live in one thread.
pub(crate) type Book = Rc<RefCell<Ledger>>;

/// Applications that instances belong to.
const APPS: usize = 3;

/// Where an owner stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// No process of it ran yet.
    Unborn,
    /// It asks to be registered.
    Coming,
    /// It was told that it is, and keeps it so.
    There,
    /// It asks to be removed.
    Leaving,
    /// It was told that it is, and renews no more.
    Left,
    /// It renews no more, and was not told that it is removed.
    Lost,
}

/// What was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) content: u64,
    pub(crate) status: Status,
}

/// The owner of an instance.
#[derive(Debug)]
pub(crate) struct Owner {
    pub(crate) standing: Standing,
    /// Since when.
    pub(crate) since: u64,
    /// Number of the content that it wants to be registered with.
    pub(crate) content: u64,
    /// What it was told last.
    pub(crate) said: Option<Said>,
    /// When a call of it was last given up: it may still arrive. Writes of the native kind carry their order.
    pub(crate) gave_up: Option<u64>,
    /// When a server that answers readers last lacked it.
    pub(crate) lacked: u64,
    /// When a server that went on running last removed it.
    pub(crate) removed: Option<u64>,
    /// How many reports it sent.
    pub(crate) reports: u64,
    /// A server took the last of them.
    pub(crate) is_reported: bool,
}

/// A removal that a watcher was told of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Removal {
    pub(crate) at: u64,
    pub(crate) key: usize,
    pub(crate) watcher: usize,
}

/// Instances that a cache held at one look and not at the next.
#[derive(Clone, Debug)]
pub(crate) struct Shrink {
    pub(crate) at: u64,
    pub(crate) cache: usize,
    pub(crate) before: Vec<usize>,
    /// Those of which it was known that their owners keep them.
    pub(crate) lost: Vec<usize>,
}

/// A rule that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// Its name.
    pub rule: &'static str,
    /// When it was seen, in virtual milliseconds.
    pub at: u64,
    /// Number of the instance that it concerns.
    pub key: Option<usize>,
    /// What was seen.
    pub text: String,
}

/// Something that happened.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) at: u64,
    pub(crate) key: Option<usize>,
    pub(crate) text: String,
}

/// Everything that is known of a run.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) owners: Vec<Owner>,
    /// What each watcher holds.
    pub(crate) views: Vec<BTreeMap<InstanceKey, Version>>,
    /// What each prober was told.
    pub(crate) probes: Vec<BTreeMap<InstanceKey, Version>>,
    /// What the watcher of several sets holds of each.
    pub(crate) flock: [BTreeMap<InstanceKey, Version>; FLOCK.len()],
    /// What those who ask for readings know.
    pub(crate) scouts: Vec<Sight>,
    /// Removals that were not compared with the servers yet.
    pub(crate) removals: Vec<Removal>,
    /// What caches lost, and was not compared with the servers yet.
    pub(crate) shrinks: Vec<Shrink>,
    pub(crate) events: Vec<Event>,
    pub(crate) breaches: Vec<Breach>,
}

impl Ledger {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            owners: plan.owners.iter().map(|_| Owner::new()).collect(),
            views: vec![BTreeMap::new(); plan.watchers.len()],
            probes: vec![BTreeMap::new(); plan.probers.len()],
            flock: Default::default(),
            scouts: vec![Sight::default(); plan.scouts.len()],
            removals: Vec::new(),
            shrinks: Vec::new(),
            events: Vec::new(),
            breaches: Vec::new(),
        }
    }

    pub(crate) fn note(&mut self, at: u64, key: Option<usize>, text: impl Into<String>) {
        self.events.push(Event { at, key, text: text.into() });
    }

    pub(crate) fn breach(
        &mut self,
        rule: &'static str,
        at: u64,
        key: Option<usize>,
        text: impl Into<String>,
    ) {
        let text = text.into();
        self.note(at, key, format!("BREACH {rule}: {text}"));
        self.breaches.push(Breach { rule, at, key, text });
    }

    /// An owner stands elsewhere from now on.
    pub(crate) fn stands(&mut self, at: u64, key: usize, standing: Standing) {
        self.note(at, Some(key), format!("k{key} {standing:?}"));
        let owner = &mut self.owners[key];
        (owner.standing, owner.since) = (standing, at);
    }

    /// An owner was told that it is registered so.
    pub(crate) fn said(&mut self, at: u64, key: usize, said: Said) {
        let owner = &mut self.owners[key];
        if said.content == owner.content && owner.said != Some(said) {
            owner.said = Some(said);
            self.note(at, Some(key), format!("k{key} was told {} {}", said.content, said.status.as_str()));
        }
    }
}

impl Owner {
    fn new() -> Self {
        Self {
            standing: Standing::Unborn,
            since: 0,
            content: 0,
            said: None,
            gave_up: None,
            lacked: 0,
            removed: None,
            reports: 0,
            is_reported: false,
        }
    }

    /// Whether it has been registered and kept so for at least so long, as far as it was told.
    pub(crate) fn is_there_for(&self, span: u64, at: u64) -> bool {
        self.standing == Standing::There && self.since + span <= at
    }

    /// Whether a call that it gave up may still arrive.
    pub(crate) fn has_strays(&self, at: u64) -> bool {
        const LONGEST: u64 = 45_000;
        self.gave_up.is_some_and(|gave_up| gave_up + LONGEST > at)
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {:.3} s", self.rule, self.at as f64 / 1_000.0)?;
        if let Some(key) = self.key {
            write!(f, ", k{key}")?;
        }
        write!(f, ": {}", self.text)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>9.3} {}", self.at as f64 / 1_000.0, self.text)
    }
}

/// Key of an instance by its number.
pub(crate) fn key(number: usize) -> InstanceKey {
    InstanceKey { namespace: String::new(), app: format!("APP{}", number % APPS), id: format!("k{number}") }
}

/// The report of an owner that has this number among its own: no other one is the same.
pub(crate) fn report(owner: usize, number: u64) -> Report {
    let draw = (number << 8 | owner as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let gauges = [("load", (draw % 100) as f64), ("number", number as f64)];
    Report {
        available: [("slots".to_owned(), (draw / 100 % 9) as i64)].into(),
        gauges: gauges.map(|(name, value)| (name.to_owned(), value)).into(),
    }
}

/// Number of an instance by its key.
pub(crate) fn number(key: &InstanceKey) -> Option<usize> {
    key.id.strip_prefix('k')?.parse().ok()
}

/// Virtual milliseconds since the begin; within a simulated machine only.
pub(crate) fn now() -> u64 {
    millis(turmoil::sim_elapsed().unwrap_or_default())
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Waits until a virtual time.
pub(crate) async fn until(at: u64) {
    tokio::time::sleep(Duration::from_millis(at.saturating_sub(now()))).await;
}
