//! `sim --seeds N` runs seeds, `sim --seed N` one with its trace, `sim --bug N` with a planted fault.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command's report")]

use std::process::ExitCode;

use heureka_sim::{
    Campaign, Failure, Plan, Tally, Temper, Trace, arm, bugs, disarm, edge, explain, judge, name_of,
    regressions, run,
};

fn main() -> ExitCode {
    match arguments() {
        Ok(arguments) => arguments.carry_out(),
        Err(problem) => {
            eprintln!("sim: {problem}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

const USAGE: &str =
    "usage: sim [--seeds N] [--first N] [--threads N] [--temper NAME] [--bug N|all] [--rotate N] [--keep-going]
       sim --seed N [--temper NAME] [--bug N] [--key N]";

struct Arguments {
    seeds: u64,
    first: u64,
    threads: usize,
    temper: Option<Temper>,
    seed: Option<u64>,
    key: Option<usize>,
    bugs: Vec<u8>,
    keep_going: bool,
}

fn arguments() -> Result<Arguments, String> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut arguments = Arguments {
        seeds: 10_000,
        first: 0,
        threads,
        temper: None,
        seed: None,
        key: None,
        bugs: Vec::new(),
        keep_going: false,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        if word == "--keep-going" {
            arguments.keep_going = true;
            continue;
        }
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{word}: {value} is no number"));
        match word.as_str() {
            "--seeds" => arguments.seeds = number()?,
            "--first" => arguments.first = number()?,
            "--threads" => arguments.threads = (number()? as usize).max(1),
            "--seed" => arguments.seed = Some(number()?),
            "--key" => arguments.key = Some(number()? as usize),
            "--rotate" => arguments.bugs = rotated(number()? as usize),
            "--bug" if value == "all" => arguments.bugs = bugs(),
            "--bug" => arguments.bugs.push(number()? as u8),
            "--temper" => {
                let temper = Temper::named(&value).ok_or_else(|| format!("no temper is called {value}"))?;
                arguments.temper = Some(temper);
            }
            _ => return Err(format!("{word} is not known")),
        }
    }
    Ok(arguments)
}

/// Some of the faults, others for each number.
fn rotated(number: usize) -> Vec<u8> {
    const AT_A_TIME: usize = 8;
    let all = bugs();
    all.iter().cycle().skip(number * AT_A_TIME % all.len()).take(AT_A_TIME).copied().collect()
}

impl Arguments {
    fn carry_out(&self) -> ExitCode {
        if let Some(seed) = self.seed {
            return self.replay(seed);
        }
        if !self.bugs.is_empty() {
            return self.recall();
        }
        self.search()
    }

    fn plan(&self, seed: u64) -> Plan {
        self.temper.map_or_else(|| Plan::of(seed), |temper| Plan::with(seed, temper))
    }

    fn campaign(&self) -> Campaign {
        Campaign {
            first: self.first,
            seeds: self.seeds,
            temper: self.temper,
            threads: self.threads,
            stop: !self.keep_going,
        }
    }

    fn replay(&self, seed: u64) -> ExitCode {
        if let Some(bug) = self.bugs.first().filter(|bug| !arm(**bug)) {
            eprintln!("sim: fault {bug} is not built in; build with --features seeded-bugs");
            return ExitCode::from(2);
        }
        let plan = self.plan(seed);
        let outcome = run(&plan, Trace::on());
        outcome.trace.lines(self.key).for_each(|line| println!("{line}"));
        println!("fingerprint {:016x}, {} events", outcome.fingerprint, outcome.events);
        if outcome.findings.violations.is_empty() {
            return ExitCode::SUCCESS;
        }
        outcome.findings.violations.iter().for_each(|violation| println!("{violation:?}"));
        if let Some(report) = explain(&plan) {
            println!("{report}");
        }
        ExitCode::FAILURE
    }

    fn search(&self) -> ExitCode {
        for (seed, what) in regressions() {
            let plan = Plan::of(seed);
            if let (_, Some(violation)) = judge(&plan, true) {
                println!("seed {seed}, which once failed by {what}, fails again: {violation:?}");
                return ExitCode::FAILURE;
            }
        }
        if let Some(violation) = edge() {
            println!("at the edge: {} {}", violation.invariant, violation.text);
            return ExitCode::FAILURE;
        }
        let began = clock();
        let tally = self.campaign().run(&tell);
        print(&tally, began.elapsed().as_secs_f64(), self.threads);
        let Some(failure) = tally.failures.iter().min_by_key(|failure| failure.plan.seed) else {
            return ExitCode::SUCCESS;
        };
        if let Some(report) = explain(&failure.plan) {
            println!("\n{report}");
        }
        println!("replay: sim --seed {}", failure.plan.seed);
        ExitCode::FAILURE
    }

    /// Plants each fault and looks how soon it is found.
    fn recall(&self) -> ExitCode {
        let mut found = 0;
        for bug in &self.bugs {
            if !arm(*bug) {
                eprintln!("sim: fault {bug} is not built in; build with --features seeded-bugs");
                return ExitCode::from(2);
            }
            let sighting = self.sighting();
            disarm();
            found += usize::from(sighting.is_some());
            let name = name_of(*bug).unwrap_or_default();
            match sighting {
                Some(sighting) => println!("fault {bug}, {name}: found {sighting}"),
                None => println!("fault {bug}, {name}: NOT found in {} seeds", self.seeds),
            }
        }
        println!("recall {found} of {}", self.bugs.len());
        if found == self.bugs.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    /// Where the planted fault shows first.
    fn sighting(&self) -> Option<String> {
        if let Some(violation) = edge() {
            return Some(format!("at the edge: {} {}", violation.invariant, violation.text));
        }
        let tally = Campaign { stop: true, ..self.campaign() }.run(&|_| {});
        let first = tally.failures.iter().min_by_key(|failure| failure.plan.seed);
        first.map(|Failure { plan, violation }| {
            format!(
                "after {} seeds by seed {} ({:?}): {} {}",
                tally.seeds, plan.seed, plan.temper, violation.invariant, violation.text
            )
        })
    }
}

fn tell(failure: &Failure) {
    let violation = &failure.violation;
    println!(
        "seed {} ({:?}): {} at {:.3} s, n{} k{}: {}",
        failure.plan.seed,
        failure.plan.temper,
        violation.invariant,
        violation.at as f64 / 1_000.0,
        violation.node,
        violation.key,
        violation.text
    );
}

fn print(tally: &Tally, seconds: f64, threads: usize) {
    let seeds = tally.seeds as f64;
    println!(
        "{} seeds, {} failed, in {seconds:.1} s on {threads} threads: {:.0} seeds/s, {:.2} M events/s, {:.1} virtual days",
        tally.seeds,
        tally.failed,
        seeds / seconds,
        tally.events as f64 / seconds / 1e6,
        tally.virtual_ms as f64 / 86_400_000.0
    );
    println!("{} seeds were run twice and gave the same", tally.twice);
    println!("agreement after the faults: {}; {} seeds ended without", spread(&tally.converged), tally.apart);
    println!("from last sign of life to removal, undisturbed: {}", spread(&tally.removals));
    println!(
        "{} writes were on two servers when answered; {} removals of instances that renewed elsewhere",
        tally.confirmed, tally.mistaken
    );
}

fn spread(values: &[u64]) -> String {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let at = |share: f64| sorted.get(((sorted.len() as f64 - 1.0) * share) as usize).copied().unwrap_or(0);
    format!(
        "p50 {} ms, p95 {} ms, p99 {} ms, p99.9 {} ms, most {} ms ({} values)",
        at(0.5),
        at(0.95),
        at(0.99),
        at(0.999),
        at(1.0),
        sorted.len()
    )
}

#[expect(clippy::disallowed_methods, reason = "how long the runs took; no run reads a clock")]
fn clock() -> std::time::Instant {
    std::time::Instant::now()
}
