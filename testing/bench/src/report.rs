//! The table.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "printing is what this program does")]

use crate::compare::{Found, Gain};
use crate::drive::{Row, Sample, Unit};
use crate::machine;
use crate::watch::{Spread, middle};

/// Prints what the figures were measured on.
pub(crate) fn machine() {
    println!("machine    {} x {}", machine::cores(), machine::processor());
    println!("memory     {:.0} ns for a load from a random place in 64 MiB", machine::random_load());
    println!("load       {} before the start (figures of a busy machine mean little)", machine::load());
    println!("compiler   {}", machine::compiler());
    println!("allocator  {}", if cfg!(feature = "mimalloc") { "mimalloc" } else { "the system's" });
}

/// Begins a part of the table.
pub(crate) fn part(title: &str) {
    println!("\n{title:<64}{:>24}   target", "figure");
}

/// One figure and what was asked for.
pub(crate) fn line(what: &str, figure: &str, target: &str) {
    println!("{what:<64}{figure:>24}   {target}");
}

pub(crate) fn complain(message: &str) {
    eprintln!("{message}");
}

/// `2.34 M/s` of so many operations in so many seconds.
pub(crate) fn rate(operations: usize, seconds: f64) -> String {
    format!("{:.2} M/s", operations as f64 / seconds / 1e6)
}

/// `3.1 µs` of nanoseconds.
pub(crate) fn micros(nanos: f64) -> String {
    format!("{:.2} µs", nanos / 1e3)
}

/// `3.1 ms` of seconds.
pub(crate) fn millis(seconds: f64) -> String {
    format!("{:.2} ms", seconds * 1e3)
}

/// Figures for a program to read.
pub(crate) fn plain(figures: &[f64]) {
    let figures: Vec<String> = figures.iter().map(f64::to_string).collect();
    println!("{}", figures.join(" "));
}

/// Where a server listens and which process it is, for the bench to read.
pub(crate) fn address(address: std::net::SocketAddr, process: u32) {
    println!("{address} {process}");
}

/// Where a server of a cluster listens, as the binary says it.
pub(crate) fn listening(address: std::net::SocketAddr) {
    println!("heureka listening on {address}");
}

/// A row of heureka beside its limit: medians of all turns.
pub(crate) fn row(row: &Row, samples: &[[Sample; 2]]) {
    let [ours, limit] = [0, 1].map(|side| median(samples, side));
    let ratio = middle(samples.iter().map(|[ours, limit]| ours.figure / limit.figure));
    let figure = figures(row.unit(), ours.figure, limit.figure);
    line(row.name, &format!("{figure} = {ratio:.2}"), row.asked);
    for detail in details(&ours, &limit) {
        println!("    {detail}");
    }
}

/// The middle of every figure of one side, but the longest of all latencies.
pub(crate) fn median(samples: &[[Sample; 2]], side: usize) -> Sample {
    let of = |pick: &dyn Fn(&Sample) -> Option<f64>| {
        let values: Vec<f64> = samples.iter().filter_map(|sides| pick(&sides[side])).collect();
        (!values.is_empty()).then(|| middle(values))
    };
    let latency = |pick: fn(&Spread) -> f64| of(&|sample| sample.latencies.as_ref().map(pick));
    let latencies = samples.iter().filter_map(|sides| sides[side].latencies);
    let longest = latencies.map(|spread| spread.max).fold(0.0, f64::max);
    let spread = || {
        Some(Spread { p50: latency(|spread| spread.p50)?, p99: latency(|spread| spread.p99)?, max: longest })
    };
    Sample {
        figure: of(&|sample| Some(sample.figure)).unwrap_or_default(),
        latencies: spread(),
        cpu: of(&|sample| sample.cpu),
        after: of(&|sample| sample.after),
    }
}

/// Two figures in their unit.
pub(crate) fn figures(unit: Unit, first: f64, second: f64) -> String {
    match unit {
        Unit::PerSecond => format!("{} / {}", count(first), count(second)),
        Unit::Seconds => format!("{:.2} / {:.2} ms", first * 1e3, second * 1e3),
        Unit::Bytes => format!("{:.1} / {:.1} KiB", first / 1024.0, second / 1024.0),
    }
}

fn count(number: f64) -> String {
    match number {
        ..1e3 => format!("{number:.0}"),
        1e3..1e6 => format!("{:.1}k", number / 1e3),
        _ => format!("{:.2}M", number / 1e6),
    }
}

/// What else is known of both sides.
fn details(first: &Sample, second: &Sample) -> Vec<String> {
    let mut details = Vec::new();
    let mut parts = Vec::new();
    if let (Some(one), Some(two)) = (first.latencies, second.latencies) {
        for (name, one, two) in
            [("p50", one.p50, two.p50), ("p99", one.p99, two.p99), ("max", one.max, two.max)]
        {
            parts.push(format!("{name} {:.2} / {:.2} ms", one / 1e6, two / 1e6));
        }
    }
    if let (Some(one), Some(two)) = (first.cpu, second.cpu) {
        parts.push(format!("server CPU {} / {}", cpu(one), cpu(two)));
    }
    if !parts.is_empty() {
        details.push(parts.join("   "));
    }
    if let (Some(one), Some(two)) = (first.after, second.after) {
        details.push(format!("after some changes {}", figures(Unit::Bytes, one, two)));
    }
    details
}

/// Microseconds of seconds.
pub(crate) fn cpu(seconds: f64) -> String {
    format!("{:.2} µs", seconds * 1e6)
}

/// Begins the table of two builds.
pub(crate) fn comparison(margin: f64) {
    println!("\n{:<64}{:>24}   ratio (above 1 is better)", "two builds: old / new", "figure");
    println!(
        "worse is what loses more than {:.0} % beyond twice the spread, three times in a row",
        margin * 100.0
    );
}

/// A row of two builds.
pub(crate) fn compared(row: &Row, found: &Found) {
    let Found { old, new, figure, cpu } = found;
    println!("{:<64}{:>24}   {}", row.name, figures(row.unit(), old.figure, new.figure), gained(*figure));
    for detail in details(old, new) {
        println!("    {detail}");
    }
    if let Some(cpu) = cpu {
        println!("    server CPU, ratio {}", gained(*cpu));
    }
}

/// Ends the table of two builds.
pub(crate) fn compared_all(worse: usize) {
    println!("\n{worse} rows are worse");
}

fn gained(gain: Gain) -> String {
    let verdict = if gain.is_loss() { "   WORSE" } else { "" };
    format!("{:.3} ± {:.3}{verdict}", gain.middle, gain.spread)
}
