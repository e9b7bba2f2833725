//! Why a call failed.

use std::time::Duration;

use heureka_model::{InstanceKey, Invalid};
use heureka_proto::convert::duration;
use heureka_proto::v1;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

/// Domain of the reasons of `docs/errors.md`.
const DOMAIN: &str = "heureka";

/// A failure.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// The address of the server is not `http://host[:port]`, or `https` with the feature `tls`.
    #[error("`{0}` is no address of a server: {wanted}", wanted = wanted(.0, cfg!(feature = "tls")))]
    Address(String),
    /// The server at an address with `https` cannot be believed: there is no certificate in
    /// [`Settings::ca`](crate::Settings::ca), or one that is damaged.
    #[error("`{0}` needs certificates in PEM in Settings::ca")]
    Authority(String),
    /// The list of servers is empty.
    #[error("no server is named")]
    NoServer,
    /// No instance of the application is UP.
    #[error("no instance of {0} is up")]
    NoInstance(String),
    /// The instance has no enabled port, or neither host name nor address.
    #[error("{0} has no enabled port or no host")]
    NoEndpoint(InstanceKey),
    /// The server refused, or could not be reached.
    #[error("{reason}: {message}")]
    Refused {
        /// Canonical code of gRPC.
        code: Code,
        /// Stable reason of `docs/errors.md`; the code's name, such as `Unavailable`, when there was none of the
        /// registry's own.
        reason: String,
        /// Text for people.
        message: String,
        /// Path of the field at fault.
        field: Option<String>,
        /// Wait that the server asked for.
        retry_after: Option<Duration>,
    },
    /// Another writer left the instance at the greatest version there is, so nothing can be written over it until a
    /// server has forgotten it.
    #[error("the version of {0} cannot be exceeded: it is {max}", max = u64::MAX)]
    Version(InstanceKey),
    /// The server sent something that this client cannot read.
    #[error("the server sent something unreadable")]
    Unreadable(#[from] Invalid),
}

impl Error {
    /// Whether the same call may succeed later or elsewhere. A refusal of rights or of the method lasts when it has a
    /// reason of the registry's own; without one it comes from something on the way, or from another program on the
    /// port, and passes.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Refused { code: Code::InvalidArgument, .. } => false,
            Self::Refused { code, reason, .. } => {
                let is_verdict = is_verdict(*code) && *reason != name(*code);
                !is_verdict && reason != "MESSAGE_TOO_LARGE"
            }
            Self::NoInstance(_) => true,
            Self::Address(_)
            | Self::Authority(_)
            | Self::NoServer
            | Self::NoEndpoint(_)
            | Self::Version(_)
            | Self::Unreadable(_) => false,
        }
    }

    /// The runtime ended before the call was answered.
    pub(crate) fn abandoned() -> Self {
        Status::cancelled("the runtime ended").into()
    }

    /// A server keeps what it stores at this version, however often the own one is raised.
    pub(crate) fn overtaken(stored: u64) -> Self {
        let metadata = [("stored_owner".to_owned(), stored.to_string())];
        let details = ErrorDetails::with_error_info("STALE_VERSION", "heureka", metadata);
        let message = format!("not applied: the server stores version {stored}");
        Status::with_error_details(Code::Aborted, message, details).into()
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
        let violation = details.bad_request().and_then(|request| request.field_violations.first());
        Self::Refused {
            code: status.code(),
            reason: reason(&status).unwrap_or_else(|| name(status.code())),
            message: status.message().to_owned(),
            field: violation.map(|violation| violation.field.clone()),
            retry_after: details.retry_info().and_then(|info| info.retry_delay),
        }
    }
}

/// Codes that say for good what the caller may not or cannot do, when the registry gives them.
fn is_verdict(code: Code) -> bool {
    matches!(code, Code::Unauthenticated | Code::PermissionDenied | Code::Unimplemented)
}

/// What is wrong with an address, in a build with TLS or without.
pub(crate) fn wanted(address: &str, has_tls: bool) -> &'static str {
    let scheme = address.split_once("://").map_or("", |(scheme, _)| scheme);
    match (scheme.eq_ignore_ascii_case("https"), has_tls) {
        (true, false) => "https takes the feature tls of heureka-client",
        (true, true) => "https://host:port without a path is wanted",
        (false, _) => "http://host:port without a path is wanted",
    }
}

/// Whether another server may do what this one did not: it cannot be reached, says so, or asks for time. What a
/// transport or a proxy reports has no reason of ours, whatever its code; a server's own answer has one.
pub(crate) fn is_servers_fault(status: &Status) -> bool {
    match status.code() {
        _ if retry_after(status).is_some() => true,
        Code::Unavailable | Code::DeadlineExceeded => true,
        Code::Unknown | Code::Cancelled | Code::Internal => reason(status).is_none(),
        code if is_verdict(code) => reason(status).is_none(),
        Code::ResourceExhausted => reason(status).is_some_and(|reason| reason == "TOO_MANY_WATCHES"),
        _ => false,
    }
}

/// What one part of a call ended with, as the call itself would have.
pub(crate) fn status_of(item: v1::ItemStatus) -> Status {
    let mut details = ErrorDetails::new();
    if !item.reason.is_empty() {
        details.set_error_info(item.reason, DOMAIN, []);
    }
    if !item.field.is_empty() {
        details.add_bad_request_violation(item.field, item.message.as_str());
    }
    let wait = item.retry_after.and_then(|wait| duration("retry_after", &wait).ok());
    if wait.is_some() {
        details.set_retry_info(wait);
    }
    Status::with_error_details(Code::from(item.code), item.message, details)
}

/// The registry's own reason.
fn reason(status: &Status) -> Option<String> {
    let details = status.get_error_details();
    let info = details.error_info().filter(|info| info.domain == DOMAIN)?;
    Some(info.reason.clone())
}

/// What stands for a reason where there is none.
fn name(code: Code) -> String {
    format!("{code:?}")
}

/// Wait that the server asked for.
pub(crate) fn retry_after(status: &Status) -> Option<Duration> {
    status.get_error_details().retry_info()?.retry_delay
}

/// Version of the owner that the server stores, when it refused for that.
pub(crate) fn stored_owner(status: &Status) -> Option<u64> {
    let details = status.get_error_details();
    let info = details.error_info().filter(|info| info.reason == "STALE_VERSION")?;
    info.metadata.get("stored_owner")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use heureka_proto::convert::wire_duration;

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
    fn a_message_that_is_too_large_stays_so() {
        let details = ErrorDetails::with_error_info("MESSAGE_TOO_LARGE", "heureka", []);
        assert!(!Error::from(Status::with_error_details(Code::ResourceExhausted, "m", details)).is_passing());
    }

    #[test]
    fn a_servers_own_refusal_is_no_reason_to_leave_it() {
        let told = |code, reason: &str| {
            let details = ErrorDetails::with_error_info(reason, "heureka", []);
            is_servers_fault(&Status::with_error_details(code, "m", details))
        };
        let bare = |code| is_servers_fault(&Status::new(code, "m"));
        assert!(told(Code::Unavailable, "DRAINING") && told(Code::Unavailable, "SYNCING"));
        assert!(told(Code::ResourceExhausted, "TOO_MANY_WATCHES"));
        assert!(!told(Code::InvalidArgument, "INVALID_INSTANCE") && !told(Code::NotFound, "LEASE_NOT_FOUND"));
        assert!(!told(Code::ResourceExhausted, "TOO_MANY_INSTANCES") && !told(Code::Internal, "ODD"));
        for code in
            [Code::Unavailable, Code::DeadlineExceeded, Code::Unknown, Code::Cancelled, Code::Internal]
        {
            assert!(bare(code), "{code:?}");
        }
        assert!(!bare(Code::InvalidArgument) && !bare(Code::NotFound));
    }

    #[test]
    fn only_the_registry_refuses_rights_and_methods_for_good() {
        for code in [Code::Unauthenticated, Code::PermissionDenied, Code::Unimplemented] {
            let told_in = |domain: &str| {
                let details = ErrorDetails::with_error_info("NO_RIGHTS", domain, []);
                Status::with_error_details(code, "m", details)
            };
            assert!(!is_servers_fault(&told_in("heureka")), "{code:?}");
            assert!(!Error::from(told_in("heureka")).is_passing(), "{code:?}");
            for passing in [told_in("proxy.example"), Status::new(code, "m")] {
                assert!(is_servers_fault(&passing), "{code:?}");
                assert!(Error::from(passing).is_passing(), "{code:?}");
            }
        }
        assert!(!Error::from(Status::invalid_argument("m")).is_passing());
    }

    #[test]
    fn the_wait_that_was_asked_for_is_read() {
        let mut details = ErrorDetails::with_error_info("TOO_MANY_INSTANCES", "heureka", []);
        details.set_retry_info(Some(Duration::from_secs(30)));
        let status = Status::with_error_details(Code::ResourceExhausted, "m", details);
        assert_eq!(retry_after(&status), Some(Duration::from_secs(30)));
        assert!(is_servers_fault(&status));
        assert!(
            matches!(Error::from(status), Error::Refused { retry_after: Some(wait), .. } if wait.as_secs() == 30)
        );
    }

    #[test]
    fn a_part_fails_as_the_whole_would() {
        let item = |code: Code, reason: &str| v1::ItemStatus {
            code: code.into(),
            reason: reason.into(),
            message: "m".into(),
            field: "spec.selectors".into(),
            retry_after: Some(wire_duration(Duration::from_secs(3))),
        };
        let status = status_of(item(Code::InvalidArgument, "INVALID_SELECTOR"));
        assert_eq!(retry_after(&status), Some(Duration::from_secs(3)));
        let error = Error::from(status);
        assert!(error.is("INVALID_SELECTOR") && !error.is_passing());
        assert!(matches!(error, Error::Refused { field: Some(field), .. } if field == "spec.selectors"));
        let bare = status_of(v1::ItemStatus { code: Code::Unavailable.into(), ..Default::default() });
        assert!(is_servers_fault(&bare) && retry_after(&bare).is_none());
    }

    #[test]
    fn the_stored_version_is_read_or_left() {
        assert_eq!(stored_owner(&stale("41")), Some(41));
        assert_eq!(stored_owner(&stale("many")), None);
        assert_eq!(stored_owner(&Status::aborted("x")), None);
    }
}
