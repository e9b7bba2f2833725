//! The core's slots, and sums without names.

use std::sync::Arc;

use heureka_model::SetDigest;

use crate::sync::{AtomicU64, Mutex};

#[expect(dead_code, reason = "the core's file; not all of it is driven here")]
#[path = "../../../registry/src/store/slots.rs"]
mod slots;

pub(crate) use slots::Slots;

/// Stands for the core's application.
#[derive(Default)]
pub(crate) struct App {
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) name: Box<str>,
    /// Slots of the live instances.
    members: Mutex<Vec<u32>>,
    pub(crate) tally: Mutex<SetDigest>,
    pub(crate) revision: AtomicU64,
}

/// Stands for the core's namespace.
#[derive(Default)]
pub(crate) struct Namespace {
    pub(crate) name: Box<str>,
    pub(crate) tally: Mutex<SetDigest>,
}

impl App {
    pub(crate) fn named(name: &str) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    pub(crate) fn members(&self) -> Vec<u32> {
        self.members.lock().clone()
    }

    pub(crate) fn add(&self, slot: u32) {
        self.members.lock().push(slot);
    }

    pub(crate) fn remove(&self, slot: u32) {
        self.members.lock().retain(|member| *member != slot);
    }
}
