//! I7: no server removes more than its share within a minute.

use std::collections::VecDeque;

use heureka_model::Status;
use heureka_registry::PreservationMode;

use super::Findings;
use super::signs::Signs;
use crate::observe::{By, Life, Transition};
use crate::plan::Plan;
use crate::world::View;

/// A minute, but for the tick that may fall to either side.
const WINDOW: u64 = 58_000;

/// One minus the threshold of renewals, in percent.
const SHARE: u64 = 15;

/// What each server removed and held, on its monotonic clock.
pub(crate) struct Budget {
    removed: Vec<VecDeque<u64>>,
    held: Vec<VecDeque<(u64, u64)>>,
}

impl Budget {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            removed: vec![VecDeque::new(); plan.shape.nodes],
            held: vec![VecDeque::new(); plan.shape.nodes],
        }
    }

    pub(crate) fn started(&mut self, node: usize) {
        self.removed[node].clear();
        self.held[node].clear();
    }

    pub(crate) fn ticked(&mut self, view: &View<'_>, node: usize) {
        if view.plan.preservation != PreservationMode::Budget {
            return;
        }
        let mono = view.servers[node].mono(view.at);
        let live = view.servers[node].seen.iter().flatten().filter(|seen| seen.is_live()).count() as u64;
        let held = &mut self.held[node];
        held.push_back((mono, live));
        while held.get(1).is_some_and(|(at, _)| at + WINDOW < mono) {
            held.pop_front();
        }
    }

    pub(crate) fn transition(
        &mut self,
        signs: &Signs,
        view: &View<'_>,
        change: &Transition,
        findings: &mut Findings,
    ) {
        let node = change.node;
        let own = change.by == By::Tick && change.after.life == Life::Expired;
        let beaten = signs.direct(node, change.key).is_some_and(|sign| sign.beaten);
        let down = change.before.is_some_and(|before| before.status == Status::Down);
        if !own || !beaten || down || view.plan.preservation != PreservationMode::Budget {
            return;
        }
        let mono = view.servers[node].mono(view.at);
        let removed = &mut self.removed[node];
        removed.push_back(mono);
        removed.retain(|at| at + WINDOW >= mono);
        let held = self.held[node].iter().map(|(_, live)| *live).max().unwrap_or(0);
        // As the core counts: what is there and what went, though some of it may be back.
        let held = held + removed.len() as u64 - 1;
        let budget = (held * SHARE).div_ceil(100).max(1);
        if removed.len() as u64 > budget {
            let text = format!("{} of {held} removed within a minute, {budget} may be", removed.len());
            findings.report("I7", view, node, change.key, text);
        }
    }
}
