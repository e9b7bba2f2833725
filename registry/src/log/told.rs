//! A change on its way to subscribers.

use std::ops::Deref;
use std::sync::OnceLock;

use bytes::Bytes;
use heureka_model::{Change, Version, instance_hash};

/// A change as subscribers are told it. All who read it near the head share one, and its encoded form with it.
#[derive(Debug)]
pub struct Told {
    change: Change,
    key_hash: u64,
    text_size: usize,
    encoded: OnceLock<Bytes>,
}

impl Told {
    /// A change to be told.
    #[must_use]
    pub fn new(change: Change) -> Self {
        let key_hash = instance_hash(change.key.as_ref(), &Version::default());
        let text_size = change.registration.as_ref().map_or(0, |told| told.instance.text_size());
        Self { change, key_hash, text_size, encoded: OnceLock::new() }
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
