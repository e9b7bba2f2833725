//! `apps/{app}` (register), `apps/{app}/{id}` (heartbeat, cancel, read), `…/metadata`, `instances/{id}`.

use axum::body::Body;
use heureka_model::{Instance, Metadata, Status, canonical_app};
use heureka_registry::{Beat, Claim, MetadataPatch, Refused, RegisterMode, Registered};
use http::StatusCode;
use http::request::Parts;

use super::caller::Caller;
use super::{Answer, App, instance_of, key, not_found_first, query};
use crate::body;
use crate::error::{self, Error, in_legacy_words, legacy};
use crate::intake;
use crate::negotiate::Format;
use crate::wire;

/// Registers an instance: 204 also when the stored record is newer and stays.
pub(super) async fn register(app: &App, parts: &Parts, body: Body, name: &str) -> Answer {
    let format = Format::sent(&parts.headers)?;
    let body = body::read(&parts.headers, body, &app.config).await?;
    let parsed = wire::read_instance(&body, format)?.finish(&canonical_app(name), format)?;
    let caller = app.caller(parts);
    if caller.is_peer() {
        intake::register(&app.registry, parsed, app.now()).map_err(never_429)?;
    } else {
        parsed.instance.validate(&app.registry.config().limits).map_err(in_legacy_words)?;
        note_oddities(&parsed.instance);
        store(app, parsed.instance, &caller)?;
    }
    Ok(error::empty(StatusCode::NO_CONTENT))
}

/// A server of the original's kind tries again after a 503 and drops what gets any other refusal.
fn never_429(error: Error) -> Error {
    if matches!(error, Error::Core(Refused::Full)) { Error::Busy } else { error }
}

/// What is taken and will surprise its owner. Below the default level, since anybody can cause it at any rate.
fn note_oddities(instance: &Instance) {
    let key = &instance.key;
    if instance.status == Status::Unknown {
        tracing::debug!(app = key.app, id = key.id, "registered with an unknown status: heartbeats get 404");
    }
    if instance.metadata.contains_key("") {
        tracing::debug!(app = key.app, id = key.id, "an empty metadata key is left out of XML");
    }
}

/// An owner that tells no stamp means this moment.
fn store(app: &App, mut instance: Instance, caller: &Caller) -> Result<Registered, Error> {
    let now = app.now();
    instance.last_dirty.get_or_insert(now.wall);
    let stored = app.registry.register(&instance, Claim::Stamp, RegisterMode::Upsert, &caller.origin, now);
    stored.map_err(legacy)
}

/// Heartbeat: 200 with nothing in it, or 404 with nothing in it, at which the client registers.
pub(super) fn renew(app: &App, parts: &Parts, name: &str, id: &str) -> Answer {
    let name = canonical_app(name);
    let key = key(&name, id);
    let query = parts.uri.query().unwrap_or_default();
    let stamp = query::last_dirty(query).map_err(|error| not_found_first(app, key, error))?;
    let caller = app.caller(parts);
    if caller.is_peer() {
        intake::renew(&app.registry, key, stamp, told_override(query), app.now())?;
    } else {
        let beat = stamp.map_or(Beat::Plain, Beat::Stamp);
        app.registry.renew(key, beat, None, &caller.origin, app.now()).map_err(legacy)?;
    }
    Ok(error::empty(StatusCode::OK))
}

/// A peer tells its override with a heartbeat. A bad one is none.
fn told_override(query: &str) -> Option<Status> {
    let told = query::first(query, "overriddenstatus").ok().flatten()?;
    Status::from_name(&told).filter(|status| *status != Status::Unknown)
}

/// Removes an instance.
pub(super) fn cancel(app: &App, parts: &Parts, name: &str, id: &str) -> Answer {
    let caller = app.caller(parts);
    let name = canonical_app(name);
    let key = key(&name, id);
    // Unlike other writes by path, a cancel remembers a key that it does not find.
    key.validate(&app.registry.config().limits).map_err(in_legacy_words)?;
    let cancelled = app.registry.cancel(key, Claim::Next, &caller.origin, app.now()).map_err(legacy)?;
    if cancelled.existed { Ok(error::empty(StatusCode::OK)) } else { Err(Error::NotFound) }
}

/// Puts the parameters into the metadata, which renews the lease.
pub(super) fn update_metadata(app: &App, parts: &Parts, name: &str, id: &str) -> Answer {
    let name = canonical_app(name);
    let key = key(&name, id);
    let told = metadata_of(parts.uri.query().unwrap_or_default());
    let set = told.map_err(|error| not_found_first(app, key, error))?;
    let caller = app.caller(parts);
    let patch = MetadataPatch { set, ..MetadataPatch::default() };
    app.registry.update_metadata(key, patch, &caller.origin, app.now()).map_err(legacy)?;
    Ok(error::empty(StatusCode::OK))
}

/// The first value of each name; the empty name names nothing.
fn metadata_of(query: &str) -> Result<Metadata, Error> {
    let mut metadata = Metadata::new();
    for (name, value) in query::pairs(query) {
        let name = query::decode("metadata", name)?;
        let value = query::decode("metadata", value)?;
        if !name.is_empty() {
            metadata.entry(name.into_owned()).or_insert_with(|| value.into_owned());
        }
    }
    Ok(metadata)
}

/// One instance.
pub(super) fn one(app: &App, parts: &Parts, name: &str, id: &str) -> Answer {
    let found = app.registry.get(key(&canonical_app(name), id), app.now()).ok_or(Error::NotFound)?;
    let (content, format) = instance_of(&found, parts);
    app.document(content, format)
}

/// One instance by its id alone.
pub(super) fn by_id(app: &App, parts: &Parts, id: &str) -> Answer {
    let found = app.registry.find_by_id("", id, app.now()).ok_or(Error::NotFound)?;
    let (content, format) = instance_of(&found, parts);
    app.document(content, format)
}
