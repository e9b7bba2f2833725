//! When which revision was the head, to the second: how a time window becomes a range of the log.

use std::collections::VecDeque;
use std::time::Duration;

use heureka_model::Mono;

/// Readings of the head over the last window.
pub(crate) struct History {
    window: Duration,
    readings: VecDeque<(Mono, u64)>,
}

impl History {
    pub(crate) fn new(window: Duration) -> Self {
        Self { window, readings: VecDeque::new() }
    }

    /// Remembers the head of this moment; one reading a tick is enough.
    pub(crate) fn note(&mut self, head: u64, now: Mono) {
        self.readings.push_back((now, head));
        while self.readings.get(1).is_some_and(|(at, _)| now.since(*at) >= self.window) {
            self.readings.pop_front();
        }
    }

    /// A revision after which everything of the last window lies; a tick more may lie there too.
    pub(crate) fn start(&self, now: Mono) -> u64 {
        let old_enough = |(at, _): &&(Mono, u64)| now.since(*at) >= self.window;
        self.readings.iter().rev().find(old_enough).map_or(0, |(_, head)| *head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_starts_at_the_last_head_that_is_old_enough() {
        let mut history = History::new(Duration::from_secs(3));
        assert_eq!(history.start(Mono(0)), 0);
        for second in 0..10 {
            history.note(second * 100, Mono(second * 1000));
        }
        assert_eq!(history.start(Mono(9000)), 600);
        assert_eq!(history.start(Mono(9999)), 600);
        assert!(history.readings.len() <= 5);
    }
}
