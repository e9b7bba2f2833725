//! `/health/live`, `/health/ready`, `/metrics`.

use std::sync::Arc;

use axum::Router;
use axum::response::IntoResponse;
use axum::routing::get;
use http::{StatusCode, header};

use crate::drain::Ending;
use crate::metrics::{self, Metrics};

const UNCACHED: [(header::HeaderName, &str); 1] = [(header::CACHE_CONTROL, "no-store")];

/// The routes that operators and load balancers ask.
pub(crate) fn router(ending: Ending, metrics: Arc<Metrics>) -> Router {
    Router::new()
        .route("/health/live", get(async || (UNCACHED, "live\n")))
        .route("/health/ready", get(async move || ready(&ending)))
        .route("/metrics", get(async move || scrape(&metrics)))
}

fn ready(ending: &Ending) -> impl IntoResponse + use<> {
    match ending.is_announced() {
        false => (StatusCode::OK, UNCACHED, "ready\n"),
        true => (StatusCode::SERVICE_UNAVAILABLE, UNCACHED, "draining\n"),
    }
}

fn scrape(metrics: &Metrics) -> impl IntoResponse + use<> {
    ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], metrics.render())
}
