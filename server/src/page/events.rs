//! The last registrations, removals and changes: `GET /v1/events`.

use heureka_model::{Invalid, RemovalReason};
use heureka_registry::{Cause, Event, EventKind, Origin, Surface};
use serde_json::{Value, json};

use super::Deps;
use crate::query::{Names, Parameters};

/// Parameters that are known.
const NAMES: Names =
    Names { one: &["after", "namespace"], many: &["kind"], otherwise: "is none of after, kind, namespace" };

/// Newest first. At most 1,000 of each kind are remembered, so the document is bounded.
pub(super) fn document(deps: &Deps, asked: Parameters) -> Result<Value, Invalid> {
    let asked = NAMES.read(asked)?;
    let after = asked.one("after").map(revision).transpose()?.unwrap_or_default();
    let kinds: Vec<EventKind> = asked.many("kind").map(kind).collect::<Result<_, _>>()?;
    let namespace = asked.one("namespace").unwrap_or_default();
    let head = deps.core.head();
    let wanted =
        |event: &Event| event.key.namespace == namespace && (kinds.is_empty() || kinds.contains(&event.kind));
    let events: Vec<Value> =
        deps.core.events_after(after).iter().filter(|event| wanted(event)).map(told).collect();
    Ok(json!({ "revision": head, "boot": deps.core.boot().to_string(), "events": events }))
}

/// One event.
pub(super) fn told(event: &Event) -> Value {
    json!({
        "revision": event.revision,
        "kind": word(event.kind),
        "cause": cause(event.cause),
        "removal": event.removal.map(removal),
        "origin": origin(&event.origin),
        "status": event.status.as_str(),
        "app": event.key.app,
        "id": event.key.id,
        "at_ms": event.at.0,
    })
}

fn revision(text: &str) -> Result<u64, Invalid> {
    text.parse().map_err(|_| Invalid::malformed("after", "is no revision"))
}

fn kind(text: &str) -> Result<EventKind, Invalid> {
    let kinds = [EventKind::Registration, EventKind::Removal, EventKind::Change];
    let known = kinds.into_iter().find(|kind| word(*kind) == text);
    known.ok_or_else(|| Invalid::malformed("kind", "is none of registration, removal, change"))
}

fn word(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Registration => "registration",
        EventKind::Removal => "removal",
        EventKind::Change => "change",
    }
}

fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::Registered => "registered",
        Cause::Updated => "updated",
        Cause::StatusReported => "status_reported",
        Cause::MetadataChanged => "metadata_changed",
        Cause::OverrideSet => "override_set",
        Cause::OverrideCleared => "override_cleared",
        Cause::OverrideEnded => "override_ended",
        Cause::Cancelled => "cancelled",
        Cause::Expired => "expired",
        Cause::Merged => "merged",
        Cause::Revived => "revived",
    }
}

fn removal(reason: RemovalReason) -> &'static str {
    match reason {
        RemovalReason::Cancelled => "cancelled",
        RemovalReason::Expired => "expired",
        RemovalReason::FilteredOut => "filtered_out",
    }
}

/// Who, without an address: the page is open to everybody.
fn origin(origin: &Origin) -> &'static str {
    match origin {
        Origin::Client { surface: Surface::Rest, .. } => "rest_client",
        Origin::Client { surface: Surface::Grpc, .. } => "grpc_client",
        Origin::Eureka => "eureka_server",
        Origin::Peer => "peer",
        Origin::Operator => "operator",
        Origin::System => "server",
    }
}
