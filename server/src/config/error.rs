//! What is wrong with a configuration.

use std::fmt;
use std::path::PathBuf;

use super::Source;

/// Why a configuration cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The file named by `--config` cannot be read.
    #[error("cannot read {} named by --config: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// The file is no TOML.
    #[error("{} is not valid TOML: {reason}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where and why.
        reason: String,
    },
    /// Unknown keys and unusable values.
    #[error("{}", lines(.0))]
    Problems(Vec<Problem>),
}

/// One unknown key or unusable value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The key.
    pub key: String,
    /// Where it was said.
    pub source: Source,
    /// What is wrong.
    pub message: String,
}

impl Problem {
    pub(super) fn new(key: &str, source: Source, message: String) -> Self {
        Self { key: key.to_owned(), source, message }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.key, self.source, self.message)
    }
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
