//! The one place that maps faults to gRPC codes and reasons. The catalogue for readers is `docs/errors.md`.

use std::collections::HashMap;
use std::time::Duration;

use heureka_model::{Invalid, Problem, Version};
use heureka_proto::convert::wire_duration;
use heureka_proto::v1;
use heureka_registry::Refused;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

const DOMAIN: &str = "heureka";
/// Wait suggested when a limit is reached: long enough for leases to end, short enough to be noticed.
const RETRY_WHEN_FULL: Duration = Duration::from_secs(30);
/// Wait suggested when another server, or this one after its restart, will answer.
const RETRY_ELSEWHERE: Duration = Duration::from_secs(1);

/// Why a call failed; part of the contract, see `docs/errors.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    InvalidInstance,
    MetadataTooLarge,
    InvalidRequest,
    InvalidSelector,
    InvalidPageToken,
    InvalidResumeToken,
    UnsupportedFeature,
    TooManyItems,
    MalformedMessage,
    MessageTooLarge,
    LeaseNotFound,
    InstanceNotFound,
    InstanceOutdated,
    StaleVersion,
    VersionMismatch,
    InstanceExists,
    ResumeTokenExpired,
    TooManyInstances,
    TooManyWatches,
    Unauthenticated,
    LoopbackOnly,
    PeerNotFound,
    PeerBusy,
    Syncing,
    Draining,
    Stalled,
    Overloaded,
    DeadlineExceeded,
}

impl Reason {
    #[cfg(test)]
    pub(super) const ALL: [Self; 28] = [
        Self::InvalidInstance,
        Self::MetadataTooLarge,
        Self::InvalidRequest,
        Self::InvalidSelector,
        Self::InvalidPageToken,
        Self::InvalidResumeToken,
        Self::UnsupportedFeature,
        Self::TooManyItems,
        Self::MalformedMessage,
        Self::MessageTooLarge,
        Self::LeaseNotFound,
        Self::InstanceNotFound,
        Self::InstanceOutdated,
        Self::StaleVersion,
        Self::VersionMismatch,
        Self::InstanceExists,
        Self::ResumeTokenExpired,
        Self::TooManyInstances,
        Self::TooManyWatches,
        Self::Unauthenticated,
        Self::LoopbackOnly,
        Self::PeerNotFound,
        Self::PeerBusy,
        Self::Syncing,
        Self::Draining,
        Self::Stalled,
        Self::Overloaded,
        Self::DeadlineExceeded,
    ];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidInstance => "INVALID_INSTANCE",
            Self::MetadataTooLarge => "METADATA_TOO_LARGE",
            Self::InvalidRequest => "INVALID_REQUEST",
            Self::InvalidSelector => "INVALID_SELECTOR",
            Self::InvalidPageToken => "INVALID_PAGE_TOKEN",
            Self::InvalidResumeToken => "INVALID_RESUME_TOKEN",
            Self::UnsupportedFeature => "UNSUPPORTED_FEATURE",
            Self::TooManyItems => "TOO_MANY_ITEMS",
            Self::MalformedMessage => "MALFORMED_MESSAGE",
            Self::MessageTooLarge => "MESSAGE_TOO_LARGE",
            Self::LeaseNotFound => "LEASE_NOT_FOUND",
            Self::InstanceNotFound => "INSTANCE_NOT_FOUND",
            Self::InstanceOutdated => "INSTANCE_OUTDATED",
            Self::StaleVersion => "STALE_VERSION",
            Self::VersionMismatch => "VERSION_MISMATCH",
            Self::InstanceExists => "INSTANCE_EXISTS",
            Self::ResumeTokenExpired => "RESUME_TOKEN_EXPIRED",
            Self::TooManyInstances => "TOO_MANY_INSTANCES",
            Self::TooManyWatches => "TOO_MANY_WATCHES",
            Self::Unauthenticated => "UNAUTHENTICATED",
            Self::LoopbackOnly => "LOOPBACK_ONLY",
            Self::PeerNotFound => "PEER_NOT_FOUND",
            Self::PeerBusy => "PEER_BUSY",
            Self::Syncing => "SYNCING",
            Self::Draining => "DRAINING",
            Self::Stalled => "STALLED",
            Self::Overloaded => "OVERLOADED",
            Self::DeadlineExceeded => "DEADLINE_EXCEEDED",
        }
    }

    pub(super) const fn code(self) -> Code {
        match self {
            Self::InvalidInstance
            | Self::MetadataTooLarge
            | Self::InvalidRequest
            | Self::InvalidSelector
            | Self::InvalidPageToken
            | Self::InvalidResumeToken
            | Self::UnsupportedFeature
            | Self::TooManyItems
            | Self::MalformedMessage => Code::InvalidArgument,
            Self::LeaseNotFound | Self::InstanceNotFound | Self::PeerNotFound => Code::NotFound,
            Self::Unauthenticated => Code::Unauthenticated,
            Self::LoopbackOnly => Code::PermissionDenied,
            Self::InstanceOutdated => Code::FailedPrecondition,
            Self::StaleVersion | Self::VersionMismatch => Code::Aborted,
            Self::InstanceExists => Code::AlreadyExists,
            Self::ResumeTokenExpired => Code::OutOfRange,
            Self::MessageTooLarge | Self::TooManyInstances | Self::TooManyWatches => Code::ResourceExhausted,
            Self::PeerBusy | Self::Syncing | Self::Draining | Self::Stalled | Self::Overloaded => {
                Code::Unavailable
            }
            Self::DeadlineExceeded => Code::DeadlineExceeded,
        }
    }

    pub(super) const fn retry_after(self) -> Option<Duration> {
        match self {
            Self::TooManyInstances | Self::TooManyWatches => Some(RETRY_WHEN_FULL),
            Self::PeerBusy | Self::Syncing | Self::Draining | Self::Stalled | Self::Overloaded => {
                Some(RETRY_ELSEWHERE)
            }
            _ => None,
        }
    }
}

/// A call that failed, before it becomes a status of the call or of one item of a batch.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fault {
    reason: Reason,
    message: String,
    field: Option<String>,
    stored: Option<Version>,
}

impl Fault {
    pub(super) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), field: None, stored: None }
    }

    /// The field of `invalid` is at fault.
    pub(super) fn invalid(reason: Reason, invalid: Invalid) -> Self {
        let message = invalid.to_string();
        Self { field: Some(invalid.field), ..Self::new(reason, message) }
    }

    /// A field that belongs to no more specific reason is at fault.
    pub(super) fn request(invalid: Invalid) -> Self {
        Self::invalid(Reason::InvalidRequest, invalid)
    }

    /// An instance, seen from the message that holds it, is at fault.
    pub(super) fn instance(invalid: Invalid) -> Self {
        let oversized = matches!(invalid.problem, Problem::TooLarge { .. });
        let of_metadata = invalid.field == "instance" || invalid.field.contains("metadata");
        let reason =
            if oversized && of_metadata { Reason::MetadataTooLarge } else { Reason::InvalidInstance };
        Self::invalid(reason, invalid)
    }

    /// The reason as the contract has it.
    pub(super) fn as_str(&self) -> &'static str {
        self.reason.as_str()
    }

    /// Version of the stored record, when it is the reason.
    pub(super) fn stored(&self) -> Option<Version> {
        self.stored
    }

    pub(super) fn reason(&self) -> Reason {
        self.reason
    }

    /// What is wrong, for people.
    pub(super) fn message(&self) -> &str {
        &self.message
    }
}

impl From<Refused> for Fault {
    fn from(refused: Refused) -> Self {
        let message = refused.to_string();
        match refused {
            Refused::NotFound => Self::new(Reason::LeaseNotFound, message),
            Refused::Outdated => Self::new(Reason::InstanceOutdated, message),
            Refused::Stale { stored } => Self::versioned(Reason::StaleVersion, message, stored),
            Refused::VersionMismatch { stored } => Self::versioned(Reason::VersionMismatch, message, stored),
            Refused::Conflict(registration) => {
                Self::versioned(Reason::StaleVersion, message, registration.version)
            }
            Refused::Exists => Self::new(Reason::InstanceExists, message),
            Refused::Full => Self::new(Reason::TooManyInstances, message),
            Refused::Invalid(invalid) => Self::instance(invalid),
        }
    }
}

impl Fault {
    fn versioned(reason: Reason, message: String, stored: Version) -> Self {
        Self { stored: Some(stored), ..Self::new(reason, message) }
    }

    fn details(&self) -> ErrorDetails {
        let mut details = ErrorDetails::with_error_info(self.reason.as_str(), DOMAIN, self.metadata());
        if let Some(field) = &self.field {
            details.add_bad_request_violation(field.as_str(), self.message.as_str());
        }
        if let Some(wait) = self.reason.retry_after() {
            details.set_retry_info(Some(wait));
        }
        details
    }

    fn metadata(&self) -> HashMap<String, String> {
        let names = ["owner", "clock", "boot", "overlay_clock", "overlay_boot"];
        let parts = self.stored.into_iter().flat_map(|version| names.into_iter().zip(version.parts()));
        parts.map(|(name, part)| (format!("stored_{name}"), part.to_string())).collect()
    }
}

impl From<Fault> for Status {
    fn from(fault: Fault) -> Self {
        Self::with_error_details(fault.reason.code(), fault.message.as_str(), fault.details())
    }
}

impl From<Fault> for v1::ItemStatus {
    fn from(fault: Fault) -> Self {
        Self {
            code: fault.reason.code().into(),
            reason: fault.reason.as_str().into(),
            retry_after: fault.reason.retry_after().map(wire_duration),
            message: fault.message,
            field: fault.field.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use heureka_model::Stamp;

    use super::*;

    #[test]
    fn the_catalogue_holds_every_reason_with_its_code_and_no_other() {
        let catalogue = include_str!("../../../docs/errors.md");
        let rows = catalogue.lines().filter_map(|line| line.strip_prefix("| "));
        let cells = rows.filter_map(|row| row.split_once(" | "));
        let cells = cells.filter_map(|(code, rest)| Some((code, rest.split_once(" | ")?.0)));
        let documented: BTreeSet<(&str, &str)> = cells.filter(|(code, _)| *code != "code").collect();
        let given = Reason::ALL.map(|reason| (canonical_name(reason.code()), reason.as_str()));
        let given: BTreeSet<(&str, &str)> =
            given.iter().map(|(code, reason)| (code.as_str(), *reason)).collect();
        assert_eq!(documented, given);
        assert_eq!(given.len(), Reason::ALL.len(), "each has its own name");
    }

    fn canonical_name(code: Code) -> String {
        let mut name = String::new();
        for letter in format!("{code:?}").chars() {
            if letter.is_uppercase() && !name.is_empty() {
                name.push('_');
            }
            name.push(letter.to_ascii_uppercase());
        }
        name
    }

    #[test]
    fn the_stored_version_travels_in_the_metadata() {
        let stored = Version {
            owner: 1,
            written: Stamp { clock: 2, boot: 3 },
            overlay: Stamp { clock: 4, boot: u64::MAX },
        };
        let status = Status::from(Fault::from(Refused::Stale { stored }));
        assert_eq!(status.code(), Code::Aborted);
        let details = status.get_error_details();
        let info = details.error_info().unwrap();
        assert_eq!((info.reason.as_str(), info.domain.as_str()), ("STALE_VERSION", "heureka"));
        assert_eq!(info.metadata["stored_owner"], "1");
        assert_eq!(info.metadata["stored_overlay_boot"], u64::MAX.to_string());
    }

    #[test]
    fn a_field_at_fault_is_a_violation() {
        let invalid = Invalid::missing("instance.key.app");
        let status = Status::from(Fault::instance(invalid));
        let violations = status.get_error_details().bad_request().unwrap().field_violations.clone();
        assert_eq!(violations[0].field, "instance.key.app");
        assert_eq!(status.message(), "instance.key.app: is required");
    }

    #[test]
    fn metadata_beyond_its_limits_has_its_own_reason() {
        let large = Problem::TooLarge { limit: 1, actual: 2 };
        for field in ["instance", "instance.metadata", "instance.metadata.key"] {
            let fault = Fault::instance(Invalid::new(field, large.clone()));
            assert_eq!(fault.reason(), Reason::MetadataTooLarge);
        }
        let fault = Fault::instance(Invalid::new("instance.host_name", large));
        assert_eq!(fault.reason(), Reason::InvalidInstance);
    }

    #[test]
    fn waiting_is_suggested_where_it_helps() {
        for (reason, helps) in [
            (Reason::TooManyWatches, true),
            (Reason::TooManyInstances, true),
            (Reason::Syncing, true),
            (Reason::Draining, true),
            (Reason::Stalled, true),
            (Reason::LeaseNotFound, false),
        ] {
            let status = Status::from(Fault::new(reason, "x"));
            assert_eq!(status.get_error_details().retry_info().is_some(), helps);
        }
    }
}
