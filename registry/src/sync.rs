//! The primitives that ordering rests on, named in one place so that the files which use them can also be
//! compiled against a model checker's (see `testing/interleavings`).

pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

pub(crate) use parking_lot::RwLock;
