//! What lists do not tell of one instance: `GET /v1/instance`.

use heureka_model::{Instance, Invalid, KeyRef, Now, Overlay, Registration, canonical_app};
use serde_json::{Value, json};

use super::{Deps, events};
use crate::query::{Names, Parameters};

/// Parameters that are known.
const NAMES: Names =
    Names { one: &["namespace", "app", "id"], many: &[], otherwise: "is none of namespace, app, id" };
/// Events told at most, the newest ones.
const EVENTS: usize = 100;

/// The instance, or null where there is none, and what happened to its key lately.
pub(super) fn document(deps: &Deps, asked: Parameters) -> Result<Value, Invalid> {
    let asked = NAMES.read(asked)?;
    let required = |name: &'static str| asked.one(name).ok_or_else(|| Invalid::missing(name));
    let namespace = asked.one("namespace").unwrap_or_default();
    let app = canonical_app(required("app")?);
    let key = KeyRef { namespace, app: &app, id: required("id")? };
    let (core, now) = (&deps.core, deps.clock.now());
    key.validate(&core.config().limits)?;
    let events: Vec<Value> = core.events_of(key).iter().take(EVENTS).map(events::told).collect();
    let instance = core.get(key, now).map(|registration| told(&registration, now));
    Ok(json!({ "now_ms": now.wall.0, "instance": instance, "events": events }))
}

fn told(registration: &Registration, now: Now) -> Value {
    let instance = &registration.instance;
    let Overlay { status, drain } = registration.overlay;
    json!({
        "status": registration.status().as_str(),
        "own_status": instance.status.as_str(),
        "override": status.map(|set| json!({
            "status": set.status.as_str(),
            "until_ms": set.until.map(|until| until.0),
        })),
        "drain": drain.map(|plan| json!({
            "start_ms": plan.start.map(|at| at.0),
            "deadline_ms": plan.deadline.map(|at| at.0),
        })),
        "lease": lease(registration, now),
        "locality": {
            "region": instance.locality.region,
            "zone": instance.locality.zone,
            "sub_zone": instance.locality.sub_zone,
        },
        "weight": instance.capacity.weight,
        "capacity": instance.capacity.total,
        "ports": ports(instance),
        "revision": registration.revision,
    })
}

fn lease(registration: &Registration, now: Now) -> Value {
    let (terms, times) = (registration.instance.lease, registration.times);
    let age = now.wall.0.saturating_sub(times.renewed.0);
    json!({
        "renewal_interval_ms": millis(terms.renewal_interval()),
        "duration_ms": millis(terms.duration()),
        "age_ms": age,
        "overdue": registration.is_overdue(now.wall),
        "lapsed": u128::from(age) > terms.duration().as_millis(),
        "renewed_ms": times.renewed.0,
        "registered_ms": times.registered.0,
        "updated_ms": times.updated.0,
        "service_up_ms": times.service_up.map(|at| at.0),
    })
}

fn ports(instance: &Instance) -> Vec<Value> {
    let named = |port: &heureka_model::NamedPort| json!({ "name": port.name, "number": port.number, "protocol": port.protocol });
    instance.ports.iter().map(named).collect()
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
