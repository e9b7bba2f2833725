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

/// Removals that a server may still count among what it held: a minute, and a tick at either end.
const GONE: u64 = 62_000;

/// What each server removed and held, on its monotonic clock.
pub(crate) struct Budget {
    removed: Vec<VecDeque<u64>>,
    /// Instances that expired, by whomever.
    gone: Vec<VecDeque<(u64, usize)>>,
    held: Vec<VecDeque<(u64, u64)>>,
}

impl Budget {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            removed: vec![VecDeque::new(); plan.shape.nodes],
            gone: vec![VecDeque::new(); plan.shape.nodes],
            held: vec![VecDeque::new(); plan.shape.nodes],
        }
    }

    pub(crate) fn started(&mut self, node: usize) {
        self.removed[node].clear();
        self.gone[node].clear();
        self.held[node].clear();
    }

    pub(crate) fn ticked(&mut self, view: &View<'_>, node: usize) {
        if view.plan.preservation != PreservationMode::Budget {
            return;
        }
        let mono = view.servers[node].mono(view.at);
        let held = &mut self.held[node];
        held.push_back((mono, live(view, node)));
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
        let mono = view.servers[node].mono(view.at);
        let gone = self.gone(view, node, mono);
        if change.after.life == Life::Expired && change.before.is_some_and(|before| before.is_live()) {
            self.gone[node].push_back((mono, change.key));
        }
        let own = change.by == By::Tick && change.after.life == Life::Expired;
        let beaten = signs.direct(node, change.key).is_some_and(|sign| sign.beaten);
        let down = change.before.is_some_and(|before| before.status == Status::Down);
        if !own || !beaten || down || view.plan.preservation != PreservationMode::Budget {
            return;
        }
        let removed = &mut self.removed[node];
        removed.push_back(mono);
        removed.retain(|at| at + WINDOW >= mono);
        let held = self.held[node].iter().map(|(_, live)| *live).max().unwrap_or(0);
        // What came since the last tick counts as well, and what went and stayed away.
        let held = held.max(live(view, node) + 1 + gone);
        let budget = (held * SHARE).div_ceil(100).max(1);
        if removed.len() as u64 > budget {
            let text = format!("{} of {held} removed within a minute, {budget} may be", removed.len());
            findings.report("I7", view, node, change.key, text);
        }
    }

    /// Instances that went within the minute and are not back.
    fn gone(&mut self, view: &View<'_>, node: usize, mono: u64) -> u64 {
        let gone = &mut self.gone[node];
        gone.retain(|(at, key)| at + GONE >= mono && view.live(node, *key).is_none());
        gone.len() as u64
    }
}

/// Instances that a server shows.
fn live(view: &View<'_>, node: usize) -> u64 {
    view.servers[node].seen.iter().flatten().filter(|seen| seen.is_live()).count() as u64
}
