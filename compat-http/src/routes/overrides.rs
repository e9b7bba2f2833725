//! `apps/{app}/{id}/status`: the operator's word about an instance, which some clients also use to come up.

use heureka_model::{KeyRef, Status, canonical_app};
use heureka_registry::{Beat, Origin, SetOverride};
use http::StatusCode;
use http::request::Parts;

use super::{Answer, App, key, not_found_first, query};
use crate::error::{self, Error, legacy};

/// Sets the override, which renews the lease. UNKNOWN is how this wire spells that there is none.
pub(super) fn set(app: &App, parts: &Parts, name: &str, id: &str) -> Answer {
    let name = canonical_app(name);
    let key = key(&name, id);
    let told =
        told_status(parts).and_then(|told| told.ok_or_else(|| Error::malformed("value", "is required")));
    let value = told.map_err(|error| not_found_first(app, key, error))?;
    say(app, key, value, &app.caller(parts).origin)?;
    Ok(error::empty(StatusCode::OK))
}

/// Sets the override, or ends it.
pub(super) fn say(app: &App, key: KeyRef<'_>, value: Status, origin: &Origin) -> Result<(), Error> {
    if value == Status::Unknown {
        return app.registry.clear_override(key, None, origin, app.now()).map(drop).map_err(legacy);
    }
    put(app, key, value, origin)
}

/// An override cannot lift what the owner says of itself; clients that registered as STARTING and now call
/// themselves UP this way are heard by changing the owner's word as well.
fn put(app: &App, key: KeyRef<'_>, value: Status, origin: &Origin) -> Result<(), Error> {
    if *origin == Origin::Eureka && is_shown(app, key, value) {
        return app.registry.renew(key, Beat::Plain, None, origin, app.now()).map(drop).map_err(legacy);
    }
    let set = SetOverride { status: value, ttl: None, drain: None };
    let stored = app.registry.set_override(key, set, origin, app.now()).map_err(legacy)?;
    if stored.status() == value {
        return Ok(());
    }
    app.registry.renew(key, Beat::Plain, Some(value), origin, app.now()).map(drop).map_err(legacy)
}

/// Whether readers see this status already, without an override. A peer also passes on status calls of which it recorded
/// nothing for that reason.
fn is_shown(app: &App, key: KeyRef<'_>, value: Status) -> bool {
    let stored = app.registry.get(key, app.now());
    stored.is_some_and(|stored| stored.override_status().is_none() && stored.status() == value)
}

/// Ends the override and renews the lease. A value becomes the owner's word, unless there was no override.
pub(super) fn clear(app: &App, parts: &Parts, name: &str, id: &str) -> Answer {
    let name = canonical_app(name);
    let key = key(&name, id);
    let told = told_status(parts).map_err(|error| not_found_first(app, key, error))?;
    let fallback = told.filter(|status| *status != Status::Unknown);
    let caller = app.caller(parts);
    app.registry.clear_override(key, fallback, &caller.origin, app.now()).map_err(legacy)?;
    Ok(error::empty(StatusCode::OK))
}

/// Parameter `value`. The stamp of these calls orders nothing here, yet junk in it is refused.
fn told_status(parts: &Parts) -> Result<Option<Status>, Error> {
    let query = parts.uri.query().unwrap_or_default();
    query::last_dirty(query)?;
    query::status_value(query)
}
