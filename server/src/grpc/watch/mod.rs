//! Watches: a cursor of the core, read when the client has room for more.
//!
//! The whole state stands in the response body. When the client reads slowly the body is not polled, the cursor
//! stays where it is, and the core tells the newest state of what changed meanwhile; when the client is gone the
//! body is dropped and nothing remains.

mod batch;
mod spec;
mod watcher;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::Stream;
use futures_util::stream::unfold;
use heureka_model::Mono;
use heureka_proto::served;
use heureka_proto::served::watch_event::Event;
use tonic::Status;

use super::core::Core;
use super::seats::{Seat, Watches, count};
use super::status::{Fault, Reason};
pub(super) use spec::Spec;
pub(super) use watcher::Watcher;

type Item = Result<served::WatchResponse, Status>;

/// The response body of a watch.
pub(super) struct Events {
    watcher: Option<Pin<Box<dyn Stream<Item = Item> + Send>>>,
    core: Arc<Core>,
    watches: Arc<Watches>,
    polled: Mono,
    _seat: Seat,
}

impl Events {
    pub(super) fn new(watcher: Watcher, core: Arc<Core>, watches: Arc<Watches>, seat: Seat) -> Self {
        let polled = core.now().mono;
        let stream = unfold(watcher, |mut watcher| async move {
            let event = watcher.next().await?;
            Some((event.map(response).map_err(Status::from), watcher))
        });
        Self { watcher: Some(Box::pin(stream)), core, watches, polled, _seat: seat }
    }

    fn stalled(&mut self) -> Option<Item> {
        self.watcher = None;
        count(&self.watches.figures().stalled, 1);
        let fault = Fault::new(Reason::Stalled, "the client took nothing for too long");
        Some(Err(fault.into()))
    }
}

impl Stream for Events {
    type Item = Item;

    /// A healthy body is polled at least once in a bookmark interval, whatever happens. One that was not polled
    /// for much longer has a client without room, and its state is dropped as soon as anybody asks.
    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Item>> {
        let now = self.core.now().mono;
        let silence = now.since(std::mem::replace(&mut self.polled, now));
        if silence > self.core.limits.stall && self.watcher.is_some() {
            return Poll::Ready(self.stalled());
        }
        match &mut self.watcher {
            Some(watcher) => watcher.as_mut().poll_next(context),
            None => Poll::Ready(None),
        }
    }
}

fn response(event: Event) -> served::WatchResponse {
    served::WatchResponse { event: Some(served::WatchEvent { event: Some(event) }) }
}
