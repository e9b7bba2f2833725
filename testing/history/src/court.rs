//! What all watchers of a recording share while they are judged.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use heureka_model::{InstanceKey, Registration, Version};

use crate::facts::Facts;
use crate::guarantee::{Broken, Guarantee};
use crate::heard::content;
use crate::recording::Counts;
use crate::set::Set;

/// Where a token leads.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) watcher: String,
    pub(crate) boot: u64,
    pub(crate) selectors: Vec<u8>,
    /// Everything up to here was told.
    pub(crate) revision: u64,
    /// The set that goes with it, when it came with a list.
    pub(crate) list: Option<Set>,
}

/// The facts, and what was found so far.
pub(crate) struct Court<'a> {
    pub(crate) facts: Facts<'a>,
    tokens: HashMap<Bytes, Vec<Place>>,
    pub(crate) counts: Counts,
    /// Line that is judged.
    pub(crate) line: usize,
    pub(crate) broken: Vec<Broken>,
    contents: HashMap<(InstanceKey, Version), Registration>,
}

/// An accusation without its place.
pub(crate) struct Charge {
    pub(crate) guarantee: Guarantee,
    pub(crate) key: Option<InstanceKey>,
    pub(crate) expected: String,
    pub(crate) seen: String,
}

impl Charge {
    pub(crate) fn new(guarantee: Guarantee, expected: impl Into<String>, seen: impl Into<String>) -> Self {
        Self { guarantee, key: None, expected: expected.into(), seen: seen.into() }
    }

    pub(crate) fn of(self, key: &InstanceKey) -> Self {
        Self { key: Some(key.clone()), ..self }
    }
}

impl<'a> Court<'a> {
    pub(crate) fn new(facts: Facts<'a>) -> Self {
        let counts = Counts { writes: facts.count(), ..Counts::default() };
        Self { facts, tokens: HashMap::new(), counts, line: 0, broken: Vec::new(), contents: HashMap::new() }
    }

    pub(crate) fn broken(&self, watcher: &str, charge: Charge) -> Broken {
        Broken {
            guarantee: charge.guarantee,
            watcher: watcher.to_owned(),
            line: self.line,
            key: charge.key,
            expected: charge.expected,
            seen: charge.seen,
        }
    }

    /// Notes a token and where it leads. Watchers of one set may get the same.
    pub(crate) fn issue(&mut self, token: Bytes, place: Place) {
        let places = self.tokens.entry(token).or_default();
        places.retain(|known| known.watcher != place.watcher);
        places.push(place);
    }

    /// Where the token leads, by preference the watcher's own.
    pub(crate) fn place(&self, token: &Bytes, watcher: &str) -> Option<&Place> {
        let places = self.tokens.get(token)?;
        places.iter().find(|place| place.watcher == watcher).or_else(|| places.last())
    }

    /// Whether this version of the key never had another content.
    pub(crate) fn is_the_content_of(&mut self, live: &Arc<Registration>) -> bool {
        let told = content(live);
        let key = (told.instance.key.clone(), told.version);
        *self.contents.entry(key).or_insert_with(|| told.clone()) == told
    }
}
