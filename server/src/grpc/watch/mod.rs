//! Watches: a cursor of the core, read when the client has room for more.
//!
//! The whole state stands in the response body. When the client reads slowly the body is not polled, the cursor
//! stays where it is, and the core tells the newest state of what changed meanwhile; when the client is gone the
//! body is dropped and nothing remains.

mod batch;
mod herald;
mod opening;
mod spec;
mod watcher;

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;
use futures_util::stream::unfold;
use heureka_proto::served;
use heureka_proto::served::watch_event::Event;
use tonic::Status;

use super::seats::Seat;
pub(super) use herald::herald;
pub(super) use spec::Asked;
pub(super) use watcher::Watcher;

type Item = Result<served::WatchResponse, Status>;

/// The response body of a watch.
pub(super) struct Events {
    watcher: Pin<Box<dyn Stream<Item = Item> + Send>>,
    _seat: Seat,
}

impl Events {
    pub(super) fn new(watcher: Watcher, seat: Seat) -> Self {
        // In a box, since the stream moves what it is made of with every event.
        let stream = unfold(Box::new(watcher), |mut watcher| async move {
            let event = watcher.next().await?;
            Some((event.map(response).map_err(Status::from), watcher))
        });
        Self { watcher: Box::pin(stream), _seat: seat }
    }
}

impl Stream for Events {
    type Item = Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Item>> {
        self.watcher.as_mut().poll_next(context)
    }
}

fn response(event: Event) -> served::WatchResponse {
    served::WatchResponse { event: Some(served::WatchEvent { event: Some(event) }) }
}
