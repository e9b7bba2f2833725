//! I4, I9: one version says one thing, wherever and whenever it is seen; a server's own positions only grow, and
//! no server goes back to an older version.

use std::collections::BTreeMap;

use heureka_model::{Overlay, Stamp};

use super::Findings;
use crate::observe::{Life, Transition};
use crate::world::View;

/// What each version was seen to say.
#[derive(Default)]
pub(crate) struct Versions {
    owners: BTreeMap<(usize, u64, Stamp), (Life, u64)>,
    overlays: BTreeMap<(usize, Stamp), Overlay>,
}

impl Versions {
    pub(crate) fn transition(&mut self, view: &View<'_>, change: &Transition, findings: &mut Findings) {
        self.one_content(view, change, findings);
        self.one_overlay(view, change, findings);
        onwards(view, change, findings);
    }

    fn one_content(&mut self, view: &View<'_>, change: &Transition, findings: &mut Findings) {
        let after = &change.after;
        let said = (after.life, after.said);
        let known = *self.owners.entry((change.key, after.owner, after.written)).or_insert(said);
        if known != said {
            let text = format!(
                "version ({}, {:?}) says two things: {known:?} and {said:?}",
                after.owner, after.written
            );
            findings.report("I9", view, change.node, change.key, text);
        }
    }

    fn one_overlay(&mut self, view: &View<'_>, change: &Transition, findings: &mut Findings) {
        let after = &change.after;
        let known = *self.overlays.entry((change.key, after.overlay_stamp)).or_insert(after.overlay);
        if known != after.overlay {
            let text = format!("override {:?} says two things", after.overlay_stamp);
            findings.report("I9", view, change.node, change.key, text);
        }
    }
}

fn onwards(view: &View<'_>, change: &Transition, findings: &mut Findings) {
    let Some(before) = change.before else { return };
    let after = &change.after;
    // What was forgotten may begin anew, lower.
    let remembered = before.is_live() || change.stood < view.remembered();
    let back = (after.owner, after.written) < (before.owner, before.written);
    if remembered && back {
        let text = format!("the owner's version went back from {} to {}", before.owner, after.owner);
        findings.report("I9", view, change.node, change.key, text);
    }
    if remembered && after.overlay_stamp < before.overlay_stamp {
        findings.report("I9", view, change.node, change.key, "the override's version went back".to_owned());
    }
}
