//! Runs the cases that people reported from the field against a started server: one line each with case, verdict
//! and figure. Exit code 1 when one fails. Times are figures for people here; tests assert them on manual clocks.

mod arguments;
mod case;
mod cases;
mod relay;
mod xml;

use std::io::{self, Write as _};
use std::process::ExitCode;

use crate::arguments::{Arguments, USAGE};
use crate::case::{Bench, Case, Verdict};
use tokio::time::Instant;

fn main() -> ExitCode {
    let cases = cases::all();
    let known: Vec<&str> = cases.iter().map(|case| case.id).collect();
    let arguments = match Arguments::read(std::env::args().skip(1), &known) {
        Ok(arguments) => arguments,
        Err(wrong) => return complain(&format!("{wrong}\n{USAGE}")),
    };
    if arguments.list {
        cases.iter().for_each(|case| say(&format!("{}  {}", case.id, case.title)));
        return ExitCode::SUCCESS;
    }
    match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(run(&cases, &arguments)),
        Err(error) => complain(&format!("cannot start the runtime: {error}")),
    }
}

async fn run(cases: &[Case], arguments: &Arguments) -> ExitCode {
    let bench = Bench { binary: arguments.server.clone(), full: arguments.full };
    // One start tells whether there is anything to run at all.
    if let Err(error) = bench.start(&[]).await {
        return complain(&format!("{error:#}"));
    }
    let begun = Instant::now();
    let mut counts = Counts::default();
    for case in cases.iter().filter(|case| arguments.names(case.id)) {
        let verdict = case.run(bench.clone()).await;
        say(&case.line(&verdict));
        counts.add(&verdict);
    }
    say(&format!("{} in {} s", counts.sentence(), begun.elapsed().as_secs()));
    if counts.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// How many cases ended how.
#[derive(Debug, Default)]
struct Counts {
    passed: u32,
    failed: u32,
}

impl Counts {
    fn add(&mut self, verdict: &Verdict) {
        match verdict {
            Verdict::Pass(_) => self.passed += 1,
            Verdict::Fail(_) => self.failed += 1,
        }
    }

    fn sentence(&self) -> String {
        format!("{} passed, {} failed", self.passed, self.failed)
    }
}

/// One line on standard output; a closed pipe is nobody's fault.
fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}

fn complain(text: &str) -> ExitCode {
    let _ = writeln!(io::stderr(), "heureka-cases: {text}");
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_are_counted_apart() {
        let mut counts = Counts::default();
        for verdict in [Verdict::Pass(String::new()), Verdict::Fail("x".into())] {
            counts.add(&verdict);
            counts.add(&verdict);
        }
        assert_eq!(counts.sentence(), "2 passed, 2 failed");
    }

    #[test]
    fn cases_are_numbered_in_ascending_order_and_each_once() {
        let ids: Vec<&str> = cases::all().iter().map(|case| case.id).collect();
        assert!(ids.is_sorted_by(|one, next| one < next), "{ids:?}");
        assert_eq!(ids.len(), 48);
    }
}
