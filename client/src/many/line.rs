//! One `WatchMany` call, and which number on it stands for which subscription.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use futures_util::StreamExt as _;
use heureka_proto::v1;
use heureka_proto::v1::discovery_service_client::DiscoveryServiceClient;
use heureka_proto::v1::watch_many_request::Request;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::SubscriptionId;
use crate::Transport;
use crate::servers::Pick;
use crate::watch::{MAX_MESSAGE, silent};

/// Requests on their way to the transport.
const REQUESTS: usize = 16;

/// An open call.
pub(super) struct Line {
    pub(super) pick: Pick,
    pub(super) opened: Instant,
    /// When the last message came.
    heard: Instant,
    requests: mpsc::Sender<v1::WatchManyRequest>,
    /// What the transport did not take yet.
    unsent: VecDeque<v1::WatchManyRequest>,
    responses: Streaming<v1::WatchManyResponse>,
    /// Numbers are used once, so that nothing of an ended subscription is taken for another's.
    numbers: u32,
    by_number: HashMap<u32, SubscriptionId>,
    by_id: HashMap<SubscriptionId, u32>,
}

impl Line {
    pub(super) async fn open<T: Transport>(
        pick: Pick,
        transport: T,
        client_name: &str,
        silence: Duration,
    ) -> Result<Self, (Pick, Status)> {
        let mut client = DiscoveryServiceClient::new(transport).max_decoding_message_size(MAX_MESSAGE);
        let (requests, receiver) = mpsc::channel(REQUESTS);
        let hello = asks(Request::Hello(v1::WatchHello { client_name: client_name.to_owned() }));
        let stream = tokio_stream::once(hello).chain(ReceiverStream::new(receiver));
        let answer = timeout(silence, client.watch_many(stream)).await;
        let responses = answer.unwrap_or_else(|_| Err(silent())).map_err(|status| (pick, status))?;
        Ok(Self {
            pick,
            opened: Instant::now(),
            heard: Instant::now(),
            requests,
            unsent: VecDeque::new(),
            responses: responses.into_inner(),
            numbers: 0,
            by_number: HashMap::new(),
            by_id: HashMap::new(),
        })
    }

    /// Begins a subscription.
    pub(super) fn subscribe(&mut self, id: SubscriptionId, spec: v1::WatchSpec) {
        self.numbers += 1;
        self.by_number.insert(self.numbers, id);
        self.by_id.insert(id, self.numbers);
        let wish = v1::Subscribe { subscription_id: self.numbers, spec: Some(spec) };
        self.unsent.push_back(asks(Request::Subscribe(wish)));
    }

    /// Ends a subscription, if it is open; nothing of it is heard any more.
    pub(super) fn unsubscribe(&mut self, id: SubscriptionId) {
        if let Some(number) = self.forget(id) {
            let wish = v1::Unsubscribe { subscription_id: number };
            self.unsent.push_back(asks(Request::Unsubscribe(wish)));
        }
    }

    /// The server ended a subscription.
    pub(super) fn forget(&mut self, id: SubscriptionId) -> Option<u32> {
        let number = self.by_id.remove(&id)?;
        self.by_number.remove(&number);
        Some(number)
    }

    /// Whom a number stands for.
    pub(super) fn whose(&self, number: u32) -> Option<SubscriptionId> {
        self.by_number.get(&number).copied()
    }

    /// Sends what is to be sent, and waits for what comes. May be dropped and called again.
    pub(super) async fn message(
        &mut self,
        silence: Duration,
    ) -> Result<Option<v1::WatchManyResponse>, Status> {
        loop {
            tokio::select! {
                permit = self.requests.reserve(), if !self.unsent.is_empty() => match permit {
                    Ok(permit) => {
                        if let Some(request) = self.unsent.pop_front() {
                            permit.send(request);
                        }
                    }
                    // The call is over; what comes says why.
                    Err(_) => self.unsent.clear(),
                },
                message = self.responses.message() => {
                    self.heard = Instant::now();
                    return message;
                }
                () = sleep_until(self.heard + silence) => return Err(silent()),
            }
        }
    }
}

fn asks(request: Request) -> v1::WatchManyRequest {
    v1::WatchManyRequest { request: Some(request) }
}
