//! The native service without a registry. What the bench does not call it does not serve.

use bytes::Bytes;
use heureka_proto::v1;
use heureka_proto::v1::registry_service_server::RegistryService;
use heureka_proto::v1::watch_event::Event;
use tokio::sync::broadcast;
use tonic::{Request, Response, Status};

use crate::drive::framed;

/// The writes.
pub(super) struct Native {
    events: broadcast::Sender<Bytes>,
}

type Answer<T> = Result<Response<T>, Status>;

impl Native {
    pub(super) fn new(events: broadcast::Sender<Bytes>) -> Self {
        Self { events }
    }

    /// Tells every watcher of an instance.
    fn publish(&self, instance: v1::Instance) {
        let change = v1::Change {
            r#type: v1::ChangeType::Modified.into(),
            key: instance.key.clone(),
            version: Some(v1::Version::default()),
            instance: Some(instance),
            ..v1::Change::default()
        };
        let changes = v1::ChangeBatch { changes: vec![change], revision: 1, ..v1::ChangeBatch::default() };
        let event = v1::WatchEvent { event: Some(Event::Changes(changes)) };
        // A watcher that leaves meanwhile is no fault.
        let _ = self.events.send(framed(&v1::WatchResponse { event: Some(event) }));
    }
}

#[tonic::async_trait]
impl RegistryService for Native {
    async fn register(&self, request: Request<v1::RegisterRequest>) -> Answer<v1::RegisterResponse> {
        let instance = request.into_inner().instance.ok_or_else(|| Status::invalid_argument("instance"))?;
        let response = registered(&instance);
        if self.events.receiver_count() > 0 {
            self.publish(instance);
        }
        Ok(Response::new(response))
    }

    async fn renew(&self, request: Request<v1::RenewRequest>) -> Answer<v1::RenewResponse> {
        request.into_inner().key.ok_or_else(|| Status::invalid_argument("key"))?;
        Ok(Response::new(v1::RenewResponse::default()))
    }

    async fn batch_register(
        &self,
        request: Request<v1::BatchRegisterRequest>,
    ) -> Answer<v1::BatchRegisterResponse> {
        let result = |request: v1::RegisterRequest| {
            let instance = request.instance.ok_or_else(|| Status::invalid_argument("instance"))?;
            Ok(v1::BatchRegisterResult { response: Some(registered(&instance)), ..Default::default() })
        };
        let results: Result<_, Status> = request.into_inner().requests.into_iter().map(result).collect();
        Ok(Response::new(v1::BatchRegisterResponse { results: results?, ..Default::default() }))
    }

    async fn batch_renew(&self, request: Request<v1::BatchRenewRequest>) -> Answer<v1::BatchRenewResponse> {
        if request.get_ref().requests.iter().any(|request| request.key.is_none()) {
            return Err(Status::invalid_argument("key"));
        }
        Ok(Response::new(v1::BatchRenewResponse::default()))
    }

    async fn cancel(&self, _: Request<v1::CancelRequest>) -> Answer<v1::CancelResponse> {
        Err(Status::unimplemented("not measured"))
    }

    async fn set_status_override(
        &self,
        _: Request<v1::SetStatusOverrideRequest>,
    ) -> Answer<v1::SetStatusOverrideResponse> {
        Err(Status::unimplemented("not measured"))
    }

    async fn clear_status_override(
        &self,
        _: Request<v1::ClearStatusOverrideRequest>,
    ) -> Answer<v1::ClearStatusOverrideResponse> {
        Err(Status::unimplemented("not measured"))
    }

    async fn update_metadata(
        &self,
        _: Request<v1::UpdateMetadataRequest>,
    ) -> Answer<v1::UpdateMetadataResponse> {
        Err(Status::unimplemented("not measured"))
    }

    async fn report(&self, _: Request<v1::ReportRequest>) -> Answer<v1::ReportResponse> {
        Err(Status::unimplemented("not measured"))
    }
}

fn registered(instance: &v1::Instance) -> v1::RegisterResponse {
    let version = v1::Version { owner: instance.metadata.len() as u64, ..v1::Version::default() };
    v1::RegisterResponse {
        created: true,
        applied: true,
        version: Some(version),
        lease: Some(v1::Lease::default()),
        ..v1::RegisterResponse::default()
    }
}
