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

/// The same of work that waits.
pub(crate) async fn timed_async<R>(work: impl Future<Output = R>) -> (f64, R) {
    let start = Instant::now();
    let result = work.await;
    (start.elapsed().as_secs_f64(), result)
}

/// Median of several measurements.
pub(crate) fn median<const N: usize>(mut measure: impl FnMut() -> f64) -> f64 {
    middle((0..N).map(|_| measure()))
}

/// How latencies spread, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Spread {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

/// The value in the middle, the upper one of two; nothing of nothing.
pub(crate) fn middle(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Nanoseconds of each of several operations.
#[derive(Default)]
pub(crate) struct Latencies(Vec<u64>);

impl Latencies {
    /// Measures each call of `work`; reading the clock adds some 25 ns to each.
    pub(crate) fn of(operations: usize, mut work: impl FnMut(usize)) -> Self {
        let mut latencies = Self(Vec::with_capacity(operations));
        for operation in 0..operations {
            let begun = Self::begin();
            work(operation);
            latencies.end(begun);
        }
        latencies.sorted()
    }

    /// Begins an operation.
    pub(crate) fn begin() -> Instant {
        Instant::now()
    }

    /// Ends it.
    pub(crate) fn end(&mut self, begun: Instant) {
        self.0.push(begun.elapsed().as_nanos() as u64);
    }

    /// Ends so many operations at once that began together.
    pub(crate) fn end_of(&mut self, operations: usize, begun: Instant) {
        let nanos = begun.elapsed().as_nanos() as u64;
        self.0.extend(std::iter::repeat_n(nanos, operations));
    }

    pub(crate) fn merged(all: impl IntoIterator<Item = Self>) -> Self {
        Self(all.into_iter().flat_map(|latencies| latencies.0).collect()).sorted()
    }

    /// Ready for [`Latencies::at`].
    pub(crate) fn sorted(mut self) -> Self {
        self.0.sort_unstable();
        self
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Median, 99th percentile and the longest.
    pub(crate) fn spread(&self) -> Spread {
        Spread { p50: self.at(0.5), p99: self.at(0.99), max: self.at(1.0) }
    }

    /// The latency that this share of the operations does not exceed.
    pub(crate) fn at(&self, share: f64) -> f64 {
        let last = self.0.len().saturating_sub(1);
        self.0.get((last as f64 * share) as usize).map_or(0.0, |nanos| *nanos as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latencies(nanos: impl IntoIterator<Item = u64>) -> Latencies {
        Latencies(nanos.into_iter().collect()).sorted()
    }

    #[test]
    fn shares_are_of_all_operations() {
        let hundred = latencies((1..=100).rev());
        assert_eq!(hundred.spread(), Spread { p50: 50.0, p99: 99.0, max: 100.0 });
        assert_eq!(latencies([7]).spread(), Spread { p50: 7.0, p99: 7.0, max: 7.0 });
        assert_eq!(latencies([]).spread(), Spread::default());
    }

    #[test]
    fn merged_latencies_are_in_order() {
        let both = Latencies::merged([latencies([1, 5]), latencies([3])]);
        assert_eq!((both.at(0.0), both.at(0.5), both.at(1.0)), (1.0, 3.0, 5.0));
    }

    #[test]
    fn the_middle_is_neither_first_nor_last() {
        assert_eq!(middle([9.0, 1.0, 5.0]), 5.0);
        assert_eq!(middle([4.0, 1.0]), 4.0);
        assert_eq!(middle([]), 0.0);
    }
}
