//! What became of every property.

use std::collections::BTreeSet;

use super::ImportError;
use super::facts::{Facts, Said, Value};
use super::forms::Refusal;
use super::statement::{Place, Statement, shown};
use crate::config::Config;

/// What became of every property, and the configuration so far.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    config: Config,
    pub(super) carried: Vec<Carried>,
    /// Not carried, and why.
    pub(super) left: Vec<Told>,
    /// Read to understand others.
    pub(super) read: Vec<Told>,
    /// What an operator has to do before the printed configuration is as safe as the file was.
    pub(super) warnings: BTreeSet<&'static str>,
    /// Canonical names of what was dealt with.
    done: BTreeSet<String>,
}

/// A setting that was carried.
#[derive(Debug)]
pub(super) struct Carried {
    pub(super) key: &'static str,
    pub(super) value: toml::Value,
    pub(super) from: Vec<Told>,
    pub(super) remarks: Vec<String>,
}

/// A property and what is to be said about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Told {
    pub(super) place: Place,
    pub(super) name: String,
    pub(super) reason: String,
}

impl Told {
    pub(super) fn of(statement: &Statement, reason: impl Into<String>) -> Self {
        Self { place: statement.place.clone(), name: statement.shown(), reason: reason.into() }
    }
}

impl Ledger {
    /// Carries a value, unless it is said already or our configuration does not take it.
    pub(super) fn carry(
        &mut self,
        key: &'static str,
        value: toml::Value,
        from: &[&Said],
        remarks: Vec<String>,
    ) {
        if let Some(before) = self.carried.iter().find(|carried| carried.key == key) {
            let reason = format!("{key} is said by {} already", before.from[0].name);
            return from.iter().for_each(|said| self.leave(said, &*reason));
        }
        match self.config.with(key, &value) {
            Ok(config) => {
                self.config = config;
                self.done.extend(from.iter().map(|said| said.first().name.canonical.clone()));
                let from = from.iter().map(|said| Told::of(said.first(), "")).collect();
                self.carried.push(Carried { key, value, from, remarks });
            }
            Err(reason) => from.iter().for_each(|said| self.leave(said, format!("{key} {reason}"))),
        }
    }

    pub(super) fn leave(&mut self, said: &Said, reason: impl Into<String>) {
        self.left.push(Told::of(said.first(), reason));
        self.done(said);
    }

    pub(super) fn read(&mut self, said: &Said, reason: &str) {
        self.read.push(Told::of(said.first(), reason));
        self.done(said);
    }

    pub(super) fn done(&mut self, said: &Said) {
        self.done.insert(said.first().name.canonical.clone());
    }

    pub(super) fn is_done(&self, said: &Said) -> bool {
        self.done.contains(&said.first().name.canonical)
    }

    /// The text of a property; nothing, and the reason told, when it is empty or no file says all of it.
    pub(super) fn text(&mut self, facts: &Facts, said: &Said) -> Result<Option<String>, ImportError> {
        match facts.value_of(said)? {
            Value::Text(text) if text.trim().is_empty() => {
                self.leave(said, "is empty, which leaves everything as it is by default");
                Ok(None)
            }
            Value::Text(text) => Ok(Some(text)),
            Value::Missing(name) => {
                let name = shown(&name);
                self.leave(said, format!("holds ${{{name}}}, which no file says"));
                Ok(None)
            }
        }
    }

    /// A value of a form; nothing, and the reason told, when it has no place here.
    pub(super) fn formed<T>(
        &mut self,
        said: &Said,
        formed: Result<T, Refusal>,
    ) -> Result<Option<T>, ImportError> {
        match formed {
            Ok(value) => Ok(Some(value)),
            Err(Refusal::NoPlace(reason)) => {
                self.leave(said, reason);
                Ok(None)
            }
            Err(Refusal::Unusable(reason)) => Err(unusable(said.first(), reason)),
        }
    }
}

/// A value that the original could not use either.
pub(super) fn unusable(statement: &Statement, reason: impl Into<String>) -> ImportError {
    ImportError::at(&statement.place, &statement.shown(), reason)
}
