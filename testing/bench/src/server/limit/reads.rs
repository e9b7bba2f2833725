//! Reads, answered with bytes that were encoded beforehand, and watches, told of bytes that all share.

use std::convert::Infallible;
use std::future::{Ready, ready};

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use futures_util::{StreamExt as _, stream};
use heureka_proto::v1;
use heureka_proto::v1::watch_event::Event;
use prost::Message as _;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::{Grpc, UnaryService};
use tonic::{Request as Call, Response as Answered, Status};

use super::Shared;
use crate::drive::framed;

/// The answer to every read.
pub(super) struct Answer {
    content_type: HeaderValue,
    /// Absent for a plain body.
    content_encoding: Option<HeaderValue>,
    body: Bytes,
}

/// Keeps what the bench found to be the right answer.
pub(super) async fn learn(State(shared): State<Shared>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let Some(content_type) = headers.get(header::CONTENT_TYPE).cloned() else {
        return StatusCode::BAD_REQUEST;
    };
    let content_encoding = headers.get("answer-encoding").cloned();
    let learned = shared.answer.set(Answer { content_type, content_encoding, body });
    if learned.is_ok() { StatusCode::NO_CONTENT } else { StatusCode::CONFLICT }
}

pub(super) async fn all(State(shared): State<Shared>) -> Response {
    let Some(answer) = shared.answer.get() else { return StatusCode::NOT_FOUND.into_response() };
    let mut response = Response::new(Body::from(answer.body.clone()));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, answer.content_type.clone());
    if let Some(encoding) = &answer.content_encoding {
        headers.insert(header::CONTENT_ENCODING, encoding.clone());
    }
    response
}

pub(super) async fn app(State(shared): State<Shared>, Path(app): Path<String>) -> Response {
    if app.is_empty() { StatusCode::NOT_FOUND.into_response() } else { all(State(shared)).await }
}

pub(super) async fn list(State(shared): State<Shared>, request: Request<Body>) -> Response {
    Grpc::new(Encoded).unary(List(shared), request).await.map(Body::new)
}

/// Tells of every event from now on. The answer begins when the watcher is among those that are told.
pub(super) async fn watch(State(shared): State<Shared>, _: Bytes) -> Response {
    let events = stream::unfold(shared.events.subscribe(), |mut events| async {
        let event = events.recv().await.ok()?;
        Some((Ok::<_, Infallible>(event), events))
    });
    let mut response = Response::new(Body::from_stream(events));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

/// The same for so many subscriptions as messages follow the first one, numbered from 1.
pub(super) async fn watch_many(State(shared): State<Shared>, wishes: Bytes) -> Response {
    let count = messages(&wishes).saturating_sub(1);
    let end = framed(&v1::WatchResponse {
        event: Some(v1::WatchEvent { event: Some(Event::SnapshotEnd(v1::SnapshotEnd::default())) }),
    });
    let opening = stream::once(ready(Ok::<_, Infallible>(to_each(&end, count))));
    let events = stream::unfold(shared.events.subscribe(), move |mut events| async move {
        let event = events.recv().await.ok()?;
        Some((Ok(to_each(&event, count)), events))
    });
    let mut response = Response::new(Body::from_stream(opening.chain(events)));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

/// How many messages stand in the bytes of a stream.
fn messages(mut bytes: &[u8]) -> u8 {
    let mut count = 0;
    while let Some((&[_, a, b, c, d], rest)) = bytes.split_first_chunk() {
        bytes = rest.get(u32::from_be_bytes([a, b, c, d]) as usize..).unwrap_or_default();
        count += 1;
    }
    count
}

/// A framed `WatchResponse` as the `WatchManyResponse` of each subscription: its number, and the event, which both have
/// with its length behind one byte.
fn to_each(response: &[u8], count: u8) -> Bytes {
    let event = &response[5 + 1..];
    let mut out = BytesMut::with_capacity((event.len() + 8) * usize::from(count));
    for number in 1..=count {
        out.put_u8(0);
        out.put_u32(event.len() as u32 + 3);
        out.put_slice(&[0x08, number, 0x12]);
        out.put_slice(event);
    }
    out.freeze()
}

struct List(Shared);

impl UnaryService<v1::ListInstancesRequest> for List {
    type Response = Bytes;
    type Future = Ready<Result<Answered<Bytes>, Status>>;

    fn call(&mut self, _: Call<v1::ListInstancesRequest>) -> Self::Future {
        let answer = self.0.answer.get().map(|answer| Answered::new(answer.body.clone()));
        ready(answer.ok_or_else(|| Status::failed_precondition("no answer is known")))
    }
}

/// Reads a request as it is read elsewhere, and answers with bytes.
struct Encoded;

impl Codec for Encoded {
    type Encode = Bytes;
    type Decode = v1::ListInstancesRequest;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Encoded {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.reserve(message.len());
        out.put(message);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(512, 32 << 10)
    }
}

impl Decoder for Encoded {
    type Item = v1::ListInstancesRequest;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Self::Item>, Status> {
        let message = buffer.copy_to_bytes(buffer.remaining());
        v1::ListInstancesRequest::decode(message)
            .map(Some)
            .map_err(|_| Status::invalid_argument("the request is malformed"))
    }
}
