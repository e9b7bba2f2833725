//! What every service needs: the core, one reading of the clock per call, the response header.

use std::sync::Arc;

use heureka_model::{Clock, Now, Selectors};
use heureka_proto::convert::timestamp;
use heureka_proto::v1;
use heureka_registry::{AppCache, Origin, Registry, Surface};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tonic::Extensions;

use super::lists::Entries;
use super::push::Push;
use super::status::{Fault, Reason};
use super::turns::Turns;
use super::{Connection, Deps, Identity, Limits};
use crate::life::{Life, State};
use crate::peers::{self, Counts};

/// Live instances that are looked at on a thread that serves requests: some milliseconds.
const AT_ONCE: usize = 5000;
/// Long readings at a time, so that they leave room for requests however many there are.
const READINGS: usize = 4;

/// Bytes of encoded applications that are kept: some ten thousand instances.
const APPLICATIONS: usize = 16 << 20;

/// What the services share.
pub(super) struct Core {
    pub(super) registry: Arc<Registry>,
    pub(super) limits: Limits,
    pub(super) drain: CancellationToken,
    pub(super) life: Arc<Life>,
    pub(super) push: Push,
    clock: Arc<dyn Clock>,
    counts: Arc<Counts>,
    /// Whole applications, encoded, by namespace and name.
    pub(super) applications: AppCache<(String, String), Entries>,
    identity: Identity,
    readings: Arc<Semaphore>,
    pub(super) turns: Turns,
}

impl Core {
    pub(super) fn new(deps: Deps) -> Self {
        let Deps { registry, clock, identity, life, drain, limits, counts, .. } = deps;
        let readings = Arc::new(Semaphore::new(READINGS));
        let (turns, push) = (Turns::new(), Push::default());
        let applications = AppCache::new(APPLICATIONS);
        Self { registry, limits, drain, life, applications, clock, counts, identity, readings, turns, push }
    }

    pub(super) fn now(&self) -> Now {
        self.clock.now()
    }

    /// Refuses a reader who would be told too little.
    pub(super) fn readable(&self) -> Result<(), Fault> {
        if self.life.serves_readers() {
            return Ok(());
        }
        Err(Fault::new(Reason::Syncing, "the server has just started and does not know everything yet"))
    }

    /// Waits until a peer has what was written last, when there is one and it is quick enough.
    pub(super) async fn settle(&self) {
        peers::settle(&self.registry, self.limits.ack_wait, &self.counts).await;
    }

    pub(super) fn cluster(&self) -> &str {
        &self.identity.cluster_id
    }

    /// Whether a reading of everything that `selectors` may touch is long.
    pub(super) fn is_long(&self, selectors: &Selectors) -> bool {
        self.registry.weight(selectors) > AT_ONCE
    }

    /// Does a long reading beside the threads that serve requests.
    pub(super) async fn aside<T: Send + 'static>(&self, reading: impl FnOnce() -> T + Send + 'static) -> T {
        let turn = self.readings.clone().acquire_owned().await;
        // The turn lasts as long as the reading, even when nobody waits for it any more.
        let done = tokio::task::spawn_blocking(move || (reading(), drop(turn)).0).await;
        match done {
            Ok(done) => done,
            Err(failed) if failed.is_panic() => std::panic::resume_unwind(failed.into_panic()),
            // The runtime ends, and this task with it.
            Err(_) => std::future::pending().await,
        }
    }

    /// Header of an answer that reflects everything up to `revision`.
    pub(super) fn header(&self, revision: u64, now: Now) -> Option<v1::ResponseHeader> {
        Some(v1::ResponseHeader {
            cluster_id: self.identity.cluster_id.clone(),
            node_id: self.identity.node_id.clone(),
            boot: self.registry.boot(),
            revision,
            server_time: Some(timestamp(now.wall)),
            mode: self.mode().into(),
        })
    }

    fn mode(&self) -> v1::ServerMode {
        let state = self.life.state();
        if self.drain.is_cancelled() || state >= State::Draining {
            v1::ServerMode::Draining
        } else if state < State::Ready {
            v1::ServerMode::Syncing
        } else if self.registry.protecting() {
            v1::ServerMode::SelfPreservation
        } else {
            v1::ServerMode::Normal
        }
    }
}

/// Who writes.
pub(super) fn origin(extensions: &Extensions) -> Origin {
    let address = extensions.get::<Connection>().map(|connection| connection.0.address);
    Origin::Client { surface: Surface::Grpc, principal: None, address }
}

/// What ends the streams of a connection: its own end, or the server's for a request that tells of none.
pub(super) fn leaving<'a>(
    connection: Option<&'a Connection>,
    drain: &'a CancellationToken,
) -> &'a CancellationToken {
    connection.map_or(drain, |connection| &connection.0.leaving)
}
