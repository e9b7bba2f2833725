//! A discovery service that follows a script.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use heureka_model::RemovalReason;
use heureka_proto::v1;
use heureka_proto::v1::discovery_service_server::{DiscoveryService, DiscoveryServiceServer};
use heureka_proto::v1::watch_event::Event as Wire;
use tokio_stream::Stream;
use tonic::{Request, Response, Status, Streaming};

use super::registration;

type Item = Result<v1::WatchResponse, Status>;
/// What a stream sends, and whether it stays open after that; or the refusal of the stream.
pub(crate) type Scene = Result<(Vec<Item>, bool), Status>;

/// Answers each watch with the next scene and notes the token it came with. After the last scene it hangs.
#[derive(Clone, Default)]
pub(crate) struct Script {
    scenes: Arc<Mutex<VecDeque<Scene>>>,
    specs: Arc<Mutex<Vec<v1::WatchSpec>>>,
}

impl Script {
    pub(crate) fn new(scenes: Vec<Scene>) -> Self {
        Self { scenes: Arc::new(Mutex::new(scenes.into())), ..Self::default() }
    }

    pub(crate) fn server(&self) -> DiscoveryServiceServer<Self> {
        DiscoveryServiceServer::new(self.clone())
    }

    pub(crate) fn specs(&self) -> Vec<v1::WatchSpec> {
        self.specs.lock().unwrap().clone()
    }

    pub(crate) fn tokens(&self) -> Vec<String> {
        let text = |spec: v1::WatchSpec| String::from_utf8(spec.resume_token.to_vec()).unwrap();
        self.specs().into_iter().map(text).collect()
    }
}

#[tonic::async_trait]
impl DiscoveryService for Script {
    type WatchStream = Pin<Box<dyn Stream<Item = Item> + Send>>;
    type WatchManyStream = stream::Empty<Result<v1::WatchManyResponse, Status>>;

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        self.specs.lock().unwrap().push(request.into_inner().spec.unwrap());
        let scene = self.scenes.lock().unwrap().pop_front().unwrap_or(Ok((vec![], true)));
        let (items, open) = scene?;
        let items = stream::iter(items);
        Ok(Response::new(if open { Box::pin(items.chain(stream::pending())) } else { Box::pin(items) }))
    }

    async fn watch_many(
        &self,
        _: Request<Streaming<v1::WatchManyRequest>>,
    ) -> Result<Response<Self::WatchManyStream>, Status> {
        Err(Status::unimplemented("not in the script"))
    }

    async fn get_instance(
        &self,
        _: Request<v1::GetInstanceRequest>,
    ) -> Result<Response<v1::GetInstanceResponse>, Status> {
        Err(Status::unimplemented("not in the script"))
    }

    async fn list_instances(
        &self,
        _: Request<v1::ListInstancesRequest>,
    ) -> Result<Response<v1::ListInstancesResponse>, Status> {
        Err(Status::unimplemented("not in the script"))
    }

    async fn list_applications(
        &self,
        _: Request<v1::ListApplicationsRequest>,
    ) -> Result<Response<v1::ListApplicationsResponse>, Status> {
        Err(Status::unimplemented("not in the script"))
    }
}

pub(crate) fn item(event: Wire) -> Item {
    Ok(v1::WatchResponse { event: Some(v1::WatchEvent { event: Some(event) }) })
}

pub(crate) fn begin(mode: v1::SnapshotMode) -> Item {
    item(Wire::SnapshotBegin(v1::SnapshotBegin { mode: mode.into(), ..Default::default() }))
}

/// A full snapshot of a ready server in that life.
pub(crate) fn told_by(boot: u64) -> Wire {
    let mode = v1::ServerMode::Normal.into();
    let header = Some(v1::ResponseHeader { boot, mode, ..Default::default() });
    Wire::SnapshotBegin(v1::SnapshotBegin {
        header,
        mode: v1::SnapshotMode::Full.into(),
        ..Default::default()
    })
}

/// An instance at a version; without it, its removal there.
pub(crate) fn change(id: &str, owner: u64, is_there: bool) -> v1::Change {
    let registration = registration(id, owner);
    let (key, version) = (registration.instance.key.clone(), registration.version);
    let kind = if is_there {
        heureka_model::ChangeKind::Added
    } else {
        heureka_model::ChangeKind::Removed(RemovalReason::Expired)
    };
    let registration = is_there.then_some(registration);
    heureka_model::Change { kind, key, version, revision: 0, registration }.into()
}

pub(crate) fn put(id: &str) -> Item {
    let changes = vec![change(id, 0, true)];
    item(Wire::Changes(v1::ChangeBatch { changes, revision: 1, commit_time: None }))
}

pub(crate) fn end(token: &'static str) -> Item {
    let resume_token = Bytes::from_static(token.as_bytes());
    item(Wire::SnapshotEnd(v1::SnapshotEnd { resume_token, revision: 1, digest: None }))
}

pub(crate) fn bookmark(token: &'static str) -> Item {
    let resume_token = Bytes::from_static(token.as_bytes());
    item(Wire::Bookmark(v1::Bookmark { resume_token, revision: 1, digest: None }))
}
