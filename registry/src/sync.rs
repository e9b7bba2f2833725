//! The primitives that ordering rests on, and the sizes of what they guard, named in one place: the log, the slots,
//! the leases and what watchers share use nothing else, so that `testing/interleavings` can compile them against a
//! model checker's primitives and sizes that it can exhaust.

pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

pub(crate) use parking_lot::{Mutex, MutexGuard, RwLock};

/// Cells per segment of the log's index.
pub(crate) const SEGMENT: u64 = 4096;

/// Slots per chunk; a chunk is allocated when its first slot is.
pub(crate) const CHUNK: usize = 1024;

/// 16.7 million slots. Records reach `registry.max_bytes` long before.
pub(crate) const CHUNKS: usize = 16_384;
