//! The other servers of the cluster: who they are, the streams to them, and what is known of both.
//!
//! What is said on a stream and what follows from it is the replicator's business (`heureka_registry`); here are
//! the sockets. Each pair of servers has one stream on a connection of its own. Both sides dial, and the replicator
//! decides which of two streams stays; the dialer of the other one waits until it ends.
//!
//! ```text
//! names, file ──> membership ──> dialing ──┐
//!                       └─> trust          ├─> session ──> wire ──> replicator
//! accept loop ──> service ─────────────────┘
//! ```

mod backoff;
mod counts;
mod dialing;
mod links;
mod membership;
mod notices;
mod refusal;
mod service;
mod session;
mod topology;
mod trust;
mod wire;

pub(crate) use wire::{record_of, wire_record};

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use heureka_model::{Clock, Now, Wall};
use heureka_proto::peer::v1::replication_service_server::{ReplicationServiceServer, SERVICE_NAME};
use heureka_registry::Registry;
use heureka_registry::replication::{PeerStatus, Replicator};
use tokio::sync::{Notify, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tonic::metadata::{Ascii, MetadataValue};

use crate::config::{Config, PeerConfig};
use crate::drain::Ending;
use crate::tls::Connector;
pub(crate) use counts::Counts;
use dialing::Attempts;
pub use dialing::{Dial, Socket};
pub(crate) use dialing::{deepest, system};
use links::Links;
pub(crate) use links::Traffic;
use membership::{Members, Membership};
use notices::Notices;
pub(crate) use refusal::Refusal;
pub use topology::MissingLink;
use topology::Topology;
use trust::Trust;

/// The other servers of the cluster.
pub struct Peers {
    replicator: Arc<Replicator>,
    registry: Arc<Registry>,
    clock: Arc<dyn Clock>,
    trust: Trust,
    links: Arc<Links>,
    members: watch::Sender<Arc<Members>>,
    attempts: Attempts,
    topology: Topology,
    counts: Arc<Counts>,
    notices: Notices,
    ways: Ways,
    /// What this server says to the others.
    authorization: Option<MetadataValue<Ascii>>,
    /// Asks for a look-up of all names before its time.
    out_of_turn: Arc<Notify>,
    /// Ends every stream.
    closing: CancellationToken,
    seed: u64,
}

/// How the others are reached.
pub(crate) struct Ways {
    /// Opens a connection.
    pub(crate) dial: Dial,
    /// Whom to believe over TLS.
    pub(crate) tls: Connector,
}

/// What became of one address of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerAttempt {
    /// The address.
    pub address: SocketAddr,
    /// Name of the server that last answered there; empty before.
    pub node: String,
    /// It is this server's own.
    pub is_self: bool,
    /// When a stream to it last began.
    pub last_success: Option<Wall>,
    /// When the last try failed or stream ended, and why.
    pub last_error: Option<(Wall, String)>,
}

impl PeerAttempt {
    fn new(address: SocketAddr) -> Self {
        Self { address, node: String::new(), is_self: false, last_success: None, last_error: None }
    }
}

impl Peers {
    /// The peers of a server; nobody is dialed before [`Self::start`].
    pub(crate) fn new(
        replicator: Arc<Replicator>,
        clock: Arc<dyn Clock>,
        config: &Config,
        ways: Ways,
        seed: u64,
    ) -> Arc<Self> {
        Arc::new(Self {
            registry: replicator.registry().clone(),
            replicator,
            clock,
            trust: Trust::new(&config.peer.trusted, &config.server.trusted_proxies),
            links: Arc::default(),
            members: watch::Sender::default(),
            attempts: Attempts::default(),
            topology: Topology::default(),
            counts: Arc::default(),
            notices: Notices::default(),
            ways,
            authorization: config.auth.own().and_then(|own| own.parse().ok()),
            out_of_turn: Arc::default(),
            closing: CancellationToken::new(),
            seed,
        })
    }

    /// Looks for peers and dials them until [`Self::part`].
    pub(crate) fn start(self: &Arc<Self>, config: &PeerConfig) {
        let (members, out_of_turn) = (self.members.clone(), self.out_of_turn.clone());
        let membership = Membership::new(config, membership::system(), members, out_of_turn);
        let (following, closing) = (self.clone(), self.closing.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = membership.run() => {}
                () = dialing::follow(following) => {}
                () = closing.cancelled() => {}
            }
        });
    }

    /// Takes streams of peers beside other routes.
    pub(crate) fn serve(self: &Arc<Self>, router: Router, ending: &Ending) -> Router {
        let accepting = service::Accepting { peers: self.clone(), ending: ending.clone() };
        let service = ReplicationServiceServer::new(accepting).max_decoding_message_size(wire::MESSAGE_MAX);
        router.route_service(&format!("/{SERVICE_NAME}/{{*method}}"), service)
    }

    /// Lets time pass; once a second.
    pub(crate) fn tick(&self, now: Now) {
        self.replicator.tick(now);
        let own = &self.replicator.identity().node;
        self.topology.look(own, &self.replicator.peers(now), now.mono);
        for link in self.topology.missing(now.mono) {
            self.notices.once(&link.to_string(), || tracing::warn!("{link}"));
        }
    }

    /// Pairs of servers that have had no stream between them for ten seconds or more, as far as this server and
    /// those it has a stream to know. Servers that nobody has a stream to are not there, and so are not missed.
    #[must_use]
    pub fn missing_links(&self) -> Vec<MissingLink> {
        self.topology.missing(self.clock.now().mono)
    }

    /// What is amiss between the servers, a sentence for each.
    #[must_use]
    pub fn amiss(&self) -> Vec<String> {
        let unreached =
            self.unreached().into_iter().map(|(name, reason)| format!("no stream to {name}: {reason}"));
        self.missing_links().iter().map(ToString::to_string).chain(unreached).collect()
    }

    /// Names from the configuration of which no address has a stream or is this server itself, with the reason.
    #[must_use]
    pub fn unreached(&self) -> Vec<(String, String)> {
        let attempts = self.attempts.list();
        let (up, places) = (self.links.nodes(), self.places());
        let of = |address: &SocketAddr| attempts.iter().find(|attempt| attempt.address == *address);
        let holds = |attempt: &PeerAttempt| attempt.is_self || up.contains(&attempt.node);
        let members = self.members.borrow().clone();
        let is_held = |address: &SocketAddr| places.contains(address) || of(address).is_some_and(holds);
        let lost = members.names().filter(|(_, addresses)| !addresses.iter().any(is_held));
        lost.map(|(name, addresses)| {
            let failed = addresses.iter().filter_map(of).find_map(|attempt| attempt.last_error.clone());
            let reason = match failed {
                Some((_, reason)) => reason,
                None if addresses.is_empty() => "the name has no address".to_owned(),
                None => "no answer yet".to_owned(),
            };
            (name.to_string(), reason)
        })
        .collect()
    }

    /// Where those with a stream are reached: one that dialed may be one that cannot be dialed from here.
    fn places(&self) -> BTreeSet<SocketAddr> {
        self.connected().iter().filter_map(|peer| peer.address.parse().ok()).collect()
    }

    /// Servers with a stream to this one.
    #[must_use]
    pub fn connected(&self) -> Vec<PeerStatus> {
        self.replicator.peers(self.clock.now())
    }

    /// What became of each address that is dialed.
    #[must_use]
    pub fn attempts(&self) -> Vec<PeerAttempt> {
        self.attempts.list()
    }

    /// The replicator behind the streams.
    #[must_use]
    pub fn replicator(&self) -> &Arc<Replicator> {
        &self.replicator
    }

    /// What is counted.
    pub(crate) fn counts(&self) -> &Arc<Counts> {
        &self.counts
    }

    /// Servers of which anything is known, with what went to and fro, and whether there is a stream.
    pub(crate) fn traffic(&self) -> Vec<(String, Arc<Traffic>, bool)> {
        self.links.traffic()
    }

    /// Waits until a peer has taken in everything that was written here so far, or there is none; the caller limits the time.
    pub(crate) async fn told_all(&self) {
        self.registry.acks().reached(self.registry.entered()).await;
    }

    /// Ends every stream and dials nobody any more.
    pub(crate) fn part(&self) {
        self.closing.cancel();
    }
}

/// Waits until a peer has what was just written; counts when that takes too long.
pub(crate) async fn settle(registry: &Registry, at_most: Duration, counts: &Counts) {
    let acks = registry.acks();
    if !acks.reachable() {
        return;
    }
    let reached = timeout(at_most, acks.reached(registry.entered())).await;
    if reached != Ok(true) {
        counts.ack_degraded();
    }
}
