//! `AdminService`: whoever runs this server, on its machine.

mod audit;
mod differences;
mod gate;
mod status;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use heureka_model::{Invalid, Problem};
use heureka_proto::admin::v1;
use heureka_proto::admin::v1::admin_service_server::AdminService;
use heureka_proto::convert::{BorrowedKey, duration, timestamp};
use heureka_registry::{Claim, Origin, PreservationMode as Mode, Removals};
use tokio_util::task::AbortOnDropHandle;
use tonic::{Request, Response, Status};

use self::audit::{Act, audited};
use self::differences::Differences;
pub(super) use self::gate::Loopback;
use super::core::Core;
use super::lists::bounded_size;
use super::seats::{Sitter, Watches};
use super::status::{Fault, Reason};
use crate::drain;
use crate::life::{Cluster, Preserving};
use crate::persist;

const DEFAULT_PAGE: usize = 500;
const MAX_PAGE: usize = 5000;
const MAX_REASON: usize = 1 << 10;
/// Longest time for which an operator's way of self-preservation lasts.
const MAX_TTL: Duration = Duration::from_hours(24);
/// Longest time that clients get for moving.
const MAX_GRACE: Duration = Duration::from_hours(1);

/// What operators see and act on beside the core.
#[derive(Clone)]
pub(crate) struct Office {
    /// The other servers.
    pub(crate) cluster: Cluster,
    /// Way of self-preservation in force.
    pub(crate) preserving: Arc<Preserving>,
    /// Makes the server leave.
    pub(crate) request: drain::Request,
    /// The warm-start store.
    pub(crate) store: Option<Arc<persist::Figures>>,
}

/// The service.
pub(super) struct Admin {
    core: Arc<Core>,
    watches: Arc<Watches>,
    office: Office,
}

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl AdminService for Admin {
    type DiffPeerStream = Differences;

    async fn get_server_status(
        &self,
        _: Request<v1::GetServerStatusRequest>,
    ) -> Answer<v1::GetServerStatusResponse> {
        Ok(Response::new(self.status().await))
    }

    async fn list_peers(&self, _: Request<v1::ListPeersRequest>) -> Answer<v1::ListPeersResponse> {
        let mut peers = (self.office.cluster.known)(self.core.now());
        peers.sort_by(|one, other| one.uri.cmp(&other.uri));
        Ok(Response::new(v1::ListPeersResponse { peers }))
    }

    async fn list_watchers(
        &self,
        request: Request<v1::ListWatchersRequest>,
    ) -> Answer<v1::ListWatchersResponse> {
        Ok(Response::new(self.watchers(request.get_ref())?))
    }

    async fn diff_peer(&self, request: Request<v1::DiffPeerRequest>) -> Answer<Differences> {
        Ok(Response::new(self.differences(request.get_ref()).await?))
    }

    async fn evict_instance(
        &self,
        request: Request<v1::EvictInstanceRequest>,
    ) -> Answer<v1::EvictInstanceResponse> {
        let asked = request.get_ref();
        let key = asked.key.as_ref().map(|key| format!("{}/{}/{}", key.namespace, key.app, key.id));
        let act = Act { operation: "EvictInstance", key: key.unwrap_or_default(), reason: &asked.reason };
        let existed = audited(&act, request.extensions(), self.evict(asked))?;
        Ok(Response::new(v1::EvictInstanceResponse { existed }))
    }

    async fn set_self_preservation(
        &self,
        request: Request<v1::SetSelfPreservationRequest>,
    ) -> Answer<v1::SetSelfPreservationResponse> {
        let asked = request.get_ref();
        let key = asked.mode().as_str_name().to_owned();
        let act = Act { operation: "SetSelfPreservation", key, reason: &asked.reason };
        audited(&act, request.extensions(), self.preserve(asked))?;
        Ok(Response::new(v1::SetSelfPreservationResponse {}))
    }

    async fn set_push(&self, request: Request<v1::SetPushRequest>) -> Answer<v1::SetPushResponse> {
        let asked = request.get_ref();
        let key = if asked.paused { "paused" } else { "resumed" };
        let act = Act { operation: "SetPush", key: key.to_owned(), reason: &asked.reason };
        audited(&act, request.extensions(), self.push(asked))?;
        Ok(Response::new(v1::SetPushResponse {}))
    }

    async fn drain_server(
        &self,
        request: Request<v1::DrainServerRequest>,
    ) -> Answer<v1::DrainServerResponse> {
        let asked = request.get_ref();
        let act = Act { operation: "DrainServer", key: String::new(), reason: &asked.reason };
        audited(&act, request.extensions(), self.leave(asked))?;
        Ok(Response::new(v1::DrainServerResponse {}))
    }
}

impl Admin {
    pub(super) fn new(core: Arc<Core>, watches: Arc<Watches>, office: Office) -> Self {
        Self { core, watches, office }
    }

    fn watchers(&self, request: &v1::ListWatchersRequest) -> Result<v1::ListWatchersResponse, Fault> {
        let size = bounded_size("page_size", request.page_size, DEFAULT_PAGE, MAX_PAGE);
        let size = size.map_err(Fault::request)?;
        let after = watcher_after(&request.page_token)?;
        let page = self.watches.list(after, size);
        let head = self.core.registry.head();
        let next = page.last().filter(|_| page.len() == size).map(|last| last.id.to_string());
        let watchers = page.iter().map(|sitter| watcher(sitter, head)).collect();
        Ok(v1::ListWatchersResponse { watchers, next_page_token: next.unwrap_or_default() })
    }

    /// A cancel and not an expiry: peers that heard from the instance would take an expiry back.
    fn evict(&self, request: &v1::EvictInstanceRequest) -> Result<bool, Fault> {
        reason(&request.reason)?;
        let key = BorrowedKey::required(request.key.as_ref()).map_err(Fault::request)?;
        let (key, registry) = (key.as_ref(), &self.core.registry);
        key.validate(&registry.config().limits).map_err(Fault::request)?;
        Ok(registry.cancel(key, Claim::Next, &Origin::Operator, self.core.now())?.existed)
    }

    fn preserve(&self, request: &v1::SetSelfPreservationRequest) -> Result<(), Fault> {
        reason(&request.reason)?;
        let Some(removals) = removals(request.mode).map_err(Fault::request)? else {
            self.office.preserving.clear();
            return Ok(());
        };
        let ttl = request.ttl.as_ref().ok_or_else(|| Fault::request(Invalid::missing("ttl")))?;
        let ttl = between("ttl", ttl, Duration::from_millis(1), MAX_TTL)?;
        self.office.preserving.set(removals, ttl, request.reason.clone(), self.core.now());
        Ok(())
    }

    fn push(&self, request: &v1::SetPushRequest) -> Result<(), Fault> {
        reason(&request.reason)?;
        let core = &self.core;
        match (request.paused, &request.ttl) {
            (true, None) => return Err(Fault::request(Invalid::missing("ttl"))),
            (false, Some(_)) => {
                return Err(Fault::request(Invalid::malformed("ttl", "goes with paused only")));
            }
            (true, Some(ttl)) => {
                let ttl = between("ttl", ttl, Duration::from_millis(1), MAX_TTL)?;
                let registry = core.registry.clone();
                let waking = tokio::spawn(async move {
                    tokio::time::sleep(ttl).await;
                    registry.wake_readers();
                });
                let waking = AbortOnDropHandle::new(waking);
                core.push.pause(ttl, request.reason.clone(), waking, core.now());
            }
            (false, None) => {
                core.push.resume();
                core.registry.wake_readers();
            }
        }
        Ok(())
    }

    fn leave(&self, request: &v1::DrainServerRequest) -> Result<(), Fault> {
        reason(&request.reason)?;
        let grace = request.grace.as_ref().map(|sent| between("grace", sent, Duration::ZERO, MAX_GRACE));
        self.office.request.ask(grace.transpose()?);
        Ok(())
    }
}

fn watcher_after(token: &str) -> Result<u64, Fault> {
    let wrong = || Invalid::malformed("page_token", "is none of this list");
    if token.is_empty() {
        return Ok(0);
    }
    token.parse().map_err(|_| Fault::invalid(Reason::InvalidPageToken, wrong()))
}

fn watcher(sitter: &Sitter, head: u64) -> v1::Watcher {
    v1::Watcher {
        id: sitter.id,
        client_name: sitter.client.to_string(),
        remote_address: sitter.address.map(|address| address.to_string()).unwrap_or_default(),
        kind: "watch".into(),
        instances: sitter.instances.load(Ordering::Relaxed),
        pending: head.saturating_sub(sitter.told.load(Ordering::Relaxed)),
        start_time: Some(timestamp(sitter.started)),
    }
}

fn reason(text: &str) -> Result<(), Fault> {
    if text.trim().is_empty() {
        return Err(Fault::request(Invalid::missing("reason")));
    }
    if text.len() > MAX_REASON {
        let problem = Problem::TooLarge { limit: MAX_REASON, actual: text.len() };
        return Err(Fault::request(Invalid::new("reason", problem)));
    }
    Ok(())
}

fn between(
    field: &'static str,
    sent: &prost_types::Duration,
    least: Duration,
    most: Duration,
) -> Result<Duration, Fault> {
    let sent = duration(field, sent).map_err(Fault::request)?;
    if (least..=most).contains(&sent) {
        return Ok(sent);
    }
    let problem = if least.is_zero() { "is more than an hour" } else { "lies outside 1 ms to 24 h" };
    Err(Fault::request(Invalid::malformed(field, problem)))
}

/// Nothing is the configured way.
fn removals(number: i32) -> Result<Option<Removals>, Invalid> {
    match v1::SelfPreservationMode::try_from(number) {
        Ok(v1::SelfPreservationMode::Unspecified) => Ok(None),
        Ok(v1::SelfPreservationMode::Budget) => Ok(Some(Removals::As(Mode::Budget))),
        Ok(v1::SelfPreservationMode::Eureka) => Ok(Some(Removals::As(Mode::Eureka))),
        Ok(v1::SelfPreservationMode::Off) => Ok(Some(Removals::As(Mode::Off))),
        Ok(v1::SelfPreservationMode::Freeze) => Ok(Some(Removals::Frozen)),
        Err(_) => Err(Invalid::new("mode", Problem::OutOfRange { value: number.into(), min: 0, max: 4 })),
    }
}
