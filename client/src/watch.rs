//! The stream of events: one watch after the other.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::Stream;
use futures_util::stream::unfold;
use heureka_proto::v1;
use heureka_proto::v1::discovery_service_client::DiscoveryServiceClient;
use tonic::client::GrpcService;
use tonic::codegen::{Body, Bytes, StdError};
use tonic::{Status, Streaming};

use crate::backoff::Backoff;
use crate::view::{Next, View};
use crate::{Error, Event, InstanceSelector};

/// Interval at which the server sends a token: its default, which this client keeps.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(10);
/// Silence after which a stream counts as dead.
const SILENCE: Duration = BOOKMARK_INTERVAL.saturating_mul(3);
/// Most that the server may send in one message, with room for its own growth.
const MAX_MESSAGE: usize = 4 << 20;

/// Every change of the selected set.
pub(crate) fn events<T>(
    client: DiscoveryServiceClient<T>,
    selectors: Vec<InstanceSelector>,
) -> impl Stream<Item = Result<Event, Error>> + use<T>
where
    T: GrpcService<tonic::body::Body> + Clone,
    T::Error: Into<StdError>,
    T::ResponseBody: Body<Data = Bytes> + Send + 'static,
    <T::ResponseBody as Body>::Error: Into<StdError> + Send,
{
    let watcher = Watcher {
        client: client.max_decoding_message_size(MAX_MESSAGE),
        selectors,
        view: View::default(),
        backoff: Backoff::new(),
        stream: None,
        told: VecDeque::new(),
        over: false,
    };
    unfold(watcher, |mut watcher| async move {
        let event = watcher.next().await?;
        Some((event, watcher))
    })
}

struct Watcher<T> {
    client: DiscoveryServiceClient<T>,
    selectors: Vec<InstanceSelector>,
    view: View,
    backoff: Backoff,
    stream: Option<Streaming<v1::WatchResponse>>,
    /// Events of the last message.
    told: VecDeque<Event>,
    over: bool,
}

impl<T> Watcher<T>
where
    T: GrpcService<tonic::body::Body> + Clone,
    T::Error: Into<StdError>,
    T::ResponseBody: Body<Data = Bytes> + Send + 'static,
    <T::ResponseBody as Body>::Error: Into<StdError> + Send,
{
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

    /// Opens a stream or takes a message in.
    async fn advance(&mut self) -> Result<(), Error> {
        let message = match &mut self.stream {
            Some(stream) => heard(stream).await,
            None => return self.open().await,
        };
        match message {
            Ok(Some(message)) => self.take(message).await,
            // The server ended the stream, or the connection did: both are no reason to lose anything.
            Ok(None) => self.pause().await,
            Err(status) => self.refused(status).await,
        }
    }

    async fn open(&mut self) -> Result<(), Error> {
        let spec = v1::WatchSpec {
            selectors: self.selectors.clone(),
            resume_token: self.view.token(),
            ..Default::default()
        };
        let client_name = concat!("heureka-client/", env!("CARGO_PKG_VERSION")).to_owned();
        let request = v1::WatchRequest { spec: Some(spec), client_name };
        match self.client.watch(request).await {
            Ok(response) => {
                self.stream = Some(response.into_inner());
                Ok(())
            }
            Err(status) => self.refused(status).await,
        }
    }

    async fn take(&mut self, message: v1::WatchResponse) -> Result<(), Error> {
        // A kind of message that a later server may send is skipped.
        let Some(event) = message.event.and_then(|event| event.event) else {
            return Ok(());
        };
        let mut events = Vec::new();
        let next = self.view.take(event, &mut events)?;
        self.told.extend(events);
        match next {
            Next::Read => {}
            Next::Settled => self.backoff = Backoff::new(),
            Next::Reconnect(within) => {
                self.stream = None;
                tokio::time::sleep(within.mul_f64(rand::random())).await;
            }
        }
        Ok(())
    }

    async fn refused(&mut self, status: Status) -> Result<(), Error> {
        let error = Error::from(status);
        if error.is("INVALID_RESUME_TOKEN") && !self.view.token().is_empty() {
            self.view.drop_token();
        } else if !error.is_passing() {
            return Err(error);
        }
        self.pause().await
    }

    async fn pause(&mut self) -> Result<(), Error> {
        self.stream = None;
        tokio::time::sleep(self.backoff.next(rand::random())).await;
        Ok(())
    }
}

async fn heard(stream: &mut Streaming<v1::WatchResponse>) -> Result<Option<v1::WatchResponse>, Status> {
    let silent = |_| Status::unavailable("nothing was heard for too long");
    tokio::time::timeout(SILENCE, stream.message()).await.map_err(silent)?
}

#[cfg(test)]
mod tests;
