//! How it stands between this server and those of Netflix's kind.

use std::sync::Arc;
use std::time::Duration;

use heureka_compat_http::peer::{OutboxStats, Report};
use heureka_model::{Mono, Now, Wall};
use metrics::{Counter, Gauge, counter, gauge};
use parking_lot::Mutex;

/// A peer is available when the last exchange succeeded within this time.
const AVAILABLE: Duration = Duration::from_secs(10);

/// One peer of Netflix's kind, as it is seen now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EurekaPeer {
    /// Address without credentials.
    pub address: String,
    /// The last exchange succeeded, and lately.
    pub available: bool,
    /// When an exchange last succeeded.
    pub last_success: Option<Wall>,
    /// When one last failed, and why.
    pub last_error: Option<(Wall, String)>,
    /// What the peer was not told yet.
    pub backlog: u64,
    /// Its list was taken in since this server started.
    pub copied: bool,
    /// Requests sent to it.
    pub requests: u64,
    /// What was sent.
    pub sent: OutboxStats,
    /// Only of a shadowed server: how far both agree.
    pub shadow: Option<Report>,
}

/// What is known of one peer, shared by the task that talks to it and by all who ask.
#[derive(Clone)]
pub(super) struct Health(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    figures: Figures,
}

struct State {
    seen: EurekaPeer,
    succeeded: Option<Mono>,
    failing: bool,
}

struct Figures {
    up: Gauge,
    backlog: Gauge,
    items: Counter,
    batches: Counter,
    retries: Counter,
    dropped: Counter,
    requests: Counter,
    differing: Gauge,
    differences: Counter,
}

impl Health {
    pub(super) fn new(address: String) -> Self {
        let figures = Figures::of(&address);
        let seen = EurekaPeer { address, ..EurekaPeer::default() };
        let state = Mutex::new(State { seen, succeeded: None, failing: false });
        Self(Arc::new(Shared { state, figures }))
    }

    /// An exchange succeeded.
    pub(super) fn succeeded(&self, now: Now) {
        let mut state = self.0.state.lock();
        state.seen.last_success = Some(now.wall);
        state.succeeded = Some(now.mono);
        if std::mem::take(&mut state.failing) {
            tracing::info!(peer = state.seen.address, "a Eureka server answers again");
        }
        self.0.figures.up.set(1.0);
    }

    /// An exchange failed. Told once, until one succeeds.
    pub(super) fn failed(&self, reason: String, now: Now) {
        let mut state = self.0.state.lock();
        if !std::mem::replace(&mut state.failing, true) {
            tracing::warn!(peer = state.seen.address, reason, "an exchange with a Eureka server failed");
        }
        state.seen.last_error = Some((now.wall, reason));
        self.0.figures.up.set(0.0);
    }

    pub(super) fn copied(&self) {
        self.0.state.lock().seen.copied = true;
    }

    pub(super) fn measured(&self, sent: OutboxStats, backlog: u64, requests: u64) {
        let mut state = self.0.state.lock();
        let figures = &self.0.figures;
        (state.seen.sent, state.seen.backlog, state.seen.requests) = (sent, backlog, requests);
        #[expect(clippy::cast_precision_loss, reason = "a figure on a page")]
        figures.backlog.set(backlog as f64);
        figures.items.absolute(sent.items);
        figures.batches.absolute(sent.batches);
        figures.retries.absolute(sent.retries);
        figures.dropped.absolute(sent.dropped);
        figures.requests.absolute(requests);
    }

    pub(super) fn compared(&self, report: Report) {
        #[expect(clippy::cast_precision_loss, reason = "a figure on a page")]
        self.0.figures.differing.set(report.differing as f64);
        self.0.figures.differences.absolute(report.met);
        self.0.state.lock().seen.shadow = Some(report);
    }

    pub(super) fn seen(&self, now: Now) -> EurekaPeer {
        let state = self.0.state.lock();
        let lately = state.succeeded.is_some_and(|at| now.mono.since(at) <= AVAILABLE);
        EurekaPeer { available: lately && !state.failing, ..state.seen.clone() }
    }
}

impl Figures {
    fn of(address: &str) -> Self {
        let name = || address.to_owned();
        Self {
            up: gauge!("heureka_eureka_peer_up", "peer" => name()),
            backlog: gauge!("heureka_eureka_peer_backlog", "peer" => name()),
            items: counter!("heureka_eureka_peer_items_total", "peer" => name()),
            batches: counter!("heureka_eureka_peer_batches_total", "peer" => name()),
            retries: counter!("heureka_eureka_peer_retries_total", "peer" => name()),
            dropped: counter!("heureka_eureka_peer_dropped_total", "peer" => name()),
            requests: counter!("heureka_eureka_peer_requests_total", "peer" => name()),
            differing: gauge!("heureka_eureka_shadow_differing", "peer" => name()),
            differences: counter!("heureka_eureka_shadow_differences_total", "peer" => name()),
        }
    }
}
