//! `RegistryService`: owners and operators.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use heureka_model::{DrainPlan, Instance, Invalid, KeyRef, Now, Problem, Registration, Report, Status};
use heureka_proto::convert::{BorrowedKey, duration, status, status_number, wire_duration};
use heureka_proto::served::registry_service_server::RegistryService;
use heureka_proto::{served, v1};
use heureka_registry::{
    Beat, Claim, MetadataPatch, Origin, Refused, RegisterMode, Registered, Renewed, SetOverride, Writer,
};
use prost::Message;
use tonic::{Extensions, Request, Response};

use super::core::{Core, origin};
use super::status::{Fault, Reason};

/// Items of `BatchRegister`: what 4 MiB of typical records hold.
const MAX_REGISTER_ITEMS: usize = 1000;
/// Items of `BatchRenew`: what 4 MiB of keys hold.
const MAX_RENEW_ITEMS: usize = 10_000;
/// Bytes of a writer's incarnation.
const INCARNATION: usize = 16;

/// The write side.
pub(super) struct Registrar {
    core: Arc<Core>,
}

/// Who calls, and when.
struct Call {
    origin: Origin,
    now: Now,
}

type Answer<T> = Result<Response<T>, tonic::Status>;

#[tonic::async_trait]
impl RegistryService for Registrar {
    async fn register(&self, request: Request<v1::RegisterRequest>) -> Answer<v1::RegisterResponse> {
        let call = self.call(request.extensions());
        let response = self.register_one(request.into_inner(), &call)?;
        self.core.settle().await;
        Ok(Response::new(v1::RegisterResponse { header: self.header(&call), ..response }))
    }

    async fn batch_register(
        &self,
        request: Request<served::BatchRegisterRequest>,
    ) -> Answer<v1::BatchRegisterResponse> {
        let call = self.call(request.extensions());
        let requests = &request.get_ref().requests;
        bounded(requests.len(), MAX_REGISTER_ITEMS)?;
        let register = |entry: &Bytes| result(entry_of(entry).and_then(|one| self.register_one(one, &call)));
        let results = requests.iter().map(register).collect();
        self.core.settle().await;
        Ok(Response::new(v1::BatchRegisterResponse { header: self.header(&call), results }))
    }

    async fn renew(&self, request: Request<served::RenewRequest>) -> Answer<v1::RenewResponse> {
        let call = self.call(request.extensions());
        let renewed = self.renew_one(request.get_ref(), &call)?;
        Ok(Response::new(v1::RenewResponse {
            status_override: status_number(renewed.override_status),
            next_renewal_in: Some(wire_duration(renewed.next)),
        }))
    }

    async fn batch_renew(
        &self,
        request: Request<served::BatchRenewRequest>,
    ) -> Answer<v1::BatchRenewResponse> {
        let call = self.call(request.extensions());
        let requests = &request.get_ref().requests;
        bounded(requests.len(), MAX_RENEW_ITEMS)?;
        Ok(Response::new(self.renew_all(requests, &call)))
    }

    async fn cancel(&self, request: Request<v1::CancelRequest>) -> Answer<v1::CancelResponse> {
        let call = self.call(request.extensions());
        let request = request.get_ref();
        let key = self.key(request.key.as_ref())?;
        let claim = claim(request.writer.as_ref())?;
        let cancelled = self.core.registry.cancel(key.as_ref(), claim, &call.origin, call.now);
        let cancelled = cancelled.map_err(Fault::from)?;
        self.core.settle().await;
        Ok(Response::new(v1::CancelResponse {
            header: self.header(&call),
            version: Some(cancelled.version.into()),
            existed: cancelled.existed,
        }))
    }

    async fn set_status_override(
        &self,
        request: Request<v1::SetStatusOverrideRequest>,
    ) -> Answer<v1::SetStatusOverrideResponse> {
        let call = self.call(request.extensions());
        let request = request.get_ref();
        let key = self.key(request.key.as_ref())?;
        let set = set_override(request).map_err(Fault::request)?;
        let stored = self.core.registry.set_override(key.as_ref(), set, &call.origin, call.now);
        let instance = delivered(stored.map_err(Fault::from)?);
        self.core.settle().await;
        Ok(Response::new(v1::SetStatusOverrideResponse { header: self.header(&call), instance }))
    }

    async fn clear_status_override(
        &self,
        request: Request<v1::ClearStatusOverrideRequest>,
    ) -> Answer<v1::ClearStatusOverrideResponse> {
        let call = self.call(request.extensions());
        let request = request.get_ref();
        let key = self.key(request.key.as_ref())?;
        let fallback = status("fallback_status", request.fallback_status).map_err(Fault::request)?;
        let stored = self.core.registry.clear_override(key.as_ref(), fallback, &call.origin, call.now);
        let instance = delivered(stored.map_err(Fault::from)?);
        self.core.settle().await;
        Ok(Response::new(v1::ClearStatusOverrideResponse { header: self.header(&call), instance }))
    }

    async fn update_metadata(
        &self,
        request: Request<v1::UpdateMetadataRequest>,
    ) -> Answer<v1::UpdateMetadataResponse> {
        let call = self.call(request.extensions());
        let mut request = request.into_inner();
        let owned = request.key.take();
        let key = self.key(owned.as_ref())?;
        let patch = patch(request).map_err(Fault::request)?;
        let stored = self.core.registry.update_metadata(key.as_ref(), patch, &call.origin, call.now);
        let instance = delivered(stored.map_err(Fault::from)?);
        self.core.settle().await;
        Ok(Response::new(v1::UpdateMetadataResponse { header: self.header(&call), instance }))
    }

    async fn report(&self, request: Request<v1::ReportRequest>) -> Answer<v1::ReportResponse> {
        let call = self.call(request.extensions());
        let mut request = request.into_inner();
        let owned = request.key.take();
        let key = BorrowedKey::required(owned.as_ref()).map_err(Fault::request)?;
        let registry = &self.core.registry;
        registry.report(key.as_ref(), Report::from(request), call.now).map_err(|refused| match refused {
            Refused::Invalid(invalid) => Fault::request(invalid),
            refused => Fault::from(refused),
        })?;
        let min_interval = Some(wire_duration(registry.config().report_interval));
        Ok(Response::new(v1::ReportResponse { min_interval }))
    }
}

impl Registrar {
    pub(super) fn new(core: Arc<Core>) -> Self {
        Self { core }
    }

    fn call(&self, extensions: &Extensions) -> Call {
        Call { origin: origin(extensions), now: self.core.now() }
    }

    fn header(&self, call: &Call) -> Option<v1::ResponseHeader> {
        self.core.header(self.core.registry.head(), call.now)
    }

    fn register_one(&self, request: v1::RegisterRequest, call: &Call) -> Result<v1::RegisterResponse, Fault> {
        let mode = register_mode(request.mode).map_err(Fault::request)?;
        let claim = claim(request.writer.as_ref())?;
        let instance = self.instance(request.instance).map_err(Fault::instance)?;
        let registered = self.core.registry.register(&instance, claim, mode, &call.origin, call.now)?;
        Ok(register_response(registered))
    }

    fn instance(&self, wire: Option<v1::Instance>) -> Result<Instance, Invalid> {
        let wire = wire.ok_or_else(|| Invalid::missing("instance"))?;
        let instance = Instance::try_from(wire).map_err(|invalid| invalid.within("instance"))?;
        match instance.validate(&self.core.registry.config().limits) {
            Ok(()) => Ok(instance),
            Err(invalid) if invalid.field == "instance" => Err(invalid),
            Err(invalid) => Err(invalid.within("instance")),
        }
    }

    fn renew_one(&self, request: &served::RenewRequest, call: &Call) -> Result<Renewed, Fault> {
        let key = BorrowedKey::unread(request.key.as_ref()).map_err(Fault::request)?;
        let beat = match &request.writer {
            Some(sent) => Beat::Writer(writer(sent).map_err(Fault::request)?),
            None => Beat::Plain,
        };
        let status = status("status", request.status).map_err(Fault::request)?;
        Ok(self.core.registry.renew(key.as_ref(), beat, status, &call.origin, call.now)?)
    }

    fn renew_all(&self, requests: &[Bytes], call: &Call) -> v1::BatchRenewResponse {
        let mut failures = Vec::new();
        let mut next: Option<Duration> = None;
        for (index, entry) in (0..).zip(requests) {
            match entry_of(entry).and_then(|one| self.renew_one(&one, call)) {
                Ok(renewed) => next = Some(next.map_or(renewed.next, |next| next.min(renewed.next))),
                Err(fault) => failures.push(v1::BatchRenewFailure { index, status: Some(fault.into()) }),
            }
        }
        v1::BatchRenewResponse { failures, next_renewal_in: next.map(wire_duration) }
    }

    /// A key that may be remembered.
    fn key<'a>(&self, wire: Option<&'a v1::InstanceKey>) -> Result<BorrowedKey<'a>, Fault> {
        let key = BorrowedKey::required(wire).map_err(Fault::request)?;
        KeyRef::validate(key.as_ref(), &self.core.registry.config().limits).map_err(Fault::request)?;
        Ok(key)
    }
}

fn bounded(actual: usize, limit: usize) -> Result<(), Fault> {
    if actual > limit {
        let invalid = Invalid::new("requests", Problem::TooLarge { limit, actual });
        return Err(Fault::invalid(Reason::TooManyItems, invalid));
    }
    Ok(())
}

/// Reads an entry of a batch. One that cannot be read fails alone.
fn entry_of<M: Message + Default>(entry: &Bytes) -> Result<M, Fault> {
    M::decode(entry.clone()).map_err(|error| Fault::new(Reason::MalformedMessage, error.to_string()))
}

fn result(outcome: Result<v1::RegisterResponse, Fault>) -> v1::BatchRegisterResult {
    match outcome {
        Ok(response) => {
            v1::BatchRegisterResult { status: Some(v1::ItemStatus::default()), response: Some(response) }
        }
        Err(fault) => {
            let stored = |version| v1::RegisterResponse { version: Some(version), ..Default::default() };
            let response = fault.stored().map(|version| stored(version.into()));
            v1::BatchRegisterResult { status: Some(fault.into()), response }
        }
    }
}

fn register_response(registered: Registered) -> v1::RegisterResponse {
    v1::RegisterResponse {
        header: None,
        created: registered.created,
        applied: registered.applied,
        version: Some(registered.version.into()),
        lease: Some(registered.terms.into()),
        status_override: status_number(registered.override_status),
    }
}

fn delivered(registration: Registration) -> Option<v1::Instance> {
    Some(registration.into())
}

fn claim(sent: Option<&v1::Writer>) -> Result<Claim, Fault> {
    sent.map_or(Ok(Claim::Next), |sent| writer(sent).map(Claim::Writer).map_err(Fault::request))
}

fn writer(wire: &v1::Writer) -> Result<Writer, Invalid> {
    let incarnation: [u8; INCARNATION] = wire
        .incarnation
        .as_ref()
        .try_into()
        .map_err(|_| Invalid::malformed("writer.incarnation", "does not have exactly 16 bytes"))?;
    Ok(Writer { incarnation, version: wire.version, first: wire.first })
}

fn register_mode(number: i32) -> Result<RegisterMode, Invalid> {
    match v1::RegisterMode::try_from(number) {
        Ok(v1::RegisterMode::Unspecified | v1::RegisterMode::Upsert) => Ok(RegisterMode::Upsert),
        Ok(v1::RegisterMode::CreateOnly) => Ok(RegisterMode::CreateOnly),
        Err(_) => Err(Invalid::new("mode", Problem::OutOfRange { value: number.into(), min: 0, max: 2 })),
    }
}

fn set_override(request: &v1::SetStatusOverrideRequest) -> Result<SetOverride, Invalid> {
    let status = status("status", request.status)?.ok_or_else(|| Invalid::missing("status"))?;
    if status == Status::Unknown {
        return Err(Invalid::malformed("status", "UNKNOWN is no override"));
    }
    let drain = request.drain.as_ref().map(DrainPlan::try_from).transpose()?;
    if drain.is_some() && status != Status::OutOfService {
        return Err(Invalid::malformed("drain", "goes with OUT_OF_SERVICE only"));
    }
    Ok(SetOverride { status, ttl: ttl(request.ttl.as_ref())?, drain })
}

fn ttl(sent: Option<&prost_types::Duration>) -> Result<Option<Duration>, Invalid> {
    let ttl = sent.map(|sent| duration("ttl", sent)).transpose()?;
    if ttl == Some(Duration::ZERO) {
        return Err(Invalid::malformed("ttl", "must be above zero"));
    }
    Ok(ttl)
}

fn patch(request: v1::UpdateMetadataRequest) -> Result<MetadataPatch, Invalid> {
    let twice = request.remove.iter().position(|key| request.set.contains_key(key));
    if let Some(position) = twice {
        return Err(Invalid::malformed(format!("remove[{position}]"), "stands in set too"));
    }
    Ok(MetadataPatch {
        set: request.set,
        remove: request.remove,
        replace_all: request.replace_all,
        if_version: request.if_version.map(Into::into),
    })
}
