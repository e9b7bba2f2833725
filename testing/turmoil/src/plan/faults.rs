//! What goes wrong.

use std::collections::BTreeMap;

use rand::RngExt as _;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom as _;

use super::{HEALED, Machine, Plan, SERVERS};

/// Share of runs in which all servers die at once.
const BLACKOUTS: f64 = 0.15;

/// Times without a fault between two on one link or server.
const BREATH: u64 = 2_000;

/// Something that goes wrong from a time to a time, in virtual milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// When it begins.
    pub from: u64,
    /// When it is over.
    pub until: u64,
    /// What it is.
    pub trouble: Trouble,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing passes between two machines, in either direction.
    Cut(Machine, Machine),
    /// Nothing passes from one machine to another.
    OneWay(Machine, Machine),
    /// What two machines send to each other arrives when it is over.
    Held(Machine, Machine),
    /// Nobody hears of a server until it is over; then everything arrives.
    Stopped(usize),
    /// Messages take up to so many milliseconds.
    Slow(Machine, Machine, u64),
    /// One message of so many is lost, in thousandths.
    Lossy(Machine, Machine, u64),
    /// A server dies, and starts with nothing when it is over.
    Killed(usize),
    /// All servers die at once, and start with nothing when it is over.
    Blackout,
    /// A server takes its leave, and starts with nothing when it is over.
    Drained(usize),
    /// An owner dies; a new process takes its place when it is over, or never.
    Gone(usize, bool),
}

impl Fault {
    /// Whether it is the end of all servers at a time at which something else would go wrong: what is known of them
    /// is clear only when they are all that goes wrong.
    fn is_blackout_within(&self, from: u64, until: u64) -> bool {
        let apart = BREATH + self.until < from || until + BREATH < self.from;
        matches!(self.trouble, Trouble::Blackout) && !apart
    }
}

impl Trouble {
    /// Whether it concerns what two servers say to each other.
    #[must_use]
    pub fn parts(self, one: usize, other: usize) -> bool {
        let pair = [Machine::Server(one), Machine::Server(other)];
        match self {
            Self::Cut(a, b) | Self::OneWay(a, b) | Self::Held(a, b) => pair.contains(&a) && pair.contains(&b),
            Self::Slow(a, b, _) | Self::Lossy(a, b, _) => pair.contains(&a) && pair.contains(&b),
            Self::Stopped(server) | Self::Killed(server) | Self::Drained(server) => {
                pair.contains(&Machine::Server(server))
            }
            Self::Blackout => true,
            Self::Gone(..) => false,
        }
    }
}

/// What a fault has for itself while it lasts: one link has one fault at a time, and so has one server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    Link(Machine, Machine),
    Machine(Machine),
}

/// Times at which the things that faults claim are free again.
type Taken = BTreeMap<Claim, u64>;

pub(super) fn of(plan: &Plan, dice: &mut SmallRng) -> Vec<Fault> {
    let links: Vec<_> = plan.links().collect();
    let mut taken = Taken::new();
    let mut faults = Vec::new();
    if dice.random_bool(BLACKOUTS) {
        let from = dice.random_range(25_000..50_000);
        let until = from + length(Trouble::Blackout, dice);
        faults.push(Fault { from, until, trouble: Trouble::Blackout });
    }
    let mut at = dice.random_range(3_000..12_000);
    let pace = dice.random_range(1_500..9_000);
    while at + 1_000 < HEALED {
        let trouble = trouble(&links, plan.owners.len(), dice);
        let until = (at + length(trouble, dice)).min(HEALED);
        if !faults.iter().any(|fault| fault.is_blackout_within(at, until))
            && claim(&mut taken, &links, trouble, at, until)
        {
            faults.push(Fault { from: at, until, trouble });
        }
        at += dice.random_range(pace / 3..pace * 2);
    }
    faults.sort_by_key(|fault| fault.from);
    faults
}

fn trouble(links: &[(Machine, Machine)], owners: usize, dice: &mut SmallRng) -> Trouble {
    // Half of the links concern servers only, however many others there are.
    let among = if dice.random_bool(0.5) { &links[..2] } else { links };
    let (mut one, mut other) = *among.choose(dice).unwrap_or(&links[0]);
    if among.len() == 2 && dice.random_bool(0.3) {
        (one, other) = (Machine::Server(1), Machine::Server(2));
    }
    if dice.random_bool(0.5) {
        std::mem::swap(&mut one, &mut other);
    }
    let server = dice.random_range(0..SERVERS);
    match dice.random_range(0..18) {
        0..=3 => Trouble::Cut(one, other),
        4..=5 => Trouble::OneWay(one, other),
        6..=7 => Trouble::Held(one, other),
        8 => Trouble::Stopped(server),
        9..=10 => Trouble::Slow(one, other, dice.random_range(100..2_000)),
        11..=12 => Trouble::Lossy(one, other, dice.random_range(2..60)),
        13..=14 => Trouble::Killed(server),
        15 => Trouble::Drained(server),
        _ => Trouble::Gone(dice.random_range(0..owners), dice.random_bool(0.6)),
    }
}

fn length(trouble: Trouble, dice: &mut SmallRng) -> u64 {
    match trouble {
        Trouble::Killed(_) => dice.random_range(500..12_000),
        Trouble::Blackout => dice.random_range(200..1_500),
        // The leave itself takes some seconds.
        Trouble::Drained(_) => dice.random_range(12_000..20_000),
        Trouble::Gone(..) => dice.random_range(300..20_000),
        _ => dice.random_range(1_000..20_000),
    }
}

fn claim(taken: &mut Taken, links: &[(Machine, Machine)], trouble: Trouble, from: u64, until: u64) -> bool {
    let claims = claims(links, trouble);
    if claims.iter().any(|claim| taken.get(claim).is_some_and(|free| from < *free)) {
        return false;
    }
    taken.extend(claims.into_iter().map(|claim| (claim, until + BREATH)));
    true
}

fn claims(links: &[(Machine, Machine)], trouble: Trouble) -> Vec<Claim> {
    match trouble {
        Trouble::Cut(one, other) | Trouble::OneWay(one, other) | Trouble::Held(one, other) => {
            vec![link(one, other)]
        }
        Trouble::Slow(one, other, _) | Trouble::Lossy(one, other, _) => vec![link(one, other)],
        Trouble::Stopped(server) => {
            let server = Machine::Server(server);
            let its = links.iter().filter(|(one, other)| *one == server || *other == server);
            its.map(|(one, other)| link(*one, *other)).chain([Claim::Machine(server)]).collect()
        }
        Trouble::Killed(server) | Trouble::Drained(server) => vec![Claim::Machine(Machine::Server(server))],
        Trouble::Blackout => (0..SERVERS).map(|server| Claim::Machine(Machine::Server(server))).collect(),
        Trouble::Gone(owner, _) => vec![Claim::Machine(Machine::Owner(owner))],
    }
}

fn link(one: Machine, other: Machine) -> Claim {
    Claim::Link(one.min(other), one.max(other))
}
