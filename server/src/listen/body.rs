//! The two directions of a request's body.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep};

use super::guarded::Turn;

/// A request's body that fails when it makes no progress for a time.
pub(super) struct Patient {
    body: Incoming,
    wait: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    /// Something came since the timer was set.
    moved: bool,
    stalled: Stalled,
}

/// Tells whether a body stood still.
#[derive(Clone, Debug, Default)]
pub(super) struct Stalled(Arc<AtomicBool>);

/// An answer's body; the request is served until it is gone.
pub(super) struct Answer {
    body: axum::body::Body,
    _turn: Option<Turn>,
}

/// A body stood still for longer than its time.
#[derive(Debug, thiserror::Error)]
#[error("the request body made no progress in time")]
struct BodyStalled;

impl Stalled {
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Patient {
    pub(super) fn new(body: Incoming, wait: Duration, stalled: Stalled) -> Self {
        Self { body, wait, timer: None, moved: false, stalled }
    }

    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<BodyStalled> {
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(self.wait)));
        if std::mem::take(&mut self.moved) {
            timer.as_mut().reset(Instant::now() + self.wait);
        }
        timer.as_mut().poll(cx).map(|()| {
            self.stalled.0.store(true, Ordering::Relaxed);
            BodyStalled
        })
    }
}

impl Body for Patient {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        match Pin::new(&mut this.body).poll_frame(cx) {
            Poll::Pending => this.poll_patience(cx).map(|error| Some(Err(error.into()))),
            Poll::Ready(frame) => {
                this.moved = true;
                Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Answer {
    pub(super) fn new(body: axum::body::Body, turn: Option<Turn>) -> Self {
        Self { body, _turn: turn }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
