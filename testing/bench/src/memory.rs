//! What an instance takes: growth of a fresh process that registers instances and then replaces each three times
//! in random order, with no reader.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use rand::seq::SliceRandom;

use crate::instances::{self, Values};
use crate::machine;
use crate::report;

/// First argument of a process that measures one case.
pub(crate) const CASE: &str = "memory-case";

/// Times that each instance is replaced.
const ROUNDS: usize = 3;

/// What the registry counts for a key beside its record, which no change keeps twice.
const BESIDE_RECORD: f64 = 140.0;

/// Changes that the ring of recent changes holds when it is full: each keeps the record before it.
const RING: f64 = 8192.0;

const COUNTS: [usize; 2] = [100_000, 1_000_000];

/// Measures every case in a process of its own.
pub(crate) fn run() {
    report::part("memory per instance, after three replacements (without the ring)");
    for (name, values, limit) in [("shared", Values::Shared, 400), ("unique", Values::Unique, 600)] {
        for count in COUNTS {
            let limit = if count < 1_000_000 { limit * 11 / 10 } else { limit };
            match measured(name, count) {
                Some(case) => show(&format!("{count} instances, {values:?} values"), &case, limit),
                None => report::line(&format!("{count} instances, {values:?} values"), "not measured", ""),
            }
        }
    }
}

/// What a case found, in bytes.
struct Case {
    /// Per instance when all were registered.
    fresh: f64,
    /// Per instance after the replacements, the ring left out.
    replaced: f64,
    /// Of the ring, as far as it holds records that nothing else does.
    ring: f64,
    /// Per instance, as the registry counts it against its limit.
    counted: f64,
}

fn show(what: &str, case: &Case, limit: usize) {
    report::line(what, &format!("{:.0} B", case.replaced), &format!("<= {limit} B"));
    let parts = format!(
        "  fresh {:.0} B; counted {:.0} B; ring {:.1} MB in all",
        case.fresh,
        case.counted,
        case.ring / 1e6
    );
    report::line(&parts, "", "");
}

fn measured(values: &str, count: usize) -> Option<Case> {
    let program = std::env::current_exe().ok()?;
    let output = Command::new(program).args([CASE, values, &count.to_string()]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let mut figures = text.split_whitespace().map(str::parse::<f64>);
    let mut next = || figures.next()?.ok();
    Some(Case { fresh: next()?, replaced: next()?, ring: next()?, counted: next()? })
}

/// Measures one case in this process and prints its figures for [`measured`].
pub(crate) fn run_case(arguments: &[OsString]) -> ExitCode {
    let arguments: Vec<&str> = arguments.iter().filter_map(|argument| argument.to_str()).collect();
    let case = match arguments.as_slice() {
        ["shared", count] => count.parse().ok().and_then(|count| measure(Values::Shared, count)),
        ["unique", count] => count.parse().ok().and_then(|count| measure(Values::Unique, count)),
        _ => None,
    };
    let Some(case) = case else { return ExitCode::FAILURE };
    report::plain(&[case.fresh, case.replaced, case.ring, case.counted]);
    ExitCode::SUCCESS
}

fn measure(values: Values, count: usize) -> Option<Case> {
    let registry = instances::empty();
    let mut order: Vec<usize> = (0..count).collect();
    let before = machine::resident()?;
    for n in 0..count {
        instances::register(&registry, &instances::instance(n, values, 0));
    }
    let fresh = (machine::resident()? - before) as f64 / count as f64;
    for round in 1..=ROUNDS {
        order.shuffle(&mut instances::random());
        for n in &order {
            instances::register(&registry, &instances::instance(*n, values, round));
        }
    }
    let grown = (machine::resident()? - before) as f64;
    let counted = registry.stats().record_bytes as f64 / count as f64;
    let ring = RING.min((ROUNDS * count) as f64) * (counted - BESIDE_RECORD);
    Some(Case { fresh, replaced: (grown - ring) / count as f64, ring, counted })
}
