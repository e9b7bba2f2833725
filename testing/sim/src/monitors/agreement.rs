//! I3, I4: servers that reach each other agree, soon while they do and for certain in the end, and their digests
//! say so.

use super::Findings;
use crate::observe::{Seen, Transition};
use crate::plan::{Fault, Plan};
use crate::world::{Linked, View};

/// What one server knows, another that it has a stream with knows after so long, whatever happened before.
const SETTLED: u64 = 12_000;

/// What entered the cluster at one server is at its neighbours after this and a few ways of a frame.
const DIRECT: u64 = 1_200;

/// How long nothing must have disturbed the two for that.
const PEACE: u64 = 12_000;

/// A change has reached everybody after this, or will be found by the digests.
const ON_ITS_WAY: u64 = 3_000;

/// See the module.
pub(crate) struct Agreement {
    hostile: bool,
}

impl Agreement {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self { hostile: plan.faults.iter().any(|fault| matches!(fault.what, Fault::Hostile { .. })) }
    }

    pub(crate) fn started(&mut self, _node: usize) {}

    pub(crate) fn transition(&mut self, _change: &Transition) {}

    pub(crate) fn look(&mut self, view: &View<'_>, streams: &[Linked], findings: &mut Findings) {
        digests(view, findings);
        for linked in streams {
            let [one, other] = linked.nodes;
            if linked.since + PEACE > view.at || !view.are_at_peace(one, other, PEACE) {
                continue;
            }
            for key in 0..view.shape().clients {
                self.behind(view, one, other, key, findings);
                self.behind(view, other, one, key, findings);
            }
        }
    }

    /// Whether `to` lacks what `from` has known for long enough.
    fn behind(&self, view: &View<'_>, from: usize, to: usize, key: usize, findings: &mut Findings) {
        let Some(has) = view.seen(from, key) else { return };
        let own = has.written.boot.max(has.overlay_stamp.boot) == view.servers[from].boot();
        let patience = if own && !self.hostile { DIRECT + 6 * view.shape().latency } else { SETTLED };
        let knows = view.seen(to, key);
        let steady = view.unchanged(from, key, patience) && (own || view.unchanged(to, key, patience));
        if !steady || !lacks(knows.as_ref(), &has) {
            return;
        }
        // A removal need not reach who never had the instance, and is forgotten in the end.
        let needless = !has.is_live() && (knows.is_none_or(|knows| !knows.is_live()));
        if needless && (self.hostile || !own || !view.unforgotten(from, key)) {
            return;
        }
        if !has.is_live() && !view.unforgotten(from, key) {
            return;
        }
        let text = format!("n{from} has known {has:?} for {patience} ms, here is {knows:?}");
        findings.report("I3", view, to, key, text);
    }

    pub(crate) fn end(&self, view: &View<'_>, findings: &mut Findings) {
        // What changed a moment ago is on its way.
        let steady = |(one, other, key): &(usize, usize, usize)| {
            view.unchanged(*one, *key, ON_ITS_WAY) && view.unchanged(*other, *key, ON_ITS_WAY)
        };
        if let Some((one, other, key)) = view.differing().filter(steady) {
            let (here, there) = (view.live(one, key), view.live(other, key));
            let text = format!("differs from n{other} in the end: {here:?} and {there:?}");
            return findings.report("I3", view, one, key, text);
        }
        digests(view, findings);
    }
}

/// Digests are equal exactly when what is shown is.
fn digests(view: &View<'_>, findings: &mut Findings) {
    let root = |node: usize| view.servers[node].core.as_ref()?.replicator.root();
    let mut up = view.up();
    let Some(first) = up.next() else { return };
    for node in up {
        // One that has a long way to its log's head says nothing yet.
        let (Some(here), Some(there)) = (root(first), root(node)) else { continue };
        let differing = view.differing_between(first, node);
        if (here == there) != differing.is_none() {
            let text = format!("differs from n{first} in {differing:?}, which the digests do not say");
            findings.report("I4", view, node, differing.unwrap_or(0), text);
        }
    }
}

fn lacks(knows: Option<&Seen>, has: &Seen) -> bool {
    knows.is_none_or(|knows| {
        (knows.owner, knows.written) < (has.owner, has.written) || knows.overlay_stamp < has.overlay_stamp
    })
}
