//! The surface against the real core, without a socket: generated clients call the router itself, and the clock
//! is tokio's paused one.

mod admin;
mod discovery;
mod edge;
mod failover;
mod feed;
mod lane;
mod life;
mod registrar;
mod transport;
mod view;
mod watch;
mod watch_many;

use std::sync::Arc;
use std::time::Duration;

use heureka_model::{Clock, Instance, InstanceKey, Mono, Now, Wall};
use heureka_proto::v1;
use heureka_proto::v1::discovery_service_client::DiscoveryServiceClient;
use heureka_proto::v1::registry_service_client::RegistryServiceClient;
use heureka_registry::{Claim, Config, Origin, RegisterMode, Registry, Seeds, Surface};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::{Deps, Grpc, Identity, Limits, Office};
use crate::drain::Request;
use crate::life::{Cluster, Life, Rules};

const SEEDS: Seeds = Seeds { boot: 77, hash: 1, shuffle: 2 };

/// Time that moves when every task sleeps.
struct PausedClock(tokio::time::Instant);

impl Clock for PausedClock {
    fn now(&self) -> Now {
        let elapsed = self.0.elapsed();
        Now { mono: Mono(0).plus(elapsed), wall: Wall(1_764_000_000_000).plus(elapsed) }
    }
}

struct Server {
    registry: Arc<Registry>,
    clock: Arc<PausedClock>,
    life: Arc<Life>,
    drain: CancellationToken,
    office: Office,
    grpc: Grpc,
}

impl Server {
    async fn start() -> Self {
        Self::with(Config::default(), Limits::default(), SEEDS, "blue").await
    }

    async fn with(config: Config, limits: Limits, seeds: Seeds, cluster: &str) -> Self {
        Self::with_peers(Cluster::alone(), Rules::default(), config, limits, seeds, cluster).await
    }

    /// A server among others.
    async fn among(peers: Cluster, rules: Rules) -> Self {
        Self::with_peers(peers, rules, Config::default(), Limits::default(), SEEDS, "blue").await
    }

    async fn with_peers(
        peers: Cluster,
        rules: Rules,
        config: Config,
        limits: Limits,
        seeds: Seeds,
        cluster: &str,
    ) -> Self {
        let clock = Arc::new(PausedClock(tokio::time::Instant::now()));
        let registry = Arc::new(Registry::new(config, seeds, clock.now()));
        let drain = CancellationToken::new();
        let office =
            Office { cluster: peers, preserving: Arc::default(), request: Request::default(), store: None };
        let life = Arc::new(Life::new(rules, office.cluster.seen.clone(), clock.clone()));
        life.loaded(false);
        let deps = Deps {
            registry: registry.clone(),
            clock: clock.clone(),
            identity: Identity { cluster_id: cluster.into(), node_id: "n1".into() },
            life: life.clone(),
            drain: drain.clone(),
            limits,
            office: office.clone(),
            proxies: Arc::new([]),
            counts: Arc::default(),
        };
        let grpc = Grpc::new(deps).await.unwrap();
        Self { registry, clock, life, drain, office, grpc }
    }

    fn writer(&self) -> RegistryServiceClient<axum::Router> {
        RegistryServiceClient::new(self.grpc.router.clone())
    }

    fn reader(&self) -> DiscoveryServiceClient<axum::Router> {
        DiscoveryServiceClient::new(self.grpc.router.clone())
    }

    async fn register(&self, instance: v1::Instance) -> v1::RegisterResponse {
        let request = v1::RegisterRequest { instance: Some(instance), ..Default::default() };
        self.writer().register(request).await.unwrap().into_inner()
    }

    /// Registers `count` instances without a message each.
    fn fill(&self, app: &str, count: usize) {
        const ORIGIN: Origin = Origin::Client { surface: Surface::Grpc, principal: None, address: None };
        for id in 0..count {
            let instance = Instance::new(InstanceKey::from(key(app, &format!("{id:05}"))));
            let now = self.clock.now();
            self.registry.register(&instance, Claim::Next, RegisterMode::Upsert, &ORIGIN, now).unwrap();
        }
    }

    async fn cancel(&self, app: &str, id: &str) -> v1::CancelResponse {
        let request = v1::CancelRequest { key: Some(key(app, id)), writer: None };
        self.writer().cancel(request).await.unwrap().into_inner()
    }

    /// Lets time pass as a running server does, with a tick every second.
    async fn pass(&self, seconds: u64) {
        for _ in 0..seconds {
            tokio::time::advance(Duration::from_secs(1)).await;
            self.registry.tick(self.clock.now());
        }
    }
}

fn key(app: &str, id: &str) -> v1::InstanceKey {
    v1::InstanceKey { namespace: String::new(), app: app.into(), id: id.into() }
}

fn instance(app: &str, id: &str) -> v1::Instance {
    v1::Instance { key: Some(key(app, id)), ..Default::default() }
}

fn writer(incarnation: u8, version: u64, first: bool) -> Option<v1::Writer> {
    Some(v1::Writer { incarnation: vec![incarnation; 16].into(), version, first })
}

fn seconds(seconds: i64) -> prost_types::Duration {
    prost_types::Duration { seconds, nanos: 0 }
}

/// Code, reason and field of a refusal, which every one has or, for the field, may have.
#[track_caller]
fn refusal(status: &Status) -> (Code, String, String) {
    let details = status.get_error_details();
    let info = details.error_info().expect("every refusal has an ErrorInfo");
    assert_eq!(info.domain, "heureka");
    let violation = details.bad_request().and_then(|request| request.field_violations.first());
    let field = violation.map(|violation| violation.field.clone()).unwrap_or_default();
    (status.code(), info.reason.clone(), field)
}

#[track_caller]
fn assert_refused<T: std::fmt::Debug>(answer: Result<T, Status>, code: Code, reason: &str, field: &str) {
    assert_eq!(refusal(&answer.unwrap_err()), (code, reason.to_owned(), field.to_owned()));
}
