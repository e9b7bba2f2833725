//! Which router answers a request.
//!
//! gRPC is known by its content type, or by its path when a browser asks first whether it may. Everything else
//! is HTTP: health, metrics and the Eureka surface, all under `server.context_path`. What nobody knows gets an
//! empty 404, or in gRPC status 12, which load balancers' checks take for an answer.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::routing::future::RouteFuture;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use tower_service::Service as _;

use crate::access::Access;
use crate::grpc;
use crate::metrics::Surface;
use crate::page;

/// A request as handlers see it.
pub(crate) type Request = http::Request<Body>;
/// An answer as handlers give it.
pub(crate) type Response = http::Response<Body>;

/// All routers of a server.
#[derive(Clone)]
pub(crate) struct App {
    grpc: Router,
    http: Router,
    context_path: String,
    access: Arc<Access>,
}

/// What is to be known about a request before it is handled.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    pub(crate) surface: Surface,
    /// Content type of a gRPC call.
    grpc: Option<HeaderValue>,
}

impl App {
    /// Serves gRPC beside HTTP. `own` gets the prefix, which may be empty; `rest` knows it and answers whatever
    /// is left.
    pub(crate) fn new(grpc: Router, own: Router, rest: Router, context_path: &str) -> Self {
        let own = if context_path.is_empty() { own } else { Router::new().nest(context_path, own) };
        Self {
            grpc: grpc.fallback(unknown_method),
            http: own.merge(rest),
            context_path: context_path.to_owned(),
            access: Arc::default(),
        }
    }

    /// Serves nobody else.
    pub(crate) fn guarded(self, access: Access) -> Self {
        Self { access: access.into(), ..self }
    }

    /// The answer to a request without credentials, where there must be some.
    pub(crate) fn turn_away<B>(&self, request: &http::Request<B>, call: &Call) -> Option<Response> {
        let is_probe = self.is_probe(request.uri().path());
        let is_admitted = self.access.admits(request.headers(), is_probe);
        (!is_admitted).then(|| call.unauthenticated(self.access.challenge()))
    }

    pub(crate) fn call_of<B>(&self, request: &http::Request<B>) -> Call {
        let grpc = grpc_content_type(request.headers());
        let path = request.uri().path();
        let surface =
            if grpc.is_some() || is_grpc_path(path) { Surface::Grpc } else { self.http_surface(path) };
        Call { surface, grpc }
    }

    /// The answer to a request, no larger than the router makes it.
    pub(crate) fn call(&self, request: Request, surface: Surface) -> RouteFuture<Infallible> {
        let router = if surface == Surface::Grpc { &self.grpc } else { &self.http };
        router.clone().call(request)
    }

    /// Asks only whether the server is well.
    fn is_probe(&self, path: &str) -> bool {
        path.starts_with("/grpc.health.v1.Health/")
            || matches!(
                path.strip_prefix(self.context_path.as_str()),
                Some("/health/live" | "/health/ready" | "/health/startup")
            )
    }

    fn http_surface(&self, path: &str) -> Surface {
        match path.strip_prefix(self.context_path.as_str()) {
            Some("/metrics" | "/health/live" | "/health/ready" | "/health/startup" | "/health/eureka") => {
                Surface::Operations
            }
            Some(path) if page::is_page(path) => Surface::Operations,
            _ => Surface::Rest,
        }
    }
}

impl Call {
    /// The client may send a stream of messages.
    pub(crate) fn may_stream(&self) -> bool {
        self.grpc.as_ref().is_some_and(|kind| !kind.as_bytes().starts_with(b"application/grpc-web"))
    }

    /// The answer to a call whose handler failed by a fault of ours.
    pub(crate) fn internal_error(&self) -> Response {
        self.answer(StatusCode::INTERNAL_SERVER_ERROR, tonic::Code::Internal, "internal error")
    }

    /// The answer to a call whose path or headers are longer than the server takes, or name no host or several.
    pub(crate) fn refusal(&self, status: StatusCode) -> Response {
        if status == StatusCode::BAD_REQUEST {
            return self.answer(status, tonic::Code::InvalidArgument, "the header host must be there once");
        }
        self.answer(status, tonic::Code::ResourceExhausted, "the path or the headers exceed the limit")
    }

    /// The answer to a call that shows no credentials that are known.
    fn unauthenticated(&self, challenge: HeaderValue) -> Response {
        let mut response = self.tell(StatusCode::UNAUTHORIZED, grpc::unauthenticated);
        if response.status() == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }

    fn answer(&self, status: StatusCode, code: tonic::Code, message: &'static str) -> Response {
        self.tell(status, || tonic::Status::new(code, message))
    }

    /// A gRPC client looks for its own status in an HTTP answer that is always well.
    fn tell(&self, status: StatusCode, native: impl FnOnce() -> tonic::Status) -> Response {
        let Some(kind) = &self.grpc else { return empty(status) };
        let mut response = native().into_http();
        response.headers_mut().insert(header::CONTENT_TYPE, kind.clone());
        response
    }
}

/// An answer without a body.
pub(crate) fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

async fn unknown_method(request: Request) -> Response {
    grpc::unknown_method(&request).unwrap_or_else(|| empty(StatusCode::NOT_FOUND))
}

fn grpc_content_type(headers: &HeaderMap) -> Option<HeaderValue> {
    let kind = headers.get(header::CONTENT_TYPE)?;
    let rest = kind.as_bytes().strip_prefix(b"application/grpc")?;
    matches!(rest.first(), None | Some(b'+' | b';' | b'-')).then(|| kind.clone())
}

/// Paths of our services and of gRPC's own; a browser's preflight has no content type.
fn is_grpc_path(path: &str) -> bool {
    path.starts_with("/heureka.") || path.starts_with("/grpc.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(path: &str, content_type: Option<&str>) -> Call {
        let mut request = http::Request::builder().uri(path);
        if let Some(kind) = content_type {
            request = request.header(header::CONTENT_TYPE, kind);
        }
        let app = App::new(Router::new(), Router::new(), Router::new(), "/up");
        app.call_of(&request.body(()).unwrap())
    }

    #[test]
    fn surfaces_are_told_apart() {
        let table = [
            ("/heureka.registry.v1.RegistryService/Register", None, Surface::Grpc),
            ("/x.Y/Z", Some("application/grpc"), Surface::Grpc),
            ("/x.Y/Z", Some("application/grpc+proto"), Surface::Grpc),
            ("/x.Y/Z", Some("application/grpc-web-text"), Surface::Grpc),
            ("/x.Y/Z", Some("application/grpcish"), Surface::Rest),
            ("/up/eureka/apps", Some("application/json"), Surface::Rest),
            ("/up/metrics", None, Surface::Operations),
            ("/metrics", None, Surface::Rest),
            ("/up/health/ready", None, Surface::Operations),
        ];
        for (path, content_type, surface) in table {
            assert_eq!(call(path, content_type).surface, surface, "{path} {content_type:?}");
        }
    }

    #[test]
    fn only_native_grpc_streams_up() {
        assert!(call("/x.Y/Z", Some("application/grpc+proto")).may_stream());
        assert!(!call("/x.Y/Z", Some("application/grpc-web+proto")).may_stream());
        assert!(!call("/x.Y/Z", None).may_stream());
    }

    #[test]
    fn a_fault_of_ours_is_told_in_the_callers_language() {
        let plain = call("/eureka/apps", None).internal_error();
        assert_eq!(plain.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let native = call("/x.Y/Z", Some("application/grpc+proto")).internal_error();
        assert_eq!(
            (native.status(), &native.headers()["grpc-status"]),
            (StatusCode::OK, &HeaderValue::from(13))
        );
        assert_eq!(native.headers()[header::CONTENT_TYPE], "application/grpc+proto");
    }
}
