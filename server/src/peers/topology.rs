//! Streams that should be there and are not.
//!
//! Every server tells once a second with whom it has a stream, so whoever hears two of them knows whether they hear
//! each other. A ring or a chain where every server should know every other is found this way, and so is a stream
//! that only one of its ends believes in.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use heureka_model::Mono;
use heureka_registry::replication::PeerStatus;
use parking_lot::Mutex;

/// How long a stream has to be missing before it is told: the news of a server that came or went takes its time.
const SETTLED: Duration = Duration::from_secs(10);

/// Two servers without a stream between them, as far as this one is told.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MissingLink {
    /// The server that says it has no stream to the other.
    pub from: String,
    /// The other.
    pub to: String,
    /// The other says that it has one: it is heard, or believes to be, and does not hear.
    pub one_way: bool,
}

impl fmt::Display for MissingLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, one_way } = self;
        write!(f, "{from} has no stream to {to}")?;
        if *one_way { write!(f, ", which has one to it") } else { Ok(()) }
    }
}

/// Missing links and since when.
#[derive(Default)]
pub(super) struct Topology(Mutex<BTreeMap<MissingLink, Mono>>);

impl Topology {
    /// Looks at what the servers say of themselves.
    pub(super) fn look(&self, own: &str, peers: &[PeerStatus], now: Mono) {
        let missing = missing(own, peers);
        let mut known = self.0.lock();
        known.retain(|link, _| missing.contains(link));
        for link in missing {
            known.entry(link).or_insert(now);
        }
    }

    /// Links that have been missing for some time.
    pub(super) fn missing(&self, now: Mono) -> Vec<MissingLink> {
        let known = self.0.lock();
        let settled = known.iter().filter(|(_, since)| now.since(**since) >= SETTLED);
        settled.map(|(link, _)| link.clone()).collect()
    }
}

/// Each pair once, unless both say that they lack the other: then from the lesser name.
fn missing(own: &str, peers: &[PeerStatus]) -> BTreeSet<MissingLink> {
    let mut says: BTreeMap<&str, BTreeSet<&str>> = peers
        .iter()
        .map(|peer| (&*peer.node, peer.state.connected.iter().map(String::as_str).collect()))
        .collect();
    says.insert(own, peers.iter().map(|peer| &*peer.node).collect());
    let everybody: BTreeSet<&str> = says.keys().copied().chain(says.values().flatten().copied()).collect();
    let mut missing = BTreeSet::new();
    for (from, hears) in &says {
        for to in everybody.difference(hears).filter(|to| *to != from) {
            let other = says.get(to).map(|heard| heard.contains(from));
            if other != Some(false) || from < to {
                let one_way = other == Some(true);
                missing.insert(MissingLink { from: (*from).to_owned(), to: (*to).to_owned(), one_way });
            }
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use heureka_registry::replication::State;

    use super::*;

    fn peer(node: &str, connected: &[&str]) -> PeerStatus {
        let connected = connected.iter().map(|name| (*name).to_owned()).collect();
        PeerStatus {
            node: node.into(),
            state: State { connected, ..State::default() },
            ..PeerStatus::default()
        }
    }

    fn named(own: &str, peers: &[PeerStatus]) -> Vec<String> {
        let arrow = |link: &MissingLink| if link.one_way { "->" } else { "-" };
        missing(own, peers).iter().map(|link| format!("{}{}{}", link.from, arrow(link), link.to)).collect()
    }

    #[test]
    fn a_full_mesh_misses_nothing() {
        assert!(named("a", &[]).is_empty());
        assert!(named("a", &[peer("b", &["a", "c"]), peer("c", &["a", "b"])]).is_empty());
    }

    #[test]
    fn the_links_that_a_chain_and_a_ring_lack_are_named() {
        // a - b - c: b sees that a and c lack each other, a only that itself lacks c.
        assert_eq!(named("b", &[peer("a", &["b"]), peer("c", &["b"])]), ["a-c"]);
        assert_eq!(named("a", &[peer("b", &["a", "c"])]), ["a-c"]);
        // a - b - c - d - a
        let ring = [peer("b", &["a", "c"]), peer("d", &["a", "c"])];
        assert_eq!(named("a", &ring), ["a-c", "b-d"]);
    }

    #[test]
    fn a_link_that_one_end_believes_in_is_one_way() {
        assert_eq!(named("a", &[peer("b", &["a", "c"]), peer("c", &["a"])]), ["c->b"]);
        assert_eq!(named("a", &[peer("b", &[])]), ["b->a"]);
    }

    #[test]
    fn missing_links_read_as_sentences() {
        let mut link = MissingLink { from: "a".into(), to: "b".into(), one_way: false };
        assert_eq!(link.to_string(), "a has no stream to b");
        link.one_way = true;
        assert_eq!(link.to_string(), "a has no stream to b, which has one to it");
    }

    #[test]
    fn only_what_stays_missing_is_told() {
        let topology = Topology::default();
        let (chain, mesh) = ([peer("b", &["a", "c"])], [peer("b", &["a"])]);
        topology.look("a", &chain, Mono(0));
        topology.look("a", &chain, Mono(9_999));
        assert!(topology.missing(Mono(9_999)).is_empty());
        assert_eq!(topology.missing(Mono(10_000)).len(), 1);
        topology.look("a", &mesh, Mono(10_001));
        topology.look("a", &chain, Mono(10_002));
        assert!(topology.missing(Mono(15_000)).is_empty());
    }
}
