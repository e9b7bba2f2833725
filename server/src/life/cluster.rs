//! What the rest of the process asks about the other servers, without knowing how they are reached.

use std::collections::BTreeMap;
use std::sync::Arc;

use heureka_model::{Now, Wall};
use heureka_proto::admin::v1::Peer;
use heureka_proto::convert::{timestamp, wire_duration};
use heureka_registry::replication::{Difference, PeerStatus};
use tokio::sync::oneshot;

use super::Seen;
use crate::config::PeerConfig;
use crate::peers::{PeerAttempt, Peers};

/// What there is to be seen of the peers.
pub type Neighbours = Arc<dyn Fn() -> Seen + Send + Sync>;

/// What is amiss between the servers, a sentence for each; nothing where everybody hears everybody.
pub type Amiss = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

/// Every peer that is looked for or heard.
pub type Known = Arc<dyn Fn(Now) -> Vec<Peer> + Send + Sync>;

/// The keys on which a peer differs, once it has answered; nothing when it cannot be asked.
pub type Differences = Arc<dyn Fn(&str) -> Option<oneshot::Receiver<Vec<Difference>>> + Send + Sync>;

/// The other servers, seen from this one.
#[derive(Clone)]
pub struct Cluster {
    /// For the state of this server.
    pub seen: Neighbours,
    /// For health.
    pub amiss: Amiss,
    /// For operators.
    pub known: Known,
    /// For operators.
    pub differences: Differences,
}

impl Cluster {
    /// No other server.
    #[must_use]
    pub fn alone() -> Self {
        Self {
            seen: Arc::new(Seen::default),
            amiss: Arc::new(Vec::new),
            known: Arc::new(|_| Vec::new()),
            differences: Arc::new(|_| None),
        }
    }

    /// These servers.
    #[must_use]
    pub fn of(peers: &Arc<Peers>, config: &PeerConfig) -> Self {
        let configured = config.is_cluster();
        let (one, two, three, four) = (peers.clone(), peers.clone(), peers.clone(), peers.clone());
        Self {
            seen: Arc::new(move || seen(&one, configured)),
            amiss: Arc::new(move || two.amiss()),
            known: Arc::new(move |now| known(&three.attempts(), &three.connected(), now)),
            differences: Arc::new(move |node| four.replicator().diff(node)),
        }
    }
}

/// A list that names nobody but this server leaves it alone.
fn seen(peers: &Peers, configured: bool) -> Seen {
    let (attempts, connected) = (peers.attempts(), peers.connected());
    let only_itself = !attempts.is_empty() && attempts.iter().all(|attempt| attempt.is_self);
    Seen {
        configured: (configured && !only_itself) || !connected.is_empty(),
        reachable: !connected.is_empty(),
        ready: connected.iter().any(|peer| peer.state.ready),
        synced: peers.replicator().is_synced(),
    }
}

/// Addresses that are dialed with what became of each, and servers that dialed this one from elsewhere.
fn known(attempts: &[PeerAttempt], connected: &[PeerStatus], now: Now) -> Vec<Peer> {
    let mut up: BTreeMap<&str, &PeerStatus> =
        connected.iter().map(|status| (status.node.as_str(), status)).collect();
    let mut known = Vec::new();
    for attempt in attempts.iter().filter(|attempt| !attempt.is_self) {
        let status = up.remove(attempt.node.as_str());
        known.push(tried(attempt, status.map(|status| heard(status, now)).unwrap_or_default()));
    }
    known.extend(up.into_values().map(|status| heard(status, now)));
    known
}

fn tried(attempt: &PeerAttempt, heard: Peer) -> Peer {
    let (at, error) = attempt.last_error.clone().unzip();
    Peer {
        node_id: attempt.node.clone(),
        uri: attempt.address.to_string(),
        last_success_time: heard.last_success_time.or(attempt.last_success.map(timestamp)),
        last_error_time: at.map(timestamp),
        last_error: error.unwrap_or_default(),
        ..heard
    }
}

fn heard(status: &PeerStatus, now: Now) -> Peer {
    Peer {
        node_id: status.node.clone(),
        uri: status.address.clone(),
        connected: true,
        backlog: status.backlog,
        lag: Some(wire_duration(status.lag)),
        clock_skew: Some(skew(status.skew_ms)),
        last_success_time: Some(timestamp(Wall(now.wall.0.saturating_sub(millis(status))))),
        ready: status.state.ready,
        draining: status.state.draining,
        protecting: status.state.protecting,
        connected_node_ids: status.state.connected.clone(),
        boot: status.boot,
        ..Peer::default()
    }
}

fn millis(status: &PeerStatus) -> u64 {
    u64::try_from(status.silent_for.as_millis()).unwrap_or(u64::MAX)
}

fn skew(millis: i64) -> prost_types::Duration {
    let nanos = i32::try_from(millis % 1000).unwrap_or_default() * 1_000_000;
    prost_types::Duration { seconds: millis / 1000, nanos }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use heureka_model::Mono;

    use super::*;

    const NOW: Now = Now { mono: Mono(50_000), wall: Wall(1_000_000) };

    fn attempt(port: u16, node: &str) -> PeerAttempt {
        PeerAttempt {
            address: ([10, 0, 0, 1], port).into(),
            node: node.into(),
            is_self: false,
            last_success: Some(Wall(900_000)),
            last_error: Some((Wall(950_000), "refused".into())),
        }
    }

    fn status(node: &str) -> PeerStatus {
        let (silent_for, skew_ms) = (Duration::from_secs(2), -1500);
        PeerStatus { node: node.into(), address: "h:1".into(), silent_for, skew_ms, ..PeerStatus::default() }
    }

    #[test]
    fn peers_are_those_that_are_dialed_and_those_that_dialed() {
        let itself = PeerAttempt { is_self: true, ..attempt(1, "me") };
        let attempts = [itself, attempt(2, "a"), attempt(3, "b")];
        let peers = known(&attempts, &[status("b"), status("c")], NOW);
        let told: Vec<_> = peers.iter().map(|peer| (&*peer.node_id, &*peer.uri, peer.connected)).collect();
        assert_eq!(told, [("a", "10.0.0.1:2", false), ("b", "10.0.0.1:3", true), ("c", "h:1", true)]);
        assert_eq!(peers[0].last_success_time, Some(timestamp(Wall(900_000))));
        assert_eq!(
            (peers[0].last_error_time, &*peers[0].last_error),
            (Some(timestamp(Wall(950_000))), "refused")
        );
        assert_eq!(peers[1].last_success_time, Some(timestamp(Wall(998_000))), "it was heard since");
        let skew = peers[2].clock_skew.unwrap();
        assert_eq!((skew.seconds, skew.nanos), (-1, -500_000_000));
    }
}
