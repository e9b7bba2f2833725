//! What must never happen, and what must have happened in the end: one file for each invariant.
//!
//! They look at every change of every server, since a later repair hides most faults from whoever looks at the end.

mod acked;
mod agreement;
mod budget;
mod cancelled;
mod lapses;
mod overrides;
mod retries;
mod signs;
mod versions;

use heureka_model::Status;

use crate::client::{Answer, Client, Phase};
use crate::observe::{Seen, Transition};
use crate::plan::Plan;
use crate::world::{Linked, Pending, Request, View};

use signs::Signs;

/// Something that must not happen has happened.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Which invariant.
    pub invariant: &'static str,
    /// When.
    pub at: u64,
    /// At which server.
    pub node: usize,
    /// Of which key.
    pub key: usize,
    /// What.
    pub text: String,
}

/// What a run found and measured.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Violations, in order.
    pub violations: Vec<Violation>,
    /// Time from the end of the faults until all servers agreed for the first time.
    pub converged: Option<u64>,
    /// Times from the last sign of life to the removal, where nothing disturbed.
    pub removals: Vec<u64>,
    /// Removals of instances that were alive and renewed somewhere.
    pub mistaken: u64,
    /// Writes that were answered with a second server.
    pub confirmed: u64,
}

/// A request that a server carried out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served<'a> {
    pub(crate) node: usize,
    pub(crate) key: usize,
    pub(crate) before: Option<Seen>,
    pub(crate) request: &'a Request,
    pub(crate) answer: Answer,
}

/// All of them.
pub(crate) struct Monitors {
    signs: Signs,
    acked: acked::Acked,
    agreement: agreement::Agreement,
    budget: budget::Budget,
    cancelled: cancelled::CancelledKeys,
    overrides: overrides::Overrides,
    retries: retries::Retries,
    versions: versions::Versions,
}

impl Findings {
    pub(crate) fn report(
        &mut self,
        invariant: &'static str,
        view: &View<'_>,
        node: usize,
        key: usize,
        text: String,
    ) {
        self.violations.push(Violation { invariant, at: view.at, node, key, text });
    }

    /// Whether it makes no sense to go on.
    pub(crate) fn is_enough(&self) -> bool {
        !self.violations.is_empty()
    }
}

impl Monitors {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            signs: Signs::new(plan),
            acked: acked::Acked::new(plan),
            agreement: agreement::Agreement::new(plan),
            budget: budget::Budget::new(plan),
            cancelled: cancelled::CancelledKeys::new(plan),
            overrides: overrides::Overrides::new(plan),
            retries: retries::Retries::new(plan),
            versions: versions::Versions::default(),
        }
    }

    /// A server begins a life.
    pub(crate) fn started(&mut self, node: usize) {
        self.signs.started(node);
        self.agreement.started(node);
        self.budget.started(node);
        self.cancelled.started(node);
        self.retries.started(node);
    }

    /// A server changed what it holds.
    pub(crate) fn transition(&mut self, view: &View<'_>, change: &Transition, findings: &mut Findings) {
        self.acked.transition(change);
        self.agreement.transition(change);
        self.versions.transition(view, change, findings);
        self.cancelled.transition(view, change, findings);
        self.overrides.transition(view, change, findings);
        self.retries.transition(view, change, findings);
        lapses::transition(&self.signs, view, change, findings);
        self.budget.transition(&self.signs, view, change, findings);
        self.signs.transition(change);
    }

    /// A server carried a request out.
    pub(crate) fn served(&mut self, view: &View<'_>, served: &Served<'_>, findings: &mut Findings) {
        self.acked.served(view, served, findings);
        self.cancelled.served(view, served, findings);
        self.signs.served(view, served);
    }

    /// A second server is said to have a write.
    pub(crate) fn confirmed(&mut self, view: &View<'_>, pending: &Pending, findings: &mut Findings) {
        findings.confirmed += 1;
        self.acked.confirmed(view, pending, findings);
    }

    /// A client heard an answer.
    pub(crate) fn heard(&mut self, number: usize, before: Phase, client: &Client, answer: Answer, at: u64) {
        self.acked.heard(number, before, client, answer, at);
    }

    /// A client died without a word.
    pub(crate) fn crashed(&mut self, _client: usize, _at: u64) {}

    /// An operator orders a status for a key.
    pub(crate) fn ordered(&mut self, key: usize, status: Status) {
        self.overrides.ordered(key, status);
    }

    pub(crate) fn ticked(&mut self, view: &View<'_>, node: usize) {
        self.budget.ticked(view, node);
    }

    /// Once a second.
    pub(crate) fn look(&mut self, view: &View<'_>, streams: &[Linked], findings: &mut Findings) {
        self.agreement.look(view, streams, findings);
        lapses::look(&self.signs, view, streams, findings);
    }

    /// At the end, after a quiet time.
    pub(crate) fn end(&mut self, view: &View<'_>, findings: &mut Findings) {
        self.agreement.end(view, findings);
        self.acked.end(view, findings);
        self.overrides.end(view, findings);
        lapses::end(view, findings);
    }
}
