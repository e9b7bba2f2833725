//! Figures of this surface. The counters are made once, so that counting a heartbeat costs one addition; whoever
//! installs a recorder does so before the router is made.

use http::StatusCode;
use metrics::{Counter, counter};

use crate::error::Error;
use crate::routes::path::Resource;

const ROUTES: [&str; 12] = [
    "none",
    "apps",
    "delta",
    "app",
    "instance",
    "status",
    "metadata",
    "instances",
    "vips",
    "svips",
    "batch",
    "server",
];
/// Nothing here answers 1xx.
const CODES: [&str; 4] = ["2xx", "3xx", "4xx", "5xx"];

/// Counters of requests and of ignored claims.
pub(crate) struct Telemetry {
    requests: [[Counter; CODES.len()]; ROUTES.len()],
    ignored_claims: Counter,
    refused_batches: Counter,
    items: [Counter; 2],
    acks_missed: Counter,
}

impl Telemetry {
    pub(crate) fn new() -> Self {
        let of_route = |route: &'static str| {
            CODES.map(|code| counter!("heureka_rest_requests_total", "route" => route, "code" => code))
        };
        Self {
            requests: ROUTES.map(of_route),
            ignored_claims: counter!("heureka_rest_replication_ignored_total"),
            refused_batches: counter!("heureka_rest_batches_refused_total"),
            items: ["taken", "refused"]
                .map(|outcome| counter!("heureka_rest_batch_items_total", "outcome" => outcome)),
            acks_missed: counter!("heureka_rest_ack_degraded_total"),
        }
    }

    /// Counts an answered request.
    pub(crate) fn answered(&self, resource: &Result<Resource<'_>, Error>, status: StatusCode) {
        let route = resource.as_ref().map_or(0, route_of);
        let class = usize::from(status.as_u16() / 100).clamp(2, CODES.len() + 1) - 2;
        self.requests[route][class].increment(1);
    }

    /// Counts a batch from somebody who is no trusted peer.
    pub(crate) fn batch_refused(&self) {
        self.refused_batches.increment(1);
    }

    /// Counts an item of a batch: taken, or refused for what is wrong with it.
    pub(crate) fn item(&self, taken: bool) {
        self.items[usize::from(!taken)].increment(1);
    }

    /// Counts a write that was answered although no other server had it in time.
    pub(crate) fn ack_missed(&self) {
        self.acks_missed.increment(1);
    }

    /// Counts a replication header from somebody who is no trusted peer.
    pub(crate) fn claim_ignored(&self) {
        self.ignored_claims.increment(1);
    }
}

fn route_of(resource: &Resource<'_>) -> usize {
    match resource {
        Resource::Applications => 1,
        Resource::Delta => 2,
        Resource::Application(_) => 3,
        Resource::Instance(..) => 4,
        Resource::Status(..) => 5,
        Resource::Metadata(..) => 6,
        Resource::InstanceById(_) => 7,
        Resource::Vip(_) => 8,
        Resource::SecureVip(_) => 9,
        Resource::Batch => 10,
        Resource::ScalingGroup | Resource::ServerStatus | Resource::StatusOverrides => 11,
    }
}
