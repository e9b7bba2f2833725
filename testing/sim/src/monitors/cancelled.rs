//! I2: what a server knows to be cancelled does not come back without a newer write of its owner.

use std::collections::BTreeMap;

use super::{Findings, Served};
use crate::client::Answer;
use crate::observe::{By, Life, Transition};
use crate::plan::Plan;
use crate::world::View;

/// The highest cancelled version of each key that each server has heard of.
pub(crate) struct CancelledKeys {
    highest: Vec<Vec<Option<(u64, u64)>>>,
    /// When each version was last accepted from its owner.
    born: BTreeMap<(usize, u64), u64>,
}

impl CancelledKeys {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self { highest: vec![vec![None; plan.shape.clients]; plan.shape.nodes], born: BTreeMap::new() }
    }

    pub(crate) fn started(&mut self, node: usize) {
        self.highest[node].fill(None);
    }

    pub(crate) fn transition(&mut self, view: &View<'_>, change: &Transition, findings: &mut Findings) {
        let version = (change.key, change.after.owner);
        if change.after.is_live() && change.by == By::Client {
            self.born.insert(version, change.at);
        }
        // An operator's write goes on what the owner wrote.
        let written = change.before.and_then(|before| self.born.get(&(change.key, before.owner)).copied());
        if let Some(born) = written.filter(|_| change.after.is_live() && change.by == By::Operator) {
            self.born.insert(version, born);
        }
        let was_live = change.before.is_some_and(|before| before.is_live());
        if was_live && change.after.life == Life::Cancelled && change.by == By::Tick {
            let text = "a cancel that nobody asked for".to_owned();
            findings.report("I2", view, change.node, change.key, text);
        }
        let highest = &mut self.highest[change.node][change.key];
        match (change.after.life, *highest) {
            (Life::Cancelled, known) if known.is_none_or(|(owner, _)| owner <= change.after.owner) => {
                *highest = Some((change.after.owner, change.at));
            }
            (Life::Live, Some((owner, at))) if change.after.owner <= owner => {
                // A server that has forgotten takes what its owner has told since.
                let newer = self.born.get(&version).is_some_and(|born| *born >= at);
                let forgotten = view.at - at >= view.shape().tombstone_ttl && newer;
                // A write that another server made at the same time has the version of the cancel, and its position
                // decides: a registration with a stamp, or an operator's.
                if forgotten || change.after.owner == owner {
                    *highest = None;
                    return;
                }
                let text =
                    format!("version {} came back after {owner} was cancelled here", change.after.owner);
                findings.report("I2", view, change.node, change.key, text);
            }
            _ => {}
        }
    }

    /// Nobody is told that a lease goes on which is none, but by a server that does not know yet what there is.
    pub(crate) fn served(&mut self, view: &View<'_>, served: &Served<'_>, findings: &mut Findings) {
        let live = served.before.is_some_and(|before| before.is_live());
        let learning = served.before.is_none() && !view.servers[served.node].is_ready();
        if served.answer == Answer::NotFound && learning {
            let text = "a renewal was refused by a server that does not know yet what there is".to_owned();
            findings.report("I14", view, served.node, served.key, text);
        }
        if served.answer == Answer::Renewed && !live && !learning {
            let text = "a renewal was answered OK, and there is no live instance".to_owned();
            findings.report("I2", view, served.node, served.key, text);
        }
    }
}
