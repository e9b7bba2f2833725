//! Watches: a cursor of the core, read when the client has room for more.
//!
//! The whole state stands in the response body. When the client reads slowly the body is not polled, the cursor
//! stays where it is, and the core tells the newest state of what changed meanwhile; when the client is gone the
//! body is dropped and nothing remains.

mod batch;
mod caller;
mod herald;
mod many;
mod opening;
mod spec;
mod watcher;

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;
use futures_util::stream::unfold;
use heureka_proto::served;
use heureka_proto::served::watch_event::Event;
use heureka_proto::v1::WatchRequest;
use tokio::sync::OwnedSemaphorePermit;
use tonic::Status;

use super::seats::Seat;
use super::status::Fault;
pub(super) use caller::Caller;
pub(super) use herald::herald;
pub(super) use many::Many;
use spec::{Asked, Spec, client_name};
use watcher::Watcher;

type Item = Result<served::WatchResponse, Status>;

/// The response body of a watch.
pub(super) struct Events {
    watcher: Pin<Box<dyn Stream<Item = Item> + Send>>,
    _seat: Seat,
    _place: Option<OwnedSemaphorePermit>,
}

impl Events {
    /// A watch for this caller.
    ///
    /// # Errors
    /// What makes it impossible; nothing is told then.
    pub(super) async fn open(caller: Caller, request: WatchRequest) -> Result<Self, Fault> {
        client_name("client_name", &request.client_name)?;
        let asked = Asked::parse(request.spec.unwrap_or_default(), &caller.core)?;
        let seat = caller.seat(request.client_name)?;
        let place = caller.place()?;
        let spec = asked.decide(&caller.core).await?;
        Ok(Self::new(caller.watcher(spec, &seat), seat, place))
    }

    fn new(watcher: Watcher, seat: Seat, place: Option<OwnedSemaphorePermit>) -> Self {
        // In a box, since the stream moves what it is made of with every event.
        let stream = unfold(Box::new(watcher), |mut watcher| async move {
            let event = watcher.next().await?;
            Some((event.map(response).map_err(Status::from), watcher))
        });
        Self { watcher: Box::pin(stream), _seat: seat, _place: place }
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
