//! Many subscriptions on one stream.
//!
//! Each is a watch by itself, polled when something concerns it, in turn with the others; all of them live in the
//! response body, together with the requests that add and remove them.

mod running;
mod subscription;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::Stream;
use futures_util::stream::unfold;
use heureka_model::{Invalid, Mono};
use heureka_proto::served::watch_event::Event;
use heureka_proto::v1::watch_many_request::Request;
use heureka_proto::{served, v1};
use tokio::sync::OwnedSemaphorePermit;
use tonic::{Status, Streaming};

use self::running::Running;
use self::subscription::{closed, event, to};
use super::caller::Caller;
use super::spec::{Asked, client_name};
use super::watcher::go_away;
use crate::grpc::edge::unreadable;
use crate::grpc::status::{Fault, Reason};

/// Subscriptions of a stream.
const MAX_SUBSCRIPTIONS: usize = 1000;

type Response = served::WatchManyResponse;
type Item = Result<Response, Status>;

/// The response body.
pub(in crate::grpc) struct Many(Pin<Box<dyn Stream<Item = Item> + Send>>);

/// A stream and what runs on it.
struct Subscriptions {
    caller: Caller,
    requests: Streaming<v1::WatchManyRequest>,
    /// Nothing more comes from the client.
    is_heard_out: bool,
    /// Name of the client, once it said hello.
    client: Option<Arc<str>>,
    running: Running,
    /// When the client last took something.
    taken: Mono,
    is_over: bool,
    _place: Option<OwnedSemaphorePermit>,
}

impl Many {
    pub(in crate::grpc) fn new(
        caller: Caller,
        requests: Streaming<v1::WatchManyRequest>,
    ) -> Result<Self, Fault> {
        let subscriptions = Subscriptions {
            _place: caller.place()?,
            taken: caller.core.now().mono,
            running: Running::new(caller.clone()),
            caller,
            requests,
            is_heard_out: false,
            client: None,
            is_over: false,
        };
        let responses = unfold(Box::new(subscriptions), |mut subscriptions| async move {
            Some((subscriptions.next().await?, subscriptions))
        });
        Ok(Self(Box::pin(responses)))
    }
}

impl Stream for Many {
    type Item = Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Item>> {
        self.0.as_mut().poll_next(context)
    }
}

impl Subscriptions {
    async fn next(&mut self) -> Option<Item> {
        if self.is_over {
            return None;
        }
        if self.caller.core.now().mono.since(self.taken) > self.caller.core.limits.stall {
            return self.end(Fault::new(Reason::Stalled, "the client took nothing for too long"));
        }
        let next = self.respond().await;
        self.taken = self.caller.core.now().mono;
        match next {
            Ok(response) => response.map(Ok),
            Err(fault) => self.end(fault),
        }
    }

    fn end(&mut self, fault: Fault) -> Option<Item> {
        self.is_over = true;
        self.running = Running::new(self.caller.clone());
        Some(Err(fault.into()))
    }

    async fn respond(&mut self) -> Result<Option<Response>, Fault> {
        loop {
            let leaving = self.caller.leaving().clone();
            let is_idle = self.running.is_empty();
            if is_idle && self.is_heard_out && !leaving.is_cancelled() {
                return Ok(None);
            }
            tokio::select! {
                request = self.requests.message(), if !self.is_heard_out => {
                    if let Some(response) = self.hear(request)? {
                        return Ok(Some(response));
                    }
                }
                response = self.running.next(), if !is_idle => {
                    let Some(response) = response else { continue };
                    return Ok(Some(response));
                }
                () = leaving.cancelled(), if is_idle => {
                    self.is_over = true;
                    let core = &self.caller.core;
                    return Ok(Some(to(0, event(Event::GoAway(go_away(core, Default::default()))))));
                }
            }
        }
    }

    /// Does what is asked; the answer, if there is one at once.
    ///
    /// # Errors
    /// What ends the whole stream.
    fn hear(
        &mut self,
        request: Result<Option<v1::WatchManyRequest>, Status>,
    ) -> Result<Option<Response>, Fault> {
        let Some(request) = request.map_err(|status| unreadable(&status))? else {
            self.is_heard_out = true;
            return Ok(None);
        };
        match (request.request, &self.client) {
            (Some(Request::Hello(hello)), None) => {
                client_name("hello.client_name", &hello.client_name)?;
                self.client = Some(hello.client_name.into());
                Ok(None)
            }
            (Some(Request::Hello(_)), Some(_)) => Err(refused("hello", "comes once, as the first message")),
            (_, None) => Err(refused("hello", "has to be the first message")),
            (Some(Request::Subscribe(wish)), Some(client)) => {
                let client = client.clone();
                Ok(self.subscribe(wish, client))
            }
            (Some(Request::Unsubscribe(wish)), Some(_)) => Ok(Some(self.unsubscribe(wish.subscription_id))),
            (None, Some(_)) => Err(refused("request", "is none of those that this server knows")),
        }
    }

    fn subscribe(&mut self, wish: v1::Subscribe, client: Arc<str>) -> Option<Response> {
        let id = wish.subscription_id;
        if id == 0 || self.running.contains(id) {
            let problem = if id == 0 { "must not be 0" } else { "is in use on this stream" };
            return Some(to(0, closed(refused("subscription_id", problem).into())));
        }
        match self.begin(id, wish.spec, client) {
            Ok(()) => None,
            Err(fault) => Some(to(id, closed(fault.into()))),
        }
    }

    fn begin(&mut self, id: u32, spec: Option<v1::WatchSpec>, client: Arc<str>) -> Result<(), Fault> {
        self.caller.stays()?;
        if self.running.len() >= MAX_SUBSCRIPTIONS {
            let message = format!("this stream has {MAX_SUBSCRIPTIONS} subscriptions; open another");
            return Err(Fault::new(Reason::TooManyWatches, message));
        }
        let asked = Asked::parse(spec.unwrap_or_default(), &self.caller.core)?;
        let seat = self.caller.seat(client)?;
        self.running.begin(id, asked, seat);
        Ok(())
    }

    fn unsubscribe(&mut self, id: u32) -> Response {
        if self.running.end(id) {
            return to(id, closed(v1::ItemStatus::default()));
        }
        to(0, closed(refused("subscription_id", "names no open subscription").into()))
    }
}

fn refused(field: &'static str, problem: &'static str) -> Fault {
    Fault::request(Invalid::malformed(field, problem))
}
