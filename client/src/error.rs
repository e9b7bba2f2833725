//! Why a call failed.

use heureka_model::Invalid;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

/// A failure.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address of the server is no URI.
    #[error("{0} is no address of a server")]
    Address(String),
    /// The server refused, or could not be reached.
    #[error("{reason}: {message}")]
    Refused {
        /// Canonical code of gRPC.
        code: Code,
        /// Stable reason of `docs/errors.md`; the code's name when the server gave none.
        reason: String,
        /// Text for people.
        message: String,
        /// Path of the field at fault.
        field: Option<String>,
    },
    /// The server sent something that this client cannot read.
    #[error("the server sent something unreadable")]
    Unreadable(#[from] Invalid),
}

impl Error {
    /// Whether the same call may succeed later or elsewhere.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Refused { code, .. } => !matches!(
                code,
                Code::InvalidArgument | Code::Unauthenticated | Code::PermissionDenied | Code::Unimplemented
            ),
            Self::Address(_) | Self::Unreadable(_) => false,
        }
    }

    /// Whether the server gave this reason.
    #[must_use]
    pub fn is(&self, wanted: &str) -> bool {
        matches!(self, Self::Refused { reason, .. } if reason == wanted)
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        let details = status.get_error_details();
        let reason =
            details.error_info().map_or_else(|| format!("{:?}", status.code()), |info| info.reason.clone());
        let violation = details.bad_request().and_then(|request| request.field_violations.first());
        Self::Refused {
            code: status.code(),
            reason,
            message: status.message().to_owned(),
            field: violation.map(|violation| violation.field.clone()),
        }
    }
}

/// Version of the owner that the server stores, when it refused for that.
pub(crate) fn stored_owner(status: &Status) -> Option<u64> {
    let details = status.get_error_details();
    let info = details.error_info().filter(|info| info.reason == "STALE_VERSION")?;
    info.metadata.get("stored_owner")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use tonic_types::ErrorDetails;

    use super::*;

    fn stale(owner: &str) -> Status {
        let metadata = [("stored_owner".to_owned(), owner.to_owned())];
        let details = ErrorDetails::with_error_info("STALE_VERSION", "heureka", metadata);
        Status::with_error_details(Code::Aborted, "stale", details)
    }

    #[test]
    fn reasons_and_fields_are_read_from_the_details() {
        let mut details = ErrorDetails::with_error_info("INVALID_INSTANCE", "heureka", []);
        details.add_bad_request_violation("instance.key", "is required");
        let error = Error::from(Status::with_error_details(Code::InvalidArgument, "m", details));
        assert!(error.is("INVALID_INSTANCE") && !error.is_passing());
        assert!(matches!(error, Error::Refused { field: Some(field), .. } if field == "instance.key"));
    }

    #[test]
    fn a_status_without_details_is_named_by_its_code() {
        let error = Error::from(Status::unavailable("down"));
        assert!(error.is("Unavailable") && error.is_passing());
    }

    #[test]
    fn the_stored_version_is_read_or_left() {
        assert_eq!(stored_owner(&stale("41")), Some(41));
        assert_eq!(stored_owner(&stale("many")), None);
        assert_eq!(stored_owner(&Status::aborted("x")), None);
    }
}
