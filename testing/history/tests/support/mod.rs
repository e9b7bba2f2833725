//! Steps of few words.
#![expect(clippy::unwrap_used, reason = "a test fails by it")]
#![allow(dead_code, unreachable_pub, clippy::allow_attributes, reason = "each test file uses its part")]

use bytes::Bytes;
use heureka_history::{Page, Recording, Step, What, Wrote};
use heureka_model::{InstanceKey, Registration, SetDigest};
use heureka_proto::v1;
use heureka_proto::v1::watch_event::Event;
use heureka_proto::v1::{SnapshotMode, StartMode};
use prost::Message as _;

pub const BOOT: u64 = 7;

pub fn recording(steps: impl IntoIterator<Item = What>) -> Recording {
    let mut recording = Recording::new();
    for what in steps {
        recording.push(Step { watcher: String::new(), what }).unwrap();
    }
    recording
}

pub fn key(id: &str) -> v1::InstanceKey {
    v1::InstanceKey { namespace: String::new(), app: "WEB".into(), id: id.into() }
}

pub fn version(owner: u64) -> v1::Version {
    v1::Version { owner, clock: owner, boot: BOOT, ..v1::Version::default() }
}

pub fn header(boot: u64, revision: u64) -> Option<v1::ResponseHeader> {
    Some(v1::ResponseHeader { boot, revision, ..v1::ResponseHeader::default() })
}

/// An instance in the state UP.
pub fn instance(id: &str, owner: u64) -> v1::Instance {
    v1::Instance {
        key: Some(key(id)),
        status: v1::InstanceStatus::Up.into(),
        reported_status: v1::InstanceStatus::Up.into(),
        ip_address: "10.0.0.1".into(),
        host_name: "web".into(),
        version: Some(version(owner)),
        ..v1::Instance::default()
    }
}

pub fn told(instance: v1::Instance) -> v1::Change {
    v1::Change {
        r#type: v1::ChangeType::Modified.into(),
        key: instance.key.clone(),
        version: instance.version,
        instance: Some(instance),
        removal_reason: 0,
    }
}

pub fn put(id: &str, owner: u64) -> v1::Change {
    told(instance(id, owner))
}

pub fn gone(id: &str, owner: u64, reason: v1::RemovalReason) -> v1::Change {
    v1::Change {
        r#type: v1::ChangeType::Removed.into(),
        key: Some(key(id)),
        version: Some(version(owner)),
        instance: None,
        removal_reason: reason.into(),
    }
}

pub fn cancelled(id: &str, owner: u64) -> v1::Change {
    gone(id, owner, v1::RemovalReason::Cancelled)
}

pub fn open(spec: v1::WatchSpec) -> What {
    What::Open { server: String::new(), spec: Box::new(spec) }
}

pub fn follow() -> What {
    open(v1::WatchSpec::default())
}

pub fn resume(revision: u64) -> What {
    open(v1::WatchSpec { resume_token: token(revision), ..v1::WatchSpec::default() })
}

pub fn start(mode: StartMode) -> What {
    open(v1::WatchSpec { start_mode: mode.into(), ..v1::WatchSpec::default() })
}

pub fn token(revision: u64) -> Bytes {
    format!("after {revision}").into()
}

pub fn message(event: Event) -> What {
    let response = v1::WatchResponse { event: Some(v1::WatchEvent { event: Some(event) }) };
    What::Message(response.encode_to_vec().into())
}

pub fn begin(mode: SnapshotMode, revision: u64) -> What {
    begin_of(BOOT, mode, revision)
}

pub fn begin_of(boot: u64, mode: SnapshotMode, revision: u64) -> What {
    message(Event::SnapshotBegin(v1::SnapshotBegin {
        header: header(boot, revision),
        mode: mode.into(),
        apps: Vec::new(),
        parts: Vec::new(),
    }))
}

pub fn batch(revision: u64, changes: Vec<v1::Change>) -> What {
    message(Event::Changes(v1::ChangeBatch { changes, revision, commit_time: None }))
}

pub fn digest<'a>(instances: impl IntoIterator<Item = &'a v1::Instance>) -> v1::SetDigest {
    let mut digest = SetDigest::default();
    for instance in instances {
        let live = Registration::try_from(instance.clone()).unwrap();
        digest.add(live.hash(), live.status());
    }
    digest.into()
}

/// Digest of instances by id and owner's version.
pub fn of(set: &[(&str, u64)]) -> Option<v1::SetDigest> {
    let set: Vec<_> = set.iter().map(|(id, owner)| instance(id, *owner)).collect();
    Some(digest(&set))
}

pub fn end(revision: u64, digest: Option<v1::SetDigest>) -> What {
    let end = v1::SnapshotEnd { resume_token: token(revision), revision, digest };
    message(Event::SnapshotEnd(end))
}

pub fn mark(revision: u64, digest: Option<v1::SetDigest>) -> What {
    let mark = v1::Bookmark { resume_token: token(revision), revision, digest };
    message(Event::Bookmark(mark))
}

pub fn away(resume_token: Bytes) -> What {
    message(Event::GoAway(v1::GoAway { resume_token, ..v1::GoAway::default() }))
}

pub fn closed(code: &str) -> What {
    What::Closed { code: code.into() }
}

/// An acknowledged registration.
pub fn wrote(id: &str, owner: u64, revision: u64) -> What {
    wrote_by(BOOT, instance(id, owner), revision)
}

pub fn wrote_by(boot: u64, instance: v1::Instance, revision: u64) -> What {
    let version = instance.version;
    let request = v1::RegisterRequest { instance: Some(instance), ..v1::RegisterRequest::default() };
    let response = v1::RegisterResponse {
        header: header(boot, revision),
        applied: true,
        version,
        ..v1::RegisterResponse::default()
    };
    acknowledged("Register", &request, &response)
}

/// An acknowledged cancel.
pub fn removed(id: &str, owner: u64, revision: u64) -> What {
    removed_by(BOOT, key(id), version(owner), revision)
}

pub fn removed_by(boot: u64, key: v1::InstanceKey, version: v1::Version, revision: u64) -> What {
    let request = v1::CancelRequest { key: Some(key), writer: None };
    let header = header(boot, revision);
    let response = v1::CancelResponse { header, version: Some(version), existed: true };
    acknowledged("Cancel", &request, &response)
}

fn acknowledged(call: &str, request: &impl prost::Message, response: &impl prost::Message) -> What {
    let (request, response) = (request.encode_to_vec().into(), response.encode_to_vec().into());
    What::Wrote(Wrote::new(call, request, response).unwrap())
}

pub fn forgot(id: &str) -> What {
    What::Forgot(InstanceKey::from(key(id)))
}

pub fn page(revision: u64, set: &[(&str, u64)]) -> Box<Page> {
    let instances = set.iter().map(|(id, owner)| instance(id, *owner)).collect();
    let response = v1::ListInstancesResponse {
        header: header(BOOT, revision),
        instances,
        resume_token: token(revision),
        ..v1::ListInstancesResponse::default()
    };
    Box::new(Page { request: v1::ListInstancesRequest::default(), response })
}
