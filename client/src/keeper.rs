//! The task behind a lease: one call at a time, in the order register, renewals, cancel.

use std::sync::Arc;
use std::time::Duration;

use heureka_model::{InstanceKey, LEASE_MIN, Status};
use heureka_proto::convert::status_number;
use heureka_proto::v1;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::calls::{Calls, Registered, Renewed};
use crate::surroundings::chance;
use crate::{Error, LeaseState, Transport};

/// Bound of the random wait before a registration that a server asked for, as a part of the interval.
const SPREAD: u32 = 6;
const LONGEST_SPREAD: Duration = Duration::from_secs(5);
/// A renewal comes up to a tenth of the interval early, so that leases of one moment part.
const EARLY: f64 = 0.1;

/// What the owner of the lease wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    Status(Status),
    Cancel,
}

/// What became of the cancel: whether the instance was there.
pub(crate) type Outcome = Result<bool, Error>;

/// Keeps one registration.
pub(crate) struct Keeper<T> {
    calls: Arc<Calls<T>>,
    instance: v1::Instance,
    key: InstanceKey,
    wish: watch::Receiver<Wish>,
    state: watch::Sender<LeaseState>,
    outcome: watch::Sender<Option<Outcome>>,
    backoff: Backoff,
    /// Status that a server surely holds; nothing while that is not known.
    told: Option<Status>,
}

/// What to do after a call.
struct Rest {
    wait: Duration,
    hurry: Hurry,
}

/// When a new status ends a rest.
#[derive(Clone, Copy)]
enum Hurry {
    AtOnce,
    /// As soon as a server is not quarantined.
    WhenServed,
    Never,
}

/// Why a rest ended.
enum Woken {
    Due,
    Cancelled,
    Dropped,
}

impl<T: Transport> Keeper<T> {
    pub(crate) fn new(
        calls: Arc<Calls<T>>,
        instance: v1::Instance,
        key: InstanceKey,
        wish: watch::Receiver<Wish>,
        state: LeaseState,
    ) -> (Self, watch::Receiver<LeaseState>, watch::Receiver<Option<Outcome>>) {
        let (backoff, told) = (Backoff::up_to(state.terms.renewal_interval()), Some(state.status));
        let (state, states) = watch::channel(state);
        let (outcome, outcomes) = watch::channel(None);
        (Self { calls, instance, key, wish, state, outcome, backoff, told }, states, outcomes)
    }

    /// Until the lease is cancelled or dropped.
    pub(crate) async fn run(mut self) {
        let mut rest = self.healthy(self.state.borrow().terms.renewal_interval());
        loop {
            match self.rest(rest).await {
                Woken::Due => rest = self.call().await,
                Woken::Cancelled => return self.cancel().await,
                Woken::Dropped => return,
            }
        }
    }

    async fn rest(&mut self, rest: Rest) -> Woken {
        let mut until = Instant::now() + rest.wait;
        loop {
            let wish = tokio::select! {
                biased;
                changed = self.wish.changed() => changed.map(|()| *self.wish.borrow()),
                () = tokio::time::sleep_until(until) => return Woken::Due,
            };
            match wish {
                Err(_) => return Woken::Dropped,
                Ok(Wish::Cancel) => return Woken::Cancelled,
                Ok(Wish::Status(status)) if self.told == Some(status) => {}
                Ok(Wish::Status(_)) => match rest.hurry {
                    Hurry::AtOnce => return Woken::Due,
                    Hurry::WhenServed => until = until.min(Instant::now() + self.calls.servers.quarantine()),
                    Hurry::Never => {}
                },
            }
        }
    }

    async fn call(&mut self) -> Rest {
        let Wish::Status(status) = *self.wish.borrow() else {
            return Rest { wait: Duration::ZERO, hurry: Hurry::AtOnce };
        };
        let is_told = self.told == Some(status);
        let rest = if is_told { self.renew().await } else { self.register(status).await };
        rest.unwrap_or_else(|error| self.failed(error))
    }

    async fn register(&mut self, status: Status) -> Result<Rest, Error> {
        self.instance.status = status_number(Some(status));
        self.told = None;
        let confirmed = Instant::now();
        let Registered { version, terms, override_status } =
            self.calls.register(&self.key, &self.instance).await?;
        self.backoff = Backoff::up_to(terms.renewal_interval());
        self.told = Some(status);
        self.state.send_replace(LeaseState {
            is_registered: true,
            version,
            status,
            override_status,
            terms,
            confirmed,
            fault: None,
        });
        Ok(self.healthy(terms.renewal_interval()))
    }

    async fn renew(&mut self) -> Result<Rest, Error> {
        let (confirmed, owner) = (Instant::now(), self.state.borrow().version.owner);
        let Renewed { override_status, next } = self.calls.renew(&self.key, owner).await?;
        self.backoff.reset();
        self.state.send_modify(|state| {
            state.override_status = override_status;
            state.confirmed = confirmed;
            state.fault = None;
        });
        // A server may hurry a lease, not let it lapse.
        Ok(self.healthy(next.min(self.state.borrow().terms.renewal_interval())))
    }

    fn failed(&mut self, error: Error) -> Rest {
        let is_lost = error.is("LEASE_NOT_FOUND") || error.is("INSTANCE_OUTDATED");
        let wait = if is_lost { self.spread() } else { self.pause() };
        if is_lost {
            self.told = None;
            tracing::info!(key = %self.key, %error, ?wait, "registering again");
        } else {
            tracing::warn!(key = %self.key, %error, ?wait, "not renewed");
        }
        self.state.send_modify(|state| {
            state.is_registered &= !is_lost;
            state.fault = Some(error);
        });
        Rest { wait, hurry: if is_lost { Hurry::Never } else { Hurry::WhenServed } }
    }

    async fn cancel(self) {
        let outcome = self.calls.cancel(&self.key).await;
        self.state.send_modify(|state| {
            state.is_registered = false;
            state.fault = outcome.as_ref().err().cloned();
        });
        self.outcome.send_replace(Some(outcome));
    }

    fn healthy(&self, interval: Duration) -> Rest {
        let early = 1.0 - EARLY * chance::<f64>();
        Rest { wait: interval.max(LEASE_MIN).mul_f64(early), hurry: Hurry::AtOnce }
    }

    /// However long the servers ask for, never so long that the lease lapses meanwhile.
    fn pause(&mut self) -> Duration {
        let longest = self.healthy(self.state.borrow().terms.renewal_interval()).wait;
        self.calls.wait(&mut self.backoff).min(longest)
    }

    fn spread(&self) -> Duration {
        let interval = self.state.borrow().terms.renewal_interval();
        (interval / SPREAD).min(LONGEST_SPREAD).mul_f64(chance())
    }
}

#[cfg(test)]
mod tests;
