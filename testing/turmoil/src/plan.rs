//! What a run consists of, worked out from its seed before it begins: servers, clients, watchers, faults, and when.

mod eyes;
mod faults;

pub use eyes::{CALM, CachePlan, Chosen, FLOCK, Look, ProberPlan, ScoutPlan, WatcherPlan};
pub use faults::{Fault, Trouble};

use std::net::{IpAddr, Ipv4Addr};

use heureka_model::Status;
use heureka_registry::PreservationMode;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};

/// Servers of a cluster.
pub const SERVERS: usize = 3;
/// No fault begins or lasts after this, in virtual milliseconds.
pub const HEALED: u64 = 65_000;
/// The end, in virtual milliseconds.
pub const END: u64 = 120_000;
/// Owners report nothing after this, in virtual milliseconds.
pub const REPORTED: u64 = 112_000;
/// Owners do nothing new after this, so that what they did last has time to be everywhere.
const LAST_ACT: u64 = 90_000;
/// Watchers of a run that speak the wire themselves.
const PROBERS: usize = 3;
/// Watchers of a run that ask for readings, of everything or of a choice.
const SCOUTS: usize = 3;
/// Length of leases, in seconds, where all servers die at once.
const LONG_LEASE: u64 = 24;
/// Time between two acts of one owner.
const ACTS_APART: std::ops::Range<u64> = 4_000..20_000;

/// A machine of the simulated network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Machine {
    /// A server.
    Server(usize),
    /// The owner of an instance.
    Owner(usize),
    /// A watcher.
    Watcher(usize),
    /// A watcher that speaks the wire itself.
    Prober(usize),
    /// A cache.
    Cache(usize),
    /// A watcher of several sets.
    Flock,
    /// A watcher that asks for readings.
    Scout(usize),
}

/// How an owner speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// With the Rust client, over gRPC.
    Native,
    /// As Eureka clients do, over HTTP/1.1.
    Eureka,
}

/// What an owner does at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Registers with other metadata.
    Update,
    /// Reports another status.
    Report(Status),
    /// Cancels; comes back after so many milliseconds, or never.
    Leave(Option<u64>),
}

/// An owner of one instance.
#[derive(Clone, Debug)]
pub struct OwnerPlan {
    /// How it speaks.
    pub kind: Kind,
    /// When its first process begins.
    pub begins: u64,
    /// Servers that it knows.
    pub servers: Vec<usize>,
    /// What it does, and when.
    pub acts: Vec<(u64, Act)>,
    /// Milliseconds between two of its reports; Eureka clients have none.
    pub reports: u64,
}

/// A run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where it comes from.
    pub seed: u64,
    /// Wall clock of each server against true time, in milliseconds.
    pub skews: Vec<i64>,
    /// Self-preservation of every server.
    pub preservation: PreservationMode,
    /// Length of every lease, in seconds.
    pub lease: u64,
    /// Longest time that a message takes where nothing is wrong, in milliseconds.
    pub latency: u64,
    /// Bytes that each instance carries beside what says something.
    pub ballast: usize,
    /// Who registers.
    pub owners: Vec<OwnerPlan>,
    /// Who looks.
    pub watchers: Vec<WatcherPlan>,
    /// Who looks with a client of its own, and reads as it likes.
    pub probers: Vec<ProberPlan>,
    /// Who keeps what it sees.
    pub caches: Vec<CachePlan>,
    /// Who looks at several sets on one stream.
    pub flock: CachePlan,
    /// Who asks for readings.
    pub scouts: Vec<ScoutPlan>,
    /// Changes that a server's ring holds, where faults can be planted; as many as always otherwise.
    pub ring: Option<usize>,
    /// What goes wrong, in the order in which it begins.
    pub faults: Vec<Fault>,
}

impl Machine {
    /// Its address.
    #[must_use]
    pub fn address(self) -> IpAddr {
        let (net, number) = match self {
            Self::Server(number) => (0, number),
            Self::Owner(number) => (1, number),
            Self::Watcher(number) => (2, number),
            Self::Prober(number) => (3, number),
            Self::Cache(number) => (4, number),
            Self::Flock => (5, 0),
            Self::Scout(number) => (6, number),
        };
        Ipv4Addr::new(10, 0, net, number as u8 + 1).into()
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Server(number) => write!(f, "n{number}"),
            Self::Owner(number) => write!(f, "k{number}"),
            Self::Watcher(number) => write!(f, "w{number}"),
            Self::Prober(number) => write!(f, "p{number}"),
            Self::Cache(number) => write!(f, "c{number}"),
            Self::Flock => f.write_str("f"),
            Self::Scout(number) => write!(f, "s{number}"),
        }
    }
}

/// Time after a fault in which servers find each other again and tell each other what they missed: pings, attempts, a
/// wait of thirty seconds where a server is still taken for alive.
const PEACE: u64 = 25_000;

/// Whether nothing has come between any two servers for a while.
pub(crate) fn at_peace(faults: &[Fault], at: u64) -> bool {
    let concerns = |fault: &Fault| {
        [(0, 1), (0, 2), (1, 2)].into_iter().any(|(one, other)| fault.trouble.parts(one, other))
    };
    let disturbs = |fault: &Fault| fault.from <= at && fault.until + PEACE > at && concerns(fault);
    at > PEACE && !faults.iter().any(disturbs)
}

impl Plan {
    /// Whether what was acknowledged then may be forgotten: the server may have been alone with it, and one came back
    /// with nothing afterwards.
    pub(crate) fn may_forget(&self, at: u64) -> bool {
        let forgets = |fault: &Fault| {
            matches!(fault.trouble, Trouble::Killed(_) | Trouble::Drained(_) | Trouble::Blackout)
        };
        !at_peace(&self.faults, at) && self.faults.iter().any(|fault| forgets(fault) && fault.until >= at)
    }

    /// The plan of a seed.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        let dice = &mut SmallRng::seed_from_u64(seed);
        let count = dice.random_range(4..=8);
        let owners: Vec<_> = (0..count).map(|number| owner(number, dice)).collect();
        let count = dice.random_range(3..=5);
        let watchers: Vec<_> = (0..count).map(|_| eyes::watcher(dice)).collect();
        let ballast = if dice.random_bool(0.4) { dice.random_range(8_000..30_000) } else { 0 };
        let probers: Vec<_> = (0..PROBERS).map(|_| eyes::prober(ballast, dice)).collect();
        let budget = dice.random_bool(0.25);
        let mut plan = Self {
            seed,
            skews: (0..SERVERS).map(|_| dice.random_range(-3_000..=3_000)).collect(),
            preservation: if budget { PreservationMode::Budget } else { PreservationMode::Off },
            lease: dice.random_range(9..=20),
            latency: dice.random_range(5..=60),
            ballast,
            owners,
            watchers,
            probers,
            caches: vec![eyes::cache(dice)],
            flock: eyes::cache(dice),
            scouts: (0..SCOUTS).map(|_| eyes::scout(dice)).collect(),
            ring: dice.random_bool(0.5).then(|| dice.random_range(3..12)),
            faults: Vec::new(),
        };
        plan.faults = faults::of(&plan, dice);
        if plan.has_blackout() {
            // So that whoever looks is back before those who renew.
            plan.lease = LONG_LEASE;
        }
        plan
    }

    /// Whether all servers die at once.
    #[must_use]
    pub fn has_blackout(&self) -> bool {
        self.faults.iter().any(|fault| fault.trouble == Trouble::Blackout)
    }

    /// Every machine.
    pub fn machines(&self) -> impl Iterator<Item = Machine> + use<> {
        let servers = (0..SERVERS).map(Machine::Server);
        let owners = (0..self.owners.len()).map(Machine::Owner);
        let watchers = (0..self.watchers.len()).map(Machine::Watcher);
        let probers = (0..self.probers.len()).map(Machine::Prober);
        let caches = (0..self.caches.len()).map(Machine::Cache);
        let scouts = (0..self.scouts.len()).map(Machine::Scout);
        let eyes = watchers.chain(probers).chain(caches).chain([Machine::Flock]).chain(scouts);
        servers.chain(owners).chain(eyes)
    }

    /// Every pair of machines that talk to each other, servers first.
    pub fn links(&self) -> impl Iterator<Item = (Machine, Machine)> + use<> {
        let all: Vec<_> = self.machines().collect();
        let servers = all[..SERVERS].to_vec();
        servers.into_iter().enumerate().flat_map(move |(at, server)| {
            let others = all[at + 1..].to_vec();
            others.into_iter().map(move |other| (server, other))
        })
    }
}

fn owner(number: usize, dice: &mut SmallRng) -> OwnerPlan {
    let kind = if number % 4 == 3 { Kind::Eureka } else { Kind::Native };
    let begins = dice.random_range(500..6_000);
    let mut acts = Vec::new();
    let mut at = begins + dice.random_range(ACTS_APART);
    while at < LAST_ACT {
        let act = act(kind, at, dice);
        acts.push((at, act));
        match act {
            Act::Leave(None) => break,
            Act::Leave(Some(away)) => at += away,
            _ => {}
        }
        at += dice.random_range(ACTS_APART);
    }
    OwnerPlan { kind, begins, servers: known(dice), acts, reports: dice.random_range(200..3_000) }
}

fn act(kind: Kind, at: u64, dice: &mut SmallRng) -> Act {
    match dice.random_range(0..10) {
        // Later, so that there is somebody to judge.
        0..=1 if at > LAST_ACT / 2 => Act::Leave(None),
        0..=2 => Act::Leave(Some(dice.random_range(500..15_000))),
        3..=5 if kind == Kind::Native => {
            Act::Report(*[Status::Up, Status::Down, Status::OutOfService].choose(dice).unwrap_or(&Status::Up))
        }
        _ => Act::Update,
    }
}

/// Two or three of the servers, in any order.
fn known(dice: &mut SmallRng) -> Vec<usize> {
    let count = dice.random_range(2..=SERVERS);
    let all: Vec<usize> = (0..SERVERS).collect();
    all.sample(dice, count).copied().collect()
}
