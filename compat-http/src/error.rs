//! Why a request is refused, and the one place that says which code each refusal gets.
//!
//! Refusals of a heartbeat, a cancel or a status call by an unknown instance have no body at all: a client that
//! finds one tries to read an instance from it, fails, and never registers again.

use axum::body::Body;
use heureka_model::{Invalid, Registration};
use heureka_registry::Refused;
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};

use crate::config::SyncingStatus;
use crate::tag::Tag;

/// A refusal. Its text becomes the body of a 400, 403, 413, 415 or 429.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Nothing is served under this path, or no live instance has this key.
    #[error("not found")]
    NotFound,
    /// The path is served, but not for this verb; the text lists those that are.
    #[error("method not allowed")]
    MethodNotAllowed(&'static str),
    /// A segment of the path cannot be decoded.
    #[error("path: {0}")]
    Path(&'static str),
    /// The body is no document of its type.
    #[error("cannot parse request body: {0}")]
    Body(String),
    /// A member or parameter has a value that cannot be meant.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// A required member is absent, said in the original's words.
    #[error("Missing {0}")]
    Missing(&'static str),
    /// The body registers another application than the path.
    #[error("Mismatched appName, expecting {expected:.256} but was {actual:.256}")]
    Mismatched {
        /// Application of the path.
        expected: String,
        /// Application of the body.
        actual: String,
    },
    /// The body is of a type that registrations do not have.
    #[error("Content-Type: expected application/json or application/xml in UTF-8")]
    MediaType,
    /// The body is compressed in a way that nobody here reads.
    #[error("Content-Encoding: expected gzip or none")]
    ContentEncoding,
    /// The body is longer than the server takes, as sent or after decompression.
    #[error("body: more than the limit of {limit} bytes")]
    TooLarge {
        /// Bytes taken.
        limit: usize,
    },
    /// Auto scaling groups are Amazon's, and the original knows them there only.
    #[error("asg: this server knows no auto scaling groups")]
    NoScalingGroups,
    /// The caller holds what it asks for.
    #[error("not modified")]
    Held(Tag),
    /// The caller is no trusted peer.
    #[error("only a peer may send this, and the address {0} is not in peer.trusted")]
    NoPeer(String),
    /// Too much is built already that nobody has read yet.
    #[error("busy")]
    Busy,
    /// The server knows too little for a reader.
    #[error("syncing")]
    Syncing(SyncingStatus),
    /// The server is going down.
    #[error("unavailable")]
    Unavailable,
    /// The core refused.
    #[error(transparent)]
    Core(#[from] Refused),
}

impl Error {
    /// A required member is wrong in a way that only words can say.
    pub(crate) fn malformed(field: impl Into<String>, expected: &'static str) -> Self {
        Self::Invalid(Invalid::malformed(field, expected))
    }

    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::Held(_) => StatusCode::NOT_MODIFIED,
            Self::Path(_)
            | Self::Body(_)
            | Self::Invalid(_)
            | Self::Missing(_)
            | Self::Mismatched { .. }
            | Self::NoScalingGroups => StatusCode::BAD_REQUEST,
            Self::MediaType | Self::ContentEncoding => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::NoPeer(_) | Self::Syncing(SyncingStatus::Forbidden) => StatusCode::FORBIDDEN,
            Self::Busy | Self::Unavailable | Self::Syncing(SyncingStatus::Unavailable) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::Core(refused) => core_status(refused),
        }
    }

    /// The record that goes with a refusal: a peer's heartbeat with an older one is told the newer.
    pub(crate) fn record(&self) -> Option<&Registration> {
        match self {
            Self::Core(Refused::Conflict(stored)) => Some(stored),
            _ => None,
        }
    }

    /// The answer that says this, without a record.
    pub(crate) fn answer(self) -> Response<Body> {
        let status = self.status();
        match self {
            Self::MethodNotAllowed(allowed) => {
                let mut answer = empty(status);
                answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
                answer
            }
            Self::Held(tag) => {
                let mut answer = empty(status);
                tag.mark(&mut answer);
                answer
            }
            Self::Busy => retried(status, "5"),
            Self::Syncing(_) => retried(status, "2"),
            _ if is_silent(status) => empty(status),
            refusal => said(status, &refusal.to_string()),
        }
    }
}

fn core_status(refused: &Refused) -> StatusCode {
    match refused {
        Refused::NotFound | Refused::Outdated => StatusCode::NOT_FOUND,
        Refused::Stale { .. } | Refused::Exists | Refused::VersionMismatch { .. } | Refused::Conflict(_) => {
            StatusCode::CONFLICT
        }
        Refused::Full => StatusCode::TOO_MANY_REQUESTS,
        Refused::Invalid(_) => StatusCode::BAD_REQUEST,
    }
}

fn is_silent(status: StatusCode) -> bool {
    use StatusCode as Code;
    matches!(status, Code::NOT_FOUND | Code::METHOD_NOT_ALLOWED | Code::CONFLICT | Code::SERVICE_UNAVAILABLE)
}

/// An answer without a body and without a type.
pub(crate) fn empty(status: StatusCode) -> Response<Body> {
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = status;
    answer
}

/// Nothing but when to come again.
fn retried(status: StatusCode, seconds: &'static str) -> Response<Body> {
    let mut answer = empty(status);
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(seconds));
    answer
}

/// One line, whatever the caller's own words in it hold.
fn said(status: StatusCode, text: &str) -> Response<Body> {
    let mut answer = Response::new(Body::from(text.replace(char::is_control, "\u{fffd}")));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    if status == StatusCode::TOO_MANY_REQUESTS {
        headers.insert(RETRY_AFTER, HeaderValue::from_static("30"));
    }
    answer
}

/// The core's refusal in the words of the Eureka surface.
pub(crate) fn legacy(refused: Refused) -> Error {
    match refused {
        Refused::Invalid(invalid) => Error::Invalid(in_legacy_words(invalid)),
        refused => Error::Core(refused),
    }
}

/// The same fault in the words of the Eureka surface.
pub(crate) fn in_legacy_words(invalid: Invalid) -> Invalid {
    let field = match invalid.field.as_str() {
        "key.app" => "app",
        "key.id" => "instanceId",
        "host_name" => "hostName",
        "ip_address" => "ipAddr",
        "app_group" => "appGroupName",
        "vip_address" => "vipAddress",
        "secure_vip_address" => "secureVipAddress",
        "urls.home_page" => "homePageUrl",
        "urls.status_page" => "statusPageUrl",
        "urls.health_check" => "healthCheckUrl",
        "urls.secure_health_check" => "secureHealthCheckUrl",
        "data_center.name" => "dataCenterInfo.name",
        "data_center.class_name" => "dataCenterInfo.@class",
        "legacy.sid" => "sid",
        "legacy.asg_name" => "asgName",
        other => match other.strip_prefix("data_center.") {
            Some(rest) => return Invalid { field: format!("dataCenterInfo.{rest}"), ..invalid },
            None => return invalid,
        },
    };
    Invalid { field: field.to_owned(), ..invalid }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heureka_model::{Limits, Problem};

    #[test]
    fn refusals_by_unknown_instances_have_neither_body_nor_type() {
        for error in [Error::NotFound, Error::Core(Refused::NotFound), Error::Core(Refused::Outdated)] {
            let answer = error.answer();
            assert_eq!(answer.status(), StatusCode::NOT_FOUND);
            assert!(answer.headers().is_empty());
            assert_eq!(http_body::Body::size_hint(answer.body()).exact(), Some(0));
        }
    }

    #[test]
    fn every_field_that_validation_can_name_has_a_legacy_word() {
        let long = || "x".repeat(Limits::default().url + 1);
        let mut instance = heureka_model::Instance::new(heureka_model::InstanceKey {
            app: "A".into(),
            id: "1".into(),
            ..heureka_model::InstanceKey::default()
        });
        instance.urls.health_check = long();
        let invalid = instance.validate(&Limits::default()).unwrap_err();
        assert_eq!(in_legacy_words(invalid).field, "healthCheckUrl");
        let nested = Invalid::new("data_center.metadata.ami", Problem::Missing);
        assert_eq!(in_legacy_words(nested).field, "dataCenterInfo.metadata.ami");
    }
}
