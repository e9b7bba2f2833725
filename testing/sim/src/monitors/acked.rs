//! I1: what was acknowledged is not lost.

use heureka_model::Stamp;
use heureka_registry::Claim;

use super::{Findings, Served};
use crate::client::{Answer, Client, Phase, Verb};
use crate::observe::{Seen, Transition, place};
use crate::plan::{ClientPlan, Fault, Hostility, Kind, Plan};
use crate::world::{Pending, View};

/// The highest version of each key that each server ever had, over all its lives.
pub(crate) struct Acked {
    had: Vec<Vec<(u64, Stamp)>>,
    /// Servers were told lies about positions, which they cannot tell from the truth.
    lied_to: bool,
    /// Keys of which a stamp does not tell an older process from the younger one: its clock was ahead, and its request
    /// came late or elsewhere. Theirs is the content of the older one until they change.
    haunted: Vec<bool>,
    /// When a server last took what each client said for good. One that is learning takes a renewal on trust, and its
    /// owner is told by the next one; who is not found registers.
    taken: Vec<u64>,
    /// Content that was acknowledged to each client, and when.
    content: Vec<Option<(u64, u64)>>,
}

impl Acked {
    pub(crate) fn new(plan: &Plan) -> Self {
        let lie = |fault: &Fault| {
            matches!(fault, Fault::Hostile { what: Hostility::Replay | Hostility::Reorder, .. })
        };
        Self {
            had: vec![vec![(0, Stamp::default()); plan.shape.clients]; plan.shape.nodes],
            lied_to: plan.faults.iter().any(|fault| lie(&fault.what)),
            haunted: plan.clients.iter().map(ClientPlan::sets_back_its_stamp).collect(),
            taken: vec![0; plan.shape.clients],
            content: vec![None; plan.shape.clients],
        }
    }

    pub(crate) fn transition(&mut self, change: &Transition) {
        let had = &mut self.had[change.node][change.key];
        *had = (*had).max((change.after.owner, change.after.written));
    }

    pub(crate) fn served(&mut self, view: &View<'_>, served: &Served<'_>, findings: &mut Findings) {
        moved(view, served, findings);
        let learning = served.before.is_none() && !view.servers[served.node].is_ready();
        if !learning && served.answer != Answer::NotFound {
            self.taken[served.key] = view.at;
        }
        let current = view.clients[served.key].process;
        let older = served.request.process < current && matches!(served.request.verb, Verb::Register(..));
        let native = view.plan.clients[served.key].kind == Kind::Native;
        self.haunted[served.key] |= older && !native;
    }

    /// A server answers because a second one has the write: one has.
    pub(crate) fn confirmed(&self, view: &View<'_>, pending: &Pending, findings: &mut Findings) {
        let key = pending.request.client;
        let written = (pending.written.owner, pending.written.written);
        let others = (0..view.servers.len()).filter(|node| *node != pending.node);
        let has = others.clone().any(|node| self.had[node][key] >= written);
        if !has && !self.lied_to {
            let text = format!("version {} was said to be on a second server, and is on none", written.0);
            findings.report("I1", view, pending.node, key, text);
        }
    }

    pub(crate) fn heard(&mut self, number: usize, before: Phase, client: &Client, answer: Answer, at: u64) {
        if before == Phase::Registering && matches!(answer, Answer::Registered { .. }) {
            self.content[number] = Some((client.content, at));
        }
    }

    /// Who renews is shown with what was acknowledged last, by every server.
    pub(crate) fn end(&self, view: &View<'_>, findings: &mut Findings) {
        for (key, client) in view.clients.iter().enumerate() {
            let registered = client.phase == Phase::Registered;
            let Some((content, at)) = self.content[key].filter(|_| registered) else { continue };
            // What was written a moment ago is on its way.
            if at + 5_000 > view.at || content != client.content || self.haunted[key] {
                continue;
            }
            for node in view.up() {
                let text = match view.live(node, key) {
                    // Written to a server that was alone and died: its owner learns of it with its next renewal.
                    None if self.taken[key] < view.shape().heal => continue,
                    None => "its owner renews it, and it is not shown".to_owned(),
                    Some(seen) if (seen.process, seen.content) != (client.process, content) => format!(
                        "process {} registered content {content}, and {} of process {} is shown",
                        client.process, seen.content, seen.process
                    ),
                    Some(_) => continue,
                };
                findings.report("I1", view, node, key, text);
            }
        }
    }
}

/// Who registers from another place is listed there, whatever its clock says.
fn moved(view: &View<'_>, served: &Served<'_>, findings: &mut Findings) {
    let Verb::Register(instance, Claim::Stamp) = &served.request.verb else { return };
    let Some(before) = served.before.filter(Seen::is_live) else { return };
    let current = served.request.process == view.clients[served.key].process;
    let elsewhere = before.place != place(&instance.host_name);
    if current && elsewhere && served.answer.is_late() {
        let text = "its owner registered from another place, and was taken for late".to_owned();
        findings.report("I1", view, served.node, served.key, text);
    }
}
