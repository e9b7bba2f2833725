//! What runs the subscriptions: one call after the other, and on each of them all that is subscribed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use heureka_proto::v1;
use heureka_proto::v1::watch_event::Event as Wire;
use heureka_proto::v1::watch_many_response::Response as Content;
use tokio::time::{Instant, sleep_until};
use tonic::Status;

use super::line::Line;
use super::orders::{Order, Orders};
use super::{SubscriptionId, Told};
use crate::backoff::Backoff;
use crate::calls::Calls;
use crate::error::{is_servers_fault, retry_after, status_of};
use crate::servers::Pick;
use crate::surroundings::chance;
use crate::view::{Next, View};
use crate::watch::{LONGEST_TOLD, spec};
use crate::{Error, Transport, WatchOptions};

/// All subscriptions, on whichever server answers.
pub(super) struct Engine<T> {
    calls: Arc<Calls<T>>,
    orders: Arc<Orders>,
    members: BTreeMap<SubscriptionId, Member>,
    line: Option<Line>,
    backoff: Backoff,
    /// Before the next call is made.
    ready: Instant,
    /// What was told and not delivered yet.
    told: VecDeque<Told>,
}

/// One subscription.
struct Member {
    options: WatchOptions,
    view: View,
    backoff: Backoff,
    /// When to subscribe; nothing while it is subscribed.
    due: Option<Instant>,
}

impl<T: Transport> Engine<T> {
    pub(super) fn new(calls: Arc<Calls<T>>, orders: Arc<Orders>) -> Self {
        let (members, told) = (BTreeMap::new(), VecDeque::new());
        Self { calls, orders, members, line: None, backoff: Backoff::default(), ready: Instant::now(), told }
    }

    /// The next event of any subscription. May be dropped and called again.
    pub(super) async fn next(&mut self) -> Told {
        loop {
            self.obey();
            if let Some(told) = self.told.pop_front() {
                return told;
            }
            self.advance().await;
        }
    }

    fn obey(&mut self) {
        for order in self.orders.take() {
            match order {
                Order::Add(id, options) => drop(self.members.insert(id, Member::new(options))),
                Order::Remove(id) => {
                    self.members.remove(&id);
                    self.told.retain(|(of, _)| *of != id);
                    self.line.iter_mut().for_each(|line| line.unsubscribe(id));
                }
            }
        }
    }

    /// Opens a call, or takes a message in, or waits for something to do.
    async fn advance(&mut self) {
        let orders = self.orders.clone();
        if self.members.is_empty() {
            self.line = None;
            return orders.given().await;
        }
        self.rest();
        let silence = self.calls.settings.silence();
        let Some(line) = &mut self.line else {
            tokio::select! {
                () = sleep_until(self.ready) => self.open(silence).await,
                () = orders.given() => {}
            }
            return;
        };
        let now = Instant::now();
        let (pick, settings) = (line.pick, &self.calls.settings);
        for (id, member) in self.members.iter_mut().filter(|(_, member)| member.is_due(now)) {
            member.due = None;
            line.subscribe(*id, spec(&member.options, &member.view, settings));
        }
        let due = self.members.values().filter_map(|member| member.due).min();
        tokio::select! {
            message = line.message(silence) => match message {
                Ok(Some(message)) => self.take(pick, message),
                // The server ended the stream, or the connection did: both are no reason to lose anything.
                Ok(None) => self.part(Duration::ZERO),
                Err(status) => self.refused(pick, status),
            },
            () = orders.given() => {}
            () = sleep_until(due.unwrap_or(now)), if due.is_some() => {}
        }
    }

    /// A call on which nothing is subscribed is silent, so it ends until something is to be.
    fn rest(&mut self) {
        let is_idle = self.members.values().all(|member| member.due.is_some());
        let due = self.members.values().filter_map(|member| member.due).min();
        if let Some(due) = due.filter(|due| is_idle && *due > Instant::now()) {
            self.line = None;
            self.ready = due.max(self.ready);
        }
    }

    async fn open(&mut self, silence: Duration) {
        let (pick, transport) = self.calls.servers.pick();
        match Line::open(pick, transport, &self.calls.settings.client_name, silence).await {
            Ok(line) => self.line = Some(line),
            Err((pick, status)) => self.refused(pick, status),
        }
    }

    fn take(&mut self, pick: Pick, message: v1::WatchManyResponse) {
        let number = message.subscription_id;
        let Some(id) = self.line.as_ref().and_then(|line| line.whose(number)) else {
            return self.take_of_all(pick, message);
        };
        match message.response {
            Some(Content::Event(event)) => {
                if let Some(event) = event.event {
                    self.hear(pick, id, event);
                }
            }
            Some(Content::Closed(item)) => self.closed(id, item),
            // A kind of message that a later server may send is skipped.
            None => {}
        }
    }

    /// What concerns the whole stream, or a subscription that was let go of.
    fn take_of_all(&mut self, pick: Pick, message: v1::WatchManyResponse) {
        if message.subscription_id != 0 {
            return;
        }
        match message.response {
            Some(Content::Event(v1::WatchEvent { event: Some(Wire::GoAway(away)) })) => {
                let next = View::default().leave(away);
                self.goes_on(pick, None, next);
            }
            Some(Content::Closed(item)) => tracing::warn!(reason = item.reason, "a server refused a request"),
            _ => {}
        }
    }

    fn hear(&mut self, pick: Pick, id: SubscriptionId, event: Wire) {
        let Some(member) = self.members.get_mut(&id) else { return };
        let mut events = VecDeque::new();
        let next = member.view.take(event, &mut events, Instant::now());
        self.told.extend(events.into_iter().map(|event| (id, Ok(event))));
        match next {
            Ok(next) => self.goes_on(pick, Some(id), next),
            Err(invalid) => {
                tracing::warn!(%invalid, "a server told a change that cannot be read");
                self.goes_on(pick, None, Next::Leave(Duration::ZERO));
            }
        }
    }

    /// Does what a message asks for, of one subscription or of the stream.
    fn goes_on(&mut self, pick: Pick, id: Option<SubscriptionId>, next: Next) {
        match next {
            Next::Read => {}
            Next::Settled => self.settled(pick, id),
            Next::Reconnect(within) => match id {
                Some(id) => self.again(id, within),
                None => self.part(within),
            },
            Next::Draw(within) => {
                self.calls.servers.draw(pick);
                self.part(within);
            }
            Next::Leave(within) => {
                self.calls.servers.failed(pick, None);
                self.part(within);
            }
        }
    }

    /// As for a single watch: only what lived for a while makes the next wait a short one.
    fn settled(&mut self, pick: Pick, id: Option<SubscriptionId>) {
        let lived = self.line.as_ref().map_or(Duration::ZERO, |line| line.opened.elapsed());
        if lived >= self.calls.settings.bookmark_interval {
            self.backoff.reset();
            let member = id.and_then(|id| self.members.get_mut(&id));
            member.into_iter().for_each(|member| member.backoff.reset());
        }
        self.calls.servers.answered(pick);
    }

    /// One subscription begins anew, after a random wait.
    fn again(&mut self, id: SubscriptionId, within: Duration) {
        self.line.iter_mut().for_each(|line| line.unsubscribe(id));
        if let Some(member) = self.members.get_mut(&id) {
            let wait = member.backoff.next_within(within.min(LONGEST_TOLD), chance());
            member.due = Some(Instant::now() + wait);
        }
    }

    /// A server ended one subscription: for good, or until later.
    fn closed(&mut self, id: SubscriptionId, item: v1::ItemStatus) {
        if let Some(line) = &mut self.line {
            line.forget(id);
        }
        let Some(member) = self.members.get_mut(&id) else { return };
        let (is_end, status) = (item.code != 0, status_of(item));
        let told = retry_after(&status).unwrap_or_default();
        let error = Error::from(status);
        if is_end && error.is("INVALID_RESUME_TOKEN") && !member.view.token().is_empty() {
            member.view.drop_token();
        } else if is_end && !error.is_passing() {
            self.members.remove(&id);
            return self.told.push_back((id, Err(error)));
        }
        tracing::debug!(%error, "a subscription was interrupted");
        let wait = told.min(LONGEST_TOLD) + member.backoff.next(chance());
        member.due = Some(Instant::now() + wait);
    }

    fn refused(&mut self, pick: Pick, status: Status) {
        if is_servers_fault(&status) {
            self.calls.servers.failed(pick, retry_after(&status));
        }
        let error = Error::from(status);
        tracing::debug!(%error, "a stream of many subscriptions was interrupted");
        self.lose();
        self.ready = Instant::now() + self.calls.wait(&mut self.backoff);
        if !error.is_passing() {
            let ended = std::mem::take(&mut self.members).into_keys();
            self.told.extend(ended.map(|id| (id, Err(error.clone()))));
        }
    }

    /// The next call is made after a random wait; with it all subscriptions go on from their tokens.
    fn part(&mut self, within: Duration) {
        self.lose();
        self.ready = Instant::now() + self.backoff.next_within(within.min(LONGEST_TOLD), chance());
    }

    fn lose(&mut self) {
        self.line = None;
        let now = Instant::now();
        self.members.values_mut().for_each(|member| member.due = Some(now));
    }
}

impl Member {
    fn new(options: WatchOptions) -> Self {
        let due = Some(Instant::now());
        Self { options, view: View::default(), backoff: Backoff::default(), due }
    }

    fn is_due(&self, now: Instant) -> bool {
        self.due.is_some_and(|due| due <= now)
    }
}
