//! The table.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "printing is what this program does")]

use crate::compare::{Found, Gain};
use crate::drive::{Extra, Row, Sample, Turns, Unit};
use crate::machine;
use crate::server::{Peer, Program};
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

/// The same where changes are made at another address.
pub(crate) fn addresses(address: std::net::SocketAddr, process: u32, writes: std::net::SocketAddr) {
    println!("{address} {process} {writes}");
}

/// Where a server of a cluster listens, as the binary says it.
pub(crate) fn listening(address: std::net::SocketAddr) {
    println!("heureka listening on {address}");
}

/// A row of heureka beside its limit and others: medians of all turns.
pub(crate) fn row(row: &Row, programs: &[Program], turns: &Turns) {
    let sides: Vec<Sample> = (0..programs.len()).map(|side| median(turns, side)).collect();
    let ours = &sides[0];
    match sides.get(1).filter(|_| programs[1] == Program::Limit) {
        Some(limit) => beside(row.name, row.unit(), row.asked, (ours, limit), ratio(turns, 1)),
        None => {
            line(row.name, &figure(row.unit(), ours.figure), row.asked);
            details_of(ours).iter().for_each(|detail| println!("    {detail}"));
        }
    }
    for (side, program) in programs.iter().enumerate().filter(|(_, program)| program.is_peer()) {
        let (name, other) = (program.name(), &sides[side]);
        let figure = figure(row.unit(), other.figure);
        println!("    {name}: {figure}, ours / {name} = {:.3}", ratio(turns, side));
        details_of(other).iter().for_each(|detail| println!("        {detail}"));
    }
}

/// A row of heureka beside the original, and what another original said that has all its caches.
pub(crate) fn original(name: &str, unit: Unit, asked: &str, turns: &Turns, cached: Option<&Sample>) {
    let [ours, theirs] = [0, 1].map(|side| median(turns, side));
    beside(name, unit, asked, (&ours, &theirs), ratio(turns, 1));
    if let (Some(one), Some(two)) = (ours.cpu, theirs.cpu) {
        println!("    server CPU, ours / the original's = 1/{:.1}", two / one);
    }
    if let Some(cached) = cached {
        println!("    the original with all its caches: {}", figure(unit, cached.figure));
        details_of(cached).iter().for_each(|detail| println!("        {detail}"));
    }
}

fn beside(name: &str, unit: Unit, asked: &str, (ours, other): (&Sample, &Sample), ratio: f64) {
    line(name, &format!("{} = {ratio:.2}", figures(unit, ours.figure, other.figure)), asked);
    details(ours, other).iter().for_each(|detail| println!("    {detail}"));
}

/// The middle of all turns.
fn ratio(turns: &Turns, side: usize) -> f64 {
    middle(turns.iter().map(|sides| sides[0].figure / sides[side].figure))
}

/// That a registry of others is not here.
pub(crate) fn missing(peer: Peer) {
    println!("    {} not found: {}", peer.name(), peer.installation());
}

/// The middle of every figure of one side, but the longest of all latencies.
pub(crate) fn median(turns: &Turns, side: usize) -> Sample {
    let of = |pick: &dyn Fn(&Sample) -> Option<f64>| {
        let values: Vec<f64> = turns.iter().filter_map(|sides| pick(&sides[side])).collect();
        (!values.is_empty()).then(|| middle(values))
    };
    let latency = |pick: fn(&Spread) -> f64| of(&|sample| sample.latencies.as_ref().map(pick));
    let latencies = turns.iter().filter_map(|sides| sides[side].latencies);
    let longest = latencies.map(|spread| spread.max).fold(0.0, f64::max);
    let spread = || {
        Some(Spread { p50: latency(|spread| spread.p50)?, p99: latency(|spread| spread.p99)?, max: longest })
    };
    let extras = turns.first().map(|sides| sides[side].extras.clone()).unwrap_or_default();
    let extra = |(position, extra): (usize, Extra)| {
        let value = of(&|sample| sample.extras.get(position).map(|extra| extra.value));
        Extra { value: value.unwrap_or_default(), ..extra }
    };
    Sample {
        figure: of(&|sample| Some(sample.figure)).unwrap_or_default(),
        latencies: spread(),
        cpu: of(&|sample| sample.cpu),
        extras: extras.into_iter().enumerate().map(extra).collect(),
    }
}

/// Two figures in their unit.
pub(crate) fn figures(unit: Unit, first: f64, second: f64) -> String {
    let scale = unit.scale(first.max(second));
    format!("{} / {}{}", scale.number(first), scale.number(second), scale.name)
}

/// One figure in its unit.
fn figure(unit: Unit, value: f64) -> String {
    let scale = unit.scale(value);
    format!("{}{}", scale.number(value), scale.name)
}

/// How numbers of a unit are printed.
struct Scale {
    by: f64,
    digits: usize,
    name: &'static str,
    /// Whether thousands and millions have letters instead.
    counts: bool,
}

impl Scale {
    fn number(&self, value: f64) -> String {
        if self.counts { count(value) } else { format!("{:.*}", self.digits, value * self.by) }
    }
}

impl Unit {
    /// What suits a number of this size.
    fn scale(self, largest: f64) -> Scale {
        let scale = |by, digits, name| Scale { by, digits, name, counts: false };
        match self {
            Self::PerSecond | Self::Count => Scale { counts: true, ..scale(1.0, 0, "") },
            Self::Seconds if largest >= 10.0 => scale(1.0, 2, " s"),
            Self::Seconds if largest < 1e-4 => scale(1e6, 2, " µs"),
            Self::Seconds => scale(1e3, 2, " ms"),
            Self::Bytes if largest < 1024.0 => scale(1.0, 0, " B"),
            Self::Bytes if largest < 1024.0 * 1024.0 => scale(1.0 / 1024.0, 1, " KiB"),
            Self::Bytes => scale(1.0 / 1024.0 / 1024.0, 1, " MiB"),
            Self::Share => scale(100.0, 2, " %"),
            Self::Times => scale(1.0, 3, ""),
        }
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
    let both = first.extras.iter().zip(&second.extras);
    let extras = both.map(|(one, two)| format!("{} {}", one.name, figures(one.unit, one.value, two.value)));
    lines(parts, extras.collect())
}

/// The same of one side.
fn details_of(sample: &Sample) -> Vec<String> {
    let mut parts = Vec::new();
    if let Some(Spread { p50, p99, max }) = sample.latencies {
        parts.push(format!("p50 {:.2} ms   p99 {:.2} ms   max {:.2} ms", p50 / 1e6, p99 / 1e6, max / 1e6));
    }
    parts.extend(sample.cpu.map(|seconds| format!("server CPU {}", cpu(seconds))));
    let extras =
        sample.extras.iter().map(|extra| format!("{} {}", extra.name, figure(extra.unit, extra.value)));
    lines(parts, extras.collect())
}

fn lines(parts: Vec<String>, extras: Vec<String>) -> Vec<String> {
    [parts, extras].into_iter().filter(|line| !line.is_empty()).map(|line| line.join("   ")).collect()
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
