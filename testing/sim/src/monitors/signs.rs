//! What servers heard from clients themselves: the ground that leases stand on.

use super::Served;
use crate::client::Answer;
use crate::observe::Transition;
use crate::plan::{Kind, Plan};
use crate::world::View;

/// A sign of life that a server got from the owner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sign {
    /// True time.
    pub(crate) at: u64,
    /// The server's monotonic clock.
    pub(crate) mono: u64,
    /// A renewal came since the instance came to this server.
    pub(crate) beaten: bool,
}

/// The last sign of each key at each server.
pub(crate) struct Signs {
    direct: Vec<Vec<Option<Sign>>>,
    /// The last one anywhere, outliving servers.
    any: Vec<Option<u64>>,
}

impl Signs {
    pub(crate) fn new(plan: &Plan) -> Self {
        let keys = plan.shape.clients;
        Self { direct: vec![vec![None; keys]; plan.shape.nodes], any: vec![None; keys] }
    }

    pub(crate) fn started(&mut self, node: usize) {
        self.direct[node].fill(None);
    }

    pub(crate) fn transition(&mut self, change: &Transition) {
        // Signs of an instance that is gone say nothing of the next one.
        if !change.after.is_live() {
            self.direct[change.node][change.key] = None;
        }
    }

    pub(crate) fn served(&mut self, view: &View<'_>, served: &Served<'_>) {
        let (node, key) = (served.node, served.key);
        let renewal = matches!(served.answer, Answer::Renewed | Answer::Outdated);
        // A late copy with a stamp renews all the same.
        let eureka = view.plan.clients[key].kind == Kind::Eureka;
        let sign =
            renewal || matches!(served.answer, Answer::Registered { applied, .. } if applied || eureka);
        if sign && view.live(node, key).is_some() {
            let beaten = renewal || self.direct[node][key].is_some_and(|sign| sign.beaten);
            let mono = view.servers[node].mono(view.at);
            self.direct[node][key] = Some(Sign { at: view.at, mono, beaten });
            self.any[key] = Some(view.at);
        }
    }

    /// The last sign that a server got from the owner in this life.
    pub(crate) fn direct(&self, node: usize, key: usize) -> Option<Sign> {
        self.direct[node][key]
    }

    /// When the owner was heard last, anywhere.
    pub(crate) fn any(&self, key: usize) -> Option<u64> {
        self.any[key]
    }
}
