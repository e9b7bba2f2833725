//! What clients and operators do.

use heureka_model::Status;

use super::{At, Plan, Temper};
use crate::rng::Rng;

/// The protocol a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The native one: incarnation, version, adoption of what is answered.
    Native,
    /// Eureka's: a stamp of its last change.
    Eureka,
}

/// One key and the processes that live under it, one at a time.
#[derive(Clone, Debug)]
pub struct ClientPlan {
    /// Number of the key.
    pub key: usize,
    /// Protocol.
    pub kind: Kind,
    /// Server it tries first.
    pub home: usize,
    /// When it starts.
    pub starts: u64,
    /// Its wall clock against true time.
    pub skew: i64,
    /// What it does.
    pub acts: Vec<At<Act>>,
}

impl ClientPlan {
    /// Whether a younger process of it may write an older stamp than its elder did.
    #[must_use]
    pub fn sets_back_its_stamp(&self) -> bool {
        let back =
            |act: &At<Act>| matches!(act.what, Act::Cycle { step } | Act::Replace { step, .. } if step < 0);
        self.kind == Kind::Eureka && self.acts.iter().any(back)
    }
}

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Registers other content.
    Update,
    /// Reports a status.
    Report(Status),
    /// Cancels and is gone.
    Leave,
    /// Cancels and starts anew at once.
    Cycle {
        /// Its wall clock against before.
        step: i64,
    },
    /// Is gone without a word.
    Crash,
    /// Dies and starts anew at once, without a word.
    Replace {
        /// Its wall clock against before.
        step: i64,
        /// It has another address.
        moved: bool,
    },
    /// A process that was gone starts anew.
    Return,
    /// Turns to another server.
    Turn {
        /// That server.
        to: usize,
    },
}

/// What an operator does to a key by way of one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Number of the key.
    pub key: usize,
    /// Server.
    pub node: usize,
    /// What.
    pub what: Operator,
}

/// See [`Operation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// Sets an override.
    Set {
        /// Status.
        status: Status,
        /// Milliseconds after which it ends.
        ttl: Option<u64>,
    },
    /// Ends the override.
    Clear,
    /// Changes metadata.
    Label,
}

pub(super) fn of(plan: &Plan, rng: &mut Rng) -> Vec<ClientPlan> {
    let doomed = doomed(plan, rng);
    (0..plan.shape.clients)
        .map(|key| {
            let home = rng.index(plan.shape.nodes);
            let spread = if plan.temper == Temper::Crowd { 20_000 } else { 4_000 };
            let acts = if doomed.contains(&key) { end(plan, rng) } else { acts(plan, rng) };
            ClientPlan {
                key,
                kind: rng.pick(&[Kind::Native, Kind::Eureka]),
                home,
                starts: rng.within(200, spread),
                skew: rng.around(plan.shape.client_skew_ms),
                acts,
            }
        })
        .collect()
}

pub(super) fn operations(plan: &Plan, rng: &mut Rng) -> Vec<At<Operation>> {
    let count = plan.shape.operations * plan.shape.heal / 60_000;
    let mut operations = Vec::new();
    while (operations.len() as u64) < count {
        let at = rng.within(3_000, plan.shape.heal - 1_000);
        operations.push(At { at, what: operation(plan, rng) });
        if rng.chance(300) {
            // Somebody else has the same idea elsewhere.
            let what =
                Operation { node: rng.index(plan.shape.nodes), ..operations[operations.len() - 1].what };
            operations.push(At { at: at + rng.within(0, 5), what });
        }
    }
    operations.sort_by_key(|operation| operation.at);
    operations
}

fn operation(plan: &Plan, rng: &mut Rng) -> Operation {
    let status = rng.pick(&[Status::OutOfService, Status::Down, Status::Up]);
    let ttl = rng.chance(200).then(|| rng.within(2_000, 20_000));
    let what = match rng.index(5) {
        0 | 1 => Operator::Set { status, ttl },
        2 => Operator::Clear,
        _ => Operator::Label,
    };
    Operation { key: rng.index(plan.shape.clients), node: rng.index(plan.shape.nodes), what }
}

fn acts(plan: &Plan, rng: &mut Rng) -> Vec<At<Act>> {
    let most = plan.shape.acts * plan.shape.heal / 60_000;
    let mut acts: Vec<At<Act>> = (0..rng.within(0, 2 * most))
        .map(|_| At { at: rng.within(5_000, plan.shape.heal - 500), what: act(plan, rng) })
        .collect();
    acts.sort_by_key(|act| act.at);
    acts
}

fn act(plan: &Plan, rng: &mut Rng) -> Act {
    match rng.index(16) {
        0..4 => Act::Update,
        4 | 5 => Act::Report(rng.pick(&[Status::Up, Status::Down, Status::OutOfService, Status::Starting])),
        6 | 7 => Act::Leave,
        8 => Act::Cycle { step: skew(plan, rng) },
        9 => Act::Crash,
        10 | 11 => {
            // On the same host the clock goes on.
            let moved = rng.chance(500);
            Act::Replace { step: if moved { skew(plan, rng) } else { 0 }, moved }
        }
        12 | 13 => Act::Return,
        _ => Act::Turn { to: rng.index(plan.shape.nodes) },
    }
}

fn skew(plan: &Plan, rng: &mut Rng) -> i64 {
    rng.around(plan.shape.client_skew_ms)
}

/// Who goes for good while the others stay.
fn doomed(plan: &Plan, rng: &mut Rng) -> Vec<usize> {
    let share = match plan.temper {
        Temper::ScaleIn => 300,
        Temper::Blackout => 200,
        _ => return Vec::new(),
    };
    (0..plan.shape.clients).filter(|_| rng.chance(share)).collect()
}

fn end(plan: &Plan, rng: &mut Rng) -> Vec<At<Act>> {
    let at = match plan.temper {
        Temper::ScaleIn => 20_000 + rng.within(0, 3_000),
        _ => 20_000 + rng.within(0, 10_000),
    };
    let what = if plan.temper == Temper::ScaleIn && rng.chance(300) { Act::Leave } else { Act::Crash };
    vec![At { at, what }]
}
