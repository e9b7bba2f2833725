//! What the figures were measured on.

use std::fs;
use std::hint::black_box;
use std::io;
use std::process::Command;

use rand::RngExt as _;

use crate::instances;
use crate::watch::worked;

/// Words of 4 bytes among which a load is random: 64 MiB, more than a core's own caches.
const WORDS: usize = 16 << 20;

/// Loads that are measured.
const LOADS: usize = 2_000_000;

/// In a second, by which the system tells what a process used.
const TICKS: f64 = 100.0;

pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

pub(crate) fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    name.map_or_else(|| "unknown processor".to_owned(), |(_, name)| name.to_owned())
}

/// Threads that wanted a processor over the last minute.
pub(crate) fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

/// Nanoseconds of a load from a random place, each waiting for the one before. What is looked up in a registry of
/// a million costs a few of these.
pub(crate) fn random_load() -> f64 {
    let mut next: Vec<u32> = (0..WORDS as u32).collect();
    let mut random = instances::random();
    // One cycle through all words.
    for last in (1..WORDS).rev() {
        next.swap(last, random.random_range(0..last));
    }
    let mut place = 0;
    let seconds = worked(|| (0..LOADS).for_each(|_| place = next[place as usize]));
    black_box(place);
    seconds / LOADS as f64 * 1e9
}

pub(crate) fn compiler() -> String {
    let output = Command::new("rustc").arg("--version").output();
    let version = output.ok().and_then(|output| String::from_utf8(output.stdout).ok());
    version.map_or_else(|| "unknown compiler".to_owned(), |version| version.trim().to_owned())
}

/// Bytes of memory that this process holds; nothing where the system does not tell.
pub(crate) fn resident() -> Option<u64> {
    resident_of(std::process::id())
}

/// Bytes of memory that a process holds; nothing where the system does not tell.
pub(crate) fn resident_of(process: u32) -> Option<u64> {
    bytes_in(&format!("/proc/{process}/status"), "VmRSS:")
}

/// The same where each page counts by the share of those that have it; nothing where the system does not tell.
pub(crate) fn proportional_of(process: u32) -> Option<u64> {
    bytes_in(&format!("/proc/{process}/smaps_rollup"), "Pss:")
}

fn bytes_in(file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kilobytes * 1024)
}

/// Seconds that the threads of a process were on a processor; 0 where the system does not tell.
pub(crate) fn used_by(process: u32) -> f64 {
    let threads = fs::read_dir(format!("/proc/{process}/task"));
    let nanos = |thread: fs::DirEntry| -> Option<f64> {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse().ok()
    };
    threads.into_iter().flatten().flatten().filter_map(nanos).sum::<f64>() / 1e9
}

/// The same with threads that ended, in steps of 10 ms.
pub(crate) fn used_by_all(process: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // Behind the name of the program, which may hold anything.
    let fields = text.rsplit_once(") ").map_or("", |(_, fields)| fields).split(' ');
    let ticks = fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok());
    ticks.sum::<f64>() / TICKS
}

/// Makes sure that this process may have so many files open.
///
/// # Errors
/// A limit that is lower and cannot be raised.
pub(crate) fn need_files(count: u64) -> io::Result<()> {
    let allowed = rlimit::increase_nofile_limit(count)?;
    if allowed >= count {
        return Ok(());
    }
    let problem =
        format!("needs {count} open files and may have {allowed}; raise the limit with `ulimit -n {count}`");
    Err(io::Error::other(problem))
}
