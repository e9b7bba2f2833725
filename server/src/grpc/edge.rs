//! What tonic's own server would do and a service behind another one lacks: deadlines, and the codes of the
//! catalogue for messages that cannot be read.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use heureka_model::Invalid;
use http::{HeaderMap, Request, Response};
use pin_project_lite::pin_project;
use tokio::time::Timeout;
use tonic::body::Body;
use tonic::{Code, Status};
use tower::Service;

use super::Limits;
use super::status::{Fault, Reason};

const GRPC_TIMEOUT: &str = "grpc-timeout";

/// A service under deadlines. The deadline ends with the response's head, so streams live on.
#[derive(Clone, Debug)]
pub(super) struct Edge<S> {
    inner: S,
    deadline: Duration,
    deadline_max: Duration,
}

impl<S> Edge<S> {
    pub(super) fn new(inner: S, limits: &Limits) -> Self {
        Self { inner, deadline: limits.deadline, deadline_max: limits.deadline_max }
    }

    fn deadline(&self, headers: &HeaderMap) -> Result<Duration, Fault> {
        let Some(value) = headers.get(GRPC_TIMEOUT) else {
            return Ok(self.deadline);
        };
        let parsed = value.to_str().ok().and_then(timeout);
        let malformed = || Invalid::malformed(GRPC_TIMEOUT, "not up to eight digits and a unit of HMSmun");
        parsed.map(|stated| stated.min(self.deadline_max)).ok_or_else(|| Fault::request(malformed()))
    }
}

impl<S> Service<Request<Body>> for Edge<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answer<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        match self.deadline(request.headers()) {
            Ok(deadline) => Answer::Called { call: tokio::time::timeout(deadline, self.inner.call(request)) },
            Err(fault) => Answer::Refused { fault: Some(fault) },
        }
    }
}

pin_project! {
    /// The answer of a service, or one in its place.
    #[project = AnswerStage]
    pub(super) enum Answer<F> {
        Called { #[pin] call: Timeout<F> },
        Refused { fault: Option<Fault> },
    }
}

impl<F: Future<Output = Result<Response<Body>, Infallible>>> Future for Answer<F> {
    type Output = Result<Response<Body>, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project() {
            AnswerStage::Called { call } => call.poll(context).map(|answer| match answer {
                Ok(response) => response.map(catalogued),
                Err(_) => Ok(Status::from(late()).into_http()),
            }),
            AnswerStage::Refused { fault } => {
                let fault = fault.take().expect("a future is not polled after it ended");
                Poll::Ready(Ok(Status::from(fault).into_http()))
            }
        }
    }
}

fn late() -> Fault {
    Fault::new(Reason::DeadlineExceeded, "the request did not arrive within the deadline")
}

/// Every status of ours has details, so one without was made while the request was read: that the message was
/// unreadable, too large or too long is the caller's fault and has a reason like any other.
fn catalogued(response: Response<Body>) -> Response<Body> {
    let Some(status) = response.extensions().get::<Status>() else {
        return response;
    };
    if !status.details().is_empty() {
        return response;
    }
    match at_fault(status) {
        Some(fault) => Status::from(fault).into_http(),
        None => response,
    }
}

/// Why a message could not be read, where its sender is to blame.
fn at_fault(status: &Status) -> Option<Fault> {
    Some(match (status.code(), list_at_fault(status)) {
        (_, Some(invalid)) => Fault::invalid(Reason::TooManyItems, invalid.clone()),
        (Code::Internal, _) => Fault::new(Reason::MalformedMessage, status.message()),
        (Code::OutOfRange | Code::ResourceExhausted, _) => {
            Fault::new(Reason::MessageTooLarge, status.message())
        }
        _ => return None,
    })
}

/// Why the next message of a stream could not be read.
pub(super) fn unreadable(status: &Status) -> Fault {
    at_fault(status).unwrap_or_else(|| Fault::new(Reason::MalformedMessage, status.message()))
}

/// The list that `BoundedCodec` found too long.
fn list_at_fault(status: &Status) -> Option<&Invalid> {
    std::error::Error::source(status)?.downcast_ref()
}

/// A `grpc-timeout`: at most eight digits and a unit.
fn timeout(text: &str) -> Option<Duration> {
    let unit = text.len().checked_sub(1)?;
    let (digits, unit) = (text.get(..unit)?, text.get(unit..)?);
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let amount: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(amount * 3600)),
        "M" => Some(Duration::from_secs(amount * 60)),
        "S" => Some(Duration::from_secs(amount)),
        "m" => Some(Duration::from_millis(amount)),
        "u" => Some(Duration::from_micros(amount)),
        "n" => Some(Duration::from_nanos(amount)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn timeouts_are_read_in_every_unit() {
        let table = [
            ("1H", Some(Duration::from_secs(3600))),
            ("2M", Some(Duration::from_secs(120))),
            ("99999999S", Some(Duration::from_secs(99_999_999))),
            ("5m", Some(Duration::from_millis(5))),
            ("7u", Some(Duration::from_micros(7))),
            ("0n", Some(Duration::ZERO)),
            ("", None),
            ("S", None),
            ("5", None),
            ("-5S", None),
            ("+5S", None),
            ("123456789S", None),
            ("5s", None),
            ("5é", None),
        ];
        for (text, expected) in table {
            assert_eq!(timeout(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in any::<String>()) {
            if let Some(duration) = timeout(&text) {
                prop_assert!(duration <= Duration::from_secs(99_999_999 * 3600));
            }
        }
    }
}
