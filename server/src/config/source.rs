//! Where settings are said, from the weakest source to the strongest.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use super::value::Raw;
use super::{Config, ConfigError, Problem, settings};

/// Everything that says something about settings.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// TOML file.
    pub file: Option<PathBuf>,
    /// Environment: names and values. Those without the prefix `HEUREKA_` and a double underscore are not ours;
    /// those that are and hold something else than UTF-8 are refused.
    pub environment: Vec<(OsString, OsString)>,
    /// Flags.
    pub flags: Vec<Flag>,
}

/// A flag that sets a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flag {
    /// As typed, `--listen`.
    pub name: &'static str,
    /// Key that it sets.
    pub key: &'static str,
    /// Its value.
    pub value: String,
}

/// Where a setting was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Nowhere.
    Default,
    /// In this file.
    File(PathBuf),
    /// In this environment variable.
    Variable(String),
    /// With this flag.
    Flag(&'static str),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Variable(name) => f.write_str(name),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

/// One source's words about one key.
pub(super) struct Statement {
    pub(super) key: String,
    pub(super) source: Source,
    /// Nothing when the value has a shape that no setting has.
    raw: Option<Raw>,
}

impl Statement {
    pub(super) fn apply(&self, config: &mut Config) -> Result<(), Problem> {
        let wrong = |message: String| Problem::new(&self.key, self.source.clone(), message);
        let setting = settings().find(|setting| setting.key == self.key);
        let setting = setting.ok_or_else(|| wrong("unknown setting".into()))?;
        let raw = self.raw.as_ref().ok_or_else(|| wrong(format!("expected {}", setting.kind)))?;
        (setting.write)(config, raw).map_err(wrong)
    }
}

impl Sources {
    /// All words in order of precedence: of two about one key the later counts.
    pub(super) fn statements(&self) -> Result<Vec<Statement>, ConfigError> {
        let mut statements = match &self.file {
            Some(path) => from_file(path)?,
            None => Vec::new(),
        };
        statements.extend(self.environment.iter().filter_map(|(name, value)| from_variable(name, value)));
        statements.extend(self.flags.iter().map(from_flag));
        Ok(statements)
    }
}

fn from_file(path: &Path) -> Result<Vec<Statement>, ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| ConfigError::Unreadable { path: path.to_owned(), reason: error.to_string() })?;
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| ConfigError::Syntax {
        path: path.to_owned(),
        reason: error.to_string(),
    })?;
    let source = Source::File(path.to_owned());
    Ok(table.iter().flat_map(|(section, value)| from_section(section, value, &source)).collect())
}

fn from_section(section: &str, value: &toml::Value, source: &Source) -> Vec<Statement> {
    let said = |key: String, value| Statement { key, source: source.clone(), raw: Raw::from_toml(value) };
    match value {
        toml::Value::Table(keys) => {
            keys.iter().map(|(key, value)| said(format!("{section}.{key}"), value)).collect()
        }
        other => vec![said(section.to_owned(), other)],
    }
}

/// Kubernetes sets variables such as `HEUREKA_SERVICE_HOST` for a service of that name, so only those with a
/// double underscore are taken for settings.
fn from_variable(name: &OsStr, value: &OsStr) -> Option<Statement> {
    let name = name.to_string_lossy();
    let (section, key) = name.strip_prefix("HEUREKA_")?.split_once("__")?;
    let key = format!("{section}.{key}").to_lowercase();
    let raw = value.to_str().map_or(Raw::NoText, |value| Raw::One(value.to_owned()));
    Some(Statement { key, source: Source::Variable(name.into_owned()), raw: Some(raw) })
}

fn from_flag(flag: &Flag) -> Statement {
    Statement {
        key: flag.key.to_owned(),
        source: Source::Flag(flag.name),
        raw: Some(Raw::One(flag.value.clone())),
    }
}
