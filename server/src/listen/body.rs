//! The two directions of a request's body.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep};

use super::guarded::Turn;
use crate::doze::Doze;

/// Bytes per second that a body must bring on average once its first patience is over. Any network that carries
/// heartbeats is faster; who sends byte by byte would hold a request for as long as the body is.
const RATE: u32 = 1 << 10;

/// Bytes of a refused body that are read and dropped: an ordinary client sends all before it looks for an answer,
/// and would find a reset in its place.
const DISCARDED_MAX: usize = 8 << 20;

/// A request's body: its handler reads it, and after a refusal the connection reads on.
#[derive(Debug)]
pub(super) struct Upload<B>(Arc<Shared<B>>);

#[derive(Debug)]
struct Shared<B> {
    body: Mutex<B>,
    stalled: AtomicBool,
}

/// An upload that fails when it makes no progress for a time, or too little.
pub(super) struct Patient<B> {
    upload: Upload<B>,
    wait: Duration,
    /// Set when the sender first keeps the reader waiting.
    pace: Option<Pace>,
}

/// How an upload comes along.
struct Pace {
    timer: Pin<Box<Sleep>>,
    /// When even an upload at the lowest rate would have brought what came so far.
    due: Instant,
}

/// An answer's body; the request is served until it is gone.
///
/// The protocol library looks for more of it whenever anything becomes of its stream: room reserved, a frame written.
/// A body that kept it waiting is asked again when it has something, not before.
pub(super) struct Answer {
    body: axum::body::Body,
    /// Once it kept its reader waiting.
    doze: Option<Doze>,
    _turn: Option<Turn>,
}

/// A body stood still for longer than its time, or all but did.
#[derive(Debug, thiserror::Error)]
#[error("the request body made no progress in time")]
struct BodyStalled;

impl<B: Body<Data = Bytes> + Unpin> Upload<B> {
    pub(super) fn new(body: B) -> Self {
        Self(Arc::new(Shared { body: Mutex::new(body), stalled: AtomicBool::new(false) }))
    }

    /// The body as its handler sees it.
    pub(super) fn patient(&self, wait: Duration) -> Patient<B> {
        Patient { upload: Self(self.0.clone()), wait, pace: None }
    }

    /// The handler was told that the sender is too slow.
    pub(super) fn is_stalled(&self) -> bool {
        self.0.stalled.load(Ordering::Relaxed)
    }

    /// Reads on what the handler left and drops it, up to a bound; the caller limits the time.
    pub(super) async fn discard(&self) {
        let mut left = DISCARDED_MAX;
        while let Some(Ok(frame)) = poll_fn(|cx| self.poll(cx)).await {
            let length = frame.data_ref().map_or(0, Bytes::len);
            match left.checked_sub(length) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        Pin::new(&mut *self.0.body.lock()).poll_frame(cx)
    }
}

impl<B> Patient<B> {
    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<BodyStalled> {
        let pace = self.pace.get_or_insert_with(|| Pace::new(self.wait));
        pace.timer.as_mut().poll(cx).map(|()| {
            self.upload.0.stalled.store(true, Ordering::Relaxed);
            BodyStalled
        })
    }
}

impl Pace {
    fn new(wait: Duration) -> Self {
        let due = Instant::now() + wait;
        Self { timer: Box::pin(tokio::time::sleep_until(due)), due }
    }

    /// The next bytes are expected within the patience, and before what came so far is overdue.
    fn came(&mut self, bytes: usize, wait: Duration) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.due += Duration::from_secs(1) * bytes / RATE;
        self.timer.as_mut().reset(self.due.min(Instant::now() + wait));
    }
}

impl<B> Body for Patient<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<axum::BoxError>,
{
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        match this.upload.poll(cx) {
            Poll::Pending => this.poll_patience(cx).map(|error| Some(Err(error.into()))),
            Poll::Ready(frame) => {
                if let (Some(pace), Some(Ok(frame))) = (&mut this.pace, &frame) {
                    pace.came(frame.data_ref().map_or(0, Bytes::len), this.wait);
                }
                Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.upload.0.body.lock().is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.upload.0.body.lock().size_hint()
    }
}

impl Answer {
    pub(super) fn new(body: axum::body::Body, turn: Option<Turn>) -> Self {
        Self { body, doze: None, _turn: turn }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        let body = Pin::new(&mut this.body);
        let Some(doze) = &this.doze else {
            let frame = body.poll_frame(cx);
            this.doze = frame.is_pending().then(Doze::new);
            return frame;
        };
        doze.poll(cx, |cx| body.poll_frame(cx))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::Waker;

    use futures_util::stream::{self, Stream};
    use http_body_util::{BodyExt as _, StreamBody};

    use super::*;

    const WAIT: Duration = Duration::from_secs(10);

    /// A sender of so many bytes every few seconds, for ever.
    fn sender(bytes: usize, every: Duration) -> impl Body<Data = Bytes, Error = axum::BoxError> + Unpin {
        StreamBody::new(Box::pin(frames(bytes, every)))
    }

    fn frames(bytes: usize, every: Duration) -> impl Stream<Item = Result<Frame<Bytes>, axum::BoxError>> {
        stream::unfold((), move |()| async move {
            tokio::time::sleep(every).await;
            Some((Ok(Frame::data(Bytes::from(vec![b'x'; bytes]))), ()))
        })
    }

    /// Seconds of the paused clock until the sender is given up, an hour at most.
    async fn given_up(bytes: usize, every: Duration) -> Option<u64> {
        let start = Instant::now();
        let upload = Upload::new(sender(bytes, every));
        let mut patient = upload.patient(WAIT);
        let read = async { while let Some(Ok(_)) = patient.frame().await {} };
        tokio::time::timeout(Duration::from_hours(1), read).await.ok()?;
        assert!(upload.is_stalled());
        Some(start.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn a_sender_that_stands_still_is_given_up() {
        assert_eq!(given_up(1 << 20, Duration::from_secs(11)).await, Some(10));
    }

    #[tokio::test(start_paused = true)]
    async fn a_sender_of_single_bytes_is_given_up() {
        assert_eq!(given_up(1, Duration::from_secs(9)).await, Some(10));
        assert_eq!(given_up(512, Duration::from_secs(1)).await, Some(19));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_sender_at_the_lowest_rate_is_heard_to_its_end() {
        assert_eq!(given_up(1 << 10, Duration::from_secs(1)).await, None);
        assert_eq!(given_up(9 << 10, Duration::from_secs(9)).await, None);
    }

    #[tokio::test]
    async fn an_answer_that_kept_its_reader_waiting_is_asked_when_it_has_something() {
        let (sender, mut receiver) = tokio::sync::mpsc::channel::<Bytes>(9);
        let asked = Arc::new(AtomicUsize::new(0));
        let asks = asked.clone();
        let frames = stream::poll_fn(move |cx| {
            asks.fetch_add(1, Ordering::SeqCst);
            receiver.poll_recv(cx).map(|bytes| bytes.map(|bytes| Ok::<_, axum::BoxError>(Frame::data(bytes))))
        });
        let mut answer = Answer::new(axum::body::Body::new(StreamBody::new(frames)), None);
        let mut look = || Pin::new(&mut answer).poll_frame(&mut Context::from_waker(Waker::noop()));
        (0..9).for_each(|_| assert!(look().is_pending()));
        // Once with its reader's waker, once with one of its own.
        assert_eq!(asked.load(Ordering::SeqCst), 2);
        for word in ["one", "two"] {
            sender.send(word.into()).await.unwrap();
        }
        for word in ["one", "two"] {
            let Poll::Ready(Some(Ok(frame))) = look() else { panic!("{word} is there") };
            assert_eq!(frame.into_data().unwrap(), word);
        }
        (0..9).for_each(|_| assert!(look().is_pending()));
        assert_eq!(asked.load(Ordering::SeqCst), 5);
        drop(sender);
        assert!(matches!(look(), Poll::Ready(None)));
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_handler_leaves_is_read_up_to_a_bound() {
        let start = Instant::now();
        let upload = Upload::new(sender(1 << 20, Duration::from_secs(1)));
        drop(upload.patient(WAIT));
        upload.discard().await;
        assert_eq!(start.elapsed().as_secs(), 9);
    }
}
