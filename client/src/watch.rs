//! The stream of events: one watch after the other.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::stream::unfold;
use heureka_proto::convert::wire_duration;
use heureka_proto::v1;
use heureka_proto::v1::discovery_service_client::DiscoveryServiceClient;
use tokio::time::{Instant, timeout};
use tokio_stream::Stream;
use tonic::{Status, Streaming};

use crate::backoff::Backoff;
use crate::calls::Calls;
use crate::error::{is_servers_fault, retry_after};
use crate::servers::Pick;
use crate::surroundings::chance;
use crate::view::{Next, View};
use crate::{Error, Event, Settings, Transport, WatchOptions};

/// Most that the server may send in one message, with room for its own growth.
pub(crate) const MAX_MESSAGE: usize = 4 << 20;
/// Longest jitter that a server may ask for.
pub(crate) const LONGEST_TOLD: Duration = Duration::from_mins(5);

/// Every change of a set of instances, as a [`Stream`]; [`Client::watch`](crate::Client::watch) returns it.
///
/// It begins with what is there, each instance as [`Event::Added`], then [`Event::Synced`]. From then on each event
/// is a difference to what was told before, whatever happens to servers and connections in between: the watch
/// resumes where it was, goes to another server when one fails or falls silent, fetches everything anew when that
/// is the only way, compares its set with the server's digests, and tells nothing twice. Nothing is told backwards
/// either, whichever server comes next: an instance never in an older version, and one that was removed not again,
/// unless servers say so for ten minutes: then what was known is remembered by nobody else.
///
/// It ends only after an error that no retry mends, such as `INVALID_SELECTOR`. Nothing is sent before it is polled,
/// and nothing is read faster than it is polled. Dropping it ends the watch.
#[must_use = "a watch does nothing until it is polled"]
pub struct Watch(Pin<Box<dyn Stream<Item = Result<Event, Error>> + Send>>);

impl Watch {
    pub(crate) fn new<T: Transport>(calls: Arc<Calls<T>>, options: WatchOptions) -> Self {
        let watcher = Watcher::new(calls, options, View::default());
        Self(Box::pin(unfold(watcher, |mut watcher| async move {
            let event = watcher.next().await?;
            Some((event, watcher))
        })))
    }
}

impl Stream for Watch {
    type Item = Result<Event, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(context)
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

/// One watch after the other, on whichever server answers.
pub(crate) struct Watcher<T> {
    calls: Arc<Calls<T>>,
    options: WatchOptions,
    pub(crate) view: View,
    backoff: Backoff,
    stream: Option<(Pick, Streaming<v1::WatchResponse>)>,
    opened: Instant,
    /// Before the next stream is opened.
    wait: Duration,
    /// Events of the last message.
    told: VecDeque<Event>,
    over: bool,
}

impl<T: Transport> Watcher<T> {
    pub(crate) fn new(calls: Arc<Calls<T>>, options: WatchOptions, view: View) -> Self {
        let (backoff, wait, told) = (Backoff::default(), Duration::ZERO, VecDeque::new());
        let opened = Instant::now();
        Self { calls, options, view, backoff, stream: None, opened, wait, told, over: false }
    }

    async fn next(&mut self) -> Option<Result<Event, Error>> {
        loop {
            if let Some(event) = self.told.pop_front() {
                return Some(Ok(event));
            }
            if self.over {
                return None;
            }
            if let Err(error) = self.advance().await {
                self.over = true;
                return Some(Err(error));
            }
        }
    }

    /// The events of the next message, which may be none.
    pub(crate) async fn hear(&mut self) -> Result<Vec<Event>, Error> {
        while !self.advance().await? {}
        Ok(std::mem::take(&mut self.told).into())
    }

    /// Opens a stream or takes a message in; whether it was a message.
    async fn advance(&mut self) -> Result<bool, Error> {
        let silence = self.calls.settings.silence();
        let Some((pick, stream)) = &mut self.stream else {
            return self.open(silence).await.map(|()| false);
        };
        let pick = *pick;
        let message = timeout(silence, stream.message()).await;
        match message.unwrap_or_else(|_| Err(silent())) {
            Ok(Some(message)) => {
                self.take(pick, message);
                return Ok(true);
            }
            // The server ended the stream, or the connection did: both are no reason to lose anything.
            Ok(None) => self.part(Duration::ZERO),
            Err(status) => self.refused(pick, status)?,
        }
        Ok(false)
    }

    async fn open(&mut self, silence: Duration) -> Result<(), Error> {
        tokio::time::sleep(std::mem::take(&mut self.wait)).await;
        let (pick, transport) = self.calls.servers.pick();
        let mut client = DiscoveryServiceClient::new(transport).max_decoding_message_size(MAX_MESSAGE);
        let answer = timeout(silence, client.watch(self.request())).await;
        match answer.unwrap_or_else(|_| Err(silent())) {
            Ok(response) => {
                self.opened = Instant::now();
                self.stream = Some((pick, response.into_inner()));
            }
            Err(status) => self.refused(pick, status)?,
        }
        Ok(())
    }

    fn request(&self) -> v1::WatchRequest {
        let settings = &self.calls.settings;
        let spec = spec(&self.options, &self.view, settings);
        v1::WatchRequest { spec: Some(spec), client_name: settings.client_name.clone() }
    }

    fn take(&mut self, pick: Pick, message: v1::WatchResponse) {
        // A kind of message that a later server may send is skipped.
        let Some(event) = message.event.and_then(|event| event.event) else {
            return;
        };
        match self.view.take(event, &mut self.told, Instant::now()) {
            Ok(Next::Read) => {}
            Ok(Next::Settled) => self.settled(pick),
            Ok(Next::Reconnect(within)) => self.part(within),
            Ok(Next::Draw(within)) => {
                self.calls.servers.draw(pick);
                self.part(within);
            }
            Ok(Next::Leave(within)) => self.leave(pick, within),
            Err(invalid) => {
                tracing::warn!(%invalid, "a server told a change that cannot be read");
                self.leave(pick, Duration::ZERO);
            }
        }
    }

    /// All is well; but only a stream that lived for a while makes the next wait a short one, or a server that ends
    /// each stream as soon as it told everything would be called without pause.
    fn settled(&mut self, pick: Pick) {
        if self.opened.elapsed() >= self.calls.settings.bookmark_interval {
            self.backoff.reset();
        }
        self.calls.servers.answered(pick);
    }

    fn refused(&mut self, pick: Pick, status: Status) -> Result<(), Error> {
        if is_servers_fault(&status) {
            self.calls.servers.failed(pick, retry_after(&status));
        }
        let error = Error::from(status);
        if error.is("INVALID_RESUME_TOKEN") && !self.view.token().is_empty() {
            self.view.drop_token();
        } else if !error.is_passing() {
            return Err(error);
        }
        tracing::debug!(%error, "a watch was interrupted");
        self.stream = None;
        self.wait = self.calls.wait(&mut self.backoff);
        Ok(())
    }

    /// The next stream is another server's, when there is one.
    fn leave(&mut self, pick: Pick, within: Duration) {
        self.calls.servers.failed(pick, None);
        self.part(within);
    }

    /// The next stream is opened after a random wait, up to this one when the backoff's own bound is lower. What was
    /// told is delivered first.
    fn part(&mut self, within: Duration) {
        self.stream = None;
        self.wait = self.backoff.next_within(within.min(LONGEST_TOLD), chance());
    }
}

/// What is asked for by whoever holds this already.
pub(crate) fn spec(options: &WatchOptions, view: &View, settings: &Settings) -> v1::WatchSpec {
    v1::WatchSpec {
        resume_token: view.token(),
        known_digests: view.known(),
        bookmark_interval: Some(wire_duration(settings.bookmark_interval)),
        ..options.spec()
    }
}

pub(crate) fn silent() -> Status {
    Status::unavailable("nothing was heard for too long")
}

#[cfg(test)]
mod tests;
