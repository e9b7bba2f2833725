//! The core alone: no socket, no parsing, requests prepared.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use heureka_model::{Instance, KeyRef, Now, Selector, Selectors, Status};
use heureka_registry::{Beat, Registry, Start, Subscription};

use crate::instances::{self, Keys, ORIGIN, START, Values};
use crate::report;
use crate::watch::{Latencies, median, timed, worked};

/// Instances prepared at a time; preparing is not measured.
const PREPARED: usize = 25_000;

/// Operations per measurement of a writer; at most a fifth of the instances.
const WRITES: usize = 200_000;

/// Changes in the delta.
const DELTA: usize = 10_000;

/// Entries a scanning reader asks for at a time.
const CHUNK: usize = 512;

/// A registry and what it is measured with.
struct Desk {
    registry: Arc<Registry>,
    count: usize,
    /// Operations per measurement of a writer.
    writes: usize,
    keys: Keys,
}

/// Prints every figure of the core, with so many instances.
pub(crate) fn run(count: usize) {
    report::part(&format!("core, {count} instances, eight of ten metadata values shared"));
    let desk = Desk {
        registry: Arc::new(instances::empty()),
        count,
        writes: WRITES.min(count / 5),
        keys: Keys::of(instances::shuffled(count)),
    };
    desk.registering();
    desk.renewing();
    desk.expiring();
    desk.replacing();
    desk.changing();
    desk.two_writers();
    desk.resuming();
    desk.delta();
}

impl Desk {
    fn registering(&self) {
        let numbers: Vec<usize> = (0..self.count).collect();
        let seconds = numbers.chunks(PREPARED).map(|numbers| worked(self.prepared(numbers, 0))).sum();
        report::line("register, new, one thread", &report::rate(self.count, seconds), "");
    }

    fn renewing(&self) {
        let head = self.registry.head();
        let all = || self.keys.iter().for_each(|key| self.renew(key, None, START));
        let seconds = median::<5>(|| worked(all));
        report::line("renew by id, one thread", &report::rate(self.count, seconds), ">= 3 M/s");
        let (seconds, ()) = timed(|| {
            std::thread::scope(|scope| {
                scope.spawn(all);
                scope.spawn(all);
            });
        });
        report::line("renew by id, two threads", &report::rate(2 * self.count, seconds), "");
        let revisions = self.registry.head() - head;
        report::line("revisions that these renewals took", &revisions.to_string(), "0");
    }

    fn expiring(&self) {
        let mut now = START;
        let seconds = median::<9>(|| {
            now = later(now, Duration::from_secs(1));
            timed(|| self.registry.tick(now)).0
        });
        report::line("expiry scan of all, nothing lapsed (a tick)", &report::millis(seconds), "<= 5 ms");
    }

    /// A registration with other content, alone and beside readers.
    fn replacing(&self) {
        let order = instances::shuffled(self.count);
        let mut chunks = order.chunks(PREPARED).cycle().zip(1..);
        self.compare("register, changed", || {
            let chunks = chunks.by_ref().take(self.writes.div_ceil(PREPARED));
            let mut written = 0;
            let seconds: f64 = chunks
                .map(|(numbers, version)| {
                    written += numbers.len();
                    timed(self.prepared(numbers, version)).0
                })
                .sum();
            seconds / written as f64
        });
    }

    /// A status that comes with a renewal: little but the log.
    fn changing(&self) {
        let mut turn = 0;
        self.compare("status change", || {
            turn += 1;
            let keys = self.keys.iter().take(self.writes);
            timed(|| keys.for_each(|key| self.renew(key, Some(status(turn)), START))).0 / self.writes as f64
        });
    }

    /// Measures a writer alone, then beside a reader that takes everything, then beside one that looks at
    /// everything and takes nothing: the fastest scan there is. `write` tells its seconds per operation.
    fn compare(&self, what: &str, mut write: impl FnMut() -> f64) {
        write();
        let alone = median::<3>(&mut write);
        report::line(&format!("{what}, one writer alone"), &report::rate(1, alone), "");
        let nothing = Selector { apps: ["NONE".to_owned()].into(), ..Selector::default() };
        let readers = [
            ("delivers everything", Selectors::default()),
            ("looks at everything", Selectors::new(vec![nothing])),
        ];
        for (reader, selectors) in readers {
            let (beside, read) = self.beside_reader(&selectors, || median::<3>(&mut write));
            let share = format!("{:.0} %", alone / beside * 100.0);
            report::line(&format!("  beside a reader that {reader} over and over"), &share, ">= 80 %");
            report::line("    which meanwhile passes, instances", &format!("{:.2} M/s", read / 1e6), "");
        }
    }

    /// Runs `work` while a reader scans, and tells how many instances the reader passed per second.
    fn beside_reader(&self, selectors: &Selectors, work: impl FnOnce() -> f64) -> (f64, f64) {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| timed(|| self.scan(selectors, &stop)));
            let result = work();
            stop.store(true, Ordering::Relaxed);
            let (seconds, passed) = reader.join().unwrap_or_default();
            (result, passed / seconds.max(f64::MIN_POSITIVE))
        })
    }

    /// Reads everything from the start again and again; the instances passed.
    fn scan(&self, selectors: &Selectors, stop: &AtomicBool) -> f64 {
        let mut passes = 0.0;
        while !stop.load(Ordering::Relaxed) {
            let mut reader = Subscription::new(&self.registry, selectors.clone(), Start::Full);
            let head = self.registry.head() as f64;
            while !stop.load(Ordering::Relaxed) && !reader.poll(&self.registry, CHUNK, START).at_head {}
            passes += (reader.position() as f64 / head).min(1.0);
        }
        passes * self.count as f64
    }

    /// What one change takes while another thread changes too. Waiting for the sequencer is a part of it.
    fn two_writers(&self) {
        let write = |first: usize, turn: u64| {
            Latencies::of(self.writes, |n| self.renew(self.keys.at(first + n), Some(status(turn)), START))
        };
        write(self.writes, 0);
        let alone = write(0, 1);
        let (seconds, both) = timed(|| {
            std::thread::scope(|scope| {
                let writers =
                    [0, self.writes].map(|first| scope.spawn(move || write(first, 2 + (first > 0) as u64)));
                writers.map(std::thread::ScopedJoinHandle::join)
            })
        });
        let both = Latencies::merged(both.into_iter().flatten());
        report::line("status change, two writers", &report::rate(2 * self.writes, seconds), "");
        for (name, share) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
            let target = if name == "p99.9" { "<= 5 µs for the wait in it" } else { "" };
            let figure = format!("{} / {}", report::micros(both.at(share)), report::micros(alone.at(share)));
            report::line(&format!("  one change as a whole, {name}, two writers / one"), &figure, target);
        }
    }

    fn resuming(&self) {
        let far = self.registry.head() / 2;
        let seconds = median::<5>(|| {
            let mut reader = Subscription::new(&self.registry, Selectors::default(), Start::After(far));
            timed(|| drop(reader.poll(&self.registry, 256, START))).0
        });
        report::line("resume from half the log back, first 256 changes", &report::millis(seconds), "");
    }

    /// The Eureka delta, when so many instances changed within its window.
    fn delta(&self) {
        let mut now = START;
        for _ in 0..400 {
            now = later(now, Duration::from_secs(1));
            self.registry.tick(now);
        }
        self.keys.iter().take(DELTA).for_each(|key| self.renew(key, Some(Status::Starting), now));
        let told = self.registry.delta(now).changes.len();
        let seconds = median::<5>(|| timed(|| drop(self.registry.delta(now))).0);
        report::line(&format!("delta of {told} changes"), &report::millis(seconds), "<= 1 ms");
    }

    /// Work that registers these instances in this version; preparing them is done at once.
    fn prepared(&self, numbers: &[usize], version: usize) -> impl FnOnce() {
        let prepared: Vec<Instance> =
            numbers.iter().map(|n| instances::instance(*n, Values::Shared, version)).collect();
        let registry = Arc::clone(&self.registry);
        move || prepared.iter().for_each(|instance| instances::register(&registry, instance))
    }

    fn renew(&self, key: KeyRef<'_>, status: Option<Status>, now: Now) {
        let renewed = self.registry.renew(key, Beat::Plain, status, &ORIGIN, now);
        assert!(renewed.is_ok(), "every key of the bench is registered");
    }
}

fn later(now: Now, by: Duration) -> Now {
    Now { mono: now.mono.plus(by), wall: now.wall.plus(by) }
}

fn status(turn: u64) -> Status {
    if turn.is_multiple_of(2) { Status::Down } else { Status::Up }
}
