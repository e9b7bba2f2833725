//! The stream against a server that follows a script.

use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};

use futures_util::{StreamExt as _, stream};
use heureka_model::{Instance, InstanceKey, Registration};
use heureka_proto::v1::discovery_service_server::{DiscoveryService, DiscoveryServiceServer};
use heureka_proto::v1::watch_event::Event as Wire;
use tonic::{Code, Request, Response};
use tonic_types::{ErrorDetails, StatusExt as _};

use super::*;
use crate::Client;

type Item = Result<v1::WatchResponse, Status>;
/// What a stream sends, and whether it stays open after that; or the refusal of the stream.
type Scene = Result<(Vec<Item>, bool), Status>;

/// Answers each watch with the next scene and notes the token it came with. After the last scene it hangs.
#[derive(Clone, Default)]
struct Script {
    scenes: Arc<Mutex<VecDeque<Scene>>>,
    tokens: Arc<Mutex<Vec<Bytes>>>,
}

#[tonic::async_trait]
impl DiscoveryService for Script {
    type WatchStream = Pin<Box<dyn Stream<Item = Item> + Send>>;

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        self.tokens.lock().unwrap().push(request.into_inner().spec.unwrap().resume_token);
        let scene = self.scenes.lock().unwrap().pop_front().unwrap_or(Ok((vec![], true)));
        let (items, open) = scene?;
        let items = stream::iter(items);
        Ok(Response::new(if open { Box::pin(items.chain(stream::pending())) } else { Box::pin(items) }))
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

impl Script {
    fn new(scenes: Vec<Scene>) -> Self {
        Self { scenes: Arc::new(Mutex::new(scenes.into())), ..Self::default() }
    }

    fn events(&self) -> impl Stream<Item = Result<Event, Error>> + use<> {
        Client::over(DiscoveryServiceServer::new(self.clone())).watch(Vec::new())
    }

    fn tokens(&self) -> Vec<String> {
        let tokens = self.tokens.lock().unwrap();
        tokens.iter().map(|token| String::from_utf8(token.to_vec()).unwrap()).collect()
    }
}

fn item(event: Wire) -> Item {
    Ok(v1::WatchResponse { event: Some(v1::WatchEvent { event: Some(event) }) })
}

fn begin(mode: v1::SnapshotMode) -> Item {
    item(Wire::SnapshotBegin(v1::SnapshotBegin { header: None, mode: mode.into() }))
}

fn put(id: &str) -> Item {
    let key = InstanceKey { namespace: String::new(), app: "WEB".into(), id: id.into() };
    let registration = Registration {
        instance: Instance::new(key.clone()),
        overlay: Default::default(),
        version: Default::default(),
        times: Default::default(),
        revision: 0,
    };
    let change = v1::Change {
        r#type: v1::ChangeType::Added.into(),
        key: Some(key.into()),
        version: Some(registration.version.into()),
        instance: Some(registration.into()),
        removal_reason: 0,
    };
    item(Wire::Changes(v1::ChangeBatch { changes: vec![change], revision: 1, commit_time: None }))
}

fn end(token: &'static str) -> Item {
    let resume_token = Bytes::from_static(token.as_bytes());
    item(Wire::SnapshotEnd(v1::SnapshotEnd { resume_token, revision: 1, digest: None }))
}

fn refusal(code: Code, reason: &str) -> Status {
    Status::with_error_details(code, "m", ErrorDetails::with_error_info(reason, "heureka", []))
}

/// Ids of the added instances, and the sizes of the set when it was complete.
async fn hear(events: impl Stream<Item = Result<Event, Error>>, number: usize) -> Vec<String> {
    events
        .take(number)
        .map(|event| match event.unwrap() {
            Event::Added(registration) => registration.instance.key.id.clone(),
            Event::Synced { instances } => instances.to_string(),
            other => format!("{other:?}"),
        })
        .collect()
        .await
}

#[tokio::test(start_paused = true)]
async fn a_lost_stream_is_resumed_by_its_token() {
    let script = Script::new(vec![
        Err(Status::unavailable("starting")),
        Ok((vec![begin(v1::SnapshotMode::Full), put("a"), end("one"), Err(Status::unknown("cut"))], true)),
        Ok((vec![begin(v1::SnapshotMode::Resume), put("b"), end("two")], false)),
        Ok((vec![begin(v1::SnapshotMode::Resume), end("three")], true)),
    ]);
    assert_eq!(hear(script.events(), 5).await, ["a", "1", "b", "2", "2"]);
    assert_eq!(script.tokens(), ["", "", "one", "two"]);
}

#[tokio::test(start_paused = true)]
async fn a_silent_stream_is_given_up() {
    let script = Script::new(vec![
        Ok((vec![begin(v1::SnapshotMode::Full), end("one")], true)),
        Ok((vec![begin(v1::SnapshotMode::Resume), end("two")], true)),
    ]);
    let start = tokio::time::Instant::now();
    assert_eq!(hear(script.events(), 2).await, ["0", "0"]);
    assert!(start.elapsed() >= SILENCE);
}

#[tokio::test(start_paused = true)]
async fn a_goodbye_is_followed() {
    let away = v1::GoAway { resume_token: Bytes::from_static(b"moved"), ..Default::default() };
    let script = Script::new(vec![
        Ok((vec![begin(v1::SnapshotMode::Full), end("one"), item(Wire::GoAway(away))], true)),
        Ok((vec![begin(v1::SnapshotMode::Resume), end("two")], true)),
    ]);
    assert_eq!(hear(script.events(), 2).await, ["0", "0"]);
    assert_eq!(script.tokens(), ["", "moved"]);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_refused_is_dropped() {
    let script = Script::new(vec![
        Ok((vec![begin(v1::SnapshotMode::Full), end("bad")], false)),
        Err(refusal(Code::InvalidArgument, "INVALID_RESUME_TOKEN")),
        Ok((vec![begin(v1::SnapshotMode::Full), end("good")], true)),
    ]);
    assert_eq!(hear(script.events(), 2).await, ["0", "0"]);
    assert_eq!(script.tokens(), ["", "bad", ""]);
}

#[tokio::test(start_paused = true)]
async fn a_fault_of_the_caller_ends_the_stream() {
    let script = Script::new(vec![Err(refusal(Code::InvalidArgument, "INVALID_SELECTOR"))]);
    let mut events = pin!(script.events());
    assert!(events.next().await.unwrap().unwrap_err().is("INVALID_SELECTOR"));
    assert!(events.next().await.is_none());
    assert_eq!(script.tokens().len(), 1);
}
