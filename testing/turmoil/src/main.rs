//! `turmoil-sim --seeds N` runs seeds, `turmoil-sim --seed N` one with everything that happened.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command's report")]

use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};

use heureka_turmoil::{Campaign, Failure, Outcome, Plan, Tally, arm, bugs, disarm, name_of, run};

/// Lines of what happened that are printed of a failure.
const LAST: usize = 150;

const USAGE: &str =
    "usage: turmoil-sim [--seeds N] [--first N] [--threads N] [--keep-going] [--bug N | --bug all]
       turmoil-sim --seed N [--bug N] [--key N] [--recording FILE]";

struct Arguments {
    campaign: Campaign,
    seed: Option<u64>,
    key: Option<usize>,
    recording: Option<String>,
    bugs: Vec<u8>,
}

fn main() -> ExitCode {
    match arguments() {
        Ok(arguments) => arguments.carry_out(),
        Err(problem) => {
            eprintln!("turmoil-sim: {problem}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn arguments() -> Result<Arguments, String> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let campaign = Campaign { first: 0, seeds: 50, threads, stop: true };
    let mut arguments = Arguments { campaign, seed: None, key: None, recording: None, bugs: Vec::new() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        if word == "--keep-going" {
            arguments.campaign.stop = false;
            continue;
        }
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{word}: {value} is no number"));
        match word.as_str() {
            "--seeds" => arguments.campaign.seeds = number()?,
            "--first" => arguments.campaign.first = number()?,
            "--threads" => arguments.campaign.threads = (number()? as usize).max(1),
            "--seed" => arguments.seed = Some(number()?),
            "--key" => arguments.key = Some(number()? as usize),
            "--recording" => arguments.recording = Some(value),
            "--bug" if value == "all" => arguments.bugs = bugs(),
            "--bug" => arguments.bugs.push(number()? as u8),
            _ => return Err(format!("{word} is not known")),
        }
    }
    Ok(arguments)
}

impl Arguments {
    fn carry_out(&self) -> ExitCode {
        match self.seed {
            Some(seed) => self.replay(seed),
            None if self.bugs.is_empty() => self.search(),
            None => self.recall(),
        }
    }

    fn replay(&self, seed: u64) -> ExitCode {
        if let Some(bug) = self.bugs.first().filter(|bug| !arm(**bug)) {
            return not_built_in(*bug);
        }
        let plan = Plan::of(seed);
        let outcome = run(&plan);
        lines(&outcome, self.key).for_each(|line| println!("{line}"));
        print_plan(&plan);
        println!("fingerprint {:016x}", outcome.fingerprint);
        if let Some(file) = &self.recording
            && let Err(error) = std::fs::write(file, outcome.recording.to_lines())
        {
            eprintln!("turmoil-sim: cannot write {file}: {error}");
            return ExitCode::from(2);
        }
        outcome.breaches.iter().for_each(|breach| println!("{breach}"));
        if outcome.breaches.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    fn search(&self) -> ExitCode {
        let began = clock();
        let tally = self.campaign.run(&tell);
        print(&tally, began.elapsed().as_secs_f64(), self.campaign.threads);
        if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

impl Arguments {
    /// Plants each fault and looks how soon it is found.
    fn recall(&self) -> ExitCode {
        let mut found = 0;
        for bug in &self.bugs {
            if !arm(*bug) {
                return not_built_in(*bug);
            }
            let sighting = Mutex::new(None);
            let first = |failure: &Failure| {
                told(&sighting).get_or_insert_with(|| sight(failure));
            };
            let tally = Campaign { stop: true, ..self.campaign }.run(&first);
            disarm();
            let name = name_of(*bug).unwrap_or_default();
            match told(&sighting).take() {
                Some(sight) => {
                    found += 1;
                    println!("fault {bug}, {name}: found after {} seeds by {sight}", tally.seeds);
                }
                None => println!("fault {bug}, {name}: NOT found in {} seeds", self.campaign.seeds),
            }
        }
        println!("recall {found} of {}", self.bugs.len());
        if found == self.bugs.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

fn told<T>(sighting: &Mutex<T>) -> MutexGuard<'_, T> {
    sighting.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How a planted fault showed.
fn sight(failure: &Failure) -> String {
    let Failure { plan, outcome } = failure;
    let first = outcome.breaches.first().map(ToString::to_string).unwrap_or_default();
    format!("seed {}: {first}", plan.seed)
}

fn not_built_in(bug: u8) -> ExitCode {
    eprintln!("turmoil-sim: fault {bug} is not built in; build with --features seeded-bugs");
    ExitCode::from(2)
}

/// What happened to a key and to everybody, or everything.
fn lines(outcome: &Outcome, key: Option<usize>) -> impl Iterator<Item = &str> {
    let tells = move |about: &Option<usize>| key.is_none() || about.is_none() || *about == key;
    outcome.events.iter().filter(move |(about, _)| tells(about)).map(|(_, line)| line.as_str())
}

/// A failure may not come again by itself, so everything is said at once.
fn tell(failure: &Failure) {
    let Failure { plan, outcome } = failure;
    let key = outcome.breaches.iter().find_map(|breach| breach.key);
    let told: Vec<_> = lines(outcome, key).collect();
    let told = told[told.len().saturating_sub(LAST)..].join("\n");
    let breaches: Vec<_> = outcome.breaches.iter().map(ToString::to_string).collect();
    println!("tier T3, seed {}: {}\n{told}", plan.seed, breaches.join("\n"));
    print_plan(plan);
    println!("replay: turmoil-sim --seed {}\n", plan.seed);
}

fn print_plan(plan: &Plan) {
    let Plan {
        seed,
        skews,
        preservation,
        lease,
        latency,
        ballast,
        owners,
        watchers,
        probers,
        caches,
        flock,
        scouts,
        ring,
        faults,
    } = plan;
    println!(
        "seed {seed}: lease {lease} s, latency {latency} ms, ballast {ballast}, preservation {preservation:?}, ring {ring:?}, skews {skews:?}"
    );
    owners.iter().enumerate().for_each(|(number, owner)| println!("  k{number} {owner:?}"));
    watchers.iter().enumerate().for_each(|(number, watcher)| println!("  w{number} {watcher:?}"));
    probers.iter().enumerate().for_each(|(number, prober)| println!("  p{number} {prober:?}"));
    caches.iter().enumerate().for_each(|(number, cache)| println!("  c{number} {cache:?}"));
    println!("  f {flock:?}");
    scouts.iter().enumerate().for_each(|(number, scout)| println!("  s{number} {scout:?}"));
    faults.iter().for_each(|fault| println!("  {:>6} to {:>6} {:?}", fault.from, fault.until, fault.trouble));
}

fn print(tally: &Tally, seconds: f64, threads: usize) {
    println!(
        "{} seeds, {} failed, in {seconds:.1} s on {threads} threads: {:.2} seeds/s, {:.1} virtual hours, {} faults",
        tally.seeds,
        tally.failed,
        tally.seeds as f64 / seconds,
        tally.virtual_ms as f64 / 3_600_000.0,
        tally.faults
    );
    println!(
        "{} steps of watches were judged; {} removals of instances that renewed elsewhere",
        tally.steps, tally.excused
    );
}

#[expect(clippy::disallowed_methods, reason = "how long the runs took; no run reads a clock")]
fn clock() -> std::time::Instant {
    std::time::Instant::now()
}
