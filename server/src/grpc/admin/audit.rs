//! One line for each call that changes something, whatever became of it.

use tonic::Extensions;

use crate::grpc::Connection;
use crate::grpc::status::Fault;
use crate::telemetry::AUDIT;

/// What somebody wants done.
pub(super) struct Act<'a> {
    pub(super) operation: &'static str,
    /// What it is done to.
    pub(super) key: String,
    pub(super) reason: &'a str,
}

/// Passes an outcome on and leaves a line about it. Nobody has a name before authentication, so the address stands
/// for who it was.
pub(super) fn audited<T>(
    act: &Act<'_>,
    extensions: &Extensions,
    outcome: Result<T, Fault>,
) -> Result<T, Fault> {
    let address = extensions.get::<Connection>().map(|connection| connection.0.address.to_string());
    let address = address.unwrap_or_default();
    let result = outcome.as_ref().map_or_else(Fault::as_str, |_| "OK");
    let Act { operation, key, reason } = act;
    tracing::info!(target: AUDIT, principal = "", address, operation, key, reason, result, "operator's call");
    outcome
}
