//! One request between the protocol library and the handlers.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::FutureExt as _;
use heureka_compat_http::RemoteAddr;
use http::{HeaderValue, Request, Response, StatusCode, Version, header};
use hyper::body::Incoming;

use super::Listen;
use super::body::{Answer, Patient, Stalled};
use super::guarded::Turns;
use crate::app::{self, Call};
use crate::clock::Stopwatch;
use crate::config::bytes_of;
use crate::drain::Leaving;
use crate::grpc;
use crate::metrics::Refusal;

/// Takes the requests of one connection.
pub(super) struct Requests(Arc<Connection>);

struct Connection {
    listen: Arc<Listen>,
    /// What the surfaces are told: the socket's address and the connection's end.
    remote: RemoteAddr,
    native: grpc::Connection,
    /// Only HTTP/1.1 keeps its client waiting for one request at a time.
    turns: Option<Arc<Turns>>,
}

impl Requests {
    pub(super) fn new(
        listen: Arc<Listen>,
        peer: SocketAddr,
        leaving: &Leaving,
        turns: Option<Arc<Turns>>,
    ) -> Self {
        let watches = listen.limits.watches_per_connection as usize;
        let native = grpc::Connection::new(peer.ip(), leaving.token().clone(), watches);
        Self(Arc::new(Connection { listen, remote: RemoteAddr(peer), native, turns }))
    }
}

impl hyper::service::Service<Request<Incoming>> for Requests {
    type Response = Response<Answer>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let connection = self.0.clone();
        let turn = connection.turns.as_ref().map(Turns::begin);
        let begun = Stopwatch::start();
        let version = request.version();
        let call = connection.listen.app.call_of(&request);
        let taken = match connection.refuse(&request) {
            Some(refused) => Err(refused),
            None => Ok(connection.prepare(request, &call)),
        };
        Box::pin(async move {
            let response = match taken {
                Ok((request, stalled)) => {
                    let handling = connection.listen.app.call(request, call.surface);
                    connection.handled(AssertUnwindSafe(handling).catch_unwind().await, &call, &stalled)
                }
                Err((status, reason)) => connection.refusal(status, reason),
            };
            connection.listen.metrics.answered(call.surface, response.status(), begun.seconds());
            Ok(closing(response, version).map(|body| Answer::new(body, turn)))
        })
    }
}

impl Connection {
    /// What is wrong with a request's size. Over HTTP/2 the library has seen to most of it.
    fn refuse(&self, request: &Request<Incoming>) -> Option<(StatusCode, Refusal)> {
        let limits = &self.listen.limits;
        let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
        if target > bytes_of(limits.uri_bytes) {
            return Some((StatusCode::URI_TOO_LONG, Refusal::Uri));
        }
        let headers = request.headers();
        let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        let fits = headers.len() <= limits.header_count as usize && bytes <= bytes_of(limits.header_bytes);
        (!fits).then_some((StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, Refusal::Headers))
    }

    fn refusal(&self, status: StatusCode, reason: Refusal) -> app::Response {
        self.listen.metrics.refused(reason);
        app::empty(status)
    }

    fn handled(
        &self,
        handled: std::thread::Result<app::Response>,
        call: &Call,
        stalled: &Stalled,
    ) -> app::Response {
        match handled {
            Ok(_) if stalled.is_set() => self.refusal(StatusCode::REQUEST_TIMEOUT, Refusal::Body),
            Ok(response) => response,
            Err(_) => {
                self.listen.metrics.panics.increment(1);
                call.internal_error()
            }
        }
    }

    /// The request as handlers see it, and whether its body stood still.
    fn prepare(&self, request: Request<Incoming>, call: &Call) -> (app::Request, Stalled) {
        let stalled = Stalled::default();
        let wait = self.listen.limits.body_timeout;
        let mut request = request.map(|body| {
            // A gRPC client may stream for hours with long pauses; its own deadlines apply.
            if call.may_stream() {
                axum::body::Body::new(body)
            } else {
                axum::body::Body::new(Patient::new(body, wait, stalled.clone()))
            }
        });
        request.extensions_mut().insert(self.remote);
        request.extensions_mut().insert(self.native.clone());
        (request, stalled)
    }
}

/// Over HTTP/1.1 the answer tells that it is the connection's last.
fn closing(mut response: app::Response, version: Version) -> app::Response {
    if ends_connection(response.status()) && version < Version::HTTP_2 {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// What is left of such a request is not worth reading.
fn ends_connection(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::URI_TOO_LONG | StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE | StatusCode::REQUEST_TIMEOUT
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_refusals_of_form_end_a_connection() {
        assert!(ends_connection(StatusCode::REQUEST_TIMEOUT));
        assert!(!ends_connection(StatusCode::NOT_FOUND) && !ends_connection(StatusCode::OK));
    }
}
