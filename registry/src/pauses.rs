//! The server's own pauses. The lease clock leaves them out, so that nobody's lease runs out while nobody could
//! renew; how old a sign of life truly is counts them in, since other servers went on.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use heureka_model::{LEASE_MAX, Mono};
use parking_lot::Mutex;

use crate::seeded::{Bug, planted};

/// Time between two ticks.
pub(crate) const PERIOD: Duration = Duration::from_secs(1);

/// Whoever looks at the clock so long after a tick was due finds a server that was paused, whose clients could not
/// reach it.
const PAUSED: Duration = Duration::from_secs(2);

/// Pauses remembered. Of signs of life before the oldest only the later pauses are known.
const REMEMBERED: usize = 64;

/// Lease time at the server's start. What it is told of may have been heard longer ago than it runs, and must not look
/// younger for that.
const BEGIN: u64 = 2 * LEASE_MAX.as_millis() as u64;

/// The lease clock: the monotonic one without the server's own pauses. A pause is found by whoever looks first after
/// it, so that nothing that comes before the late tick is dated by a clock that still counts the pause.
#[derive(Debug)]
pub(crate) struct LeaseClock {
    /// Monotonic time of the last tick, moved on by each pause found since.
    ticked_ms: AtomicU64,
    /// All that was paused.
    paused_ms: AtomicU64,
    pauses: Mutex<Pauses>,
}

/// Pauses in the order in which they came.
#[derive(Debug, Default)]
struct Pauses {
    /// Lease time at which the clock went on after one, and all that was paused before it.
    over: VecDeque<(Mono, Duration)>,
    total: Duration,
}

impl LeaseClock {
    /// The lease clock of a server that starts now.
    pub(crate) fn new(now: Mono) -> Self {
        Self { ticked_ms: AtomicU64::new(now.0), paused_ms: AtomicU64::new(0), pauses: Mutex::default() }
    }

    /// Lease time at a monotonic time.
    pub(crate) fn at(&self, now: Mono) -> Mono {
        if !self.late(now).is_zero() {
            self.note_pause(now);
        }
        Mono((BEGIN + now.0).saturating_sub(self.paused_ms.load(Ordering::Acquire)))
    }

    /// How long ago it was `lease` on the lease clock, pauses included.
    pub(crate) fn age(&self, lease: Mono, now: Mono) -> Duration {
        self.at(now);
        Mono(BEGIN + now.0).since(self.pauses.lock().true_time(lease))
    }

    /// Notes a tick. Lease time since the one before.
    pub(crate) fn tick(&self, now: Mono) -> Duration {
        self.at(now);
        now.since(Mono(self.ticked_ms.swap(now.0, Ordering::Relaxed)))
    }

    /// By how much the next tick is late, if that is a pause.
    fn late(&self, now: Mono) -> Duration {
        let ticked = Mono(self.ticked_ms.load(Ordering::Relaxed));
        let late = now.since(ticked).saturating_sub(PERIOD);
        if late > PAUSED && !planted(Bug::PausesCounted) { late } else { Duration::ZERO }
    }

    fn note_pause(&self, now: Mono) {
        let mut pauses = self.pauses.lock();
        let (late, ticked) = (self.late(now), self.ticked_ms.load(Ordering::Relaxed));
        if late.is_zero() {
            return;
        }
        let late_ms = late.as_millis() as u64;
        // Whatever was heard after the last tick was heard before the pause: after it the tick is due at once.
        let due = BEGIN + ticked + PERIOD.as_millis() as u64 - self.paused_ms.load(Ordering::Relaxed);
        pauses.note(Mono(due), late);
        self.ticked_ms.store(ticked + late_ms, Ordering::Relaxed);
        self.paused_ms.fetch_add(late_ms, Ordering::Release);
    }
}

impl Pauses {
    /// Notes a pause after which the clock goes on at lease time `over`.
    fn note(&mut self, over: Mono, length: Duration) {
        if self.over.len() == REMEMBERED {
            self.over.pop_front();
        }
        self.over.push_back((over, self.total));
        self.total += length;
    }

    /// The monotonic time at which it was `lease` on the lease clock.
    fn true_time(&self, lease: Mono) -> Mono {
        let after = self.over.iter().find(|(over, _)| lease < *over);
        lease.plus(after.map_or(self.total, |(_, before)| *before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_heard_before_a_pause_is_as_old_as_the_pause_makes_it() {
        let mut pauses = Pauses::default();
        assert_eq!(pauses.true_time(Mono(500)), Mono(500));
        pauses.note(Mono(1000), Duration::from_millis(300));
        pauses.note(Mono(2000), Duration::from_millis(50));
        let times = [500, 999, 1000, 1999, 2000].map(|lease| pauses.true_time(Mono(lease)).0);
        assert_eq!(times, [500, 999, 1300, 2299, 2350]);
    }

    fn lease(at: u64) -> Mono {
        Mono(BEGIN + at)
    }

    #[test]
    fn a_pause_is_found_by_whoever_looks_first() {
        let clock = LeaseClock::new(Mono(0));
        clock.tick(Mono(1000));
        assert_eq!(clock.at(Mono(3900)), lease(3900), "late, but no pause");
        assert_eq!(clock.at(Mono(31_000)), lease(2000), "the tick was due 29 s ago");
        assert_eq!(clock.at(Mono(31_200)), lease(2200));
        assert_eq!(clock.tick(Mono(31_300)), Duration::from_millis(1300), "and is due no more by then");
        assert_eq!(clock.at(Mono(31_300)), lease(2300));
        let age = |at| clock.age(lease(at), Mono(31_300)).as_millis();
        assert_eq!([age(2200), age(2000)], [100, 300]);
        assert_eq!(age(1900), 29_400, "heard between the last tick and the pause");
    }

    #[test]
    fn what_was_heard_before_the_start_is_older_than_the_server() {
        let clock = LeaseClock::new(Mono(0));
        let heard = Mono(clock.at(Mono(500)).0 - 60_000);
        assert_eq!(clock.age(heard, Mono(700)), Duration::from_millis(60_200));
    }

    #[test]
    fn only_so_many_are_remembered() {
        let mut pauses = Pauses::default();
        for over in 0..1000 {
            pauses.note(Mono(over * 10), Duration::from_millis(1));
        }
        assert_eq!(pauses.over.len(), REMEMBERED);
        assert_eq!(pauses.true_time(Mono(9991)), Mono(10991));
    }
}
