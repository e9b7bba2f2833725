//! What is printed of a failing seed.

use std::fmt;

use crate::minimise::minimise;
use crate::monitors::Violation;
use crate::observe;
use crate::plan::Plan;
use crate::trace::Trace;
use crate::world::run;

/// Lines of the trace that are printed.
const LAST: usize = 120;

/// Characters of each.
const WIDTH: usize = 260;

/// A failure with what led to it.
#[derive(Debug)]
pub struct Report {
    seed: u64,
    violation: Violation,
    plan: Plan,
    lines: Vec<String>,
}

/// Makes the plan of a failing seed smaller and runs it once more with everything noted. None when nothing fails.
#[must_use]
pub fn explain(plan: &Plan) -> Option<Report> {
    let plan = minimise(plan);
    let outcome = run(&plan, Trace::on());
    let violation = outcome.findings.violations.first()?.clone();
    let name = observe::key(violation.key, plan.shape.apps).to_string();
    let lines: Vec<String> =
        outcome.trace.lines(Some(violation.key)).filter(|line| tells_of(line, &name)).map(shorten).collect();
    let lines = lines[lines.len().saturating_sub(LAST)..].to_vec();
    Some(Report { seed: plan.seed, violation, plan, lines })
}

/// Whether a line is of the key or of everybody, and no mere sign of life.
fn tells_of(line: &str, name: &str) -> bool {
    let of_keys = [" records [", " probe ", " want "].iter().any(|frame| line.contains(frame));
    let named = line.contains(&format!("{name} ")) || line.ends_with(name);
    !line.contains(" renewals [") && (!of_keys || named)
}

fn shorten(mut line: String) -> String {
    if let Some((end, _)) = line.char_indices().nth(WIDTH) {
        line.truncate(end);
    }
    line
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Violation { invariant, at, node, key, text } = &self.violation;
        let name = observe::key(*key, self.plan.shape.apps);
        writeln!(f, "tier T2, seed {}, {:?}: {invariant} broken", self.seed, self.plan.temper)?;
        writeln!(f, "at {:.3} s, n{node}, k{key} ({name}): {text}", *at as f64 / 1_000.0)?;
        writeln!(f, "shape: {:?}", self.plan.shape)?;
        writeln!(
            f,
            "preservation {:?}, skews {:?}, apart {:?}",
            self.plan.preservation, self.plan.skews, self.plan.apart
        )?;
        writeln!(f, "what is left of the plan:")?;
        for fault in &self.plan.faults {
            writeln!(f, "  {:>9.3} {:?}", fault.at as f64 / 1_000.0, fault.what)?;
        }
        for operation in &self.plan.operations {
            writeln!(f, "  {:>9.3} {:?}", operation.at as f64 / 1_000.0, operation.what)?;
        }
        for client in &self.plan.clients {
            for act in &client.acts {
                writeln!(
                    f,
                    "  {:>9.3} k{} {:?} {:?}",
                    act.at as f64 / 1_000.0,
                    client.key,
                    client.kind,
                    act.what
                )?;
            }
        }
        writeln!(f, "the last that happened to the key:")?;
        self.lines.iter().try_for_each(|line| writeln!(f, "  {line}"))
    }
}
