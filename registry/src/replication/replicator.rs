//! What all streams to other servers share: who is connected, what was taken in from whom, the digest.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use heureka_model::{InstanceKey, Mono, Now, Wall};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

use super::digest::Digest;
use super::inspection::{Asker, Difference};
use super::link::Link;
use super::{Applied, Declined, Hello, PROTOCOL, PeerStatus, ReplicationStats, State};
use crate::Registry;

/// Streams at a time.
const LINKS: usize = 64;

/// Logs of others of which the position is remembered; the one heard of longest ago goes.
const LOGS: usize = 64;

/// A server that says nothing for so long is taken for gone when another comes under its name.
const SILENT: Duration = Duration::from_secs(3);

/// A clock that far ahead is broken.
const CLOCK_AHEAD: Duration = Duration::from_hours(365 * 24);

/// Keys waiting to be asked about, per stream. More run out of their leases together only when this server is cut
/// off, and then it holds them anyway.
const PROBES: usize = 100_000;

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

/// Streams and positions. Locked for moments, never while the registry is asked.
#[derive(Default)]
pub(super) struct Table {
    pub(super) links: BTreeMap<String, Entry>,
    applied: VecDeque<Applied>,
    last_id: u64,
    synced: bool,
    /// The stream that was asked for everything.
    puller: Option<u64>,
}

/// What others see of a stream.
pub(super) struct Entry {
    pub(super) id: u64,
    pub(super) boot: u64,
    pub(super) address: String,
    dialed: bool,
    since: Mono,
    pub(super) heard: Mono,
    pub(super) skew_ms: i64,
    pub(super) state: State,
    /// Position in this server's log that was sent and acknowledged.
    pub(super) sent: u64,
    pub(super) acked: u64,
    /// When the peer last had everything.
    pub(super) level: Mono,
    pub(super) probes: VecDeque<InstanceKey>,
    /// An operator who asks where the peer differs.
    pub(super) asker: Option<Asker>,
}

/// What is counted as it happens.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) taken: AtomicU64,
    pub(super) revived: AtomicU64,
    pub(super) lapsed: AtomicU64,
    pub(super) rejected: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) renewals: AtomicU64,
    pub(super) probed: AtomicU64,
    pub(super) repairs: AtomicU64,
    pub(super) repaired: AtomicU64,
    pub(super) clock_ahead: AtomicU64,
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
        if let Some(entry) = table.links.get(&hello.node) {
            self.check_other(entry, hello, dialed, now)?;
        } else if table.links.len() >= LINKS {
            return Err(Declined::TooMany { limit: LINKS });
        }
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
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.counters;
        ReplicationStats {
            taken: count(&counters.taken),
            revived: count(&counters.revived),
            lapsed: count(&counters.lapsed),
            rejected: count(&counters.rejected),
            refused: count(&counters.refused),
            renewals: count(&counters.renewals),
            probed: count(&counters.probed),
            repairs: count(&counters.repairs),
            repaired: count(&counters.repaired),
            clock_ahead: count(&counters.clock_ahead),
        }
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
        let mut table = self.table.lock();
        let free = !table.synced && table.puller.is_none();
        if free {
            table.puller = Some(id);
        }
        free
    }

    pub(super) fn pulled(&self, id: u64) {
        let mut table = self.table.lock();
        if table.puller == Some(id) {
            table.puller = None;
            table.synced = true;
        }
    }

    pub(super) fn left(&self, id: u64, node: &str) {
        let mut table = self.table.lock();
        if table.puller == Some(id) {
            table.puller = None;
        }
        if table.links.get(node).is_some_and(|entry| entry.id == id) {
            table.links.remove(node);
        }
        drop(table);
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

    /// Decides between a stream that is there and a new one of the same name.
    fn check_other(&self, entry: &Entry, hello: &Hello, dialed: bool, now: Now) -> Result<(), Declined> {
        if entry.boot == hello.boot {
            // Both sides opened one: both keep the one that the server of the smaller id opened.
            let preferred = dialed == (self.registry.boot() < hello.boot);
            return if preferred || entry.dialed == dialed { Ok(()) } else { Err(Declined::Duplicate) };
        }
        if now.mono.since(entry.heard) < SILENT {
            let address = entry.address.clone();
            return Err(Declined::NodeAlive { node: hello.node.clone(), address });
        }
        Ok(())
    }
}

impl Table {
    fn enter(&mut self, hello: &Hello, address: &str, dialed: bool, now: Now) -> u64 {
        self.last_id += 1;
        let address = if hello.address.is_empty() { address } else { &hello.address };
        let entry = Entry {
            id: self.last_id,
            boot: hello.boot,
            address: address.to_owned(),
            dialed,
            since: now.mono,
            heard: now.mono,
            skew_ms: skew(hello.wall, now.wall),
            state: State { ready: hello.ready, ..State::default() },
            sent: 0,
            acked: 0,
            level: now.mono,
            probes: VecDeque::new(),
            asker: None,
        };
        self.links.insert(hello.node.clone(), entry);
        self.last_id
    }

    /// The entry of a stream, unless another has taken its place.
    pub(super) fn entry(&mut self, id: u64, node: &str) -> Option<&mut Entry> {
        self.links.get_mut(node).filter(|entry| entry.id == id)
    }

    /// Notes that a peer's log is taken in up to a revision.
    pub(super) fn apply(&mut self, applied: Applied) {
        let known = self.applied.iter().position(|known| known.boot == applied.boot);
        let before = known.and_then(|at| self.applied.remove(at)).map_or(0, |known| known.revision);
        if self.applied.len() == LOGS {
            self.applied.pop_front();
        }
        self.applied.push_back(Applied { revision: applied.revision.max(before), ..applied });
    }

    fn ask(&mut self, lapsing: &[InstanceKey]) {
        for entry in self.links.values_mut() {
            let room = PROBES.saturating_sub(entry.probes.len());
            entry.probes.extend(lapsing.iter().take(room).cloned());
        }
    }
}

impl Entry {
    fn status(&self, node: &str, head: u64, now: Now) -> PeerStatus {
        let backlog = head.saturating_sub(self.acked);
        PeerStatus {
            node: node.to_owned(),
            boot: self.boot,
            address: self.address.clone(),
            dialed: self.dialed,
            connected_for: now.mono.since(self.since),
            silent_for: now.mono.since(self.heard),
            backlog,
            lag: if self.acked >= self.sent { Duration::ZERO } else { now.mono.since(self.level) },
            skew_ms: self.skew_ms,
            state: self.state.clone(),
        }
    }
}

/// Whether a hybrid clock is too far ahead to be right.
pub(crate) fn is_broken(clock: u64, now: Now) -> bool {
    Wall(clock >> 16) > now.wall.plus(CLOCK_AHEAD)
}

fn skew(theirs: Wall, ours: Wall) -> i64 {
    let distance = i64::try_from(theirs.0.abs_diff(ours.0)).unwrap_or(i64::MAX);
    if theirs >= ours { distance } else { -distance }
}
