//! Turns of those who have much to tell, so that everybody else finds a thread.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Semaphore, SemaphorePermit};

/// As many turns at a time as half of the threads that serve requests.
#[derive(Debug)]
pub(super) struct Turns {
    free: Semaphore,
    waiting: AtomicUsize,
}

/// Somebody who waits.
struct Waits<'a>(&'a AtomicUsize);

impl Turns {
    pub(super) fn new() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get().div_ceil(2));
        Self { free: Semaphore::new(threads), waiting: AtomicUsize::new(0) }
    }

    /// Waits for a turn.
    pub(super) async fn take(&self) -> SemaphorePermit<'_> {
        let waits = Waits::begin(&self.waiting);
        let turn = self.free.acquire().await.expect("invariant: never closed");
        drop(waits);
        turn
    }

    /// How many wait. Readers who take nothing are not among them.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }
}

impl<'a> Waits<'a> {
    fn begin(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn those_wait_who_have_no_turn_and_did_not_give_up() {
        let turns = Turns { free: Semaphore::new(1), waiting: AtomicUsize::new(0) };
        let first = turns.take().now_or_never().expect("one is free");
        let (mut second, mut third) = (Box::pin(turns.take()), Box::pin(turns.take()));
        assert!(second.as_mut().now_or_never().is_none() && third.as_mut().now_or_never().is_none());
        assert_eq!(turns.waiting(), 2);
        drop(third);
        assert_eq!(turns.waiting(), 1);
        drop(first);
        let second = second.now_or_never();
        assert!(second.is_some() && turns.waiting() == 0);
    }
}
