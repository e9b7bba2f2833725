//! How the server is: `GET /v1/server`.

use std::num::NonZero;
use std::thread;
use std::time::Duration;

use heureka_model::{Invalid, Now, Status};
use heureka_proto::admin::v1::Peer;
use heureka_registry::{Next, Outlook, PreservationMode, Removals, Stats};
use prost_types::Timestamp;
use serde_json::{Value, json};

use super::Deps;
use crate::about::kilobytes;
use crate::persist;
use crate::query::{Names, Parameters};

/// Parameters that are known.
const NAMES: Names = Names { one: &[], many: &[], otherwise: "is unknown: none is taken here" };
/// Peers and sentences told at most.
const MOST: usize = 64;

/// Everything in numbers and words of a fixed set, bounded however large the registry is.
pub(super) fn document(deps: &Deps, asked: Parameters) -> Result<Value, Invalid> {
    NAMES.read(asked)?;
    let (core, now) = (&deps.core, deps.clock.now());
    let (stats, outlook) = (core.stats(), outlook(deps, now));
    let mut peers = (deps.cluster.known)(now);
    peers.sort_by(|one, other| one.uri.cmp(&other.uri));
    let problems: Vec<String> = (deps.cluster.amiss)().into_iter().take(MOST).collect();
    Ok(json!({
        "server": server(deps, now),
        "registry": registry(&stats, core.head()),
        "leases": {
            "renewals_last_minute": stats.renewals_last_minute,
            "expected_per_minute": stats.expected_per_minute,
            "renewals": stats.renewals,
            "expired": stats.expired,
        },
        "preservation": preservation(deps, &outlook, now),
        "peers": peers.iter().take(MOST).map(peer).collect::<Vec<_>>(),
        "peers_count": peers.len(),
        "problems": problems,
        "watches": deps.watches.open(),
        "store": deps.store.as_deref().map(store),
    }))
}

fn server(deps: &Deps, now: Now) -> Value {
    let started = deps.life.started();
    json!({
        "node": deps.identity.node_id,
        "cluster": deps.identity.cluster_id,
        "zone": deps.node.zone,
        "region": deps.node.region,
        "version": env!("CARGO_PKG_VERSION"),
        "boot": deps.core.boot().to_string(),
        "state": deps.life.state().word(),
        "now_ms": now.wall.0,
        "started_ms": started.0,
        "uptime_ms": now.wall.0.saturating_sub(started.0),
        "processors": thread::available_parallelism().map_or(0, NonZero::get),
        "memory_total_bytes": kilobytes("/proc/meminfo", "MemTotal:"),
        "memory_used_bytes": kilobytes("/proc/self/status", "VmRSS:"),
    })
}

fn registry(stats: &Stats, head: u64) -> Value {
    let counts: serde_json::Map<String, Value> = Status::ALL
        .into_iter()
        .map(|status| (status.as_str().into(), stats.counts.get(status).into()))
        .collect();
    json!({
        "instances": stats.instances,
        "applications": stats.applications,
        "status": counts,
        "removed_remembered": stats.tombstones,
        "bytes": stats.record_bytes,
        "revision": head,
    })
}

/// As the last tick left it, but that nothing leaves is told as soon as it is so.
fn outlook(deps: &Deps, now: Now) -> Outlook {
    let told = deps.core.outlook();
    match deps.preserving.removals(!deps.life.serves_readers(), now.mono) {
        Removals::Frozen => Outlook { mode: None, next: Next::Never, ..told },
        Removals::As(_) | Removals::Configured => told,
    }
}

fn preservation(deps: &Deps, outlook: &Outlook, now: Now) -> Value {
    let configured = &deps.core.config().preservation;
    let (next, wait, renewals) = next(outlook.next);
    let set = deps.preserving.in_force(now.mono);
    json!({
        "mode": mode(outlook.mode),
        "configured_mode": mode(Some(configured.mode)),
        "threshold": configured.threshold,
        "protecting": outlook.held_for.is_some(),
        "live": outlook.live,
        "held": outlook.held,
        "held_for_ms": outlook.held_for.map(millis),
        "budget": outlook.budget,
        "removed_last_minute": outlook.removed,
        "expected_per_minute": outlook.expected_per_minute,
        "heard_per_minute": outlook.heard_per_minute,
        "next": next,
        "next_ms": wait.map(millis),
        "next_renewals": renewals,
        "set_until_ms": set.as_ref().map(|set| set.until.0),
        "set_reason": set.map(|set| set.reason),
    })
}

fn mode(mode: Option<PreservationMode>) -> &'static str {
    match mode {
        Some(PreservationMode::Budget) => "budget",
        Some(PreservationMode::Eureka) => "eureka",
        Some(PreservationMode::Off) => "off",
        None => "freeze",
    }
}

/// The word, the time and the number of what comes next.
fn next(next: Next) -> (&'static str, Option<Duration>, Option<u64>) {
    match next {
        Next::AtOnce => ("at_once", None, None),
        Next::WhileOthersAreSilent => ("while_others_are_silent", None, None),
        Next::AfterOthersRenewed(wait) => ("after_others_renewed", Some(wait), None),
        Next::Gradually(silence) => ("gradually", Some(silence), None),
        Next::AfterHold(wait) => ("after_hold", Some(wait), None),
        Next::AtSweep(wait) => ("at_sweep", Some(wait), None),
        Next::UntilRenewals(renewals) => ("until_renewals", None, Some(renewals)),
        Next::Never => ("never", None, None),
    }
}

fn peer(peer: &Peer) -> Value {
    let lag = peer.lag.and_then(|lag| Duration::try_from(lag).ok());
    let skew = peer.clock_skew.map(|skew| skew.seconds * 1000 + i64::from(skew.nanos / 1_000_000));
    json!({
        "node": peer.node_id,
        "address": peer.uri,
        "connected": peer.connected,
        "ready": peer.ready,
        "draining": peer.draining,
        "protecting": peer.protecting,
        "backlog": peer.backlog,
        "lag_ms": lag.map(millis),
        "clock_skew_ms": skew,
        "last_success_ms": peer.last_success_time.as_ref().map(moment),
        "last_error_ms": peer.last_error_time.as_ref().map(moment),
        "last_error": (!peer.last_error.is_empty()).then_some(&peer.last_error),
    })
}

fn store(figures: &persist::Figures) -> Value {
    let failed = figures.last_error();
    json!({
        "rows": figures.rows(),
        "revision": figures.revision(),
        "last_write_ms": figures.last_write().map(|at| at.0),
        "last_error_ms": failed.as_ref().map(|failed| failed.at.0),
        "last_error": failed.map(|failed| failed.error),
    })
}

fn moment(timestamp: &Timestamp) -> i64 {
    timestamp.seconds * 1000 + i64::from(timestamp.nanos / 1_000_000)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
