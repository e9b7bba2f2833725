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
mod wishes;

use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use futures_util::stream::{poll_fn, unfold};
use futures_util::{Stream, StreamExt as _};
use heureka_proto::served;
use heureka_proto::served::watch_event::Event;
use heureka_proto::v1::WatchRequest;
use heureka_registry::seeded::{Bug, planted};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tonic::Status;

use super::seats::{Seat, count};
use super::status::Fault;
pub(super) use caller::Caller;
pub(super) use herald::{herald, herald_readings};
pub(super) use many::Many;
use spec::{Asked, Spec, client_name};
use watcher::{Rest, Watcher};

/// What a watch tells, whatever wire it goes to.
pub(super) struct Told {
    watcher: Pin<Box<dyn Stream<Item = Result<Event, Fault>> + Send>>,
    _seat: Seat,
    _place: Option<OwnedSemaphorePermit>,
}

/// The response body of a watch.
pub(super) struct Events(Told);

impl Told {
    /// A watch for this caller.
    ///
    /// # Errors
    /// What makes it impossible; nothing is told then.
    pub(super) async fn open(caller: Caller, request: WatchRequest) -> Result<Self, Fault> {
        client_name("client_name", &request.client_name)?;
        let asked = Asked::parse(request.spec.unwrap_or_default(), &caller.core)?;
        let seat = caller.seat(request.client_name.into())?;
        let place = caller.place()?;
        let spec = asked.decide(&caller.core).await?;
        // In a box, since the stream moves what it is made of with every event.
        let watcher = Box::new(caller.watcher(spec, seat.sitter().clone()));
        let watcher = unfold((watcher, caller), |(mut watcher, caller)| async move {
            let told = watcher.next().await?;
            count(&caller.figures().changes, watcher.handed());
            Some((told, (watcher, caller)))
        });
        let watcher: Pin<Box<dyn Stream<Item = Result<Event, Fault>> + Send>> =
            if planted(Bug::QueueUnbounded) { Box::pin(queued(watcher)) } else { Box::pin(watcher) };
        Ok(Self { watcher, _seat: seat, _place: place })
    }
}

impl Events {
    /// A watch for this caller.
    ///
    /// # Errors
    /// What makes it impossible; nothing is told then.
    pub(super) async fn open(caller: Caller, request: WatchRequest) -> Result<Self, Fault> {
        Told::open(caller, request).await.map(Self)
    }
}

impl Stream for Told {
    type Item = Result<Event, Fault>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.watcher.as_mut().poll_next(context)
    }
}

impl Stream for Events {
    type Item = Result<served::WatchResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let told = Pin::new(&mut self.0).poll_next(context);
        told.map(|told| told.map(|told| told.map(response).map_err(Status::from)))
    }
}

/// Everything, read ahead of the client: only for the fault that is planted so.
fn queued<T: Send + 'static>(told: impl Stream<Item = T> + Send + 'static) -> impl Stream<Item = T> + Send {
    let (sender, mut receiver) = mpsc::channel(1 << 20);
    tokio::spawn(async move {
        let mut told = pin!(told);
        while let Some(event) = told.next().await {
            if sender.send(event).await.is_err() {
                return;
            }
        }
    });
    poll_fn(move |context| receiver.poll_recv(context))
}

fn response(event: Event) -> served::WatchResponse {
    served::WatchResponse { event: Some(served::WatchEvent { event: Some(event) }) }
}
