//! What counts in the end: of all documents that apply, the last word about each property.

use std::collections::{BTreeMap, BTreeSet};

use super::ImportError;
use super::placeholders::{Filled, defaulted, fill};
use super::statement::{Name, Statement};

/// Properties by their canonical names.
#[derive(Debug, Default)]
pub(super) struct Facts {
    said: BTreeMap<String, Said>,
    documents: usize,
}

/// The last word about a property.
#[derive(Debug)]
pub(super) struct Said {
    document: usize,
    /// One, or the items of a list by their index.
    items: BTreeMap<Option<usize>, Statement>,
    /// The same name in other spellings in the same document, which do not count.
    pub(super) others: Vec<Statement>,
    /// Last parts of the name, in every spelling of any document: keys of maps are told apart by their case.
    pub(super) keys: Vec<String>,
}

/// A property's value with its placeholders filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    /// Something that no file says is part of it.
    Missing(String),
}

impl Facts {
    /// Documents that apply, the later ones over the earlier.
    pub(super) fn of<'a>(documents: impl IntoIterator<Item = &'a [Statement]>) -> Self {
        let mut facts = Self::default();
        for statements in documents {
            facts.documents += 1;
            statements.iter().for_each(|statement| facts.say(statement));
        }
        facts
    }

    fn say(&mut self, statement: &Statement) {
        let document = self.documents;
        let said = self.said.entry(statement.name.canonical.clone()).or_insert_with(|| Said::new(document));
        said.keys.extend(statement.name.elements.last().cloned());
        if said.document != document {
            *said = Said { keys: std::mem::take(&mut said.keys), ..Said::new(document) };
        }
        said.say(statement);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Said)> {
        self.said.iter().map(|(canonical, said)| (canonical.as_str(), said))
    }

    /// By a name in any spelling.
    pub(super) fn said(&self, name: &str) -> Option<&Said> {
        self.said.get(&Name::parse(name).0.canonical)
    }

    /// The value of a property, when it is said.
    /// # Errors
    /// Placeholders that refer to themselves, lists with gaps.
    pub(super) fn value(&self, name: &str) -> Result<Option<Value>, ImportError> {
        self.said(name).map(|said| self.value_of(said)).transpose()
    }

    /// The value of what was said.
    /// # Errors
    /// Placeholders that refer to themselves, lists with gaps.
    pub(super) fn value_of(&self, said: &Said) -> Result<Value, ImportError> {
        let mut texts = Vec::new();
        for statement in said.whole()? {
            match fill(self, statement)? {
                Filled::Text(text) => texts.push(text),
                Filled::Missing(name) => return Ok(Value::Missing(name)),
            }
        }
        Ok(Value::Text(texts.join(",")))
    }

    /// The placeholders in the value of a property that no file says, so that their defaults count.
    pub(super) fn defaulted(&self, name: &str) -> BTreeSet<String> {
        let counting = self.said(name).and_then(|said| said.whole().ok()).unwrap_or_default();
        counting.into_iter().flat_map(|statement| defaulted(self, statement)).collect()
    }

    /// What a placeholder stands for, before its own placeholders are filled in. Names of lower case find every
    /// spelling, others their own.
    pub(super) fn raw(&self, placeholder: &str) -> Option<&Statement> {
        let (name, index) = Name::parse(placeholder);
        let said = self.said.get(&name.canonical)?;
        let relaxed = is_kebab(placeholder);
        let fits = |one: &&Statement| one.index == index && (relaxed || one.name.written == name.written);
        said.items.get(&index).into_iter().chain(&said.others).find(fits)
    }
}

/// The spelling that Spring itself asks for.
fn is_kebab(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.[]".contains(c))
}

impl Said {
    fn new(document: usize) -> Self {
        Self { document, items: BTreeMap::new(), others: Vec::new(), keys: Vec::new() }
    }

    /// Of two values under one spelling the later counts; of two spellings that of small letters, or else the first.
    fn say(&mut self, statement: &Statement) {
        let before =
            self.items.get(&statement.index).filter(|item| item.name.written != statement.name.written);
        match before.map(|item| is_kebab(&item.name.written) || !is_kebab(&statement.name.written)) {
            Some(true) => self.others.push(statement.clone()),
            _ => {
                let before = before.cloned();
                self.items.insert(statement.index, statement.clone());
                self.others.extend(before);
            }
        }
    }

    /// Where it begins.
    pub(super) fn first(&self) -> &Statement {
        self.items.values().next().expect("invariant: a property is said somewhere")
    }

    pub(super) fn is_list(&self) -> bool {
        !self.items.contains_key(&None)
    }

    /// The value, or the items of the list in their order. A value beside items of a list wins.
    fn whole(&self) -> Result<Vec<&Statement>, ImportError> {
        if let Some(single) = self.items.get(&None) {
            return Ok(vec![single]);
        }
        let gap = self.items.values().enumerate().find(|(place, item)| item.index != Some(*place));
        match gap {
            None => Ok(self.items.values().collect()),
            Some((place, item)) => {
                let reason = format!("the list has no item {place}");
                Err(ImportError::at(&item.place, &item.shown(), reason))
            }
        }
    }
}
