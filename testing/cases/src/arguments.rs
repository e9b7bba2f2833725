//! The command line.

use std::path::PathBuf;

/// How the program is called.
pub(crate) const USAGE: &str = "usage: heureka-cases --server FILE [--full] [--list] [CASE…]
  --server FILE  the heureka binary; every case starts its own
  --full         long durations and large numbers instead of the short ones
  --list         only name the cases
  CASE           such as F26; nothing named: all";

/// What is asked for.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Arguments {
    pub(crate) server: PathBuf,
    pub(crate) full: bool,
    pub(crate) list: bool,
    /// Cases by their numbers; empty means all.
    pub(crate) only: Vec<String>,
}

impl Arguments {
    /// Understands a command line, the program's own name left out.
    ///
    /// # Errors
    /// The words that name what is wrong.
    pub(crate) fn read(line: impl IntoIterator<Item = String>, known: &[&str]) -> Result<Self, String> {
        let mut arguments = Self::default();
        let mut line = line.into_iter();
        while let Some(word) = line.next() {
            match word.as_str() {
                "--server" => {
                    arguments.server = line.next().ok_or("--server needs the path of the binary")?.into();
                }
                "--full" => arguments.full = true,
                "--list" => arguments.list = true,
                _ => arguments.only.push(case(&word, known)?),
            }
        }
        if arguments.server.as_os_str().is_empty() && !arguments.list {
            return Err("--server is missing".to_owned());
        }
        Ok(arguments)
    }

    /// Whether this case is to run.
    pub(crate) fn names(&self, id: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|one| one == id)
    }
}

fn case(word: &str, known: &[&str]) -> Result<String, String> {
    let id = word.to_uppercase();
    if known.contains(&id.as_str()) { Ok(id) } else { Err(format!("{word}: neither an option nor a case")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Arguments, String> {
        Arguments::read(line.split_whitespace().map(str::to_owned), &["F01", "F26"])
    }

    #[test]
    fn cases_are_named_in_any_case() {
        let arguments = read("--server target/heureka f26 --full").unwrap();
        assert_eq!((arguments.full, arguments.server), (true, PathBuf::from("target/heureka")));
        assert!(read("--server x f26").unwrap().names("F26"));
        assert!(!read("--server x f26").unwrap().names("F01"));
        assert!(read("--server x").unwrap().names("F01"), "all, when none is named");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, told) in [
            ("", "--server is missing"),
            ("--server", "--server needs the path of the binary"),
            ("--server x F99", "F99: neither an option nor a case"),
            ("--server x --fast", "--fast: neither an option nor a case"),
        ] {
            assert_eq!(read(line).unwrap_err(), told, "{line}");
        }
        assert!(read("--list").unwrap().list, "naming needs no server");
    }
}
