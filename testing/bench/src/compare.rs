//! Two builds of the server side by side, and whether the newer is worse.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::drive::{Bench, Pace, Row, Sample, Turns};
use crate::report;
use crate::server::Program;
use crate::watch::middle;

/// Share of a figure that may be lost beyond the spread of the measurements.
const MARGIN: f64 = 0.05;

/// Times that a row is measured before it counts as worse.
const TIMES: usize = 3;

/// Shorter turns than of a figure that stands alone, but more of them.
const PACE: Pace = Pace {
    time: Duration::from_millis(800),
    warm: Duration::from_millis(400),
    turns: 7,
    changes: 40,
    instances: 10_000,
    shared: 100,
    single: 9900,
    steady: (10, Duration::from_secs(1)),
    large: (2000, 20_000),
    connections: 2000,
    rest: Duration::from_millis(500),
    fresh: 3,
};

/// Prints these rows of both builds and tells whether none of them got worse.
///
/// # Errors
/// A server that does not start or dies, a connection that breaks, a call that fails.
pub(crate) fn run(old: PathBuf, new: PathBuf, rows: &[Row]) -> io::Result<bool> {
    let programs = [Program::Binary(old), Program::Binary(new)];
    for program in &programs {
        program.start()?;
    }
    report::machine();
    let bench = Bench::new(PACE)?;
    report::comparison(MARGIN);
    let mut worse = 0;
    for row in rows.iter().filter(|row| row.is_of_any_build()) {
        let found = settled(&bench, row, &programs)?;
        report::compared(row, &found);
        worse += usize::from(found.is_worse());
    }
    report::compared_all(worse);
    Ok(worse == 0)
}

/// Measures a row, with fresh servers once more as long as it looks worse: chance seldom says the same three times.
fn settled(bench: &Bench, row: &Row, programs: &[Program; 2]) -> io::Result<Found> {
    let mut found = Found::of(row, &bench.measure(row, programs)?);
    for _ in 1..TIMES {
        if !found.is_worse() {
            break;
        }
        found = Found::of(row, &bench.measure(row, programs)?);
    }
    Ok(found)
}

/// What was found of a row.
pub(crate) struct Found {
    pub(crate) old: Sample,
    pub(crate) new: Sample,
    /// How many times better the new build is by the row's figure.
    pub(crate) figure: Gain,
    /// The same by its time on a processor, where that is known.
    pub(crate) cpu: Option<Gain>,
}

/// How many times better one side is: the middle of all turns, and how far turns lie from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Gain {
    pub(crate) middle: f64,
    pub(crate) spread: f64,
}

impl Found {
    fn of(row: &Row, turns: &Turns) -> Self {
        let gains = turns.iter().map(|sides| row.gain(sides[0].figure, sides[1].figure));
        let cpu: Option<Vec<f64>> = turns.iter().map(|sides| Some(sides[0].cpu? / sides[1].cpu?)).collect();
        Self {
            old: report::median(turns, 0),
            new: report::median(turns, 1),
            figure: Gain::of(gains.collect()),
            cpu: cpu.map(Gain::of),
        }
    }

    /// Whether the new build is worse by any measure.
    pub(crate) fn is_worse(&self) -> bool {
        self.figure.is_loss() || self.cpu.is_some_and(Gain::is_loss)
    }
}

impl Gain {
    fn of(gains: Vec<f64>) -> Self {
        let middle_gain = middle(gains.iter().copied());
        let spread = middle(gains.into_iter().map(|gain| (gain - middle_gain).abs()));
        Self { middle: middle_gain, spread }
    }

    /// Whether more than the margin is lost even with twice the spread in its favour.
    pub(crate) fn is_loss(self) -> bool {
        self.middle + 2.0 * self.spread < 1.0 - MARGIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::ROWS;

    fn turns(figures: &[(f64, f64)], cpu: (f64, f64)) -> Turns {
        let sample = |figure, cpu| Sample { figure, cpu: Some(cpu), ..Sample::default() };
        figures.iter().map(|(old, new)| vec![sample(*old, cpu.0), sample(*new, cpu.1)]).collect()
    }

    fn is_worse(figures: &[(f64, f64)], cpu: (f64, f64)) -> bool {
        Found::of(&ROWS[0], &turns(figures, cpu)).is_worse()
    }

    #[test]
    fn a_clear_loss_is_worse() {
        assert!(is_worse(&[(100.0, 80.0), (100.0, 82.0), (100.0, 78.0)], (1.0, 1.0)));
    }

    #[test]
    fn a_loss_within_the_margin_is_not() {
        assert!(!is_worse(&[(100.0, 96.0), (100.0, 96.0), (100.0, 96.0)], (1.0, 1.0)));
    }

    #[test]
    fn a_loss_within_the_spread_is_not() {
        assert!(!is_worse(&[(100.0, 90.0), (100.0, 82.0), (100.0, 70.0)], (1.0, 1.0)));
    }

    #[test]
    fn more_time_on_a_processor_is_worse_at_the_same_rate() {
        assert!(is_worse(&[(100.0, 100.0); 3], (1.0, 1.2)));
    }

    #[test]
    fn the_spread_is_the_middle_distance() {
        assert_eq!(Gain::of(vec![0.9, 1.0, 1.3]), Gain { middle: 1.0, spread: 0.09999999999999998 });
    }
}
