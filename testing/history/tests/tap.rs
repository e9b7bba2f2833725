//! The tap: what of a call is recorded, whatever becomes of it.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};

use bytes::Bytes;
use heureka_history::{Recorder, What};
use heureka_proto::v1;
use heureka_proto::v1::discovery_service_client::DiscoveryServiceClient;
use http::{HeaderMap, Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use prost::Message as _;
use tower_service::Service;

/// Answers every call with these frames; with a code alone, as a refusal.
#[derive(Clone)]
struct Script {
    frames: Vec<Bytes>,
    code: Option<&'static str>,
}

type Frames = futures_util::stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, Infallible>>>;

impl Service<Request<tonic::body::Body>> for Script {
    type Response = Response<StreamBody<Frames>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<tonic::body::Body>) -> Self::Future {
        let mut frames: Vec<_> = self.frames.iter().cloned().map(|data| Ok(Frame::data(data))).collect();
        let mut response = Response::builder().header("content-type", "application/grpc");
        match self.code {
            Some(code) if frames.is_empty() => response = response.header("grpc-status", code),
            Some(code) => {
                let trailers =
                    HeaderMap::from_iter([("grpc-status".parse().unwrap(), code.parse().unwrap())]);
                frames.push(Ok(Frame::trailers(trailers)));
            }
            None => {}
        }
        let body = StreamBody::new(futures_util::stream::iter(frames));
        ready(Ok(response.body(body).unwrap()))
    }
}

/// A message as it goes over the wire.
fn framed(message: &v1::WatchResponse) -> Vec<u8> {
    let message = message.encode_to_vec();
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0][..], &length, &message].concat()
}

fn event() -> v1::WatchResponse {
    let notice = v1::Notice { kind: 1, message: "so".into() };
    let event = Some(v1::watch_event::Event::Notice(notice));
    v1::WatchResponse { event: Some(v1::WatchEvent { event }) }
}

async fn recorded(script: Script, messages: usize) -> Vec<What> {
    let recorder = Recorder::new();
    let mut client = DiscoveryServiceClient::new(recorder.tap("w", script));
    let spec = v1::WatchSpec { max_batch_size: 3, ..v1::WatchSpec::default() };
    let request = v1::WatchRequest { spec: Some(spec), client_name: "c".into() };
    if let Ok(response) = client.watch(request).await {
        let mut stream = response.into_inner();
        for _ in 0..messages {
            drop(stream.message().await);
        }
    }
    let recording = recorder.recording();
    recording.steps().iter().map(|step| step.what.clone()).collect()
}

fn opened() -> What {
    let spec = v1::WatchSpec { max_batch_size: 3, ..v1::WatchSpec::default() };
    What::Open { server: String::new(), spec: Box::new(spec) }
}

fn message() -> What {
    What::Message(event().encode_to_vec().into())
}

fn closed(code: &str) -> What {
    What::Closed { code: code.into() }
}

#[tokio::test]
async fn messages_are_found_wherever_the_frames_are_cut() {
    let bytes = Bytes::from([framed(&event()), framed(&event())].concat());
    for cut in 0..bytes.len() {
        let frames = vec![bytes.slice(..cut), bytes.slice(cut..)];
        let steps = recorded(Script { frames, code: Some("0") }, 3).await;
        assert_eq!(steps, [opened(), message(), message(), closed("OK")], "cut at {cut}");
    }
}

#[tokio::test]
async fn a_stream_that_the_client_lets_go_of_is_cancelled() {
    let frames = vec![framed(&event()).into()];
    let steps = recorded(Script { frames, code: Some("0") }, 1).await;
    assert_eq!(steps, [opened(), message(), closed("CANCELLED")]);
}

#[tokio::test]
async fn a_refusal_is_recorded_with_its_code() {
    let steps = recorded(Script { frames: Vec::new(), code: Some("3") }, 0).await;
    assert_eq!(steps, [opened(), closed("INVALID_ARGUMENT")]);
}

#[tokio::test]
async fn a_stream_that_ends_without_a_code_is_unknown() {
    let frames = vec![framed(&event()).into()];
    let steps = recorded(Script { frames, code: None }, 2).await;
    assert_eq!(steps, [opened(), message(), closed("UNKNOWN")]);
}

#[tokio::test]
async fn what_a_given_up_stream_still_says_is_not_recorded() {
    let recorder = Recorder::new();
    let script = Script { frames: vec![framed(&event()).into()], code: Some("0") };
    let mut client = DiscoveryServiceClient::new(recorder.tap("w", script));
    let mut first = client.watch(v1::WatchRequest::default()).await.unwrap().into_inner();
    let second = client.watch(v1::WatchRequest::default()).await.unwrap();
    assert!(first.message().await.unwrap().is_some());
    drop((first, second));
    let kinds: Vec<_> = recorder.recording().steps().iter().map(|step| step.what.clone()).collect();
    assert!(matches!(&kinds[..], [What::Open { .. }, What::Open { .. }, What::Closed { .. }]), "{kinds:?}");
}
