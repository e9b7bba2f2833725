//! The table.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "printing is what this program does")]

use crate::machine;

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
    println!("\n{title:<72}{:>16}   target", "figure");
}

/// One figure and what was asked for.
pub(crate) fn line(what: &str, figure: &str, target: &str) {
    println!("{what:<72}{figure:>16}   {target}");
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

/// Where a server of this program listens, for its parent to read.
pub(crate) fn address(address: std::net::SocketAddr) {
    println!("{address}");
}
