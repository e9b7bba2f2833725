//! All pools of a registry, and how much views may hold.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use foldhash::fast::RandomState;
use parking_lot::Mutex;

use super::choice::Choice;
use super::pool::{Pool, Wanted};
use crate::{Refused, Registry};

/// Candidates and members that all views of a registry together may hold, some 200 bytes each.
const MOST: u64 = 4 << 20;

/// Pools that have views.
#[derive(Debug, Default)]
pub(crate) struct Pools {
    held: Mutex<HashMap<Wanted, Weak<Pool>, RandomState>>,
    taken: Arc<AtomicU64>,
}

/// One view's part in a pool.
#[derive(Debug)]
pub(super) struct Place {
    pools: Arc<Pools>,
    wanted: Wanted,
    /// There until it is given up.
    pool: Option<Arc<Pool>>,
    _room: Room,
}

/// Room for candidates or members; it is free again when this goes.
#[derive(Debug)]
pub(super) struct Room {
    taken: Arc<AtomicU64>,
    places: u64,
}

impl Place {
    /// Makes a view one of those that choose among the same candidates.
    ///
    /// # Errors
    /// [`Refused::Full`] when views hold as much as they may.
    pub(super) fn take(registry: &Registry, wanted: Wanted, choice: &Choice) -> Result<Self, Refused> {
        let pools = Arc::clone(&registry.pools);
        let weight = registry.weight(&wanted.selectors) as u64;
        let room = pools.room(choice.most().map_or(weight, |most| most as u64))?;
        let pool = pools.pool(registry, &wanted, weight)?;
        Ok(Self { pools, wanted, pool: Some(pool), _room: room })
    }

    pub(super) fn pool(&self) -> &Arc<Pool> {
        self.pool.as_ref().expect("invariant: it is given up with its place only")
    }
}

impl Pools {
    /// What views hold at most at this moment, and how many pools there are.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> (u64, usize) {
        (self.taken.load(Ordering::Relaxed), self.held.lock().len())
    }

    fn pool(&self, registry: &Registry, wanted: &Wanted, weight: u64) -> Result<Arc<Pool>, Refused> {
        let mut held = self.held.lock();
        if let Some(known) = held.get(wanted).and_then(Weak::upgrade) {
            return Ok(known);
        }
        let pool = Arc::new(Pool::new(registry, wanted.clone(), self.room(weight)?));
        held.insert(wanted.clone(), Arc::downgrade(&pool));
        Ok(pool)
    }

    fn room(&self, places: u64) -> Result<Room, Refused> {
        let room = Room { taken: Arc::clone(&self.taken), places };
        let before = self.taken.fetch_add(places, Ordering::Relaxed);
        if before + places > MOST { Err(Refused::Full) } else { Ok(room) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(self.pool.take());
        let mut held = self.pools.held.lock();
        if held.get(&self.wanted).is_some_and(|pool| pool.strong_count() == 0) {
            held.remove(&self.wanted);
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.taken.fetch_sub(self.places, Ordering::Relaxed);
    }
}
