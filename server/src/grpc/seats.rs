//! How many watches there may be, and how many there are.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use heureka_model::Wall;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::status::{Fault, Reason};

/// Figures about watches, and the places that bound them.
#[derive(Debug)]
pub(crate) struct Watches {
    places: Arc<Semaphore>,
    limit: usize,
    figures: Figures,
    next: AtomicU64,
    watchers: Mutex<BTreeMap<u64, Arc<Sitter>>>,
}

/// Who watches, and how far it is.
#[derive(Debug)]
pub(crate) struct Sitter {
    /// Number; each watch of a server's life has its own.
    pub(crate) id: u64,
    /// Name that the client gave.
    pub(crate) client: Arc<str>,
    /// Where it came from.
    pub(crate) address: Option<IpAddr>,
    /// When it began.
    pub(crate) started: Wall,
    /// Revision up to which it was told everything.
    pub(crate) told: AtomicU64,
    /// Instances in its set when a digest was last told.
    pub(crate) instances: AtomicU64,
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
    watches: Arc<Watches>,
    sitter: Arc<Sitter>,
    _node: OwnedSemaphorePermit,
}

impl Watches {
    pub(super) fn new(limit: usize) -> Self {
        let limit = limit.min(Semaphore::MAX_PERMITS);
        let places = Arc::new(Semaphore::new(limit));
        Self {
            places,
            limit,
            figures: Figures::default(),
            next: AtomicU64::new(1),
            watchers: Mutex::default(),
        }
    }

    /// Open watches at this moment.
    pub(crate) fn open(&self) -> usize {
        self.limit - self.places.available_permits()
    }

    /// Counts since the start.
    pub(crate) fn figures(&self) -> &Figures {
        &self.figures
    }

    /// At most `max` watchers in the order of their numbers, those after `after`.
    pub(crate) fn list(&self, after: u64, max: usize) -> Vec<Arc<Sitter>> {
        let watchers = self.watchers.lock();
        watchers.range(after.saturating_add(1)..).take(max).map(|(_, sitter)| sitter.clone()).collect()
    }

    pub(super) fn sit(
        self: &Arc<Self>,
        client: Arc<str>,
        address: Option<IpAddr>,
        now: Wall,
    ) -> Result<Seat, Fault> {
        let node = self.take(&self.places, "this node has as many watches as it may")?;
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (told, instances) = (AtomicU64::default(), AtomicU64::default());
        let sitter = Arc::new(Sitter { id, client, address, started: now, told, instances });
        self.watchers.lock().insert(id, sitter.clone());
        Ok(Seat { watches: self.clone(), sitter, _node: node })
    }

    /// A place for a stream of watches on a connection that has these.
    pub(super) fn place(&self, places: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Fault> {
        self.take(places, "this connection has as many watches as it may; open another")
    }

    fn take(&self, places: &Arc<Semaphore>, full: &str) -> Result<OwnedSemaphorePermit, Fault> {
        places.clone().try_acquire_owned().map_err(|_| {
            count(&self.figures.refused, 1);
            Fault::new(Reason::TooManyWatches, full)
        })
    }
}

impl Seat {
    pub(super) fn sitter(&self) -> &Arc<Sitter> {
        &self.sitter
    }
}

impl Sitter {
    /// Is told what another was told.
    pub(super) fn follow(&self, other: &Self) {
        let copy =
            |from: &AtomicU64, to: &AtomicU64| to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        copy(&other.told, &self.told);
        copy(&other.instances, &self.instances);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.watches.watchers.lock().remove(&self.sitter.id);
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
        let watches = Arc::new(Watches::new(2));
        let connection = Arc::new(Semaphore::new(1));
        let place = watches.place(&connection).unwrap();
        assert_eq!(watches.place(&connection).unwrap_err().reason(), Reason::TooManyWatches);
        let sit = || watches.sit("c".into(), None, Wall(5));
        let seats = [sit().unwrap(), sit().unwrap()];
        assert_eq!(sit().unwrap_err().reason(), Reason::TooManyWatches);
        assert_eq!(watches.figures().refused.load(Ordering::Relaxed), 2);
        drop((place, seats));
        assert_eq!((watches.open(), connection.available_permits()), (0, 1));
    }

    #[test]
    fn watchers_are_listed_in_pages_while_they_sit() {
        let watches = Arc::new(Watches::new(9));
        let mut seats: Vec<_> =
            (0..3).map(|n| watches.sit(format!("c{n}").into(), None, Wall(n)).unwrap()).collect();
        let names = |after, max| -> Vec<_> {
            watches.list(after, max).iter().map(|sitter| (sitter.id, sitter.client.clone())).collect()
        };
        assert_eq!(names(0, 2), [(1, "c0".into()), (2, "c1".into())]);
        assert_eq!(names(2, 2), [(3, "c2".into())]);
        drop(seats.remove(1));
        assert_eq!(names(0, 9), [(1, "c0".into()), (3, "c2".into())]);
        assert!(names(u64::MAX, 9).is_empty());
    }
}
