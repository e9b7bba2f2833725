//! Records what passes through a transport, so that a client is judged unchanged.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes, BytesMut};
use heureka_model::{InstanceKey, Version};
use heureka_proto::v1;
use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt as _, Collected, Full};
use prost::Message as _;
use tonic::Code;
use tower_service::Service;

use crate::many::{Many, Overheard, Subscribers};
use crate::recording::{Page, Recording, Step, What};
use crate::wrote::{CALLS, Wrote};

const WATCH: &str = "/heureka.registry.v1.DiscoveryService/Watch";
const WATCH_MANY: &str = "/heureka.registry.v1.DiscoveryService/WatchMany";
const WRITES: &str = "/heureka.registry.v1.RegistryService/";
/// One byte for compression, four for the length.
const PREFIX: usize = 5;

/// A recording that several taps write into. Cloned for each who needs it.
#[derive(Clone, Debug, Default)]
pub struct Recorder(Arc<Mutex<Shared>>);

#[derive(Debug, Default)]
struct Shared {
    recording: Recording,
    /// Number of the last Watch call of each watcher.
    calls: HashMap<String, u64>,
    /// Subscriptions of each watcher.
    subscribers: HashMap<String, Subscribers>,
}

/// A transport that records each Watch call through it as the next stream of one watcher, each subscription of a
/// WatchMany call as the next stream of a watcher of its own, and each acknowledged write. Requests and responses pass
/// unchanged; messages must not be compressed.
///
/// The watcher of a subscription is called `name#1`, `name#2` and so on: one that asks for the selectors of a
/// subscription that ended goes on as that one.
#[derive(Clone, Debug)]
pub struct Tap<T> {
    transport: T,
    watcher: String,
    recorder: Recorder,
}

/// A response body that tells the recorder what passes.
#[derive(Debug)]
pub struct TapBody<B> {
    inner: Pin<Box<B>>,
    listener: Option<Listener>,
}

/// What is done with the messages of a call.
#[derive(Debug)]
struct Listener {
    recorder: Recorder,
    watcher: String,
    call: Call,
    /// Bytes of a message that is not there as a whole.
    buffer: BytesMut,
}

#[derive(Debug)]
enum Call {
    Watch(u64),
    Many(Many),
    Write { name: String, request: Bytes, response: Option<Bytes> },
}

impl Recorder {
    /// An empty recording.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A transport whose Watch calls are those of `watcher`.
    pub fn tap<T>(&self, watcher: &str, transport: T) -> Tap<T> {
        Tap { transport, watcher: watcher.to_owned(), recorder: self.clone() }
    }

    /// What was recorded so far.
    #[must_use]
    pub fn recording(&self) -> Recording {
        self.shared().recording.clone()
    }

    /// Notes that nothing is expected any more of what was written to `key`.
    pub fn forgot(&self, key: InstanceKey) {
        self.note("", What::Forgot(key));
    }

    /// Notes what `watcher` holds of an instance from now on, or held when a server told that it is gone.
    pub fn shows(&self, watcher: &str, key: InstanceKey, version: Version, live: bool) {
        self.note(watcher, What::Shows { key, version, live });
    }

    /// Notes a page of a list that `watcher` goes on from.
    pub fn listed(
        &self,
        watcher: &str,
        request: v1::ListInstancesRequest,
        response: v1::ListInstancesResponse,
    ) {
        self.note(watcher, What::Listed(Box::new(Page { request, response })));
    }

    /// Notes a page of a list after which nothing changes until `watcher` hears a mark.
    pub fn rested(
        &self,
        watcher: &str,
        request: v1::ListInstancesRequest,
        response: v1::ListInstancesResponse,
    ) {
        self.note(watcher, What::Rested(Box::new(Page { request, response })));
    }

    /// The watcher that a subscription of another goes on as.
    pub(crate) fn subscriber(&self, watcher: &str, spec: &v1::WatchSpec) -> String {
        let mut shared = self.shared();
        let number = shared.subscribers.entry(watcher.to_owned()).or_default().take(spec);
        format!("{watcher}#{number}")
    }

    /// The subscription ended, so that another may go on as its watcher.
    pub(crate) fn release(&self, watcher: &str, subscriber: &str) {
        if let Some(subscribers) = self.shared().subscribers.get_mut(watcher) {
            subscribers.release(subscriber);
        }
    }

    fn note(&self, watcher: &str, what: What) {
        push(&mut self.shared(), watcher, what);
    }

    /// Opens the next stream of a watcher; its number.
    pub(crate) fn open(&self, watcher: &str, spec: v1::WatchSpec) -> u64 {
        let mut shared = self.shared();
        let call = shared.calls.entry(watcher.to_owned()).or_default();
        *call += 1;
        let call = *call;
        push(&mut shared, watcher, What::Open { server: String::new(), spec: Box::new(spec) });
        call
    }

    /// Notes something of a stream, unless the watcher has opened another since.
    pub(crate) fn hear(&self, watcher: &str, call: u64, what: What) {
        let mut shared = self.shared();
        if shared.calls.get(watcher) == Some(&call) {
            push(&mut shared, watcher, what);
        }
    }

    /// A recording is consistent after every step, so a panic elsewhere does not spoil it.
    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn push(shared: &mut Shared, watcher: &str, what: What) {
    let step = Step { watcher: watcher.to_owned(), what };
    shared.recording.push(step).expect("invariant: a call is open until it says that it closed");
}

impl<T, B> Service<Request<tonic::body::Body>> for Tap<T>
where
    T: Service<Request<tonic::body::Body>, Response = Response<B>> + Clone + Send + 'static,
    T::Future: Send,
    B: Body<Data = Bytes> + Send + 'static,
{
    type Response = Response<TapBody<B>>;
    type Error = T::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.transport.poll_ready(context)
    }

    fn call(&mut self, request: Request<tonic::body::Body>) -> Self::Future {
        // The one that said it was ready is used, a clone waits for the next call.
        let next = self.transport.clone();
        let mut transport = std::mem::replace(&mut self.transport, next);
        let (recorder, watcher) = (self.recorder.clone(), self.watcher.clone());
        Box::pin(async move {
            let (request, listener) = listen(request, recorder, watcher).await;
            let response = match transport.call(request).await {
                Ok(response) => response,
                Err(error) => {
                    if let Some(mut listener) = listener {
                        listener.closed(Code::Unavailable);
                    }
                    return Err(error);
                }
            };
            let (parts, body) = response.into_parts();
            let mut body = TapBody { inner: Box::pin(body), listener };
            // A refusal has no body and its code among the headers.
            if parts.headers.contains_key("grpc-status") {
                body.close(code(&parts.headers));
            }
            Ok(Response::from_parts(parts, body))
        })
    }
}

/// Reads the request of a call that is recorded; it is one message, so it is there at once.
async fn listen(
    request: Request<tonic::body::Body>,
    recorder: Recorder,
    watcher: String,
) -> (Request<tonic::body::Body>, Option<Listener>) {
    let path = request.uri().path();
    if path == WATCH_MANY {
        let (many, requests) = Many::new(recorder.clone(), watcher.clone());
        let request = request.map(|body| tonic::body::Body::new(Overheard::new(body, requests)));
        let listener = Listener { recorder, watcher, call: Call::Many(many), buffer: BytesMut::new() };
        return (request, Some(listener));
    }
    let write = path.strip_prefix(WRITES).filter(|name| CALLS.contains(name)).map(str::to_owned);
    if path != WATCH && write.is_none() {
        return (request, None);
    }
    let (parts, body) = request.into_parts();
    let bytes = body.collect().await.map(Collected::to_bytes).unwrap_or_default();
    let message = bytes.slice(PREFIX.min(bytes.len())..);
    let call = match write {
        Some(name) => Call::Write { name, request: message, response: None },
        None => {
            let spec = v1::WatchRequest::decode(message).unwrap_or_default().spec.unwrap_or_default();
            Call::Watch(recorder.open(&watcher, spec))
        }
    };
    let listener = Listener { recorder, watcher, call, buffer: BytesMut::new() };
    (Request::from_parts(parts, tonic::body::Body::new(Full::new(bytes))), Some(listener))
}

impl<B> TapBody<B> {
    fn close(&mut self, code: Code) {
        if let Some(mut listener) = self.listener.take() {
            listener.closed(code);
        }
    }
}

impl<B: Body<Data = Bytes>> Body for TapBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let polled = self.inner.as_mut().poll_frame(context);
        match &polled {
            Poll::Pending => {}
            Poll::Ready(None) => self.close(Code::Unknown),
            Poll::Ready(Some(Err(_))) => self.close(Code::Unavailable),
            Poll::Ready(Some(Ok(frame))) => {
                if let (Some(data), Some(listener)) = (frame.data_ref(), &mut self.listener) {
                    listener.data(data);
                }
                if let Some(trailers) = frame.trailers_ref() {
                    self.close(code(trailers));
                }
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl<B> Drop for TapBody<B> {
    fn drop(&mut self) {
        self.close(Code::Cancelled);
    }
}

impl Listener {
    fn data(&mut self, data: &Bytes) {
        self.buffer.extend_from_slice(data);
        while let Some(message) = message(&mut self.buffer) {
            match &mut self.call {
                Call::Watch(call) => self.recorder.hear(&self.watcher, *call, What::Message(message)),
                Call::Many(many) => many.hear(&message),
                Call::Write { response, .. } => *response = Some(message),
            }
        }
    }

    fn closed(&mut self, code: Code) {
        match &mut self.call {
            Call::Watch(call) => {
                let closed = What::Closed { code: name(code).to_owned() };
                self.recorder.hear(&self.watcher, *call, closed);
            }
            Call::Many(many) => many.closed(name(code)),
            Call::Write { name, request, response } => {
                let Some(response) = response.take().filter(|_| code == Code::Ok) else { return };
                // What its own client cannot read is that client's to report.
                if let Ok(wrote) = Wrote::new(name, request.clone(), response) {
                    self.recorder.note("", What::Wrote(wrote));
                }
            }
        }
    }
}

/// Takes a whole message off the front.
pub(crate) fn message(buffer: &mut BytesMut) -> Option<Bytes> {
    let prefix = buffer.get(1..PREFIX)?.try_into().ok()?;
    let length = usize::try_from(u32::from_be_bytes(prefix)).ok()?;
    if buffer.len() < PREFIX + length {
        return None;
    }
    buffer.advance(PREFIX);
    Some(buffer.split_to(length).freeze())
}

fn code(headers: &HeaderMap) -> Code {
    headers.get("grpc-status").map_or(Code::Unknown, |value| Code::from_bytes(value.as_bytes()))
}

pub(crate) fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}
