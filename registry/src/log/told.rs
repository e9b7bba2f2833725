//! A change on its way to subscribers.

use std::ops::Deref;
use std::sync::OnceLock;

use bytes::Bytes;
use heureka_model::{Change, Now, Version, instance_hash};

/// A change as subscribers are told it. All who read it near the head share one, and its encoded form with it.
#[derive(Debug)]
pub struct Told {
    change: Change,
    key_hash: u64,
    text_size: usize,
    is_overdue: bool,
    encoded: OnceLock<Bytes>,
}

impl Told {
    /// A change to be told.
    #[must_use]
    pub fn new(change: Change) -> Self {
        let key_hash = instance_hash(change.key.as_ref(), &Version::default());
        let text_size = change.registration.as_ref().map_or(0, |told| told.instance.text_size());
        Self { change, key_hash, text_size, is_overdue: false, encoded: OnceLock::new() }
    }

    /// The same as part of what is told of a set as it is now: with it goes whether a sign of life is overdue. A
    /// change that many are told when it happens says nothing of that.
    #[must_use]
    pub(crate) fn of_now(change: Change, now: Now) -> Self {
        let is_overdue = change.registration.as_ref().is_some_and(|told| told.is_overdue(now.wall));
        Self { is_overdue, ..Self::new(change) }
    }

    /// Whether the last sign of life was overdue when the instance was read; false for a change near the head.
    #[must_use]
    pub fn is_overdue(&self) -> bool {
        self.is_overdue
    }

    /// The change in a wire's form, which whoever asks first makes. One wire tells changes, so `encode` is always
    /// the same.
    pub fn encoded(&self, encode: impl FnOnce(&Change) -> Bytes) -> Bytes {
        self.encoded.get_or_init(|| encode(&self.change)).clone()
    }

    /// Tells the keys of changes apart.
    #[must_use]
    pub fn key_hash(&self) -> u64 {
        self.key_hash
    }

    /// Bytes of the instance's texts; 0 for a removal.
    pub(crate) fn text_size(&self) -> usize {
        self.text_size
    }
}

impl Deref for Told {
    type Target = Change;

    fn deref(&self) -> &Change {
        &self.change
    }
}

impl PartialEq for Told {
    fn eq(&self, other: &Self) -> bool {
        self.change == other.change
    }
}
