//! The stopwatch. Time is measured here and nowhere else in this program.

#![expect(clippy::disallowed_methods, reason = "durations are what this program is for")]

use std::time::Instant;

/// Seconds that `work` has this thread on a processor: what it takes when nothing else wants the machine. Waiting
/// for another thread is not in it. Where the system does not tell, seconds that pass.
pub(crate) fn worked(work: impl FnOnce()) -> f64 {
    let before = on_processor();
    let (passed, ()) = timed(work);
    match (before, on_processor()) {
        (Some(before), Some(after)) => (after - before) as f64 / 1e9,
        _ => passed,
    }
}

/// Nanoseconds that this thread has run.
fn on_processor() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// Seconds that pass while `work` runs, and what it returns.
pub(crate) fn timed<R>(work: impl FnOnce() -> R) -> (f64, R) {
    let start = Instant::now();
    let result = work();
    (start.elapsed().as_secs_f64(), result)
}

/// Median of several measurements.
pub(crate) fn median<const N: usize>(mut measure: impl FnMut() -> f64) -> f64 {
    let mut seconds = [0.0; N].map(|_: f64| measure());
    seconds.sort_unstable_by(f64::total_cmp);
    seconds[N / 2]
}

/// Nanoseconds of each of several operations.
#[derive(Default)]
pub(crate) struct Latencies(Vec<u64>);

impl Latencies {
    /// Measures each call of `work`; reading the clock adds some 25 ns to each.
    pub(crate) fn of(operations: usize, mut work: impl FnMut(usize)) -> Self {
        let mut latencies = Self(Vec::with_capacity(operations));
        for operation in 0..operations {
            let begun = latencies.begin();
            work(operation);
            latencies.end(begun);
        }
        latencies.sorted()
    }

    /// Begins an operation.
    pub(crate) fn begin(&self) -> Instant {
        Instant::now()
    }

    /// Ends it.
    pub(crate) fn end(&mut self, begun: Instant) {
        self.0.push(begun.elapsed().as_nanos() as u64);
    }

    pub(crate) fn merged(all: impl IntoIterator<Item = Self>) -> Self {
        Self(all.into_iter().flat_map(|latencies| latencies.0).collect()).sorted()
    }

    /// Ready for [`Latencies::at`].
    pub(crate) fn sorted(mut self) -> Self {
        self.0.sort_unstable();
        self
    }

    /// The latency that this share of the operations does not exceed.
    pub(crate) fn at(&self, share: f64) -> f64 {
        let last = self.0.len().saturating_sub(1);
        self.0.get((last as f64 * share) as usize).map_or(0.0, |nanos| *nanos as f64)
    }
}
