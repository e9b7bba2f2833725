//! What was promised of each instance, and what was seen that breaks a promise.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use heureka_model::InstanceKey;

/// Breaches that are kept; a fault that shows everywhere would fill pages.
const KEPT: usize = 20;

/// Promises by key. Cloned for each who makes or checks them.
#[derive(Clone, Debug, Default)]
pub struct Ledger(Arc<Mutex<Book>>);

#[derive(Debug, Default)]
struct Book {
    fates: BTreeMap<InstanceKey, Fate>,
    breaches: Vec<String>,
    more: usize,
}

/// What is to be expected of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was acknowledged and renews: every server has to show it.
    Lives,
    /// A cancel is under way, or it renews no more: whether it is shown says nothing.
    Leaves,
    /// Its cancel was acknowledged, or its lease is long over: nobody may show it again.
    Left,
}

impl Ledger {
    /// From now on this is expected.
    pub fn note(&self, key: &InstanceKey, fate: Fate) {
        self.book().fates.insert(key.clone(), fate);
    }

    /// What is expected; nothing of a key that was never acknowledged.
    #[must_use]
    pub fn fate(&self, key: &InstanceKey) -> Option<Fate> {
        self.book().fates.get(key).copied()
    }

    /// All keys with this fate.
    #[must_use]
    pub fn with(&self, fate: Fate) -> Vec<InstanceKey> {
        let book = self.book();
        book.fates.iter().filter(|(_, known)| **known == fate).map(|(key, _)| key.clone()).collect()
    }

    /// Tells of a broken promise.
    pub fn breach(&self, told: String) {
        let mut book = self.book();
        if book.breaches.len() < KEPT { book.breaches.push(told) } else { book.more += 1 }
    }

    /// Every broken promise so far.
    #[must_use]
    pub fn breaches(&self) -> Vec<String> {
        let book = self.book();
        let more = (book.more > 0).then(|| format!("and {} more", book.more));
        book.breaches.iter().cloned().chain(more).collect()
    }

    /// Checks what somebody shows against all promises.
    pub fn compare<'a>(&self, who: &str, shown: impl Fn(&InstanceKey) -> bool + 'a) {
        for (fate, expected) in [(Fate::Lives, true), (Fate::Left, false)] {
            for key in self.with(fate).iter().filter(|key| shown(key) != expected) {
                let seen = if expected { "does not show" } else { "still shows" };
                self.breach(format!("{who} {seen} {key}"));
            }
        }
    }

    /// A book is consistent after every step.
    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: &str) -> InstanceKey {
        InstanceKey { namespace: String::new(), app: "A".into(), id: id.into() }
    }

    #[test]
    fn only_what_is_certain_is_a_breach() {
        let ledger = Ledger::default();
        for (id, fate) in [("a", Fate::Lives), ("b", Fate::Leaves), ("c", Fate::Left), ("d", Fate::Left)] {
            ledger.note(&key(id), fate);
        }
        ledger.compare("n0", |shown| ["d", "x"].contains(&&*shown.id));
        assert_eq!(ledger.breaches(), ["n0 does not show A/a", "n0 still shows A/d"]);
        assert_eq!(ledger.fate(&key("x")), None);
    }

    #[test]
    fn breaches_beyond_those_that_fit_a_page_are_counted() {
        let ledger = Ledger::default();
        (0..KEPT + 3).for_each(|number| ledger.breach(number.to_string()));
        assert_eq!(ledger.breaches().last().map(String::as_str), Some("and 3 more"));
    }
}
