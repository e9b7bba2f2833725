//! What all streams to other servers share: who is connected, what was taken in from whom, the digest.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use heureka_model::{Now, Wall};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

use super::digest::Digest;
use super::inspection::Difference;
use super::link::Link;
use super::status::Counters;
use super::table::Table;
use super::{Declined, Hello, PROTOCOL, PeerStatus, ReplicationStats, State};
use crate::Registry;

/// A clock that far ahead is broken.
const CLOCK_AHEAD: Duration = Duration::from_hours(365 * 24);

/// Who this server is for the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Name of the cluster.
    pub cluster: String,
    /// Name of the server, unique in the cluster.
    pub node: String,
    /// Where others reach it, when it knows.
    pub address: String,
}

/// The replication of one server. Whoever carries frames makes a [`Link`] of each stream; this tells what they share.
pub struct Replicator {
    pub(super) registry: Arc<Registry>,
    identity: Identity,
    table: Mutex<Table>,
    digest: Mutex<Digest>,
    pub(super) ready: AtomicBool,
    draining: AtomicBool,
    /// Rises with everything that the others are to hear at once.
    news: AtomicU64,
    pub(super) counters: Counters,
}

impl Replicator {
    /// The replication of `registry`, of a server that knows all that it needs to.
    #[must_use]
    pub fn new(registry: Arc<Registry>, identity: Identity) -> Self {
        Self {
            registry,
            identity,
            table: Mutex::default(),
            digest: Mutex::default(),
            ready: AtomicBool::new(true),
            draining: AtomicBool::new(false),
            news: AtomicU64::new(0),
            counters: Counters::default(),
        }
    }

    /// The first frame of every stream.
    #[must_use]
    pub fn hello(&self, now: Now) -> Hello {
        let (_, clock) = self.registry.log.hold().position();
        Hello {
            cluster: self.identity.cluster.clone(),
            node: self.identity.node.clone(),
            boot: self.registry.boot(),
            protocol: PROTOCOL,
            capabilities: Vec::new(),
            wall: now.wall,
            clock,
            address: self.identity.address.clone(),
            applied: self.table.lock().applied.iter().copied().collect(),
            ready: self.is_ready(),
            covered: self.registry.standing().vector,
        }
    }

    /// Makes a link of a stream on which the other side's greeting came. `address` is where the stream leads, and
    /// `dialed` says that this server opened it.
    ///
    /// # Errors
    /// Why the stream is not used; it is to be closed.
    pub fn join(
        self: &Arc<Self>,
        hello: &Hello,
        address: &str,
        dialed: bool,
        now: Now,
    ) -> Result<Link, Declined> {
        self.check(hello, now)?;
        let mut table = self.table.lock();
        table.admit(hello, dialed, self.registry.boot(), now)?;
        let id = table.enter(hello, address, dialed, now);
        drop(table);
        self.registry.acks().link_up();
        self.tell_news();
        Ok(Link::new(Arc::clone(self), id, hello, now))
    }

    /// Lets time pass in the registry and has the peers asked about leases that ran out. Once a second, instead of
    /// [`Registry::tick`].
    pub fn tick(&self, now: Now) {
        let protecting = self.registry.protecting();
        self.registry.tick(now);
        let lapsing = self.registry.lapsing();
        if !lapsing.is_empty() {
            self.table.lock().ask(&lapsing);
        }
        if self.registry.protecting() != protecting {
            self.tell_news();
        }
    }

    /// Says whether this server knows all that the cluster knows. While it does not, it asks a peer that does, and
    /// takes renewals of instances that it does not know yet.
    pub fn set_ready(&self, ready: bool) {
        self.registry.early.learn(!ready);
        if self.ready.swap(ready, Ordering::AcqRel) != ready {
            if !ready {
                self.table.lock().synced = false;
            }
            self.tell_news();
        }
    }

    /// Whether this server said that it knows all.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// Whether a peer that knows all has told all of it.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.table.lock().synced
    }

    /// Tells the peers that this server is leaving.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Release);
        self.tell_news();
    }

    /// Peers with a stream, by name.
    #[must_use]
    pub fn peers(&self, now: Now) -> Vec<PeerStatus> {
        let head = self.registry.head();
        let table = self.table.lock();
        table.links.iter().map(|(node, entry)| entry.status(node, head, now)).collect()
    }

    /// Asks where a peer differs: keys of live instances with the versions here and there, among them what was on
    /// its way at that moment. Nothing when there is no stream to that peer, or somebody asks it already. Ends with
    /// an error when the stream ends.
    #[must_use]
    pub fn diff(&self, node: &str) -> Option<oneshot::Receiver<Vec<Difference>>> {
        let (asker, answer) = oneshot::channel();
        let mut table = self.table.lock();
        let entry = table.links.get_mut(node).filter(|entry| entry.asker.is_none())?;
        entry.asker = Some(asker);
        drop(table);
        self.registry.log.wake();
        Some(answer)
    }

    /// Figures since the start.
    #[must_use]
    pub fn stats(&self) -> ReplicationStats {
        self.counters.read()
    }

    /// The registry that is replicated.
    #[must_use]
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Who this server is.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Combination of everything that is live here; equal on two servers that hold the same. Nothing while it is
    /// still being worked out.
    #[must_use]
    pub fn root(&self) -> Option<u64> {
        let digest = self.digest();
        digest.is_level().then(|| digest.root())
    }

    /// The digest, level with the log.
    pub(super) fn digest(&self) -> MutexGuard<'_, Digest> {
        let mut digest = self.digest.lock();
        digest.follow(&self.registry);
        digest
    }

    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock()
    }

    pub(super) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    pub(super) fn news(&self) -> u64 {
        self.news.load(Ordering::Acquire)
    }

    pub(super) fn tell_news(&self) {
        self.news.fetch_add(1, Ordering::AcqRel);
        self.registry.log.wake();
    }

    /// How this server is.
    pub(super) fn state(&self) -> State {
        let stats = self.registry.stats();
        State {
            root: self.root(),
            ready: self.is_ready(),
            protecting: stats.protecting,
            draining: self.is_draining(),
            held: stats.held,
            live: stats.instances,
            connected: self.table.lock().links.keys().cloned().collect(),
        }
    }

    /// Whether this server should ask the peer of a stream for everything.
    pub(super) fn should_pull(&self, id: u64, peer_ready: bool) -> bool {
        if self.is_ready() || !peer_ready {
            return false;
        }
        self.table.lock().pull(id)
    }

    pub(super) fn left(&self, id: u64, node: &str) {
        self.table.lock().leave(id, node);
        self.registry.acks().link_down();
        self.tell_news();
    }

    fn check(&self, hello: &Hello, now: Now) -> Result<(), Declined> {
        if hello.cluster != self.identity.cluster {
            return Err(Declined::OtherCluster { cluster: hello.cluster.clone() });
        }
        if hello.boot == self.registry.boot() {
            return Err(Declined::OwnNode);
        }
        if hello.node == self.identity.node {
            return Err(Declined::NameTaken { node: hello.node.clone() });
        }
        if hello.protocol.abs_diff(PROTOCOL) > 1 || hello.protocol == 0 {
            return Err(Declined::Protocol { protocol: hello.protocol });
        }
        if is_broken(hello.clock, now) {
            return Err(Declined::Clock { clock: hello.clock });
        }
        Ok(())
    }
}

/// Whether a hybrid clock is too far ahead to be right.
pub(crate) fn is_broken(clock: u64, now: Now) -> bool {
    Wall(clock >> 16) > now.wall.plus(CLOCK_AHEAD)
}
