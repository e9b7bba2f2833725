//! The surface as its callers meet it, in process and on clocks that stand still.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that meets the unexpected fails by panicking")]

mod batches;
mod clients;
mod contract;
mod deviations;
mod differential;
mod documents;
mod families;
mod field_cases;
mod hostile;
mod lists;
mod merges;
mod mirrors;
mod outbox;
mod page;
mod readers;
mod replay;
mod support;
mod surface;
mod vectors;
mod wire;
