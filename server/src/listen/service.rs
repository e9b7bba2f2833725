//! One request between the protocol library and the handlers.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use axum::body::Body;
use futures_util::FutureExt as _;
use heureka_compat_http::RemoteAddr;
use http::{HeaderValue, Request, Response, StatusCode, Version, header};
use http_body::Body as _;
use hyper::body::Incoming;

use super::Listen;
use super::body::{Answer, Upload};
use super::guarded::{Turn, Turns};
use crate::app::{self, Call};
use crate::clock::Stopwatch;
use crate::config::bytes_of;
use crate::drain::Leaving;
use crate::grpc;
use crate::metrics::{Refusal, Surface};

/// Takes the requests of one connection.
pub(super) struct Requests(Arc<Connection>);

struct Connection {
    listen: Arc<Listen>,
    /// What the surfaces are told, each its own: the socket's address, and the connection's end.
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

    /// What the native surface is told of the connection.
    pub(super) fn native(&self) -> grpc::Connection {
        self.0.native.clone()
    }
}

impl hyper::service::Service<Request<Incoming>> for Requests {
    type Response = Response<Answer>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let connection = self.0.clone();
        let turn = connection.turns.as_ref().map(Turns::begin);
        Box::pin(async move { Ok(connection.answer(request, turn).await) })
    }
}

impl Connection {
    async fn answer(&self, request: Request<Incoming>, turn: Option<Turn>) -> Response<Answer> {
        let begun = Stopwatch::start();
        let version = request.version();
        let call = self.listen.app.call_of(&request);
        let refused = self.refuse(&request);
        let is_refused = refused.is_some();
        let mut response = match refused {
            Some((status, reason)) => {
                self.listen.metrics.refused(reason);
                call.refusal(status)
            }
            // A gRPC client may stream for hours with long pauses; its own deadlines apply.
            None if call.may_stream() || request.body().is_end_stream() => {
                self.handle(request.map(Body::new), &call).await
            }
            // In a box of its own: what a request takes is allocated for each, and fastest when it is small.
            None => Box::pin(self.handle_upload(request, &call)).await,
        };
        // What is left of such a request is not worth reading.
        let ends_connection = is_refused || response.status() == StatusCode::REQUEST_TIMEOUT;
        if ends_connection && version < Version::HTTP_2 {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        self.listen.metrics.answered(call.surface, response.status(), begun.seconds());
        response.map(|body| Answer::new(body, turn))
    }

    /// What is wrong with a request's size or host. Over HTTP/2 the library has seen to most of it.
    fn refuse(&self, request: &Request<Incoming>) -> Option<(StatusCode, Refusal)> {
        let limits = &self.listen.limits;
        let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
        if target > bytes_of(limits.uri_bytes) {
            return Some((StatusCode::URI_TOO_LONG, Refusal::Uri));
        }
        let headers = request.headers();
        // RFC 9112, section 3.2.
        if request.version() == Version::HTTP_11 && headers.get_all(header::HOST).iter().count() != 1 {
            return Some((StatusCode::BAD_REQUEST, Refusal::Host));
        }
        let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        let fits = headers.len() <= limits.header_count as usize && bytes <= bytes_of(limits.header_bytes);
        (!fits).then_some((StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, Refusal::Headers))
    }

    /// Handles a request whose body has to come along.
    async fn handle_upload(&self, request: Request<Incoming>, call: &Call) -> app::Response {
        let reads_on = request.version() < Version::HTTP_2 && !request.headers().contains_key(header::EXPECT);
        let wait = self.listen.limits.body_timeout;
        let (parts, body) = request.into_parts();
        let upload = Upload::new(body);
        let response = self.handle(Request::from_parts(parts, Body::new(upload.patient(wait))), call).await;
        if upload.is_stalled() {
            self.listen.metrics.refused(Refusal::Body);
            return app::empty(StatusCode::REQUEST_TIMEOUT);
        }
        let is_early = matches!(response.status(), StatusCode::PAYLOAD_TOO_LARGE | StatusCode::UNAUTHORIZED);
        if reads_on && is_early {
            // Whether it ends in time makes no difference to the answer.
            let _ = tokio::time::timeout(wait, upload.discard()).await;
        }
        response
    }

    fn handle<'a>(
        &'a self,
        mut request: app::Request,
        call: &'a Call,
    ) -> impl Future<Output = app::Response> + use<'a> {
        match call.surface {
            Surface::Grpc => drop(request.extensions_mut().insert(self.native.clone())),
            Surface::Rest | Surface::Operations => drop(request.extensions_mut().insert(self.remote)),
        }
        let app = &self.listen.app;
        let handled = match app.turn_away(&request, call) {
            Some(refusal) => Err(refusal),
            None => Ok(AssertUnwindSafe(app.call(request, call.surface)).catch_unwind()),
        };
        async move {
            let handled = match handled {
                Ok(handled) => handled.await,
                Err(refusal) => {
                    self.listen.metrics.refused(Refusal::Credentials);
                    return refusal;
                }
            };
            match handled {
                Ok(Ok(response)) => response,
                Ok(Err(never)) => match never {},
                Err(_) => {
                    self.listen.metrics.panics.increment(1);
                    call.internal_error()
                }
            }
        }
    }
}
