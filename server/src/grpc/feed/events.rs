//! Events of a watch as lines of text.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use heureka_model::Registration;
use heureka_proto::served::watch_event::Event;
use heureka_proto::v1;
use prost::Message as _;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::grpc::status::Fault;

/// What comes first: a comment, so that whatever stands between passes the head on, and the wait before a browser
/// comes back.
pub(super) const OPENING: &[u8] = b": heureka\nretry: 1000\n\n";

/// One change, instances as the Eureka surface has them.
#[derive(Serialize)]
struct Change<'a> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    namespace: &'a str,
    app: &'a str,
    id: &'a str,
    /// Its five parts in the order in which they count; texts, since they do not fit into a script's numbers.
    version: [String; 5],
    /// Where it runs, which the instance as Eureka writes it does not say; left out where nobody said it.
    #[serde(skip_serializing_if = "String::is_empty")]
    zone: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<Box<RawValue>>,
}

/// The lines that tell this.
pub(super) fn of(told: Result<Event, Fault>) -> Vec<Bytes> {
    match told {
        Ok(Event::Changes(batch)) => changes(batch),
        Ok(Event::SnapshotBegin(begin)) => vec![event("begin", &[], &begun(&begin))],
        Ok(Event::SnapshotEnd(end)) => vec![event("end", &end.resume_token, &mark(end.revision, end.digest))],
        Ok(Event::Bookmark(bookmark)) => {
            vec![event("bookmark", &bookmark.resume_token, &mark(bookmark.revision, bookmark.digest))]
        }
        Ok(Event::Notice(notice)) => {
            let kind = named(notice.kind().as_str_name(), "NOTICE_KIND_");
            vec![event("notice", &[], &json!({ "kind": kind, "message": notice.message }))]
        }
        Ok(Event::Readings(told)) => told.readings.iter().map(reading).collect(),
        Ok(Event::GoAway(goodbye)) => vec![retry(&goodbye), parting(&goodbye)],
        Err(fault) => {
            vec![event("error", &[], &json!({ "reason": fault.as_str(), "message": fault.message() }))]
        }
    }
}

fn changes(batch: Bytes) -> Vec<Bytes> {
    let batch = v1::ChangeBatch::decode(batch).expect("invariant: it was encoded here");
    batch.changes.into_iter().map(change).collect()
}

fn change(change: v1::Change) -> Bytes {
    let (kind, reason) = (change.r#type(), change.removal_reason());
    let key = change.key.unwrap_or_default();
    let version = change.version.unwrap_or_default();
    let parts = [version.owner, version.clock, version.boot, version.overlay_clock, version.overlay_boot];
    let is_removed = kind == v1::ChangeType::Removed;
    let locality = change.instance.as_ref().and_then(|instance| instance.locality.as_ref());
    let zone = locality.map(|locality| locality.zone.clone()).unwrap_or_default();
    let told = Change {
        zone,
        r#type: named(kind.as_str_name(), "CHANGE_TYPE_"),
        reason: is_removed.then(|| named(reason.as_str_name(), "REMOVAL_REASON_")),
        namespace: &key.namespace,
        app: &key.app,
        id: &key.id,
        version: parts.map(|part| part.to_string()),
        instance: change.instance.map(document),
    };
    event("change", &[], &told)
}

fn reading(reading: &v1::Reading) -> Bytes {
    let key = reading.key.clone().unwrap_or_default();
    let data = json!({
        "namespace": key.namespace,
        "app": key.app,
        "id": key.id,
        "available": reading.available,
        "gauges": reading.gauges,
        "suspect": reading.suspect,
        "reported": reading.report_time.as_ref().map(ToString::to_string),
    });
    event("reading", &[], &data)
}

fn document(instance: v1::Instance) -> Box<RawValue> {
    let registration =
        Registration::try_from(instance).expect("invariant: the registry holds what is well-formed");
    let text = heureka_compat_http::instance_json(&registration);
    RawValue::from_string(text).expect("invariant: it was written as JSON")
}

fn begun(begin: &v1::SnapshotBegin) -> Value {
    let header = begin.header.clone().unwrap_or_default();
    json!({
        "mode": named(begin.mode().as_str_name(), "SNAPSHOT_MODE_"),
        "node": header.node_id,
        "boot": header.boot.to_string(),
        "server_mode": named(header.mode().as_str_name(), "SERVER_MODE_"),
    })
}

fn mark(revision: u64, digest: Option<v1::SetDigest>) -> Value {
    let digest = digest.map(|digest| {
        json!({ "algorithm": digest.algorithm, "count": digest.instance_count, "hash": format!("{:016x}", digest.hash) })
    });
    json!({ "revision": revision, "digest": digest })
}

/// When to come back: each client some time of its own.
fn retry(goodbye: &v1::GoAway) -> Bytes {
    let longest =
        goodbye.reconnect_jitter.and_then(|jitter| Duration::try_from(jitter).ok()).unwrap_or_default();
    let wait = longest.mul_f64(rand::random());
    Bytes::from(format!("retry: {}\n\n", wait.as_millis()))
}

fn parting(goodbye: &v1::GoAway) -> Bytes {
    let reason = named(goodbye.reason().as_str_name(), "GO_AWAY_REASON_");
    event("go_away", &goodbye.resume_token, &json!({ "reason": reason, "message": goodbye.message }))
}

/// One event. JSON has no line breaks, so its data is one line. Without a token the client keeps the one it has.
fn event(name: &str, token: &[u8], data: &impl Serialize) -> Bytes {
    let data = serde_json::to_string(data).expect("invariant: texts and numbers always encode");
    let id =
        if token.is_empty() { String::new() } else { format!("id: {}\n", URL_SAFE_NO_PAD.encode(token)) };
    Bytes::from(format!("event: {name}\n{id}data: {data}\n\n"))
}

/// The end of an enum's name.
fn named(name: &'static str, prefix: &str) -> &'static str {
    name.strip_prefix(prefix).unwrap_or(name)
}
