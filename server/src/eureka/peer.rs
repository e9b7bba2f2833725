//! The exchange with one peer of Netflix's kind.

use std::sync::Arc;
use std::time::Duration;

use heureka_compat_http::peer::{self, BATCH_PATH, DELTA_PATH, LIST_PATH, Outbox, Outcome};
use heureka_model::{Clock, Mono, Now};
use heureka_registry::Registry;

use super::Copied;
use super::health::Health;
use super::http::{CallError, Client, Reply};
use crate::drain::Ending;

/// Time between two looks for something to tell.
const POLL: Duration = Duration::from_millis(200);
/// Time between two tries to read a peer's list at the start.
const COPY_RETRY: Duration = Duration::from_secs(1);
/// Time between two looks at the whole list of a peer; in between its delta is enough.
const WHOLE: Duration = Duration::from_hours(1);

/// Who talks to one peer.
pub(super) struct Peer {
    pub(super) core: Arc<Registry>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) client: Client,
    pub(super) health: Health,
    pub(super) copied: Copied,
    pub(super) check_interval: Duration,
    pub(super) outbox: Outbox,
    /// When to read its list or delta next.
    pub(super) next_check: Mono,
    /// When to read the whole list next; at once until it was read.
    pub(super) next_whole: Mono,
}

impl Peer {
    /// Talks until the server is asked to end, and then tells what was written last.
    pub(super) async fn run(mut self, ending: Ending) {
        loop {
            tokio::select! {
                () = ending.asked() => break,
                () = tokio::time::sleep(POLL) => {}
            }
            self.check().await;
            self.tell().await;
        }
        self.tell().await;
    }

    async fn tell(&mut self) {
        while let Some(batch) = self.outbox.next(&self.core, self.clock.now()) {
            let outcome = outcome(self.client.post(BATCH_PATH, batch.body).await);
            let now = self.clock.now();
            match self.outbox.settle(&outcome, &self.core, now) {
                Ok(()) => self.health.succeeded(now),
                Err(reason) => {
                    self.health.failed(reason, now);
                    break;
                }
            }
        }
        self.health.measured(self.outbox.stats(), self.outbox.backlog(&self.core), self.client.sent);
    }

    /// Reads what the peer holds, when it is time.
    async fn check(&mut self) {
        let now = self.clock.now();
        if now.mono < self.next_check {
            return;
        }
        let whole = now.mono >= self.next_whole;
        let read = self.client.get(if whole { LIST_PATH } else { DELTA_PATH }).await;
        let now = self.clock.now();
        match read.map_err(|error| error.to_string()).and_then(|reply| self.take(&reply, whole, now)) {
            Ok(()) => {
                self.health.succeeded(now);
                self.next_check = now.mono.plus(self.check_interval);
            }
            Err(reason) => {
                self.health.failed(reason, now);
                self.next_check = now.mono.plus(if whole { COPY_RETRY } else { self.check_interval });
            }
        }
    }

    fn take(&mut self, reply: &Reply, whole: bool, now: Now) -> Result<(), String> {
        if reply.status != 200 {
            return Err(format!("its list is a {}", reply.status));
        }
        let list = if whole { "list" } else { "delta" };
        let unreadable = |error: peer::Unreadable| format!("its {list} cannot be read: {error}");
        if self.next_whole == Mono(0) {
            let copied = peer::copy(&self.core, &reply.body, now).map_err(unreadable)?;
            tracing::info!(
                taken = copied.taken,
                refused = copied.refused,
                "took in the list of a Eureka server"
            );
            self.health.copied();
            self.copied.done();
        } else {
            peer::repair(&self.core, &reply.body, &mut self.outbox, now).map_err(unreadable)?;
        }
        if whole {
            self.next_whole = now.mono.plus(WHOLE);
        }
        Ok(())
    }
}

fn outcome(answer: Result<Reply, CallError>) -> Outcome {
    match answer {
        Ok(reply) => Outcome::Answered(reply.status, reply.body),
        Err(CallError::ReadTimeout | CallError::ConnectTimeout) => Outcome::TimedOut,
        Err(error) => {
            tracing::debug!(%error, "a batch was not delivered");
            Outcome::Broken
        }
    }
}
