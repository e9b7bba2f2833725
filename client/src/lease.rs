//! A registration that this process keeps.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use heureka_model::{Instance, InstanceKey, LeaseTerms, Report, Status, Version};
use heureka_proto::v1;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_stream::wrappers::WatchStream;

use crate::backoff::Backoff;
use crate::calls::Calls;
use crate::keeper::{Keeper, Outcome, Wish};
use crate::{Error, Transport};

/// Keeps an instance registered; [`Client::register`](crate::Client::register) returns it.
///
/// * It renews in the background, a little before the server expects it, and never later than the terms in force
///   say. A renewal that finds its server leaving or gone is made again at once where there is another.
/// * When a server no longer knows the instance (it restarted) or knows an older state of it, it registers again
///   after a random part of a sixth of the interval, at most 5 s, so that a fleet does not come back at one moment.
/// * What passes (no server answers, the registry is full) is waited out: 0.1 s doubled up to the renewal interval
///   and never more than 30 s, each wait drawn at random. A server that asks for time gets it while another is
///   called; when all of them ask, the lease waits for the first, a renewal interval at most. It never gives up.
/// * Cancel is the last call of a registration: nothing is under way when it is sent, and nothing is sent after.
///
/// **Dropping it does not cancel.** The renewals stop and readers see the instance until its lease lapses, as if the
/// process had died. Call [`cancel`](Self::cancel) before leaving.
#[derive(Debug)]
pub struct Lease {
    key: InstanceKey,
    wish: watch::Sender<Wish>,
    state: watch::Receiver<LeaseState>,
    outcome: watch::Receiver<Option<Outcome>>,
    desk: Desk,
}

/// Where reports go.
struct Desk(Box<dyn Fn(InstanceKey, Report) -> Reporting + Send + Sync>);

type Reporting = Pin<Box<dyn Future<Output = Result<Duration, Error>> + Send>>;

/// What is known of a lease.
#[derive(Clone, Debug, PartialEq)]
pub struct LeaseState {
    /// The server that answered last holds the instance. False from a renewal that found nothing until the
    /// registration after it, and after a cancel.
    pub is_registered: bool,
    /// Version of the record that was last registered.
    pub version: Version,
    /// Status that was last registered.
    pub status: Status,
    /// Status that an operator set over it, as last told.
    pub override_status: Option<Status>,
    /// Terms in force, as the last registration told.
    pub terms: LeaseTerms,
    /// When the last call that a server confirmed was sent: the lease lives for `terms.duration()` from then at
    /// least.
    pub confirmed: Instant,
    /// Why the last call failed; nothing when it did not.
    pub fault: Option<Error>,
}

impl Lease {
    pub(crate) async fn begin<T: Transport>(calls: Arc<Calls<T>>, instance: Instance) -> Result<Self, Error> {
        let (key, status) = (instance.key.clone(), instance.status);
        let instance = v1::Instance::from(instance);
        let mut backoff = Backoff::default();
        let (registered, confirmed) = loop {
            let sent = Instant::now();
            match calls.register(&key, &instance).await {
                Err(error) if error.is_passing() => {
                    tracing::warn!(%key, %error, "not registered yet");
                    tokio::time::sleep(calls.wait(&mut backoff)).await;
                }
                answer => break (answer?, sent),
            }
        };
        let state = LeaseState {
            is_registered: true,
            version: registered.version,
            status,
            override_status: registered.override_status,
            terms: registered.terms,
            confirmed,
            fault: None,
        };
        let (wish, wished) = watch::channel(Wish::Status(status));
        let desk = Desk::of(calls.clone());
        let (keeper, state, outcome) = Keeper::new(calls, instance, key.clone(), wished, state);
        tokio::spawn(keeper.run());
        Ok(Self { key, wish, state, outcome, desk })
    }

    /// Key of the instance.
    #[must_use]
    pub fn key(&self) -> &InstanceKey {
        &self.key
    }

    /// Reports another status. Returns at once; the newest status is registered as soon as the call under way is
    /// answered, and what was set in between is skipped. After [`cancel`](Self::cancel) it does nothing.
    pub fn set_status(&self, status: Status) {
        self.wish.send_if_modified(|wish| {
            let news = *wish != Wish::Cancel && *wish != Wish::Status(status);
            if news {
                *wish = Wish::Status(status);
            }
            news
        });
    }

    /// Tells what the instance has free and how it is, beside its record: what changes too often to be registered.
    /// The report takes the place of the one before. Readers hear of one in the time that this returns; reporting
    /// more often brings nothing.
    ///
    /// It is sent once, to another server where one cannot answer, and not again: the next report makes up for it.
    ///
    /// # Errors
    /// As `docs/errors.md` says: above all `INVALID_REQUEST` with the field at fault, and `LEASE_NOT_FOUND` from a
    /// server that does not know the instance yet.
    pub async fn report(&self, report: Report) -> Result<Duration, Error> {
        (self.desk.0)(self.key.clone(), report).await
    }

    /// Removes the instance; whether a server still held it. The answer to the call under way, if any, is waited
    /// for, then Cancel is sent, to one server after the other until one answers. Each of these calls takes
    /// [`call_timeout`](crate::Settings::call_timeout) at most, so the whole one more of them than there are
    /// servers. Every call to this returns the outcome of the first, and giving up the wait does not take it back.
    ///
    /// # Errors
    /// No server answered, or one refused, as `docs/errors.md` says. Renewals have stopped all the same.
    pub async fn cancel(&self) -> Result<bool, Error> {
        self.wish.send_replace(Wish::Cancel);
        let mut outcome = self.outcome.clone();
        let settled = outcome.wait_for(Option::is_some).await.map(|outcome| outcome.clone());
        settled.ok().flatten().unwrap_or_else(|| Err(Error::abandoned()))
    }

    /// What is known now.
    #[must_use]
    pub fn state(&self) -> LeaseState {
        self.state.borrow().clone()
    }

    /// What is known now, and again after every call; a slow reader gets the newest only. Ends with the lease.
    #[must_use]
    pub fn states(&self) -> WatchStream<LeaseState> {
        WatchStream::new(self.state.clone())
    }
}

impl Desk {
    fn of<T: Transport>(calls: Arc<Calls<T>>) -> Self {
        Self(Box::new(move |key, report| {
            let calls = calls.clone();
            Box::pin(async move { calls.report(&key, report).await })
        }))
    }
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk").finish_non_exhaustive()
    }
}
