//! `DiscoveryService`: consumers.

use std::sync::Arc;

use heureka_proto::convert::BorrowedKey;
use heureka_proto::listed::ListedInstances;
use heureka_proto::served::discovery_service_server::DiscoveryService;
use heureka_proto::v1;
use tonic::{Request, Response, Status};

use super::Connection;
use super::core::{Core, leaving};
use super::lists;
use super::seats::Watches;
use super::status::{Fault, Reason};
use super::watch::{Asked, Events, Watcher};

/// The read side.
pub(super) struct Discovery {
    core: Arc<Core>,
    watches: Arc<Watches>,
}

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl DiscoveryService for Discovery {
    type WatchStream = Events;

    async fn get_instance(
        &self,
        request: Request<v1::GetInstanceRequest>,
    ) -> Answer<v1::GetInstanceResponse> {
        self.core.readable()?;
        let now = self.core.now();
        let revision = self.core.registry.head();
        let key = BorrowedKey::required(request.get_ref().key.as_ref()).map_err(Fault::request)?;
        let found = self.core.registry.get(key.as_ref(), now).ok_or_else(|| not_found(&key))?;
        let header = self.core.header(revision, now);
        Ok(Response::new(v1::GetInstanceResponse { header, instance: Some(lists::answered(found, now)) }))
    }

    async fn list_instances(&self, request: Request<v1::ListInstancesRequest>) -> Answer<ListedInstances> {
        self.core.readable()?;
        let page = lists::instances(&self.core, request.into_inner(), self.core.now()).await?;
        Ok(Response::new(page))
    }

    async fn list_applications(
        &self,
        request: Request<v1::ListApplicationsRequest>,
    ) -> Answer<v1::ListApplicationsResponse> {
        self.core.readable()?;
        let page = lists::applications(&self.core, request.get_ref(), self.core.now())?;
        Ok(Response::new(page))
    }

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Answer<Events> {
        let connection = request.extensions().get::<Connection>().cloned();
        let events = self.open(connection.as_ref(), request.into_inner()).await?;
        Ok(Response::new(events))
    }
}

impl Discovery {
    pub(super) fn new(core: Arc<Core>, watches: Arc<Watches>) -> Self {
        Self { core, watches }
    }

    async fn open(
        &self,
        connection: Option<&Connection>,
        request: v1::WatchRequest,
    ) -> Result<Events, Fault> {
        self.core.readable()?;
        let leaving = leaving(connection, &self.core.drain);
        if leaving.is_cancelled() || self.core.drain.is_cancelled() {
            return Err(Fault::new(Reason::Draining, "the server is leaving"));
        }
        let client = request.client_name.clone();
        let asked = Asked::parse(request, &self.core)?;
        let address = connection.map(|connection| connection.0.address);
        let places = connection.map(|connection| &connection.0.watches);
        let seat = self.watches.sit(client.clone(), address, places, self.core.now().wall)?;
        let spec = asked.decide(&self.core).await?;
        tracing::debug!(%client, mode = ?spec.opening.mode, "watch opened");
        let sitter = seat.sitter().clone();
        let watcher = Watcher::new(self.core.clone(), spec, leaving.clone(), self.watches.clone(), sitter);
        Ok(Events::new(watcher, seat))
    }
}

fn not_found(key: &BorrowedKey<'_>) -> Fault {
    Fault::new(Reason::InstanceNotFound, format!("no live instance {}", key.as_ref()))
}
