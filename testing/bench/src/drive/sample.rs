//! One measurement of one server.

use crate::watch::Spread;

/// What was measured once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    /// The figure that the row is about, in its unit.
    pub(crate) figure: f64,
    /// How long single calls or events took.
    pub(crate) latencies: Option<Spread>,
    /// Seconds that the server was on a processor for each operation or delivery.
    pub(crate) cpu: Option<f64>,
    /// The figure after some changes, for what is held.
    pub(crate) after: Option<f64>,
}
