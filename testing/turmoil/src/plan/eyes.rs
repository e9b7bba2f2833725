//! Who looks, at what, and how.

use heureka_model::{Registration, Status};
use heureka_proto::v1::{InstanceSelector, InstanceStatus};
use rand::rngs::SmallRng;
use rand::{Rng as _, RngExt as _};

use super::known;

/// Nobody who looks does anything unusual after this, in virtual milliseconds.
pub const CALM: u64 = 97_000;

const FIRST: &str = "APP0";

/// What is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// Everything.
    All,
    /// One application.
    App(String),
    /// What is UP.
    Up,
    /// The first application.
    First,
}

/// A watcher.
#[derive(Clone, Debug)]
pub struct WatcherPlan {
    /// Servers that it knows.
    pub servers: Vec<usize>,
    /// What it looks at.
    pub look: Look,
    /// When it begins.
    pub begins: u64,
}

/// A watcher that speaks the wire itself and does what the contract allows but no good client does.
#[derive(Clone, Debug)]
pub struct ProberPlan {
    /// Servers that it knows.
    pub servers: Vec<usize>,
    /// What it looks at.
    pub look: Look,
    /// When it begins.
    pub begins: u64,
    /// Changes in a message at most.
    pub batch: i32,
    /// Bytes that a server may send ahead of it.
    pub window: u32,
    /// Milliseconds that it takes to read a message.
    pub pause: u64,
    /// When it stops reading, and for how long.
    pub stalls: Vec<(u64, u64)>,
    /// When it lets go of its stream, and for how long it stays away before it goes on.
    pub leaves: Vec<(u64, u64)>,
    /// Whether it then comes back to the same server without its token, and not to another one with it.
    pub returns: bool,
}

/// A watcher that asks for readings.
#[derive(Clone, Debug)]
pub struct ScoutPlan {
    /// Servers that it knows.
    pub servers: Vec<usize>,
    /// When it begins.
    pub begins: u64,
    /// Whom it watches.
    pub chosen: Chosen,
}

/// Of all that there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// All.
    All,
    /// Who has some slots free.
    Free,
    /// Whose load is neither low nor high.
    Busy,
    /// Those with the lowest load.
    Best,
    /// A part that is its own.
    Part,
}

/// What one watcher of several sets looks at.
pub const FLOCK: [Look; 3] = [Look::All, Look::Up, Look::First];

/// A cache, or a watcher of several sets.
#[derive(Clone, Debug)]
pub struct CachePlan {
    /// Servers that it knows.
    pub servers: Vec<usize>,
    /// When it begins.
    pub begins: u64,
}

impl Look {
    /// Selectors for it.
    #[must_use]
    pub fn selectors(&self) -> Vec<InstanceSelector> {
        match self {
            Self::All => Vec::new(),
            Self::App(app) => vec![InstanceSelector { apps: vec![app.clone()], ..Default::default() }],
            Self::First => vec![InstanceSelector { apps: vec![FIRST.to_owned()], ..Default::default() }],
            Self::Up => {
                let statuses = vec![InstanceStatus::Up.into()];
                vec![InstanceSelector { statuses, ..Default::default() }]
            }
        }
    }

    /// Whether an instance is part of it.
    #[must_use]
    pub fn holds(&self, live: &Registration) -> bool {
        match self {
            Self::All => true,
            Self::App(app) => live.instance.key.app == *app,
            Self::Up => live.status() == Status::Up,
            Self::First => live.instance.key.app == FIRST,
        }
    }
}

pub(super) fn watcher(dice: &mut SmallRng) -> WatcherPlan {
    WatcherPlan { servers: known(dice), look: look(dice), begins: dice.random_range(0..10_000) }
}

/// `ballast` is what an instance carries: a window of a few bytes would take for ever.
pub(super) fn prober(ballast: usize, dice: &mut SmallRng) -> ProberPlan {
    let reads_all = dice.random_bool(0.3);
    let begins = dice.random_range(2_000..20_000);
    let stalls = if dice.random_bool(0.5) { times(begins, 5_000..30_000, dice) } else { Vec::new() };
    let leaves = if dice.random_bool(0.5) { times(begins, 500..12_000, dice) } else { Vec::new() };
    ProberPlan {
        servers: known(dice),
        look: look(dice),
        begins,
        batch: if reads_all { 256 } else { dice.random_range(1..=3) },
        window: if ballast > 0 { dice.random_range(2_000..6_000) } else { dice.random_range(64..400) },
        pause: if dice.random_bool(0.5) { dice.random_range(0..1_500) } else { 0 },
        stalls,
        leaves,
        returns: dice.random_bool(0.3),
    }
}

pub(super) fn scout(dice: &mut SmallRng) -> ScoutPlan {
    let chosen = match dice.random_range(0..5) {
        0 => Chosen::All,
        1 => Chosen::Free,
        2 => Chosen::Busy,
        3 => Chosen::Best,
        _ => Chosen::Part,
    };
    ScoutPlan { servers: known(dice), begins: dice.random_range(0..20_000), chosen }
}

pub(super) fn cache(dice: &mut SmallRng) -> CachePlan {
    CachePlan { servers: known(dice), begins: dice.random_range(0..6_000) }
}

fn look(dice: &mut SmallRng) -> Look {
    match dice.random_range(0..10) {
        0..=2 => Look::App(format!("APP{}", dice.random_range(0..3))),
        3..=5 => Look::Up,
        _ => Look::All,
    }
}

/// Times at which something begins, and how long each lasts.
fn times(begins: u64, length: std::ops::Range<u64>, dice: &mut SmallRng) -> Vec<(u64, u64)> {
    let (mut times, mut at) = (Vec::new(), begins);
    loop {
        at += 1_000 + dice.next_u64() % 15_000;
        let lasts = dice.random_range(length.clone());
        if at + lasts > CALM {
            return times;
        }
        times.push((at, lasts));
        at += lasts;
    }
}
