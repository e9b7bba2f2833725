//! What goes wrong with servers and network.

use super::{At, Plan, Temper};
use crate::rng::Rng;

/// A fault. Servers are numbered from 0; times are milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// Nothing passes between the servers of `side` (one bit each) and the others, or only from the others to them.
    Partition {
        /// Bits of servers.
        side: u16,
        /// Nothing passes from `side` only.
        one_way: bool,
        /// How long.
        lasts: u64,
    },
    /// The stream of two servers is cut; what is on its way is lost. One side may not notice for a while.
    Cut {
        /// One server.
        one: usize,
        /// The other.
        other: usize,
        /// How long `other` does not notice.
        half_open: u64,
    },
    /// The stream of two servers is cut again and again.
    Flap {
        /// One server.
        one: usize,
        /// The other.
        other: usize,
        /// How often.
        times: u64,
    },
    /// Few bytes a second pass from one server to another.
    Slow {
        /// Sender.
        from: usize,
        /// Receiver.
        to: usize,
        /// Bytes a second.
        rate: u64,
        /// How long.
        lasts: u64,
    },
    /// A server stands still, then finds everything that came meanwhile.
    Pause {
        /// Server.
        node: usize,
        /// How long.
        lasts: u64,
        /// Its monotonic clock stands still as well.
        suspended: bool,
    },
    /// A server dies and starts with nothing, or with what it knew some time before.
    Crash {
        /// Server.
        node: usize,
        /// How long it is gone.
        lasts: u64,
        /// Age of what it starts with.
        warm: Option<u64>,
        /// Its wall clock after the start, against before.
        step: i64,
    },
    /// A server says that it leaves, leaves and comes back.
    Restart {
        /// Server.
        node: usize,
        /// How long it is gone.
        lasts: u64,
    },
    /// A wall clock jumps.
    Step {
        /// Server.
        node: usize,
        /// Milliseconds.
        by: i64,
    },
    /// A server's clients do not reach it.
    Unreachable {
        /// Server.
        node: usize,
        /// How long.
        lasts: u64,
    },
    /// No request of anybody arrives anywhere.
    Silence {
        /// How long.
        lasts: u64,
    },
    /// A server is told what no healthy one would tell it.
    Hostile {
        /// Who seems to tell it.
        from: usize,
        /// Who is told.
        to: usize,
        /// What.
        what: Hostility,
    },
}

/// What no healthy server tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hostility {
    /// Frames of earlier streams once more.
    Replay,
    /// A record whose clock lies years ahead, in a frame with good ones.
    FarFuture,
    /// The next frames in another order.
    Reorder,
    /// The next frame twice.
    Double,
    /// A frame without its second half.
    Truncate,
    /// Answers that nobody asked for.
    Noise,
}

impl Fault {
    pub(super) fn steps_a_clock(&self) -> bool {
        matches!(self, Self::Step { .. }) || matches!(self, Self::Crash { step, .. } if *step != 0)
    }

    /// How long it lasts; what it left behind may take longer.
    #[must_use]
    pub fn lasts(&self) -> u64 {
        match self {
            Self::Partition { lasts, .. }
            | Self::Slow { lasts, .. }
            | Self::Pause { lasts, .. }
            | Self::Crash { lasts, .. }
            | Self::Restart { lasts, .. }
            | Self::Unreachable { lasts, .. }
            | Self::Silence { lasts } => *lasts,
            Self::Cut { half_open, .. } => *half_open,
            Self::Flap { times, .. } => times * 1_000,
            Self::Step { .. } | Self::Hostile { .. } => 0,
        }
    }
}

pub(super) fn of(plan: &Plan, rng: &mut Rng) -> Vec<At<Fault>> {
    let mut faults = match plan.temper {
        Temper::Calm | Temper::ScaleIn => Vec::new(),
        Temper::Gentle => gentle(plan, rng),
        Temper::Blackout => {
            vec![At { at: 20_000, what: Fault::Silence { lasts: rng.within(20_000, 100_000) } }]
        }
        Temper::Outlast => {
            let mut faults = rough(plan, rng);
            faults.extend(outlast(plan, rng));
            // What is told again after it was forgotten cannot be told from news.
            let replay = |fault: &Fault| matches!(fault, Fault::Hostile { what: Hostility::Replay, .. });
            faults.retain(|fault| !replay(&fault.what));
            faults
        }
        Temper::Crowd => one_death(rough(plan, rng)),
        Temper::Rough | Temper::Coarse => rough(plan, rng),
    };
    faults.sort_by_key(|fault| fault.at);
    faults
}

/// What dies with all servers is back when every owner has renewed, which takes a crowd too long.
fn one_death(mut faults: Vec<At<Fault>>) -> Vec<At<Fault>> {
    let mut deaths = 0;
    faults.retain(|fault| {
        let death = matches!(fault.what, Fault::Crash { .. } | Fault::Restart { .. });
        deaths += usize::from(death);
        !death || deaths == 1
    });
    faults
}

/// One after the other, none so long that a lease could run out.
fn gentle(plan: &Plan, rng: &mut Rng) -> Vec<At<Fault>> {
    let mut faults = Vec::new();
    let mut at = 5_000;
    let longest = (plan.shape.lease - plan.shape.interval - 5_000) / 2;
    while at + longest < plan.shape.heal {
        let lasts = rng.within(500, longest);
        let (node, other) = pair(plan.shape.nodes, rng);
        let what = match rng.index(7) {
            0 | 1 => partition(plan, lasts, rng),
            2 => Fault::Cut { one: node, other, half_open: lasts.min(2_000) },
            3 | 4 => Fault::Pause { node, lasts, suspended: rng.chance(200) },
            5 => Fault::Step { node, by: step(rng) },
            _ => Fault::Unreachable { node, lasts },
        };
        faults.push(At { at, what });
        // Reconnecting takes its time, and only then a next one does not add up.
        at += lasts + 12_000 + rng.within(0, 5_000);
    }
    faults
}

fn rough(plan: &Plan, rng: &mut Rng) -> Vec<At<Fault>> {
    let count = plan.shape.faults * plan.shape.heal / 60_000;
    (0..count).map(|_| At { at: rng.within(1_000, plan.shape.heal - 1_000), what: any(plan, rng) }).collect()
}

fn any(plan: &Plan, rng: &mut Rng) -> Fault {
    let nodes = plan.shape.nodes;
    let (node, other) = pair(nodes, rng);
    let lasts = rng.pick(&[500, 2_000, 5_000, 10_000, 20_000, 40_000]);
    let lasts = rng.within(lasts / 2, lasts);
    match rng.index(16) {
        0..3 => partition(plan, lasts, rng),
        3 => Fault::Cut { one: node, other, half_open: rng.pick(&[0, 0, 100, 3_000, 8_000]) },
        4 => Fault::Flap { one: node, other, times: rng.within(2, 8) },
        5 => Fault::Slow { from: node, to: other, rate: rng.pick(&[200, 1_000, 10_000]), lasts },
        6 | 7 => Fault::Pause { node, lasts: pause(plan, lasts, rng), suspended: rng.chance(250) },
        8 | 9 => Fault::Crash { node, lasts: lasts / 2, warm: warm(plan, rng), step: crash_step(rng) },
        10 => Fault::Restart { node, lasts: lasts / 2 },
        11 => Fault::Step { node, by: step(rng) },
        12 => Fault::Unreachable { node, lasts },
        _ => Fault::Hostile { from: node, to: other, what: hostility(rng) },
    }
}

/// Servers are apart for longer than removals are remembered; one of them may stand still meanwhile, so that it still
/// shows what the others have forgotten.
fn outlast(plan: &Plan, rng: &mut Rng) -> Vec<At<Fault>> {
    let lasts = plan.shape.tombstone_ttl + rng.within(3_000, 3_000 + 2 * plan.shape.lease);
    let at = rng.within(5_000, plan.shape.heal.saturating_sub(lasts + 12_000).max(6_000));
    if rng.chance(500) {
        return vec![At { at, what: partition(plan, lasts, rng) }];
    }
    let node = rng.index(plan.shape.nodes);
    let others = (0..plan.shape.nodes).filter(|other| *other != node);
    let cut = others.map(|other| Fault::Cut { one: node, other, half_open: 0 });
    let apart = lasts + 4_000;
    let mut faults: Vec<At<Fault>> = cut.map(|what| At { at, what }).collect();
    faults.push(At { at, what: Fault::Partition { side: 1 << node, one_way: false, lasts: apart } });
    faults.push(At { at, what: Fault::Unreachable { node, lasts: apart } });
    faults.push(At { at: at + 700, what: Fault::Pause { node, lasts, suspended: false } });
    faults
}

fn partition(plan: &Plan, lasts: u64, rng: &mut Rng) -> Fault {
    let side = rng.within(1, (1 << plan.shape.nodes) - 1) as u16;
    Fault::Partition { side, one_way: rng.chance(300), lasts }
}

fn pair(nodes: usize, rng: &mut Rng) -> (usize, usize) {
    let one = rng.index(nodes);
    if nodes == 1 {
        return (one, one);
    }
    (one, (one + 1 + rng.index(nodes - 1)) % nodes)
}

/// Never so long that the others forget meanwhile what was removed.
fn pause(plan: &Plan, lasts: u64, rng: &mut Rng) -> u64 {
    let longest = (plan.shape.tombstone_ttl - 2 * plan.shape.lease) / 2;
    (lasts + rng.within(0, 30_000)).min(longest.max(1_000))
}

/// Never so old that the others have forgotten what was removed since.
fn warm(plan: &Plan, rng: &mut Rng) -> Option<u64> {
    let age = rng.within(0, 30_000);
    (rng.chance(400) && age + 25_000 < plan.shape.tombstone_ttl).then_some(age)
}

fn crash_step(rng: &mut Rng) -> i64 {
    if rng.chance(500) { 0 } else { step(rng) }
}

fn step(rng: &mut Rng) -> i64 {
    let span = rng.pick(&[1_000, 40_000, 300_000, 3_600_000]);
    rng.around(span)
}

fn hostility(rng: &mut Rng) -> Hostility {
    rng.pick(&[
        Hostility::Replay,
        Hostility::FarFuture,
        Hostility::Reorder,
        Hostility::Double,
        Hostility::Truncate,
        Hostility::Noise,
    ])
}
