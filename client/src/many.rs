//! Many subscriptions on one stream, added and removed while it runs.

mod engine;
mod line;
mod orders;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::stream::unfold;
use tokio_stream::Stream;

use crate::calls::Calls;
use crate::{Error, Event, Transport, WatchOptions};
use engine::Engine;
use orders::Orders;

/// One of many subscriptions; each has its own, and none comes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriptionId(pub(crate) u64);

/// Changes of many sets of instances on one stream, each with the number of its subscription;
/// [`Client::watch_many`](crate::Client::watch_many) returns it.
///
/// Each subscription tells what a [`Watch`](crate::Watch) of its selectors would: it begins with what is there, then
/// [`Event::Synced`], then differences, whatever happens to servers and connections in between. All of them share one
/// stream and go to another server together, each with its own token. The events of one subscription are in order;
/// between two of them nothing is promised.
///
/// A subscription that a server refuses for good, such as for `INVALID_SELECTOR`, ends with its error, and with it
/// alone. The stream itself never ends. Nothing is sent before it is polled, and nothing is read faster than it is
/// polled, so one reader who is slow is slow for all of its subscriptions. Dropping it ends them.
///
/// A server takes a thousand subscriptions on one stream; those beyond wait for their turn.
#[must_use = "subscriptions do nothing until the stream is polled"]
pub struct WatchMany {
    events: Pin<Box<dyn Stream<Item = Told> + Send>>,
    subscriptions: Subscriptions,
}

/// What a subscription told, or why it ended.
type Told = (SubscriptionId, Result<Event, Error>);

/// Adds subscriptions to a [`WatchMany`] and removes them, also from other tasks. Clones share one stream.
#[derive(Clone, Debug)]
pub struct Subscriptions(Arc<Orders>);

impl WatchMany {
    pub(crate) fn new<T: Transport>(calls: Arc<Calls<T>>) -> Self {
        let orders = Arc::new(Orders::default());
        let engine = Engine::new(calls, orders.clone());
        let events = unfold(engine, |mut engine| async move {
            let told = engine.next().await;
            Some((told, engine))
        });
        Self { events: Box::pin(events), subscriptions: Subscriptions(orders) }
    }

    /// What adds subscriptions and removes them.
    #[must_use]
    pub fn subscriptions(&self) -> Subscriptions {
        self.subscriptions.clone()
    }

    /// Adds a set: selectors, of which one has to match, or [`WatchOptions`] that ask for more. The default is the whole
    /// default namespace.
    pub fn subscribe(&self, options: impl Into<WatchOptions>) -> SubscriptionId {
        self.subscriptions.subscribe(options)
    }

    /// Ends a subscription. Events of it that are on their way are not delivered any more; one that has ended is left
    /// alone.
    pub fn unsubscribe(&self, id: SubscriptionId) {
        self.subscriptions.unsubscribe(id);
    }
}

impl Subscriptions {
    /// As [`WatchMany::subscribe`].
    pub fn subscribe(&self, options: impl Into<WatchOptions>) -> SubscriptionId {
        self.0.subscribe(options.into())
    }

    /// As [`WatchMany::unsubscribe`].
    pub fn unsubscribe(&self, id: SubscriptionId) {
        self.0.unsubscribe(id);
    }
}

impl Stream for WatchMany {
    type Item = (SubscriptionId, Result<Event, Error>);

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.events.as_mut().poll_next(context)
    }
}

impl fmt::Debug for WatchMany {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchMany").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
