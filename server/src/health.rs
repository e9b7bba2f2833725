//! `/health/live`, `/health/ready`, `/health/startup`, `/metrics`.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::Router;
use axum::response::IntoResponse;
use axum::routing::get;
use http::{StatusCode, header};

use crate::life::{Amiss, Life, State};
use crate::metrics::{self, Metrics};

const UNCACHED: [(header::HeaderName, &str); 1] = [(header::CACHE_CONTROL, "no-store")];

/// The routes that operators and load balancers ask.
pub(crate) fn router(life: Arc<Life>, amiss: Amiss, metrics: Arc<Metrics>) -> Router {
    let (lives, started) = (life.clone(), life.clone());
    Router::new()
        .route("/health/live", get(async move || live(&lives)))
        .route("/health/startup", get(async move || startup(&started)))
        .route("/health/ready", get(async move || ready(&life, &amiss())))
        .route("/metrics", get(async move || scrape(&metrics)))
}

/// Whether ticks come: a process without them is to be started again.
fn live(life: &Life) -> impl IntoResponse + use<> {
    if life.is_alive() { answer(StatusCode::OK, "live\n") } else { refusal("stuck\n") }
}

/// Whether the server was ready at least once.
fn startup(life: &Life) -> impl IntoResponse + use<> {
    if life.serves_readers() { answer(StatusCode::OK, "started\n") } else { refusal("starting\n") }
}

/// Whether readers are to be sent here. What is wrong between servers is told and costs nothing: others may carry
/// what a missing link does not.
fn ready(life: &Life, amiss: &[String]) -> impl IntoResponse + use<> {
    let state = life.state();
    let mut body = format!("{}\n", state.word());
    for sentence in amiss {
        // A write to a String cannot fail.
        let _ = writeln!(body, "{sentence}");
    }
    if state == State::Ready { answer(StatusCode::OK, body) } else { refusal(body) }
}

fn refusal(body: impl Into<String>) -> Answer {
    answer(StatusCode::SERVICE_UNAVAILABLE, body)
}

type Answer = (StatusCode, [(header::HeaderName, &'static str); 1], String);

fn answer(status: StatusCode, body: impl Into<String>) -> Answer {
    (status, UNCACHED, body.into())
}

fn scrape(metrics: &Metrics) -> impl IntoResponse + use<> {
    ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], metrics.render())
}
