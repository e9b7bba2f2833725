//! `apps/{app}/{id}/status`: the operator's word about an instance, which some clients also use to come up.

use heureka_model::{KeyRef, Registration, Status, canonical_app};
use heureka_registry::{Beat, SetOverride};
use http::StatusCode;
use http::request::Parts;

use super::caller::Caller;
use super::instances::legacy;
use super::{Answer, App, key, query};
use crate::error::{self, Error};

/// Sets the override and renews the lease. UNKNOWN is how this wire spells that there is none.
pub(super) fn set(app: &App, parts: &Parts, name: &str, id: &str) -> Answer {
    let name = canonical_app(name);
    let key = key(&name, id);
    let caller = app.caller(parts);
    let query = parts.uri.query().unwrap_or_default();
    live(app, key)?;
    query::last_dirty(query)?;
    let value = query::status_value(query)?.ok_or_else(|| Error::malformed("value", "is required"))?;
    renew(app, key, None, &caller)?;
    if value == Status::Unknown {
        app.registry.clear_override(key, None, &caller.origin, app.now()).map_err(legacy)?;
    } else {
        put(app, key, value, &caller)?;
    }
    Ok(error::empty(StatusCode::OK))
}

/// An override cannot lift what the owner says of itself; clients that registered as STARTING and now call
/// themselves UP this way are heard by changing the owner's word as well.
fn put(app: &App, key: KeyRef<'_>, value: Status, caller: &Caller) -> Result<(), Error> {
    let set = SetOverride { status: value, ttl: None, drain: None };
    let stored = app.registry.set_override(key, set, &caller.origin, app.now()).map_err(legacy)?;
    if stored.status() != value {
        renew(app, key, Some(value), caller)?;
    }
    Ok(())
}

/// Ends the override and renews the lease. A value becomes the owner's word, unless there was no override.
pub(super) fn clear(app: &App, parts: &Parts, name: &str, id: &str) -> Answer {
    let name = canonical_app(name);
    let key = key(&name, id);
    let caller = app.caller(parts);
    let query = parts.uri.query().unwrap_or_default();
    let found = live(app, key)?;
    query::last_dirty(query)?;
    let fallback = query::status_value(query)?.filter(|status| *status != Status::Unknown);
    renew(app, key, None, &caller)?;
    if found.overlay.status.is_some() {
        app.registry.clear_override(key, fallback, &caller.origin, app.now()).map_err(legacy)?;
    }
    Ok(error::empty(StatusCode::OK))
}

/// An unknown instance is told before a bad value is.
fn live(app: &App, key: KeyRef<'_>) -> Result<Registration, Error> {
    app.registry.get(key, app.now()).ok_or(Error::NotFound)
}

fn renew(app: &App, key: KeyRef<'_>, status: Option<Status>, caller: &Caller) -> Result<(), Error> {
    app.registry.renew(key, Beat::Plain, status, &caller.origin, app.now()).map(drop).map_err(legacy)
}
