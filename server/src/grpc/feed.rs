//! The watch for browsers and scripts: server-sent events over HTTP.
//!
//! `GET /v1/watch` is a Watch whose parameters stand in the query. What is told is the same, event by event; instances
//! are told as the Eureka surface tells them. Every token is the `id` of its event, so a browser that reconnects by
//! itself resumes.

mod events;
mod query;

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use heureka_proto::v1;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use tonic::Code;

use super::Connection;
use super::core::Core;
use super::seats::Watches;
use super::status::{Fault, Reason};
use super::watch::{Caller, Told};
use crate::query::Parameters;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Asks nginx and its like to pass each event on at once.
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The one route.
pub(super) fn router(core: Arc<Core>, watches: Arc<Watches>) -> Router {
    let watch = async move |parameters: Parameters, request: Request| {
        let connection = request.extensions().get::<Connection>().cloned();
        let begun = begin(&core, &watches, connection, parameters, request.headers()).await;
        begun.unwrap_or_else(|fault| refusal(&fault))
    };
    Router::new().route("/v1/watch", get(watch))
}

async fn begin(
    core: &Arc<Core>,
    watches: &Arc<Watches>,
    connection: Option<Connection>,
    parameters: Parameters,
    headers: &HeaderMap,
) -> Result<Response<Body>, Fault> {
    let caller = Caller::admitted(core.clone(), watches.clone(), connection)?;
    let asked = query::read(parameters)?;
    let request = v1::WatchRequest {
        spec: Some(v1::WatchSpec { resume_token: token(headers), ..asked.spec }),
        client_name: asked.client_name,
    };
    let told = match Told::open(caller.clone(), request.clone()).await {
        // Whoever reconnects by itself cannot drop a token that is of no use.
        Err(fault) if fault.reason() == Reason::InvalidResumeToken => {
            Told::open(caller, tokenless(request)).await?
        }
        opened => opened?,
    };
    Ok(answer(told))
}

/// Where the client stands; what is no token at all counts as none.
fn token(headers: &HeaderMap) -> Bytes {
    let id = headers.get(LAST_EVENT_ID).and_then(|id| URL_SAFE_NO_PAD.decode(id).ok());
    id.map(Bytes::from).unwrap_or_default()
}

fn tokenless(mut request: v1::WatchRequest) -> v1::WatchRequest {
    request.spec.iter_mut().for_each(|spec| spec.resume_token.clear());
    request
}

fn answer(told: Told) -> Response<Body> {
    let events = told.flat_map(|told| stream::iter(events::of(told)).map(Ok::<_, Infallible>));
    let opening = stream::once(async { Ok(Bytes::from_static(events::OPENING)) });
    let mut response = Response::new(Body::from_stream(opening.chain(events)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert(BUFFERING, HeaderValue::from_static("no"));
    response
}

/// Why nothing is told, in the words of the native contract.
fn refusal(fault: &Fault) -> Response<Body> {
    let status = match fault.reason().code() {
        Code::InvalidArgument => StatusCode::BAD_REQUEST,
        Code::ResourceExhausted | Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let mut response = Response::new(Body::from(format!("{}\n", fault.message())));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    if status == StatusCode::SERVICE_UNAVAILABLE {
        let seconds = fault.reason().retry_after().map_or(1, |wait| wait.as_secs().max(1));
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
