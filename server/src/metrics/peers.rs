//! Series about other servers.
//!
//! Those of a single peer are written here and not kept by the recorder, which never forgets one: a server without
//! a name of its own has a new one after each restart.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use heureka_registry::replication::{PeerStatus, ReplicationStats};
use metrics::{Counter, Gauge, counter, gauge};

use crate::peers::{Peers, Refusal, Traffic};

/// Series with a reading of what replication counts.
type Stats = Vec<(Counter, fn(&ReplicationStats) -> u64)>;

/// Counts of replication as a whole.
pub(super) struct PeerFigures {
    peers: Arc<Peers>,
    stats: Stats,
    refused: Vec<(Refusal, Counter)>,
    skipped: Counter,
    ack_degraded: Counter,
    missing: Gauge,
    unreached: Gauge,
}

/// A server of which anything is known.
struct Known {
    node: String,
    traffic: Arc<Traffic>,
    up: bool,
    status: Option<PeerStatus>,
}

/// A family of series with one for each server; nothing where it has none now.
type Family = (&'static str, &'static str, fn(&Known) -> Option<f64>);

const FAMILIES: [Family; 9] = [
    ("heureka_peer_connected", "gauge", |known| Some(f64::from(u8::from(known.up)))),
    ("heureka_peer_backlog_revisions", "gauge", |known| Some(float(known.status.as_ref()?.backlog))),
    ("heureka_peer_lag_seconds", "gauge", |known| Some(known.status.as_ref()?.lag.as_secs_f64())),
    ("heureka_peer_silent_seconds", "gauge", |known| Some(known.status.as_ref()?.silent_for.as_secs_f64())),
    ("heureka_peer_clock_skew_seconds", "gauge", |known| {
        Some(known.status.as_ref()?.skew_ms as f64 / 1000.0)
    }),
    ("heureka_peer_frames_sent_total", "counter", |known| Some(load(&known.traffic.frames_sent))),
    ("heureka_peer_frames_received_total", "counter", |known| Some(load(&known.traffic.frames_received))),
    ("heureka_peer_sent_bytes_total", "counter", |known| Some(load(&known.traffic.bytes_sent))),
    ("heureka_peer_received_bytes_total", "counter", |known| Some(load(&known.traffic.bytes_received))),
];

impl PeerFigures {
    /// Makes the series. To be called with the recorder in force.
    pub(super) fn register(peers: Arc<Peers>) -> Self {
        let refused =
            |refusal: Refusal| (refusal, counter!("heureka_peer_refused_total", "reason" => refusal.word()));
        Self {
            peers,
            stats: stats(),
            refused: Refusal::ALL.into_iter().map(refused).collect(),
            skipped: counter!("heureka_peer_entries_skipped_total"),
            ack_degraded: counter!("heureka_peer_ack_degraded_total"),
            missing: gauge!("heureka_peer_missing_links"),
            unreached: gauge!("heureka_peer_unreached"),
        }
    }

    /// Brings the series of the whole up to date.
    pub(super) fn read(&self) {
        let (stats, counts) = (self.peers.replicator().stats(), self.peers.counts());
        self.stats.iter().for_each(|(counter, read)| counter.absolute(read(&stats)));
        self.refused.iter().for_each(|(refusal, counter)| counter.absolute(counts.of(*refusal)));
        self.skipped.absolute(counts.all_skipped());
        self.ack_degraded.absolute(counts.all_ack_degraded());
        self.missing.set(self.peers.missing_links().len() as f64);
        self.unreached.set(self.peers.unreached().len() as f64);
    }

    /// The series of each server as Prometheus text.
    pub(super) fn render(&self, page: &mut String) {
        let known = self.known();
        for (name, kind, read) in FAMILIES {
            // A write to a String cannot fail.
            let _ = writeln!(page, "# TYPE {name} {kind}");
            for (server, value) in known.iter().filter_map(|server| Some((server, read(server)?))) {
                let _ = writeln!(page, "{name}{{peer=\"{}\"}} {value}", escaped(&server.node));
            }
            page.push('\n');
        }
    }

    fn known(&self) -> Vec<Known> {
        let connected = self.peers.connected();
        let status = |node: &str| connected.iter().find(|status| status.node == node).cloned();
        let known = |(node, traffic, up): (String, _, _)| Known { status: status(&node), node, traffic, up };
        self.peers.traffic().into_iter().map(known).collect()
    }
}

fn stats() -> Stats {
    let records = |outcome: &'static str| counter!("heureka_peer_records_total", "outcome" => outcome);
    vec![
        (records("taken"), |stats| stats.taken),
        (records("lapsed"), |stats| stats.lapsed),
        (records("rejected"), |stats| stats.rejected),
        (records("no_room"), |stats| stats.refused),
        (counter!("heureka_peer_revived_total"), |stats| stats.revived),
        (counter!("heureka_peer_renewals_total"), |stats| stats.renewals),
        (counter!("heureka_peer_probed_total"), |stats| stats.probed),
        (counter!("heureka_peer_repairs_total"), |stats| stats.repairs),
        (counter!("heureka_peer_repaired_records_total"), |stats| stats.repaired),
        (counter!("heureka_peer_clock_ahead_total"), |stats| stats.clock_ahead),
    ]
}

/// Names of servers hold no control characters, but quotes they may hold.
fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"")
}

fn load(figure: &AtomicU64) -> f64 {
    float(figure.load(Ordering::Relaxed))
}

/// Exact up to 2^53, which is more than anything here counts.
fn float(value: u64) -> f64 {
    value as f64
}
