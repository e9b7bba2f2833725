//! What became of keys from one revision to another.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use heureka_model::Wall;

use super::frame::BYTES;
use crate::log::Recent;

/// All changes of one key, as one.
pub(super) struct Step {
    /// The first of them, if there are several.
    first: Option<Recent>,
    pub(super) last: Recent,
}

/// Steps of different keys, in the order of their last changes.
#[derive(Default)]
pub(super) struct Steps {
    steps: Vec<Option<Step>>,
    /// By key, not by slot: a key that was forgotten in between comes back in another.
    places: HashMap<u64, usize, FixedState>,
    bytes: usize,
}

impl Step {
    /// The change that tells what was before.
    pub(super) fn first(&self) -> &Recent {
        self.first.as_ref().unwrap_or(&self.last)
    }

    /// When the first change was committed.
    pub(super) fn committed(&self) -> Wall {
        self.first().new.head().updated
    }
}

impl Steps {
    pub(super) fn add(&mut self, recent: Recent) {
        let place = self.places.insert(recent.key_hash(), self.steps.len());
        let earlier = place.and_then(|place| self.steps[place].take());
        self.bytes += recent.new.text_size();
        let first = earlier.map(|step| step.first.unwrap_or(step.last));
        self.steps.push(Some(Step { first, last: recent }));
    }

    /// Whether the key has begun anew since its last step, with a lower version, after its removal was forgotten. Then
    /// the removal has to be told first: nobody takes a lower version than it holds.
    pub(super) fn are_forgotten_by(&self, recent: &Recent) -> bool {
        let place = self.places.get(&recent.key_hash());
        let step = place.and_then(|place| self.steps[*place].as_ref());
        step.is_some_and(|step| recent.new.version() < step.last.new.version())
    }

    /// Whether they are as many as one frame should tell.
    pub(super) fn is_full(&self, max: usize) -> bool {
        self.places.len() >= max || self.bytes >= BYTES
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().flatten()
    }
}
