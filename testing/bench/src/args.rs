//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::cluster;
use crate::drive::{self, eureka};

/// Instances that the core is measured with.
pub(crate) const INSTANCES: usize = 1_000_000;

/// Fewer make the smallest measurement meaningless.
const FEWEST: usize = 50_000;

pub(crate) const USAGE: &str = "\
usage: heureka-bench                               everything
       heureka-bench core [INSTANCES]              the core in process; 50000 or more, 1000000 when not given
       heureka-bench memory                        bytes per instance
       heureka-bench server [WORD]...              the server beside its limit: rows that have all the words
       heureka-bench compare OLD NEW [WORD]...     two heureka binaries side by side; fails when NEW is worse
       heureka-bench eureka [--smoke] [WORD]...    the server beside the genuine original; --smoke: for a moment
       heureka-bench cluster [--quick] [PART]...   three servers: change, heal, large, kill, beats; --quick: minutes
       heureka-bench smoke                         every server row for a moment; its figures mean nothing";

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Command {
    Everything,
    Core(usize),
    Memory,
    Server(Vec<String>),
    Compare { old: PathBuf, new: PathBuf, words: Vec<String> },
    Eureka { words: Vec<String>, smoke: bool },
    Cluster { parts: Vec<String>, quick: bool },
    Smoke,
}

/// Reads the arguments after the program's name.
///
/// # Errors
/// Says which argument cannot be understood.
pub(crate) fn parse(arguments: &[OsString]) -> Result<Command, String> {
    let Some((first, rest)) = arguments.split_first() else { return Ok(Command::Everything) };
    match (first.to_str(), rest) {
        (Some("core"), []) => Ok(Command::Core(INSTANCES)),
        (Some("core"), [count]) => instances_of(count).map(Command::Core),
        (Some("memory"), []) => Ok(Command::Memory),
        (Some("server"), words) => rows(words).map(Command::Server),
        (Some("compare"), [old, new, words @ ..]) => {
            Ok(Command::Compare { old: old.into(), new: new.into(), words: rows(words)? })
        }
        (Some("compare"), _) => Err("compare needs two heureka binaries".to_owned()),
        (Some("eureka"), words) => eureka_rows(words),
        (Some("cluster"), parts) => cluster_parts(parts),
        (Some("smoke"), []) => Ok(Command::Smoke),
        (Some("core" | "memory" | "smoke"), _) => Err(format!("{} takes less", first.display())),
        _ => Err(format!("{} is unknown", first.display())),
    }
}

fn instances_of(count: &OsString) -> Result<usize, String> {
    let parsed = count.to_str().and_then(|count| count.parse().ok());
    parsed.filter(|count| *count >= FEWEST).ok_or_else(|| format!("INSTANCES is {}", count.display()))
}

fn cluster_parts(words: &[OsString]) -> Result<Command, String> {
    let (quick, parts) = without("--quick", words);
    match parts.iter().find(|part| !cluster::is_part(part)) {
        Some(unknown) => Err(format!("cluster has no part {unknown}")),
        None => Ok(Command::Cluster { parts, quick }),
    }
}

fn eureka_rows(words: &[OsString]) -> Result<Command, String> {
    let (smoke, words) = without("--smoke", words);
    let words = meant(words, |words| !eureka::named(words).is_empty())?;
    Ok(Command::Eureka { words, smoke })
}

fn rows(words: &[OsString]) -> Result<Vec<String>, String> {
    meant(texts(words).collect(), |words| !drive::named(words).is_empty())
}

/// Whether an option is among these words, and the others.
fn without(option: &str, words: &[OsString]) -> (bool, Vec<String>) {
    let (options, others): (Vec<_>, Vec<_>) = texts(words).partition(|word| word == option);
    (!options.is_empty(), others)
}

fn texts(words: &[OsString]) -> impl Iterator<Item = String> {
    words.iter().map(|word| word.to_string_lossy().into_owned())
}

/// Words that name at least one row.
fn meant(words: Vec<String>, name_any: fn(&[String]) -> bool) -> Result<Vec<String>, String> {
    if name_any(&words) { Ok(words) } else { Err(format!("no row has the words {}", words.join(" "))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, String> {
        let arguments: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        parse(&arguments)
    }

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn each_part_can_be_named_alone() {
        assert_eq!(parsed(""), Ok(Command::Everything));
        assert_eq!(parsed("core"), Ok(Command::Core(1_000_000)));
        assert_eq!(parsed("core 50000"), Ok(Command::Core(50_000)));
        assert_eq!(parsed("memory"), Ok(Command::Memory));
        assert_eq!(parsed("server"), Ok(Command::Server(vec![])));
        assert_eq!(parsed("server rest renew"), Ok(Command::Server(words(&["rest", "renew"]))));
        assert_eq!(parsed("smoke"), Ok(Command::Smoke));
    }

    #[test]
    fn parts_of_the_cluster_may_be_quick() {
        let cluster = |parts, quick| Ok(Command::Cluster { parts: words(parts), quick });
        assert_eq!(parsed("cluster"), cluster(&[], false));
        assert_eq!(parsed("cluster --quick"), cluster(&[], true));
        assert_eq!(parsed("cluster heal --quick kill"), cluster(&["heal", "kill"], true));
    }

    #[test]
    fn rows_beside_the_original_may_be_chosen() {
        let eureka = |chosen, smoke| Ok(Command::Eureka { words: words(chosen), smoke });
        assert_eq!(parsed("eureka"), eureka(&[], false));
        assert_eq!(parsed("eureka --smoke"), eureka(&[], true));
        assert_eq!(parsed("eureka full --smoke quiet"), eureka(&["full", "quiet"], true));
    }

    #[test]
    fn two_builds_are_compared_in_all_rows_or_in_some() {
        let compare = |words| Command::Compare { old: "a".into(), new: "b".into(), words };
        assert_eq!(parsed("compare a b"), Ok(compare(vec![])));
        assert_eq!(parsed("compare a b renew"), Ok(compare(words(&["renew"]))));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (line, named) in [
            ("serverr", "serverr"),
            ("core many", "many"),
            ("core 49999", "49999"),
            ("core 50000 1", "core"),
            ("memory 1", "memory"),
            ("server nothing of the kind", "nothing of the kind"),
            ("eureka moon", "moon"),
            ("cluster moon", "moon"),
            ("compare a", "two heureka binaries"),
            ("compare a b nonsense", "nonsense"),
            ("--help", "--help"),
        ] {
            let told = parsed(line).unwrap_err();
            assert!(told.contains(named), "{line}: {told}");
        }
    }
}
