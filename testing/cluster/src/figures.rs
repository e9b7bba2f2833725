//! Figures for people.

use std::fmt;
use std::time::Duration;

/// Durations, to be told by their quantiles.
#[derive(Clone, Debug, Default)]
pub struct Times(Vec<Duration>);

impl Times {
    /// Takes one more.
    pub fn push(&mut self, took: Duration) {
        self.0.push(took);
    }

    /// Takes all of the others.
    pub fn append(&mut self, others: &Self) {
        self.0.extend(&others.0);
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The duration that this share of all does not exceed; zero without any.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a share of a length"
        )]
        let place = (share * sorted.len() as f64).ceil() as usize;
        sorted.get(place.max(1) - 1).copied().unwrap_or_default()
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p50 {} p99 {}", millis(self.quantile(0.5)), millis(self.quantile(0.99)))
    }
}

/// A duration in milliseconds with one digit behind the point.
#[must_use]
pub fn millis(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1000.0)
}

/// A duration in seconds with two digits behind the point.
#[must_use]
pub fn seconds(duration: Duration) -> String {
    format!("{:.2} s", duration.as_secs_f64())
}

/// A size in MiB.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
pub fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / 1_048_576.0)
}

/// The value of a series in Prometheus text: the sum over its labels.
#[must_use]
pub fn series(text: &str, name: &str) -> f64 {
    let lines = text.lines().filter_map(|line| line.strip_prefix(name));
    let values =
        lines.filter(|rest| rest.starts_with([' ', '{'])).filter_map(|rest| rest.split(' ').next_back());
    values.filter_map(|value| value.parse::<f64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_occurred() {
        let mut times = Times::default();
        assert_eq!(times.quantile(0.99), Duration::ZERO);
        (1..=100).rev().for_each(|ms| times.push(Duration::from_millis(ms)));
        assert_eq!(times.quantile(0.5), Duration::from_millis(50));
        assert_eq!(times.quantile(0.99), Duration::from_millis(99));
        assert_eq!(times.quantile(1.0), Duration::from_millis(100));
        assert_eq!(times.to_string(), "p50 50.0 ms p99 99.0 ms");
    }

    #[test]
    fn a_series_is_summed_over_its_labels_and_not_mistaken_for_a_longer_name() {
        let text = "# HELP a_b x\na_b{c=\"1\"} 2\na_b{c=\"x y\"} 3\na_b_total 7\n";
        assert!((series(text, "a_b") - 5.0).abs() < f64::EPSILON);
        assert!((series(text, "a_b_total") - 7.0).abs() < f64::EPSILON);
        assert!(series(text, "none").abs() < f64::EPSILON);
    }
}
