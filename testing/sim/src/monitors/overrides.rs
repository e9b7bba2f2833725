//! I10: an override stands on the key it was ordered for, and stays there.

use std::collections::BTreeSet;

use heureka_model::Status;

use super::Findings;
use crate::observe::Transition;
use crate::plan::{Fault, Operator, Plan};
use crate::world::View;

/// What was ordered for each key.
pub(crate) struct Overrides {
    ordered: Vec<BTreeSet<Status>>,
    /// The key was not there all the time since it came.
    gone: Vec<bool>,
    /// Servers that took the order in.
    shown: Vec<bool>,
}

impl Overrides {
    pub(crate) fn new(plan: &Plan) -> Self {
        let keys = plan.shape.clients;
        Self { ordered: vec![BTreeSet::new(); keys], gone: vec![false; keys], shown: vec![false; keys] }
    }

    pub(crate) fn ordered(&mut self, key: usize, status: Status) {
        self.ordered[key].insert(status);
    }

    pub(crate) fn transition(&mut self, view: &View<'_>, change: &Transition, findings: &mut Findings) {
        self.gone[change.key] |= !change.after.is_live();
        let Some(set) = change.after.overlay.status else { return };
        self.shown[change.key] = true;
        if !self.ordered[change.key].contains(&set.status) {
            let text = format!("{:?} was never ordered for it", set.status);
            findings.report("I10", view, change.node, change.key, text);
        }
    }

    /// An only override of an instance that was always there stands in the end, while no server forgot it.
    pub(crate) fn end(&self, view: &View<'_>, findings: &mut Findings) {
        let lost = |fault: &Fault| matches!(fault, Fault::Crash { .. } | Fault::Restart { .. });
        if view.plan.faults.iter().any(|fault| lost(&fault.what)) {
            return;
        }
        for key in (0..view.shape().clients).filter(|key| self.shown[*key] && !self.gone[*key]) {
            let lasting = |what: Operator| matches!(what, Operator::Set { ttl: None, .. } | Operator::Label);
            let of_key = view.plan.operations.iter().filter(|operation| operation.what.key == key);
            if !of_key.clone().all(|operation| lasting(operation.what.what)) {
                continue;
            }
            for node in view.up() {
                if view.live(node, key).is_some_and(|seen| seen.overlay.status.is_none()) {
                    findings.report("I10", view, node, key, "its override is lost".to_owned());
                }
            }
        }
    }
}
