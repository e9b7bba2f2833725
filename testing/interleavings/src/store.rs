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
    pub(crate) tally: Mutex<SetDigest>,
    pub(crate) revision: AtomicU64,
}

/// Stands for the core's namespace.
#[derive(Default)]
pub(crate) struct Namespace {
    pub(crate) tally: Mutex<SetDigest>,
}
