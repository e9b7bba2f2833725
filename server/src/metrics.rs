//! What `/metrics` shows.
//!
//! What happens on sockets is counted here as it happens; figures of the core are read when somebody asks. Every
//! label has a fixed set of values, so the number of series does not depend on who talks to the server:
//! [`SERIES_MAX`] is the ceiling. Each server has a recorder of its own, nothing is global.

mod figures;
mod labels;
mod peers;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram, with_local_recorder};
use metrics_exporter_prometheus::{BuildError, PrometheusBuilder, PrometheusHandle};

use figures::Figures;

pub(crate) use figures::Sources;
pub use labels::{Closed, Protocol, Refusal, Surface};

/// Most series that one scrape shows, those of single peers aside: nine for each.
pub const SERIES_MAX: usize = 220;

/// `Content-Type` of a scrape.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Counts of one server.
pub struct Metrics {
    handle: PrometheusHandle,
    figures: Figures,
    pub(crate) connections: Gauge,
    pub(crate) panics: Counter,
    pub(crate) accept_errors: Counter,
    pub(crate) tick_lag: Gauge,
    accepted: Vec<Counter>,
    closed: Vec<Counter>,
    refused: Vec<Counter>,
    requests: Vec<Vec<Counter>>,
    durations: Vec<Histogram>,
}

const DURATION_BUCKETS: [f64; 10] = [0.000_1, 0.000_3, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 10.0];
const CODES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

impl Metrics {
    /// Metrics of a server with these sources, and a surface whose counters are made within.
    /// # Errors
    /// None in a sound build.
    pub(crate) fn around<R>(sources: Sources, surface: impl FnOnce() -> R) -> Result<(Self, R), BuildError> {
        let recorder = PrometheusBuilder::new().set_buckets(&DURATION_BUCKETS)?.build_recorder();
        let handle = recorder.handle();
        Ok(with_local_recorder(&recorder, || (Self::register(handle, sources), surface())))
    }

    fn register(handle: PrometheusHandle, sources: Sources) -> Self {
        let codes = |surface: &Surface| {
            let of =
                |code| counter!("heureka_http_requests_total", "surface" => surface.word(), "code" => code);
            CODES.map(of).to_vec()
        };
        Self {
            handle,
            figures: Figures::register(sources),
            connections: gauge!("heureka_connection_open"),
            panics: counter!("heureka_http_panics_total"),
            accept_errors: counter!("heureka_connection_accept_errors_total"),
            tick_lag: gauge!("heureka_tick_lag_seconds"),
            accepted: each(
                Protocol::ALL,
                |protocol| counter!("heureka_connection_accepted_total", "protocol" => protocol.word()),
            ),
            closed: each(
                Closed::ALL,
                |reason| counter!("heureka_connection_closed_total", "reason" => reason.word()),
            ),
            refused: each(
                Refusal::ALL,
                |reason| counter!("heureka_http_refused_total", "reason" => reason.word()),
            ),
            requests: each(Surface::ALL, codes),
            durations: each(
                Surface::ALL,
                |surface| histogram!("heureka_http_duration_seconds", "surface" => surface.word()),
            ),
        }
    }

    /// Counts a connection that said what it speaks.
    pub(crate) fn speaks(&self, protocol: Protocol) {
        self.accepted[protocol as usize].increment(1);
    }

    /// Counts the end of a connection.
    pub(crate) fn closed(&self, reason: Closed) {
        self.closed[reason as usize].increment(1);
    }

    /// Counts a request that was refused before its handler.
    pub(crate) fn refused(&self, reason: Refusal) {
        self.refused[reason as usize].increment(1);
    }

    /// Counts an answered request.
    pub(crate) fn answered(&self, surface: Surface, status: http::StatusCode, seconds: f64) {
        let class = usize::from(status.as_u16() / 100).clamp(1, CODES.len()) - 1;
        self.requests[surface as usize][class].increment(1);
        self.durations[surface as usize].record(seconds);
    }

    /// Folds what was measured into buckets; between two calls every single measurement is kept.
    pub(crate) fn settle(&self) {
        self.handle.run_upkeep();
    }

    /// All figures as Prometheus text.
    #[must_use]
    pub fn render(&self) -> String {
        self.figures.read();
        let mut page = self.handle.render();
        self.figures.render(&mut page);
        page
    }
}

fn each<L, M>(values: &[L], metric: impl FnMut(&L) -> M) -> Vec<M> {
    values.iter().map(metric).collect()
}
