//! I11: a request that comes late or twice does not bring older content back.

use super::Findings;
use crate::observe::{By, Transition};
use crate::plan::{Kind, Plan};
use crate::world::View;

/// The newest content of each key that each server has had, with its process.
pub(crate) struct Retries {
    newest: Vec<Vec<(u32, u64)>>,
    tame: bool,
}

impl Retries {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            newest: vec![vec![(0, 0); plan.shape.clients]; plan.shape.nodes],
            tame: plan.has_tame_clocks(),
        }
    }

    pub(crate) fn started(&mut self, node: usize) {
        self.newest[node].fill((0, 0));
    }

    pub(crate) fn transition(&mut self, view: &View<'_>, change: &Transition, findings: &mut Findings) {
        let newest = &mut self.newest[change.node][change.key];
        let native = view.plan.clients[change.key].kind == Kind::Native;
        if !change.after.is_live() {
            // Who was removed and registers with a stamp begins anew, whatever the stamp.
            *newest = if native { *newest } else { (0, 0) };
            return;
        }
        let (process, content) = *newest;
        // A stamp that lies ahead of a server's clock refuses nobody, so clocks must agree somewhat. And a removal lifts
        // a version above stamps, so that two servers may pick the earlier of two until the owner's next renewal; what
        // stands in the end is looked at elsewhere.
        let judged = native || (self.tame && change.by == By::Client);
        if judged && change.after.process == process && change.after.content < content {
            let text = format!("content {} came back after {content}", change.after.content);
            findings.report("I11", view, change.node, change.key, text);
        }
        *newest = (*newest).max((change.after.process, change.after.content));
    }
}
