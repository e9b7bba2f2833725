//! I5, I6, I8: who renews stays, who is silent goes, and no clock but the monotonic one has a say.

use super::Findings;
use super::signs::Signs;
use crate::client::Phase;
use crate::observe::{By, Life, Seen, Transition};
use crate::plan::{Act, ClientPlan, Plan, Temper};
use crate::world::{Linked, View};

/// A lease that ran out is gone after so long, where nothing disturbs: a scan, a probe, a late tick.
const SLACK: u64 = 5_000;

/// The end of a pause is known to the event that ends it only.
const HASTE: u64 = 10;

pub(crate) fn transition(signs: &Signs, view: &View<'_>, change: &Transition, findings: &mut Findings) {
    if change.after.life != Life::Expired || change.by == By::Start {
        return;
    }
    own_removal(signs, view, change, findings);
    believed_removal(signs, view, change, findings);
    mistaken(signs, view, change, findings);
    let calm = view.plan.temper == Temper::Calm && view.clients[change.key].phase == Phase::Gone;
    if calm && let Some(last) = signs.any(change.key) {
        findings.removals.push(view.at - last);
    }
}

/// A server removes nobody whom it heard itself within the lease.
fn own_removal(signs: &Signs, view: &View<'_>, change: &Transition, findings: &mut Findings) {
    let own = change.by == By::Tick;
    let Some(sign) = signs.direct(change.node, change.key).filter(|_| own) else { return };
    let age = view.servers[change.node].passed(sign.mono, view.at);
    if age + HASTE <= view.shape().lease {
        let text = format!("removed {age} ms after its owner renewed it here");
        findings.report("I5", view, change.node, change.key, text);
    }
}

/// Nor does it believe another server that did, of the same write of the owner. Its own pauses count here, since the
/// other went on.
fn believed_removal(signs: &Signs, view: &View<'_>, change: &Transition, findings: &mut Findings) {
    let Some(before) = change.before.filter(Seen::is_live) else { return };
    let same = before.owner == change.after.owner;
    let by_peer = matches!(change.by, By::Peer(_));
    let Some(sign) = signs.direct(change.node, change.key).filter(|_| same && by_peer) else { return };
    let age = view.servers[change.node].mono(view.at).saturating_sub(sign.mono);
    if age < view.shape().lease {
        let text = format!("a peer's removal was believed {age} ms after its owner renewed it here");
        findings.report("I5", view, change.node, change.key, text);
    }
}

/// Where no fault lasts long enough to cost a lease, nobody who renews is removed anywhere.
fn mistaken(signs: &Signs, view: &View<'_>, change: &Transition, findings: &mut Findings) {
    let alive = view.clients[change.key].phase == Phase::Registered;
    let heard = signs.any(change.key).is_some_and(|last| view.at - last < view.shape().lease / 2);
    // A later stamp on a removal that was there already removes nobody, and what a process left that was silent until
    // the next one came is lapsed wherever that one is not known yet.
    let process = view.clients[change.key].process;
    let own = change.before.filter(Seen::is_live).is_some_and(|before| before.process == process);
    if !alive || !heard || !own {
        return;
    }
    findings.mistaken += 1;
    let spared = view.plan.temper.spares_leases() || view.plan.temper == Temper::Blackout;
    if spared {
        findings.report("I5", view, change.node, change.key, "removed while its owner renews it".to_owned());
    }
}

pub(crate) fn look(signs: &Signs, view: &View<'_>, streams: &[Linked], findings: &mut Findings) {
    visible(signs, view, streams, findings);
    if view.plan.temper == Temper::Calm {
        overdue(signs, view, findings);
    }
}

/// What one server hears from its owner, every server that has had a stream with it for a while shows.
fn visible(signs: &Signs, view: &View<'_>, streams: &[Linked], findings: &mut Findings) {
    const SETTLED: u64 = 12_000;
    for linked in streams.iter().filter(|linked| linked.since + SETTLED < view.at) {
        let [one, other] = linked.nodes;
        if !view.are_at_peace(one, other, SETTLED) {
            continue;
        }
        for (near, far) in [(one, other), (other, one)] {
            for key in 0..view.shape().clients {
                let steady = view.live(near, key).is_some()
                    && view.live(far, key).is_none()
                    && view.unchanged(near, key, SETTLED)
                    && view.unchanged(far, key, SETTLED);
                let heard =
                    signs.direct(near, key).is_some_and(|sign| view.at - sign.at < view.shape().lease);
                if steady && heard {
                    let text = format!("its owner renews it at n{near}, and it is not shown here");
                    findings.report("I1", view, far, key, text);
                }
            }
        }
    }
}

/// Whoever is silent for longer than the lease is gone soon after.
fn overdue(signs: &Signs, view: &View<'_>, findings: &mut Findings) {
    for node in view.up() {
        for key in 0..view.shape().clients {
            let Some(last) = signs.any(key).filter(|_| view.live(node, key).is_some()) else { continue };
            let silent = view.at - last;
            if silent > view.shape().lease + SLACK + view.shape().latency {
                let text = format!("still shown {silent} ms after the last sign of life");
                findings.report("I6", view, node, key, text);
            }
        }
    }
}

/// Long after the faults nobody is shown who is gone, but who the budget has not let go yet.
pub(crate) fn end(view: &View<'_>, findings: &mut Findings) {
    let held = view.plan.preservation != heureka_registry::PreservationMode::Off;
    let must_exit = matches!(view.plan.temper, Temper::ScaleIn | Temper::Blackout);
    if held && !must_exit {
        return;
    }
    let (invariant, left) = if held { ("I7", left(view.plan)) } else { ("I6", 0) };
    for node in view.up() {
        let gone = |key: &usize| view.clients[*key].phase == Phase::Gone && view.live(node, *key).is_some();
        let shown: Vec<usize> = (0..view.shape().clients).filter(gone).collect();
        if shown.len() > left {
            let text = format!("{} still shown, and long gone; {left} may be", shown.len());
            findings.report(invariant, view, node, shown[0], text);
        }
    }
}

/// How many of those who died together may still be held in the end: the budget's share goes each minute, so that it
/// takes longer than a run when too many of few died.
fn left(plan: &Plan) -> usize {
    const SILENCE: u64 = 90_000;
    const MINUTE: u64 = 62_000;
    let last = |client: &ClientPlan| client.acts.last().map(|act| (act.what, act.at));
    let ends = || plan.clients.iter().filter_map(last);
    let crashes = || ends().filter(|(what, _)| *what == Act::Crash);
    let listed = plan.clients.len() - ends().filter(|(what, _)| *what == Act::Leave).count();
    let silent = crashes().map(|(_, at)| at + plan.shape.lease + SILENCE).max().unwrap_or(0);
    let begin = silent.max(plan.shape.heal) + SLACK;
    let minutes = (plan.shape.end.saturating_sub(begin)).div_ceil(MINUTE);
    (0..minutes).fold((listed, crashes().count()), after_a_minute).1
}

fn after_a_minute((listed, dead): (usize, usize), _: u64) -> (usize, usize) {
    let gone = (listed * 15).div_ceil(100).max(1).min(dead);
    (listed - gone, dead - gone)
}
