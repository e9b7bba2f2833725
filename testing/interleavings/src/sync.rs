//! Stands for `registry/src/sync.rs`: the same names over the model checker's primitives, and sizes that a few
//! changes exhaust.

use loom::sync::LockResult;
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
pub(crate) use loom::sync::{Arc, MutexGuard, RwLockReadGuard, RwLockWriteGuard};

/// A segment is repacked at a quarter of this, so one live cell is left then.
pub(crate) const SEGMENT: u64 = 4;

pub(crate) const CHUNK: usize = 4;

pub(crate) const CHUNKS: usize = 1;

/// A lock without poisoning: a panic ends the exploration anyway.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

/// A lock without poisoning.
#[derive(Default)]
pub(crate) struct RwLock<T>(loom::sync::RwLock<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        sound(self.0.lock())
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok()
    }
}

impl<T> RwLock<T> {
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        sound(self.0.read())
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        sound(self.0.write())
    }
}

fn sound<G>(lock: LockResult<G>) -> G {
    lock.expect("no holder has panicked")
}
