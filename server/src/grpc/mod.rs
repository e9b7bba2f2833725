//! The native surface: one file per service, one that knows error codes, one that knows tokens.
//!
//! Nothing here decides anything about instances; messages become calls of the core and back. There is no task
//! and no queue per call or per watcher: a watch is a cursor that lives in its response body.

mod admin;
mod core;
mod discovery;
mod edge;
mod feed;
mod health;
mod lists;
mod parting;
mod push;
mod registrar;
mod seats;
mod status;
mod token;
mod turns;
mod watch;

#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use heureka_model::Clock;
use heureka_proto::{admin::v1 as operation, served};
use heureka_registry::Registry;
use http::{HeaderMap, Request, Response, header};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::codec::CompressionEncoding;
use tonic::service::Routes;
use tower::Layer;

pub(crate) use self::admin::Office;
use self::admin::{Admin, Loopback};
use self::core::Core;
use self::discovery::Discovery;
use self::edge::Edge;
pub(crate) use self::health::Health;
use self::parting::Parting;
use self::registrar::Registrar;
pub(crate) use self::seats::Watches;
use crate::life::Life;
use crate::peers::Counts;

type AdminServer = operation::admin_service_server::AdminServiceServer<Admin>;
type RegistryServer = served::registry_service_server::RegistryServiceServer<Registrar>;
type DiscoveryServer = served::discovery_service_server::DiscoveryServiceServer<Discovery>;

const BATCH_METHODS: [&str; 2] = ["BatchRegister", "BatchRenew"];

/// What the services work with.
pub(crate) struct Deps {
    /// The core.
    pub(crate) registry: Arc<Registry>,
    /// Time.
    pub(crate) clock: Arc<dyn Clock>,
    /// Who answers.
    pub(crate) identity: Identity,
    /// Where the server is in its life.
    pub(crate) life: Arc<Life>,
    /// Cancelled when the server is leaving.
    pub(crate) drain: CancellationToken,
    /// What a call may cost.
    pub(crate) limits: Limits,
    /// What operators see and act on.
    pub(crate) office: Office,
    /// Addresses whose forwarding headers take nothing from them.
    pub(crate) proxies: Arc<[IpAddr]>,
    /// Where writes are counted that no peer had in time.
    pub(crate) counts: Arc<Counts>,
}

/// Who answers.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// Name of the cluster; tokens of another one are refused.
    pub(crate) cluster_id: String,
    /// Name of this server.
    pub(crate) node_id: String,
}

/// What a call may cost.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// Bytes of a unary request, as sent and as inflated.
    pub(crate) unary: usize,
    /// Bytes of a batch request, as sent and as inflated.
    pub(crate) batch: usize,
    /// Open watches of this node.
    pub(crate) watches: usize,
    /// Readers who wait for their turn; while there are more, nobody begins with a whole set.
    pub(crate) waiting: usize,
    /// Time for a call whose client states none.
    pub(crate) deadline: Duration,
    /// Longest time that a client may state.
    pub(crate) deadline_max: Duration,
    /// Time after which a watch ends whose client takes nothing.
    pub(crate) stall: Duration,
    /// Longest time that a write waits until a peer has it.
    pub(crate) ack_wait: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            unary: 1 << 20,
            batch: 4 << 20,
            watches: 20_000,
            waiting: 2_000,
            deadline: Duration::from_secs(5),
            deadline_max: Duration::from_secs(30),
            stall: Duration::from_mins(10),
            ack_wait: Duration::from_millis(50),
        }
    }
}

/// What the accept loop tells about the connection of a request; it stands among the request's extensions. A
/// request without it has no address, ends with the server only, and counts for the node's limits alone.
#[derive(Clone, Debug)]
pub(crate) struct Connection(Arc<ConnectionParts>);

#[derive(Debug)]
struct ConnectionParts {
    address: IpAddr,
    leaving: CancellationToken,
    watches: Arc<Semaphore>,
    ageless: AtomicBool,
}

impl Connection {
    /// A connection from `address` that may hold `watches` watches and ends when `leaving` is cancelled.
    pub(crate) fn new(address: IpAddr, leaving: CancellationToken, watches: usize) -> Self {
        let watches = Arc::new(Semaphore::new(watches.min(Semaphore::MAX_PERMITS)));
        let (address, ageless) = (address.to_canonical(), AtomicBool::new(false));
        Self(Arc::new(ConnectionParts { address, leaving, watches, ageless }))
    }

    /// The other end is a server of the cluster: its connection does not have to move with age.
    pub(crate) fn keep(&self) {
        self.0.ageless.store(true, Ordering::Relaxed);
    }

    /// Whether the connection stays however old it is.
    pub(crate) fn is_kept(&self) -> bool {
        self.0.ageless.load(Ordering::Relaxed)
    }

    /// Address at the other end, IPv4-mapped ones reduced.
    pub(crate) fn address(&self) -> IpAddr {
        self.0.address
    }
}

/// The services, ready to be put beside other routes.
pub(crate) struct Grpc {
    /// Routes of all services; it has no fallback.
    pub(crate) router: Router,
    /// What load balancers hear, as of now.
    pub(crate) health: Health,
    /// The watch over plain HTTP.
    pub(crate) feed: Router,
    /// Figures about watches.
    pub(crate) watches: Arc<Watches>,
}

impl Grpc {
    /// All services.
    ///
    /// # Errors
    /// The contract's own description is damaged, which only a broken build can cause.
    pub(crate) async fn new(deps: Deps) -> Result<Self, tonic_reflection::server::Error> {
        let limits = deps.limits.clone();
        let watches = Arc::new(Watches::new(limits.watches));
        let drain = deps.drain.clone();
        let (office, proxies) = (deps.office.clone(), deps.proxies.clone());
        let clock = deps.clock.clone();
        let core = Arc::new(Core::new(deps));
        tokio::spawn(watch::herald(Arc::downgrade(&core.registry), core.registry.head_changes()));
        let readings = core.registry.readings_news();
        tokio::spawn(watch::herald_readings(Arc::downgrade(&core.registry), clock, readings));
        let (reporter, health_service) = tonic_health::server::health_reporter();
        let health = Health::new(reporter);
        health.set(core.life.state()).await;
        let discovery = Discovery::new(core.clone(), watches.clone());
        let router = with_registry(Router::new(), &core, &limits);
        let router = with_discovery(router, discovery, &limits);
        let feed = feed::router(core.clone(), watches.clone());
        let admin = Admin::new(core.clone(), watches.clone(), office);
        let router = with_admin(router, admin, proxies, &limits);
        let routes = Routes::from(router)
            .add_service(Parting::new(health_service, drain.clone()))
            .add_service(Parting::new(reflection().build_v1()?, drain.clone()))
            .add_service(Parting::new(reflection().build_v1alpha()?, drain));
        Ok(Self { router: routes.into_axum_router(), health, feed, watches })
    }
}

/// Batches have a larger limit than single calls, and tonic has one per service: the exact paths of the batches
/// go to a service of their own, since the router prefers them to the wildcard.
fn with_registry(mut router: Router, core: &Arc<Core>, limits: &Limits) -> Router {
    let service = |limit: usize| {
        RegistryServer::new(Registrar::new(core.clone()))
            .accept_compressed(CompressionEncoding::Gzip)
            .max_decoding_message_size(limit)
    };
    let name = served::registry_service_server::SERVICE_NAME;
    for method in BATCH_METHODS {
        router = router.route_service(&format!("/{name}/{method}"), exposed(service(limits.batch), limits));
    }
    router.route_service(&format!("/{name}/{{*method}}"), exposed(service(limits.unary), limits))
}

fn with_discovery(router: Router, discovery: Discovery, limits: &Limits) -> Router {
    let service = DiscoveryServer::new(discovery)
        .accept_compressed(CompressionEncoding::Gzip)
        .max_decoding_message_size(limits.unary);
    let path = format!("/{}/{{*method}}", served::discovery_service_server::SERVICE_NAME);
    router.route_service(&path, exposed(service, limits))
}

/// Not for grpc-web: whoever operates the server is no page in a browser.
fn with_admin(router: Router, admin: Admin, proxies: Arc<[IpAddr]>, limits: &Limits) -> Router {
    let service = AdminServer::new(admin).max_decoding_message_size(limits.unary);
    let path = format!("/{}/{{*method}}", operation::admin_service_server::SERVICE_NAME);
    router.route_service(&path, Loopback::new(Edge::new(service, limits), proxies))
}

/// Each service is wrapped alone: the grpc-web layer refuses every other HTTP/1.1 request.
fn exposed<S>(service: S, limits: &Limits) -> tonic_web::GrpcWebService<Edge<S>> {
    tonic_web::GrpcWebLayer::new().layer(Edge::new(service, limits))
}

fn reflection() -> tonic_reflection::server::Builder<'static> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(heureka_proto::DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}

/// Answer to a gRPC request for a path that nobody serves: status 200 with code 12, by which load balancers tell
/// a server that speaks gRPC from one that does not. Nothing for other requests.
pub(crate) fn unknown_method<B, R: Default>(request: &Request<B>) -> Option<Response<R>> {
    let content_type = grpc_content_type(request.headers())?.clone();
    let message = format!("unknown method {}", request.uri().path());
    let mut response = Status::unimplemented(message).into_http::<R>();
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    Some(response)
}

/// What a caller is told whom nobody knows.
pub(crate) fn unauthenticated() -> Status {
    status::Fault::new(status::Reason::Unauthenticated, "credentials are missing or wrong").into()
}

fn grpc_content_type(headers: &HeaderMap) -> Option<&http::HeaderValue> {
    headers.get(header::CONTENT_TYPE).filter(|value| value.as_bytes().starts_with(b"application/grpc"))
}
