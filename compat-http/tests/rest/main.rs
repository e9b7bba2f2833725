//! The surface as its callers meet it, in process and on clocks that stand still.

mod deviations;
mod documents;
mod field_cases;
mod hostile;
mod readers;
mod replay;
mod support;
mod vectors;
