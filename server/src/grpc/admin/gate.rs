//! Who may operate the server: callers on its own machine.
//!
//! A page in a browser on that machine must not be one of them. Browsers have no way to speak HTTP/2 without TLS, and
//! over TLS none to name gRPC's content type without asking the server first, which refuses; so everything else is
//! refused. What comes through a proxy came from elsewhere.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::Either;
use heureka_compat_http::FORWARDING;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Request, Response, Version};
use tonic::Status;
use tonic::body::Body;
use tower::Service;

use crate::grpc::Connection;
use crate::grpc::status::{Fault, Reason};

/// A service for callers from a loopback address.
#[derive(Clone, Debug)]
pub(in crate::grpc) struct Loopback<S> {
    inner: S,
    proxies: Arc<[IpAddr]>,
}

impl<S> Loopback<S> {
    /// `proxies`: addresses whose forwarding headers take nothing from them.
    pub(in crate::grpc) fn new(inner: S, proxies: Arc<[IpAddr]>) -> Self {
        Self { inner, proxies }
    }

    fn admits<B>(&self, request: &Request<B>) -> bool {
        let Some(connection) = request.extensions().get::<Connection>() else { return false };
        let address = connection.0.address;
        let direct = !is_forwarded(request.headers()) || self.proxies.contains(&address);
        let native = request.version() == Version::HTTP_2 && is_grpc(request.headers());
        native && address.is_loopback() && direct
    }
}

/// Says that it is gRPC, and not that of browsers.
fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let rest = kind.and_then(|kind| kind.strip_prefix(b"application/grpc"));
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
}

fn is_forwarded(headers: &HeaderMap) -> bool {
    FORWARDING.iter().any(|name| headers.contains_key(*name))
}

impl<S> Service<Request<axum::body::Body>> for Loopback<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Either<S::Future, Ready<Result<Response<Body>, Infallible>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<axum::body::Body>) -> Self::Future {
        if self.admits(&request) {
            return Either::Left(self.inner.call(request.map(Body::new)));
        }
        let fault = Fault::new(Reason::LoopbackOnly, "only callers on the server's own machine are answered");
        Either::Right(ready(Ok(Status::from(fault).into_http())))
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;

    fn admits(address: Option<&str>, header: Option<&'static str>, version: Version) -> bool {
        admits_kind("application/grpc", address, header, version)
    }

    fn admits_kind(
        kind: &str,
        address: Option<&str>,
        header: Option<&'static str>,
        version: Version,
    ) -> bool {
        let proxies = ["127.0.0.9".parse().unwrap()].into();
        let mut request = Request::builder().version(version).header(CONTENT_TYPE, kind);
        if let Some(name) = header {
            request = request.header(name, "127.0.0.1");
        }
        let mut request = request.body(()).unwrap();
        if let Some(address) = address {
            let connection = Connection::new(address.parse().unwrap(), CancellationToken::new(), 1);
            request.extensions_mut().insert(connection);
        }
        Loopback::new((), proxies).admits(&request)
    }

    #[test]
    fn only_callers_on_this_machine_are_admitted() {
        let h2 = Version::HTTP_2;
        let table = [
            (Some("127.0.0.1"), None, h2, true),
            (Some("127.8.7.6"), None, h2, true),
            (Some("::1"), None, h2, true),
            (Some("::ffff:127.0.0.1"), None, h2, true),
            (Some("10.0.0.1"), None, h2, false),
            (Some("::ffff:10.0.0.1"), None, h2, false),
            (None, None, h2, false),
            (Some("127.0.0.1"), None, Version::HTTP_11, false),
            (Some("127.0.0.1"), Some("x-forwarded-for"), h2, false),
            (Some("127.0.0.1"), Some("forwarded"), h2, false),
            (Some("127.0.0.9"), Some("x-forwarded-for"), h2, true),
            (Some("10.0.0.1"), Some("x-real-ip"), h2, false),
        ];
        for (address, header, version, expected) in table {
            assert_eq!(admits(address, header, version), expected, "{address:?} {header:?} {version:?}");
        }
    }

    #[test]
    fn what_a_page_of_a_browser_may_send_unasked_is_not_admitted() {
        let kinds = [
            ("application/grpc", true),
            ("application/grpc+proto", true),
            ("application/grpc-web", false),
            ("application/grpcish", false),
            ("text/plain", false),
            ("", false),
        ];
        for (kind, expected) in kinds {
            let found = admits_kind(kind, Some("127.0.0.1"), None, Version::HTTP_2);
            assert_eq!(found, expected, "{kind}");
        }
    }
}
