//! Figures that others keep and that are read when somebody asks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use heureka_model::Status;
use heureka_registry::{Registry, Stats};
use metrics::{Counter, Gauge, counter, gauge};

use super::peers::PeerFigures;
use crate::config::ServerConfig;
use crate::grpc::Watches;
use crate::life::{Life, State};
use crate::peers::Peers;
use crate::telemetry::LineBudget;
use crate::{persist, tls};

/// Series that have a reading of what keeps them.
type Read<M, S, V> = Vec<(M, fn(&S) -> V)>;

/// Where the figures come from and where they go.
pub(super) struct Figures {
    sources: Sources,
    peers: PeerFigures,
    by_status: Vec<(Status, Gauge)>,
    core: Read<Gauge, Stats, f64>,
    core_counts: Read<Counter, Stats, u64>,
    gauges: Read<Gauge, Sources, Option<f64>>,
    counts: Read<Counter, Sources, u64>,
}

/// Whoever keeps figures.
pub(crate) struct Sources {
    pub(crate) core: Arc<Registry>,
    pub(crate) watches: Arc<Watches>,
    pub(crate) lines: LineBudget,
    pub(crate) life: Arc<Life>,
    pub(crate) store: Arc<persist::Figures>,
    pub(crate) node: ServerConfig,
    pub(crate) peers: Arc<Peers>,
    pub(crate) tls: Arc<tls::Figures>,
}

impl Figures {
    /// Makes the series. To be called with the recorder in force.
    pub(super) fn register(sources: Sources) -> Self {
        introduce(&sources.node);
        let of_status =
            |status: Status| (status, gauge!("heureka_registry_instances", "status" => status.as_str()));
        Self {
            peers: PeerFigures::register(sources.peers.clone()),
            sources,
            by_status: Status::ALL.into_iter().map(of_status).collect(),
            core: core(),
            core_counts: core_counts(),
            gauges: gauges(),
            counts: counts(),
        }
    }

    /// Series that the recorder does not keep.
    pub(super) fn render(&self, page: &mut String) {
        self.peers.render(page);
    }

    /// Brings every series up to date.
    pub(super) fn read(&self) {
        self.peers.read();
        let stats = self.sources.core.stats();
        self.by_status.iter().for_each(|(status, gauge)| gauge.set(stats.counts.get(*status)));
        self.core.iter().for_each(|(gauge, read)| gauge.set(read(&stats)));
        self.core_counts.iter().for_each(|(counter, read)| counter.absolute(read(&stats)));
        self.counts.iter().for_each(|(counter, read)| counter.absolute(read(&self.sources)));
        for (gauge, read) in &self.gauges {
            if let Some(value) = read(&self.sources) {
                gauge.set(value);
            }
        }
    }
}

/// Who this is and where it runs, as labels of a constant.
fn introduce(node: &ServerConfig) {
    let labels = [
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("node_id", node.node_id.clone()),
        ("cluster", node.cluster.clone()),
        ("zone", node.zone.clone()),
        ("region", node.region.clone()),
    ];
    gauge!("heureka_server_info", &labels).set(1.0);
}

fn core() -> Read<Gauge, Stats, f64> {
    vec![
        (gauge!("heureka_registry_live_instances"), |stats| float(stats.instances)),
        (gauge!("heureka_registry_applications"), |stats| float(stats.applications)),
        (gauge!("heureka_registry_tombstones"), |stats| float(stats.tombstones)),
        (gauge!("heureka_registry_record_bytes"), |stats| float(stats.record_bytes)),
        (gauge!("heureka_registry_templates"), |stats| float(stats.templates)),
        (gauge!("heureka_lease_renewals_last_minute"), |stats| float(stats.renewals_last_minute)),
        (gauge!("heureka_lease_expected_renewals_per_minute"), |stats| stats.expected_per_minute),
        (gauge!("heureka_lease_held"), |stats| float(stats.held)),
        (gauge!("heureka_preservation_active"), |stats| f64::from(u8::from(stats.protecting))),
    ]
}

fn core_counts() -> Read<Counter, Stats, u64> {
    let reports = |outcome: &'static str| counter!("heureka_reading_reports_total", "outcome" => outcome);
    vec![
        (counter!("heureka_lease_renewals_total"), |stats| stats.renewals),
        (counter!("heureka_lease_expired_total"), |stats| stats.expired),
        (counter!("heureka_registry_registered_after_cancel_total"), |stats| stats.registered_after_cancel),
        (counter!("heureka_registry_stamps_ahead_total"), |stats| stats.stamps_ahead),
        (counter!("heureka_registry_endpoints_replaced_total"), |stats| stats.endpoints_replaced),
        (counter!("heureka_registry_version_collisions_total"), |stats| stats.version_collisions),
        (reports("accepted"), |stats| stats.reports_accepted),
        (reports("capped"), |stats| stats.reports_capped),
        (reports("refused"), |stats| stats.reports_refused),
    ]
}

fn gauges() -> Read<Gauge, Sources, Option<f64>> {
    vec![
        (gauge!("heureka_log_head"), |sources| Some(float(sources.core.head()))),
        (gauge!("heureka_log_floor"), |sources| Some(float(sources.core.floor()))),
        (gauge!("heureka_watch_open"), |sources| Some(float(sources.watches.open() as u64))),
        (gauge!("heureka_watch_cursors"), |sources| Some(float(sources.core.subscriptions() as u64))),
        (gauge!("heureka_server_ready"), |sources| {
            Some(f64::from(u8::from(sources.life.state() == State::Ready)))
        }),
        (gauge!("heureka_store_rows"), |sources| Some(float(sources.store.rows()))),
        (gauge!("heureka_store_revision"), |sources| Some(float(sources.store.revision()))),
        (gauge!("heureka_process_resident_bytes"), |_| resident_bytes()),
        (gauge!("heureka_process_open_files"), |_| open_files()),
    ]
}

fn counts() -> Read<Counter, Sources, u64> {
    let started = |mode: &'static str| counter!("heureka_watch_started_total", "mode" => mode);
    let reloads = |outcome: &'static str| counter!("heureka_tls_reloads_total", "outcome" => outcome);
    vec![
        (started("full"), |sources| load(&sources.watches.figures().full)),
        (started("resumed"), |sources| load(&sources.watches.figures().resumed)),
        (started("diff"), |sources| load(&sources.watches.figures().differing)),
        (started("live"), |sources| load(&sources.watches.figures().live)),
        (counter!("heureka_watch_refused_total"), |sources| load(&sources.watches.figures().refused)),
        (counter!("heureka_watch_restarted_total"), |sources| load(&sources.watches.figures().restarted)),
        (counter!("heureka_watch_stalled_total"), |sources| load(&sources.watches.figures().stalled)),
        (counter!("heureka_watch_changes_total"), |sources| load(&sources.watches.figures().changes)),
        (counter!("heureka_store_written_total"), |sources| sources.store.written()),
        (counter!("heureka_store_errors_total"), |sources| sources.store.errors()),
        (counter!("heureka_store_skipped_total"), |sources| sources.store.skipped()),
        (counter!("heureka_store_set_aside_total"), |sources| sources.store.set_aside()),
        (reloads("taken"), |sources| sources.tls.taken()),
        (reloads("refused"), |sources| sources.tls.refused()),
        (counter!("heureka_telemetry_lines_dropped_total"), |sources| sources.lines.dropped()),
    ]
}

fn load(figure: &AtomicU64) -> u64 {
    figure.load(Ordering::Relaxed)
}

/// Exact up to 2^53, which is more than anything here counts.
fn float(value: u64) -> f64 {
    value as f64
}

/// Only Linux tells; elsewhere the series stays 0.
fn resident_bytes() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(float(kilobytes * 1024))
}

fn open_files() -> Option<f64> {
    let files = std::fs::read_dir("/proc/self/fd").ok()?;
    Some(float(files.count() as u64))
}
