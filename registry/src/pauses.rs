//! The server's own pauses. Leases do not go on in them, so that nobody's lease runs out while nobody could renew;
//! how old a sign of life truly is counts them in, since other servers went on.

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

/// Pauses remembered. Those before the oldest count against leases again.
const REMEMBERED: usize = 64;

/// Moment of the server's start. What it is told of may have been heard longer ago than it runs, and must not look
/// younger for that.
const BEGIN: u64 = 2 * LEASE_MAX.as_millis() as u64;

/// Dates signs of life, and tells how long leases have gone on since: by monotonic time without the server's own
/// pauses. A pause is found by whoever looks first after it, so that nothing that comes before the late tick is taken
/// for heard before the pause was over.
#[derive(Debug)]
pub(crate) struct LeaseClock {
    /// Monotonic time of the last tick, moved on by each pause found since.
    ticked_ms: AtomicU64,
    /// All that was paused.
    paused_ms: AtomicU64,
    pauses: Mutex<VecDeque<Pause>>,
}

/// Moments between which the server stood still.
#[derive(Clone, Copy, Debug)]
struct Pause {
    from: Mono,
    until: Mono,
}

/// One reading of the clock.
#[derive(Debug)]
pub(crate) struct Reading {
    moment: Mono,
    /// In the order in which they came.
    pauses: VecDeque<Pause>,
}

impl LeaseClock {
    /// The lease clock of a server that starts now.
    pub(crate) fn new(now: Mono) -> Self {
        Self { ticked_ms: AtomicU64::new(now.0), paused_ms: AtomicU64::new(0), pauses: Mutex::default() }
    }

    /// The moment of a monotonic time. Pauses are part of the time between two moments.
    pub(crate) fn moment(&self, now: Mono) -> Mono {
        if !self.late(now).is_zero() {
            self.note_pause(now);
        }
        Mono(BEGIN + now.0)
    }

    /// The clock as it stands, for many looks.
    pub(crate) fn read(&self, now: Mono) -> Reading {
        Reading { moment: self.moment(now), pauses: self.pauses.lock().clone() }
    }

    /// All that was paused until now.
    pub(crate) fn paused(&self, now: Mono) -> Duration {
        self.moment(now);
        Duration::from_millis(self.paused_ms.load(Ordering::Acquire))
    }

    /// Notes a tick. Time since the one before, without pauses.
    pub(crate) fn tick(&self, now: Mono) -> Duration {
        self.moment(now);
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
        if pauses.len() == REMEMBERED {
            pauses.pop_front();
        }
        // From when the tick was due: after the pause it is due at once.
        let from = Mono(BEGIN + ticked).plus(PERIOD);
        pauses.push_back(Pause { from, until: from.plus(late) });
        let late_ms = late.as_millis() as u64;
        self.ticked_ms.store(ticked + late_ms, Ordering::Relaxed);
        self.paused_ms.fetch_add(late_ms, Ordering::Release);
    }
}

impl Reading {
    /// How much of a lease has passed since a moment: the time without what was paused of it.
    pub(crate) fn since(&self, heard: Mono) -> Duration {
        let later = self.pauses.iter().rev().take_while(|pause| pause.until > heard);
        let paused = later.map(|pause| pause.until.since(pause.from.max(heard))).sum();
        self.moment.since(heard).saturating_sub(paused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(at: u64) -> Mono {
        Mono(BEGIN + at)
    }

    /// What has passed of leases since these times.
    fn passed<const N: usize>(clock: &LeaseClock, now: u64, heard: [u64; N]) -> [u64; N] {
        let reading = clock.read(Mono(now));
        heard.map(|at| reading.since(moment(at)).as_millis() as u64)
    }

    #[test]
    fn leases_go_on_without_what_was_paused_of_them() {
        let clock = LeaseClock::new(Mono(0));
        clock.tick(Mono(1000));
        clock.tick(Mono(12_000));
        clock.tick(Mono(13_000));
        clock.tick(Mono(20_000));
        assert_eq!(clock.paused(Mono(20_000)), Duration::from_secs(16));
        let heard = [500, 2000, 7000, 12_000, 13_500, 17_000, 20_000];
        assert_eq!(passed(&clock, 20_500, heard), [4000, 2500, 2500, 2500, 1000, 500, 500]);
    }

    #[test]
    fn a_pause_is_found_by_whoever_looks_first() {
        let clock = LeaseClock::new(Mono(0));
        clock.tick(Mono(1000));
        assert_eq!(passed(&clock, 3900, [1000]), [2900], "late, but no pause");
        assert_eq!(clock.moment(Mono(31_000)), moment(31_000));
        assert_eq!(passed(&clock, 31_000, [1000]), [1000], "the tick was due 29 s ago");
        assert_eq!(clock.tick(Mono(31_300)), Duration::from_millis(1300), "and is due no more by then");
        assert_eq!(passed(&clock, 31_300, [1900, 31_000, 31_200]), [400, 300, 100]);
    }

    #[test]
    fn what_was_heard_before_the_start_is_older_than_the_server() {
        let clock = LeaseClock::new(Mono(0));
        let heard = Mono(clock.moment(Mono(500)).0 - 60_000);
        assert_eq!(clock.read(Mono(700)).since(heard), Duration::from_millis(60_200));
    }

    #[test]
    fn only_so_many_are_remembered() {
        let clock = LeaseClock::new(Mono(0));
        for tick in 1..=100 {
            clock.tick(Mono(tick * 4000));
        }
        assert_eq!(clock.read(Mono(400_000)).pauses.len(), REMEMBERED);
        assert_eq!(passed(&clock, 400_000, [396_000, 0]), [1000, 400_000 - 3000 * REMEMBERED as u64]);
    }
}
