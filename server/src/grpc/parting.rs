//! The end of streams that are not ours: health and reflection streams know nothing of a server that leaves, and
//! each would hold it back for the whole grace.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::{Frame, SizeHint};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::Status;
use tonic::body::Body;
use tonic::server::NamedService;
use tower::Service;

use super::Connection;
use super::core::leaving;
use super::status::{Fault, Reason};

/// A service whose streams end with UNAVAILABLE/DRAINING when their connection or the server leaves. What is
/// ready by then still goes out, so unary calls are answered until the end.
#[derive(Clone, Debug)]
pub(super) struct Parting<S> {
    inner: S,
    drain: CancellationToken,
}

impl<S> Parting<S> {
    pub(super) fn new(inner: S, drain: CancellationToken) -> Self {
        Self { inner, drain }
    }
}

impl<S: NamedService> NamedService for Parting<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for Parting<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let leaving = leaving(request.extensions().get::<Connection>(), &self.drain).clone();
        let until = leaving.clone();
        // A service may hold on to the request's stream in a task of its own, so that ends as well.
        let request = request.map(|body| Body::new(Until::new(body, until, None)));
        let answer = self.inner.call(request);
        Box::pin(async move {
            let response = answer.await?;
            Ok(response.map(|body| Body::new(Until::new(body, leaving, Some(farewell())))))
        })
    }
}

fn farewell() -> HeaderMap {
    let status = Status::from(Fault::new(Reason::Draining, "the server is leaving"));
    let mut trailers = HeaderMap::new();
    status.add_header(&mut trailers).expect("invariant: this message is a header value");
    trailers
}

/// A body that ends as soon as it has nothing ready and the token is cancelled.
struct Until {
    inner: Option<Body>,
    leaving: Pin<Box<WaitForCancellationFutureOwned>>,
    trailers: Option<HeaderMap>,
}

impl Until {
    fn new(body: Body, leaving: CancellationToken, trailers: Option<HeaderMap>) -> Self {
        Self { inner: Some(body), leaving: Box::pin(leaving.cancelled_owned()), trailers }
    }
}

impl http_body::Body for Until {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Some(inner) = &mut self.inner else { return Poll::Ready(None) };
        if let Poll::Ready(frame) = Pin::new(inner).poll_frame(context) {
            return Poll::Ready(frame);
        }
        ready!(self.leaving.as_mut().poll(context));
        self.inner = None;
        Poll::Ready(self.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(http_body::Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or_else(|| SizeHint::with_exact(0), http_body::Body::size_hint)
    }
}
