//! Single calls: each goes to the server of the moment, in the order of this process's writes.

use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use heureka_model::{InstanceKey, LeaseTerms, Report, Status, Version};
use heureka_proto::convert::{duration, status};
use heureka_proto::v1;
use heureka_proto::v1::registry_service_client::RegistryServiceClient;
use tokio::time::{Instant, timeout_at};
use tonic::{Request, Response};

use crate::backoff::Backoff;
use crate::error::{is_servers_fault, retry_after, stored_owner};
use crate::servers::Servers;
use crate::surroundings::{chance, wall};
use crate::writer::Writer;
use crate::{Error, Settings, Transport};

/// A setting beyond this means for ever.
const LONGEST_CALL: Duration = Duration::from_hours(24);

/// What all parts of one client share.
#[derive(Debug)]
pub(crate) struct Calls<T> {
    pub(crate) servers: Servers<T>,
    pub(crate) settings: Settings,
    writer: Mutex<Writer>,
}

/// Answer to a registration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registered {
    pub(crate) version: Version,
    pub(crate) terms: LeaseTerms,
    pub(crate) override_status: Option<Status>,
}

/// Answer to a renewal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Renewed {
    pub(crate) override_status: Option<Status>,
    pub(crate) next: Duration,
}

/// Outcome of one attempt.
type Answer<R> = Result<R, tonic::Status>;

impl<T: Transport> Calls<T> {
    pub(crate) fn new(settings: Settings, servers: Servers<T>) -> Self {
        Self { servers, settings, writer: Mutex::new(Writer::new(chance())) }
    }

    /// Registers on one server. A newer version of another writer, or one that a server made of our own, is raised
    /// above once, all within the time of one call; what is overtaken again has failed.
    pub(crate) async fn register(
        &self,
        key: &InstanceKey,
        instance: &v1::Instance,
    ) -> Result<Registered, Error> {
        let until = self.deadline();
        let mut answer = self.register_once(self.write(key)?, instance, until).await;
        if self.is_overtaken(key, &answer) {
            answer = self.register_once(self.write(key)?, instance, until).await;
            // For the next attempt, if this one is in vain.
            self.is_overtaken(key, &answer);
        }
        let response = answer?;
        let version = Version::from(response.version.unwrap_or_default());
        if !response.applied {
            return Err(Error::overtaken(version.owner));
        }
        self.writer().acknowledge(key, version.owner);
        Ok(Registered {
            version,
            terms: LeaseTerms::try_from(&response.lease.unwrap_or_default())?,
            override_status: status("status_override", response.status_override)?,
        })
    }

    /// Renews on one server what was registered with this version of the owner, and on another when that one cannot
    /// answer and there is one that may: a server that leaves costs nobody a renewal.
    pub(crate) async fn renew(&self, key: &InstanceKey, owner: u64) -> Result<Renewed, Error> {
        let until = self.deadline();
        let mut answer = self.renew_once(key, owner, until).await;
        if answer.as_ref().is_err_and(is_servers_fault) && self.has_another(until) {
            answer = self.renew_once(key, owner, until).await;
        }
        let response = answer?;
        let next = response.next_renewal_in.unwrap_or_default();
        Ok(Renewed {
            override_status: status("status_override", response.status_override)?,
            next: duration("next_renewal_in", &next)?,
        })
    }

    /// Reports on one server, and on another when that one cannot answer and there is one that may; time in which
    /// readers hear of one report.
    pub(crate) async fn report(&self, key: &InstanceKey, report: Report) -> Result<Duration, Error> {
        let message = v1::ReportRequest {
            key: Some(key.clone().into()),
            available: report.available,
            gauges: report.gauges,
        };
        let until = self.deadline();
        let mut answer = self.report_once(message.clone(), until).await;
        if answer.as_ref().is_err_and(is_servers_fault) && self.has_another(until) {
            answer = self.report_once(message, until).await;
        }
        let interval = answer?.min_interval.unwrap_or_default();
        Ok(duration("min_interval", &interval)?)
    }

    /// Cancels on one server after the other until one answers; whether the instance was there.
    pub(crate) async fn cancel(&self, key: &InstanceKey) -> Result<bool, Error> {
        let mut answer = self.cancel_raised(key).await;
        for _ in 1..self.servers.len() {
            if answer.as_ref().is_err_and(is_servers_fault) {
                answer = self.cancel_raised(key).await;
            }
        }
        let response = answer?;
        self.writer().acknowledge(key, response.version.unwrap_or_default().owner);
        Ok(response.existed)
    }

    /// Before the next attempt after a failure: what `backoff` says, after what all servers asked for.
    pub(crate) fn wait(&self, backoff: &mut Backoff) -> Duration {
        self.servers.asked() + backoff.next(chance())
    }

    async fn cancel_raised(&self, key: &InstanceKey) -> Answer<v1::CancelResponse> {
        let until = self.deadline();
        let first = self.cancel_once(key, until).await;
        match &first {
            Err(refused) if self.is_raised(key, refused) => self.cancel_once(key, until).await,
            _ => first,
        }
    }

    async fn renew_once(&self, key: &InstanceKey, owner: u64, until: Instant) -> Answer<v1::RenewResponse> {
        let writer = Some(self.writer().at(owner));
        let message = v1::RenewRequest { key: Some(key.clone().into()), writer, status: 0 };
        let request = request(message, until);
        self.once(until, |mut registry| async move { registry.renew(request).await }).await
    }

    async fn report_once(&self, message: v1::ReportRequest, until: Instant) -> Answer<v1::ReportResponse> {
        let request = request(message, until);
        self.once(until, |mut registry| async move { registry.report(request).await }).await
    }

    /// Whether a server is left that may be called now, and time to do so.
    fn has_another(&self, until: Instant) -> bool {
        self.servers.quarantine().is_zero() && Instant::now() < until
    }

    /// The next write of a key.
    fn write(&self, key: &InstanceKey) -> Result<v1::Writer, Error> {
        self.writer().next(key, wall()).ok_or_else(|| Error::Version(key.clone()))
    }

    async fn register_once(
        &self,
        writer: v1::Writer,
        instance: &v1::Instance,
        until: Instant,
    ) -> Answer<v1::RegisterResponse> {
        let message = v1::RegisterRequest { instance: Some(instance.clone()), writer: Some(writer), mode: 0 };
        let request = request(message, until);
        self.once(until, |mut registry| async move { registry.register(request).await }).await
    }

    async fn cancel_once(&self, key: &InstanceKey, until: Instant) -> Answer<v1::CancelResponse> {
        // Over the greatest version a cancel is sent at that one: the server takes it when the record is our own.
        let writer = Some(self.write(key).unwrap_or_else(|_| self.writer().at(u64::MAX)));
        let message = v1::CancelRequest { key: Some(key.clone().into()), writer };
        let request = request(message, until);
        self.once(until, |mut registry| async move { registry.cancel(request).await }).await
    }

    /// One attempt on the server of the moment, which is left when it cannot answer.
    async fn once<R, F>(&self, until: Instant, send: impl FnOnce(RegistryServiceClient<T>) -> F) -> Answer<R>
    where
        F: Future<Output = Result<Response<R>, tonic::Status>>,
    {
        let (pick, transport) = self.servers.pick();
        let call = send(RegistryServiceClient::new(transport));
        let answer = timeout_at(until, call).await;
        let answer = answer.unwrap_or_else(|_| Err(tonic::Status::deadline_exceeded("no answer in time")));
        match &answer {
            Err(status) if is_servers_fault(status) => self.servers.failed(pick, retry_after(status)),
            _ => self.servers.answered(pick),
        }
        answer.map(Response::into_inner)
    }

    /// Of a call that begins now.
    fn deadline(&self) -> Instant {
        Instant::now() + self.settings.call_timeout.min(LONGEST_CALL)
    }

    /// Whether the write counts as a late copy, or as older than another writer's; the next one does not.
    fn is_overtaken(&self, key: &InstanceKey, answer: &Answer<v1::RegisterResponse>) -> bool {
        match answer {
            Ok(response) if !response.applied => {
                self.writer().raise(key, response.version.unwrap_or_default().owner);
                true
            }
            Ok(_) => false,
            Err(refused) => self.is_raised(key, refused),
        }
    }

    fn is_raised(&self, key: &InstanceKey, refused: &tonic::Status) -> bool {
        let stored = stored_owner(refused);
        stored.is_some_and(|stored| {
            self.writer().raise(key, stored);
            true
        })
    }

    /// The writer's state is consistent after every statement, so a panic elsewhere does not spoil it.
    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn request<M>(message: M, until: Instant) -> Request<M> {
    let mut request = Request::new(message);
    request.set_timeout(until.saturating_duration_since(Instant::now()));
    request
}
