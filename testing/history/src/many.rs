//! A WatchMany call: each of its subscriptions is recorded as a stream of its own.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use heureka_proto::v1;
use heureka_proto::v1::watch_event::Event;
use heureka_proto::v1::watch_many_request::Request;
use heureka_proto::v1::watch_many_response::Response;
use http_body::{Body, Frame, SizeHint};
use prost::Message as _;
use tonic::Code;

use crate::recording::What;
use crate::stream::encoded;
use crate::tap::{Recorder, message, name};

/// What is subscribed on a call.
#[derive(Clone, Debug)]
pub(crate) struct Many {
    recorder: Recorder,
    watcher: String,
    open: Arc<Mutex<HashMap<u32, Open>>>,
}

/// One subscription while it lasts.
#[derive(Debug)]
struct Open {
    subscriber: String,
    call: u64,
    /// Its last mark; nothing before the first.
    token: Bytes,
    /// Its initial part is complete.
    is_live: bool,
}

/// The subscriptions that a watcher had so far, by what they ask for, and whether they last.
#[derive(Debug, Default)]
pub(crate) struct Subscribers(Vec<(Vec<u8>, bool)>);

/// A request body that tells what passes.
pub(crate) struct Overheard {
    inner: tonic::body::Body,
    many: Many,
    buffer: BytesMut,
}

impl Subscribers {
    /// The number of one that asks for this: that of one that ended, or a new one.
    pub(crate) fn take(&mut self, spec: &v1::WatchSpec) -> usize {
        let wish = encoded(&spec.selectors);
        let free = self.0.iter().position(|(known, lasts)| *known == wish && !lasts);
        let number = free.unwrap_or(self.0.len());
        if free.is_none() {
            self.0.push((wish, true));
        }
        self.0[number].1 = true;
        number + 1
    }

    pub(crate) fn release(&mut self, subscriber: &str) {
        let number = subscriber.rsplit('#').next().and_then(|number| number.parse::<usize>().ok());
        let known = number.and_then(|number| self.0.get_mut(number.wrapping_sub(1)));
        known.into_iter().for_each(|(_, lasts)| *lasts = false);
    }
}

impl Many {
    pub(crate) fn new(recorder: Recorder, watcher: String) -> (Self, Self) {
        let many = Self { recorder, watcher, open: Arc::default() };
        (many.clone(), many)
    }

    /// A message of the server.
    pub(crate) fn hear(&self, message: &Bytes) {
        // What cannot be read stands as it is where the only subscription would have heard it.
        let Ok(read) = v1::WatchManyResponse::decode(message.clone()) else {
            return self.each(|many, open| many.tell(open, What::Message(message.clone())));
        };
        match (read.subscription_id, read.response) {
            (0, Some(Response::Event(v1::WatchEvent { event: Some(Event::GoAway(away)) }))) => {
                self.each(|many, open| many.part(open, &away));
            }
            (number, Some(Response::Event(event))) => {
                if let Some(open) = self.open().get_mut(&number) {
                    self.event(open, event);
                }
            }
            (number, Some(Response::Closed(item))) => self.end(number, name(Code::from(item.code))),
            (_, None) => {}
        }
    }

    /// The call ended.
    pub(crate) fn closed(&self, code: &str) {
        let numbers: Vec<u32> = self.open().keys().copied().collect();
        numbers.into_iter().for_each(|number| self.end(number, code));
    }

    /// A message of the client.
    fn asked(&self, message: &Bytes) {
        let Ok(read) = v1::WatchManyRequest::decode(message.clone()) else { return };
        match read.request {
            Some(Request::Subscribe(wish)) => self.begin(wish.subscription_id, wish.spec.unwrap_or_default()),
            Some(Request::Unsubscribe(wish)) => self.end(wish.subscription_id, name(Code::Cancelled)),
            _ => {}
        }
    }

    fn begin(&self, number: u32, spec: v1::WatchSpec) {
        // A number in use is refused without harm to whoever has it.
        if number == 0 || self.open().contains_key(&number) {
            return;
        }
        let subscriber = self.recorder.subscriber(&self.watcher, &spec);
        let call = self.recorder.open(&subscriber, spec);
        self.open().insert(number, Open { subscriber, call, token: Bytes::new(), is_live: false });
    }

    fn event(&self, open: &mut Open, event: v1::WatchEvent) {
        let event = match event.event {
            Some(Event::SnapshotBegin(begin)) => {
                open.is_live = false;
                Event::SnapshotBegin(begin)
            }
            Some(Event::SnapshotEnd(end)) => {
                (open.is_live, open.token) = (true, end.resume_token.clone());
                Event::SnapshotEnd(end)
            }
            // The last mark of a subscription that is sent away while it resumes.
            Some(Event::Bookmark(mark)) if !open.is_live => {
                let away = v1::GoAway { resume_token: mark.resume_token, ..v1::GoAway::default() };
                open.token.clear();
                return self.part(open, &away);
            }
            Some(Event::Bookmark(mark)) => {
                open.token = mark.resume_token.clone();
                Event::Bookmark(mark)
            }
            Some(event) => event,
            None => return,
        };
        self.tell(open, told(event));
    }

    /// The goodbye of the call, as one of its subscriptions would have been told: once.
    fn part(&self, open: &mut Open, away: &v1::GoAway) {
        let token = std::mem::take(&mut open.token);
        let resume_token = if token.is_empty() { away.resume_token.clone() } else { token };
        self.tell(open, told(Event::GoAway(v1::GoAway { resume_token, ..away.clone() })));
        let closed = What::Closed { code: name(Code::Ok).to_owned() };
        self.tell(open, closed);
        open.call = 0;
    }

    fn tell(&self, open: &Open, what: What) {
        self.recorder.hear(&open.subscriber, open.call, what);
    }

    fn each(&self, tell: impl Fn(&Self, &mut Open)) {
        self.open().values_mut().for_each(|open| tell(self, open));
    }

    fn end(&self, number: u32, code: &str) {
        let Some(open) = self.open().remove(&number) else { return };
        self.tell(&open, What::Closed { code: code.to_owned() });
        self.recorder.release(&self.watcher, &open.subscriber);
    }

    /// Consistent after every statement, so a panic elsewhere does not spoil it.
    fn open(&self) -> MutexGuard<'_, HashMap<u32, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn told(event: Event) -> What {
    let response = v1::WatchResponse { event: Some(v1::WatchEvent { event: Some(event) }) };
    What::Message(response.encode_to_vec().into())
}

impl Overheard {
    pub(crate) fn new(inner: tonic::body::Body, many: Many) -> Self {
        Self { inner, many, buffer: BytesMut::new() }
    }
}

impl Body for Overheard {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, tonic::Status>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
        {
            self.buffer.extend_from_slice(data);
            while let Some(message) = message(&mut self.buffer) {
                self.many.asked(&message);
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
