//! Makes a failing plan smaller: parts are taken away as long as the same invariant breaks.

use crate::plan::Plan;
use crate::trace::Trace;
use crate::world::run;

/// Runs at most.
const TRIES: u32 = 600;

/// The smallest plan found that breaks the same invariant as `plan` does, within a bounded number of runs.
#[must_use]
pub fn minimise(plan: &Plan) -> Plan {
    let Some(invariant) = broken(plan) else { return plan.clone() };
    let mut search = Search { best: plan.clone(), invariant, tries: TRIES };
    loop {
        let before = search.tries;
        let found = search.halve(|plan| &mut plan.faults)
            | search.halve(|plan| &mut plan.operations)
            | search.acts()
            | search.network();
        if !found || search.tries == 0 || search.tries == before {
            return search.best;
        }
    }
}

struct Search {
    best: Plan,
    invariant: &'static str,
    tries: u32,
}

impl Search {
    /// Keeps a plan that fails in the same way.
    fn keep(&mut self, plan: Plan) -> bool {
        if self.tries == 0 {
            return false;
        }
        self.tries -= 1;
        let fails = broken(&plan) == Some(self.invariant);
        if fails {
            self.best = plan;
        }
        fails
    }

    /// Takes away parts of a list, large ones first.
    fn halve<T: Clone>(&mut self, list: impl Fn(&mut Plan) -> &mut Vec<T>) -> bool {
        let mut found = false;
        let mut share = list(&mut self.best).len();
        while share > 0 {
            let mut from = 0;
            while from < list(&mut self.best).len() {
                let mut plan = self.best.clone();
                let items = list(&mut plan);
                let to = (from + share).min(items.len());
                items.drain(from..to);
                if self.keep(plan) {
                    found = true;
                } else {
                    from += share;
                }
            }
            share /= 2;
        }
        found
    }

    fn acts(&mut self) -> bool {
        (0..self.best.clients.len()).fold(false, |found, client| {
            found | self.halve(move |plan: &mut Plan| &mut plan.clients[client].acts)
        })
    }

    /// A network that neither loses nor repeats.
    fn network(&mut self) -> bool {
        let shape = &self.best.shape;
        if (shape.lost, shape.doubled, shape.late) == (0, 0, 0) {
            return false;
        }
        let mut plan = self.best.clone();
        plan.shape.lost = 0;
        plan.shape.doubled = 0;
        plan.shape.late = 0;
        self.keep(plan)
    }
}

fn broken(plan: &Plan) -> Option<&'static str> {
    run(plan, Trace::off()).findings.violations.first().map(|violation| violation.invariant)
}
