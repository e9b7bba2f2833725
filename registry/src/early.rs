//! Renewals that come before the instance does: a server that has yet to learn what there is cannot say that an
//! instance is unknown, or every owner would register anew.

use std::collections::HashMap;
use std::time::Duration;

use foldhash::fast::FixedState;
use heureka_model::Mono;
use parking_lot::Mutex;

use crate::store::KeyHash;

/// Keys remembered; the renewals of more are answered and forgotten.
const KEYS: usize = 1 << 20;

/// What an owner whose terms are not known is told of its next renewal.
pub(crate) const NEXT: Duration = Duration::from_secs(30);

/// Renewals of keys that are not known yet, while the server is learning.
#[derive(Default)]
pub(crate) struct Early(Mutex<Option<HashMap<KeyHash, Mono, FixedState>>>);

impl Early {
    /// Begins or ends the time in which unknown keys are taken for such that will come.
    pub(crate) fn learn(&self, learning: bool) {
        let mut early = self.0.lock();
        match (learning, early.is_some()) {
            (true, false) => *early = Some(HashMap::default()),
            (false, true) => *early = None,
            _ => {}
        }
    }

    /// Notes a renewal; false when the server knows all that it needs to.
    pub(crate) fn note(&self, hash: KeyHash, at: Mono) -> bool {
        let mut early = self.0.lock();
        let Some(renewals) = early.as_mut() else { return false };
        if renewals.len() < KEYS || renewals.contains_key(&hash) {
            renewals.insert(hash, at);
        }
        true
    }

    /// The renewal that came before the key did.
    pub(crate) fn take(&self, hash: KeyHash) -> Option<Mono> {
        self.0.lock().as_mut()?.remove(&hash)
    }
}
