//! `DiscoveryService`: consumers.

use std::sync::Arc;

use heureka_proto::convert::BorrowedKey;
use heureka_proto::listed::ListedInstances;
use heureka_proto::served::discovery_service_server::DiscoveryService;
use heureka_proto::v1;
use tonic::{Extensions, Request, Response, Status, Streaming};

use super::Connection;
use super::core::Core;
use super::lists;
use super::seats::Watches;
use super::status::{Fault, Reason};
use super::watch::{Caller, Events, Many};

/// The read side.
pub(super) struct Discovery {
    core: Arc<Core>,
    watches: Arc<Watches>,
}

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl DiscoveryService for Discovery {
    type WatchStream = Events;
    type WatchManyStream = Many;

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
        Ok(Response::new(v1::GetInstanceResponse {
            header,
            instance: Some(lists::answered(&self.core.registry, found, now)),
        }))
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
        let caller = self.caller(request.extensions())?;
        Ok(Response::new(Events::open(caller, request.into_inner()).await?))
    }

    async fn watch_many(&self, request: Request<Streaming<v1::WatchManyRequest>>) -> Answer<Many> {
        let caller = self.caller(request.extensions())?;
        Ok(Response::new(Many::new(caller, request.into_inner())?))
    }
}

impl Discovery {
    pub(super) fn new(core: Arc<Core>, watches: Arc<Watches>) -> Self {
        Self { core, watches }
    }

    fn caller(&self, extensions: &Extensions) -> Result<Caller, Fault> {
        let connection = extensions.get::<Connection>().cloned();
        Caller::admitted(self.core.clone(), self.watches.clone(), connection)
    }
}

fn not_found(key: &BorrowedKey<'_>) -> Fault {
    Fault::new(Reason::InstanceNotFound, format!("no live instance {}", key.as_ref()))
}
