//! How much readers keep for each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that all readers of a registry together keep for those who come after them.
const ALL: u64 = 64 << 20;

/// What is kept at this moment.
#[derive(Debug, Default)]
pub(crate) struct Budget(AtomicU64);

/// Room for something kept; it is free again when this goes.
#[derive(Debug)]
pub(super) struct Room {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Budget {
    /// Room for so many bytes, if there is.
    pub(super) fn take(self: &Arc<Self>, bytes: u64) -> Option<Room> {
        let room = Room { budget: Arc::clone(self), bytes };
        (self.0.fetch_add(bytes, Ordering::Relaxed) + bytes <= ALL).then_some(room)
    }

    /// Bytes that are kept.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.budget.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_up_to_a_limit_and_again_when_something_goes() {
        let budget = Arc::new(Budget::default());
        let most = budget.take(ALL - 1).unwrap();
        assert!(budget.take(2).is_none());
        assert!(budget.take(1).is_some());
        drop(most);
        assert!(budget.take(ALL).is_some());
        assert_eq!(budget.taken(), 0);
    }
}
