//! How many watches there may be, and how many there are.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::status::{Fault, Reason};

/// Figures about watches, and the places that bound them.
#[derive(Debug)]
pub(crate) struct Watches {
    places: Arc<Semaphore>,
    limit: usize,
    figures: Figures,
}

/// Counts since the start of the process.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// Streams that began with a whole snapshot.
    pub(crate) full: AtomicU64,
    /// Streams that resumed.
    pub(crate) resumed: AtomicU64,
    /// Streams that began with what differs.
    pub(crate) differing: AtomicU64,
    /// Streams that began with the next change.
    pub(crate) live: AtomicU64,
    /// Streams refused for want of a place.
    pub(crate) refused: AtomicU64,
    /// Streams that fell behind what is remembered and started again in band.
    pub(crate) restarted: AtomicU64,
    /// Streams ended because their client took nothing.
    pub(crate) stalled: AtomicU64,
    /// Changes handed to clients.
    pub(crate) changes: AtomicU64,
}

/// A place taken; leaving it makes room at once.
#[derive(Debug)]
pub(super) struct Seat {
    _node: OwnedSemaphorePermit,
    _connection: Option<OwnedSemaphorePermit>,
}

impl Watches {
    pub(super) fn new(limit: usize) -> Self {
        let limit = limit.min(Semaphore::MAX_PERMITS);
        Self { places: Arc::new(Semaphore::new(limit)), limit, figures: Figures::default() }
    }

    /// Open watches at this moment.
    pub(crate) fn open(&self) -> usize {
        self.limit - self.places.available_permits()
    }

    /// Counts since the start.
    pub(crate) fn figures(&self) -> &Figures {
        &self.figures
    }

    pub(super) fn sit(&self, connection: Option<&Arc<Semaphore>>) -> Result<Seat, Fault> {
        let node = self.place(&self.places, "this node has as many watches as it may")?;
        let connection = connection
            .map(|places| self.place(places, "this connection has as many watches as it may; open another"))
            .transpose()?;
        Ok(Seat { _node: node, _connection: connection })
    }

    fn place(&self, places: &Arc<Semaphore>, full: &str) -> Result<OwnedSemaphorePermit, Fault> {
        places.clone().try_acquire_owned().map_err(|_| {
            count(&self.figures.refused, 1);
            Fault::new(Reason::TooManyWatches, full)
        })
    }
}

/// Raises a figure.
pub(super) fn count(figure: &AtomicU64, by: u64) {
    figure.fetch_add(by, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_per_node_and_per_connection() {
        let watches = Watches::new(2);
        let connection = Arc::new(Semaphore::new(1));
        let first = watches.sit(Some(&connection)).unwrap();
        assert_eq!(watches.sit(Some(&connection)).unwrap_err().reason(), Reason::TooManyWatches);
        assert_eq!(watches.open(), 1);
        let second = watches.sit(None).unwrap();
        assert_eq!(watches.sit(None).unwrap_err().reason(), Reason::TooManyWatches);
        assert_eq!(watches.figures().refused.load(Ordering::Relaxed), 2);
        drop((first, second));
        assert_eq!((watches.open(), connection.available_permits()), (0, 1));
    }
}
