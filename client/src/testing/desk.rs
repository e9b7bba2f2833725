//! A registry service that answers as it is told and notes what it was asked.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use heureka_model::LeaseTerms;
use heureka_proto::convert::wire_duration;
use heureka_proto::v1;
use heureka_proto::v1::registry_service_server::{RegistryService, RegistryServiceServer};
use tokio::sync::Notify;
use tokio::time::Instant;
use tonic::{Request, Response, Status};

/// Interval of every lease of the desk.
const INTERVAL: Duration = Duration::from_secs(30);

/// Time in which readers hear of one report.
pub(crate) const REPORTS: Duration = Duration::from_secs(1);

/// A call that arrived.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Call {
    Register(Box<v1::RegisterRequest>),
    Renew(v1::RenewRequest),
    Cancel(v1::CancelRequest),
    Report(v1::ReportRequest),
}

impl Call {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Register(_) => "register",
            Self::Renew(_) => "renew",
            Self::Cancel(_) => "cancel",
            Self::Report(_) => "report",
        }
    }
}

/// Grants everything, except that the next answers can be refusals.
#[derive(Clone, Default)]
pub(crate) struct Desk {
    calls: Arc<Mutex<Vec<(Instant, Call)>>>,
    refusals: Arc<Mutex<VecDeque<Status>>>,
    hung: Arc<Mutex<bool>>,
    /// Time before each answer.
    delay: Arc<Mutex<Duration>>,
    /// What a renewal is told instead of the interval.
    next_renewal_in: Arc<Mutex<Option<Duration>>>,
    /// Versions that are stored, by id, whoever registers: one that is not above counts as a late copy.
    stored: Arc<Mutex<HashMap<String, u64>>>,
    arrived: Arc<Notify>,
}

impl Desk {
    pub(crate) fn server(&self) -> RegistryServiceServer<Self> {
        RegistryServiceServer::new(self.clone())
    }

    pub(crate) fn refuse(&self, refusals: impl IntoIterator<Item = Status>) {
        self.refusals.lock().unwrap().extend(refusals);
    }

    /// From now on calls arrive and are not answered.
    pub(crate) fn hang(&self) {
        *self.hung.lock().unwrap() = true;
    }

    /// From now on each answer takes this long.
    pub(crate) fn delay(&self, delay: Duration) {
        *self.delay.lock().unwrap() = delay;
    }

    /// Tells every renewal this wait.
    pub(crate) fn tell_next_renewal_in(&self, wait: Duration) {
        *self.next_renewal_in.lock().unwrap() = Some(wait);
    }

    pub(crate) fn store(&self, id: &str, version: u64) {
        self.stored.lock().unwrap().insert(id.to_owned(), version);
    }

    pub(crate) fn calls(&self) -> Vec<(Instant, Call)> {
        self.calls.lock().unwrap().clone()
    }

    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.calls().iter().map(|(_, call)| call.name()).collect()
    }

    /// Waits until that many calls arrived in all.
    pub(crate) async fn arrived(&self, number: usize) {
        while self.calls.lock().unwrap().len() < number {
            self.arrived.notified().await;
        }
    }

    async fn take(&self, call: Call) -> Result<(), Status> {
        self.calls.lock().unwrap().push((Instant::now(), call));
        self.arrived.notify_one();
        if *self.hung.lock().unwrap() {
            std::future::pending::<()>().await;
        }
        let delay = *self.delay.lock().unwrap();
        tokio::time::sleep(delay).await;
        self.refusals.lock().unwrap().pop_front().map_or(Ok(()), Err)
    }
}

fn unscripted<R>() -> Result<Response<R>, Status> {
    Err(Status::unimplemented("not at this desk"))
}

#[tonic::async_trait]
impl RegistryService for Desk {
    async fn register(
        &self,
        request: Request<v1::RegisterRequest>,
    ) -> Result<Response<v1::RegisterResponse>, Status> {
        let request = request.into_inner();
        let owner = request.writer.as_ref().map_or(1, |writer| writer.version);
        let id = request.instance.as_ref().and_then(|instance| instance.key.clone()).unwrap_or_default().id;
        self.take(Call::Register(Box::new(request))).await?;
        let stored = self.stored.lock().unwrap().get(&id).copied().unwrap_or_default();
        Ok(Response::new(v1::RegisterResponse {
            applied: owner > stored,
            version: Some(v1::Version { owner: owner.max(stored), ..Default::default() }),
            lease: Some(LeaseTerms::clamped(INTERVAL, INTERVAL * 3).into()),
            ..Default::default()
        }))
    }

    async fn renew(&self, request: Request<v1::RenewRequest>) -> Result<Response<v1::RenewResponse>, Status> {
        self.take(Call::Renew(request.into_inner())).await?;
        let told = *self.next_renewal_in.lock().unwrap();
        let next_renewal_in = Some(wire_duration(told.unwrap_or(INTERVAL)));
        Ok(Response::new(v1::RenewResponse { status_override: 0, next_renewal_in }))
    }

    async fn cancel(
        &self,
        request: Request<v1::CancelRequest>,
    ) -> Result<Response<v1::CancelResponse>, Status> {
        self.take(Call::Cancel(request.into_inner())).await?;
        Ok(Response::new(v1::CancelResponse { existed: true, ..Default::default() }))
    }

    async fn batch_register(
        &self,
        _: Request<v1::BatchRegisterRequest>,
    ) -> Result<Response<v1::BatchRegisterResponse>, Status> {
        unscripted()
    }

    async fn batch_renew(
        &self,
        _: Request<v1::BatchRenewRequest>,
    ) -> Result<Response<v1::BatchRenewResponse>, Status> {
        unscripted()
    }

    async fn set_status_override(
        &self,
        _: Request<v1::SetStatusOverrideRequest>,
    ) -> Result<Response<v1::SetStatusOverrideResponse>, Status> {
        unscripted()
    }

    async fn clear_status_override(
        &self,
        _: Request<v1::ClearStatusOverrideRequest>,
    ) -> Result<Response<v1::ClearStatusOverrideResponse>, Status> {
        unscripted()
    }

    async fn report(
        &self,
        request: Request<v1::ReportRequest>,
    ) -> Result<Response<v1::ReportResponse>, Status> {
        self.take(Call::Report(request.into_inner())).await?;
        Ok(Response::new(v1::ReportResponse { min_interval: Some(wire_duration(REPORTS)) }))
    }

    async fn update_metadata(
        &self,
        _: Request<v1::UpdateMetadataRequest>,
    ) -> Result<Response<v1::UpdateMetadataResponse>, Status> {
        unscripted()
    }
}
