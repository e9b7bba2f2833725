//! Whether changes are pushed, or held back by an operator for a time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use heureka_model::{Mono, Now, Wall};
use parking_lot::Mutex;
use tokio_util::task::AbortOnDropHandle;

/// What an operator set.
#[derive(Debug, Default)]
pub(super) struct Push {
    /// Changes are held back until then; 0 is never. Read by every watch.
    until: AtomicU64,
    /// With the task that wakes the watches at its end.
    paused: Mutex<Option<(Paused, AbortOnDropHandle<()>)>>,
}

/// A pause while it lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Paused {
    /// When changes are pushed again.
    pub(super) until: Wall,
    /// Why it was asked for.
    pub(super) reason: String,
}

impl Push {
    /// Holds changes back for a time, which takes the place of an earlier one; `waking` ends with it.
    pub(super) fn pause(&self, ttl: Duration, reason: String, waking: AbortOnDropHandle<()>, now: Now) {
        let mut paused = self.paused.lock();
        *paused = Some((Paused { until: now.wall.plus(ttl), reason }, waking));
        self.until.store(now.mono.plus(ttl).0, Ordering::Release);
    }

    /// Lets changes go again.
    pub(super) fn resume(&self) {
        let mut paused = self.paused.lock();
        *paused = None;
        self.until.store(0, Ordering::Release);
    }

    /// Whether changes are held back.
    pub(super) fn is_paused(&self, now: Mono) -> bool {
        now.0 < self.until.load(Ordering::Acquire)
    }

    /// The pause, while it lasts.
    pub(super) fn paused(&self, now: Mono) -> Option<Paused> {
        let paused = self.paused.lock();
        paused.as_ref().filter(|_| self.is_paused(now)).map(|(paused, _)| paused.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Now {
        Now { mono: Mono(second * 1000), wall: Wall(1_000_000 + second * 1000) }
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_ends_by_itself_and_the_last_word_counts() {
        let push = Push::default();
        assert!(!push.is_paused(at(0).mono));
        let waking = || AbortOnDropHandle::new(tokio::spawn(std::future::pending()));
        push.pause(Duration::from_secs(60), "one".into(), waking(), at(10));
        assert!(push.is_paused(at(69).mono) && !push.is_paused(at(70).mono));
        push.pause(Duration::from_secs(5), "two".into(), waking(), at(20));
        assert_eq!(push.paused(at(24).mono), Some(Paused { until: at(25).wall, reason: "two".into() }));
        assert_eq!(push.paused(at(25).mono), None);
        push.pause(Duration::from_secs(60), "three".into(), waking(), at(30));
        push.resume();
        assert_eq!((push.is_paused(at(31).mono), push.paused(at(31).mono)), (false, None));
    }
}
