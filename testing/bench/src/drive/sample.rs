//! One measurement of one server.

use super::rows::Unit;
use crate::watch::Spread;

/// What was measured once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    /// The figure that the row is about, in its unit.
    pub(crate) figure: f64,
    /// How long single calls or events took.
    pub(crate) latencies: Option<Spread>,
    /// Seconds that the server was on a processor for each operation or delivery.
    pub(crate) cpu: Option<f64>,
    /// What else is worth a line, the same in every measurement of a row.
    pub(crate) extras: Vec<Extra>,
}

/// A further figure.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Extra {
    pub(crate) name: &'static str,
    pub(crate) value: f64,
    pub(crate) unit: Unit,
}

impl Sample {
    /// The same with a further figure.
    pub(crate) fn with(mut self, name: &'static str, value: f64, unit: Unit) -> Self {
        self.extras.push(Extra { name, value, unit });
        self
    }
}
