//! What clients of every kind, the hostile ones included, get from the accept loop.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by them")]

mod support;

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::{get, post};
use heureka_compat_http::RemoteAddr;
use heureka_server::config::{Config, Sources};
use http::{Request, StatusCode};
use support::*;

/// Short enough that a test does not wait, long enough for a request on a busy machine.
const SHORT: Duration = Duration::from_millis(200);

async fn panics() {
    panic!("on purpose");
}

fn routes() -> Router {
    Router::new()
        .route("/echo", post(async |body: String| body))
        .route("/panics", get(panics))
        .route("/client", get(async |address: axum::Extension<RemoteAddr>| address.0.0.ip().to_string()))
}

#[tokio::test]
async fn both_protocols_are_served_on_one_port() {
    let (_running, address) = start_plain().await;
    let response = h1(address).await.send_request(get_path("/health/live")).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let response = h2(address).await.send_request(support::get(address, "/health/live")).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(metric(address, "heureka_connection_accepted_total{protocol=\"h2\"}").await, Some(1.0));
}

fn get_path(path: &str) -> Request<Body> {
    Request::get(path).header("host", "test").body(Body::empty()).unwrap()
}

#[tokio::test]
async fn a_connection_serves_one_request_after_the_other() {
    let (_running, address) = start_plain().await;
    let mut connection = h1(address).await;
    for _ in 0..3 {
        let response = connection.send_request(get_path("/health/ready")).await.unwrap();
        assert_eq!(text(response).await, "ready\n");
    }
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let (_running, address) = start(config(), routes()).await;
    let one = "POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\n";
    let last = "POST /echo HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 3\r\n\r\n";
    let said = said_to(address, format!("{one}aaa{one}bbb{last}ccc")).await;
    let bodies: Vec<_> = ["aaa", "bbb", "ccc"].iter().map(|body| said.find(body).unwrap()).collect();
    assert!(bodies.is_sorted());
    assert_eq!(said.matches("200 OK").count(), 3);
}

#[tokio::test]
async fn a_silent_client_is_closed() {
    let mut config = config();
    config.limits.first_byte_timeout = SHORT;
    let (_running, address) = start(config, Router::new()).await;
    assert_eq!(said_to(address, "").await, "");
    wait_for(address, "heureka_connection_closed_total{reason=\"timeout\"}", 1.0).await;
}

#[tokio::test]
async fn half_a_preface_is_closed() {
    let mut config = config();
    config.limits.first_byte_timeout = SHORT;
    let (_running, address) = start(config, Router::new()).await;
    for half in ["P", "PRI * HTTP/2.0\r\n\r\nSM"] {
        assert_eq!(said_to(address, half).await, "", "{half:?}");
    }
}

#[tokio::test]
async fn half_a_header_is_closed_although_bytes_come_in() {
    let mut config = config();
    config.limits.header_timeout = SHORT;
    let (_running, address) = start(config, Router::new()).await;
    let said = said_to(address, "GET /health/live HTTP/1.1\r\nhost: x\r\nx-slow: ").await;
    assert!(!said.contains("200"), "{said}");
}

#[tokio::test]
async fn a_connection_at_rest_is_closed_after_its_idle_time() {
    let mut config = config();
    config.limits.idle_timeout = SHORT;
    let (_running, address) = start(config, Router::new()).await;
    let said = said_to(address, "GET /health/live HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(said.starts_with("HTTP/1.1 200") && said.ends_with("live\n"), "{said}");
}

#[tokio::test]
async fn a_body_that_stands_still_is_a_408() {
    let mut config = config();
    config.limits.body_timeout = SHORT;
    let (_running, address) = start(config, routes()).await;
    let said = said_to(address, "POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nabc").await;
    assert!(said.starts_with("HTTP/1.1 408") && said.contains("connection: close"), "{said}");
}

#[tokio::test]
async fn slow_clients_do_not_hinder_others() {
    let (_running, address) = start_plain().await;
    let mut slow = Vec::new();
    for index in 0..300 {
        let mut raw = Raw::open(address).await;
        raw.send(["", "P", "GET /eureka/apps HTTP/1.1\r\nx:"][index % 3]).await;
        slow.push(raw);
    }
    assert_eq!(fetch(address, "/health/live").await.0, 200);
    assert!(h2(address).await.send_request(support::get(address, "/health/live")).await.is_ok());
}

#[tokio::test]
async fn oversized_requests_are_refused_and_the_next_client_is_served() {
    let (_running, address) = start_plain().await;
    let long = "x".repeat(9 << 10);
    let many: String = (0..65).map(|n| format!("x-{n}: 1\r\n")).collect();
    let wide: String = (0..3).map(|n| format!("x-{n}: {}\r\n", "y".repeat(6 << 10))).collect();
    let huge = format!("x: {}\r\n", "y".repeat(200 << 10));
    let table = [
        (format!("GET /{long} HTTP/1.1\r\nhost: x\r\n\r\n"), 414),
        (format!("GET / HTTP/1.1\r\nhost: x\r\n{many}\r\n"), 431),
        (format!("GET / HTTP/1.1\r\nhost: x\r\n{wide}\r\n"), 431),
        (format!("GET / HTTP/1.1\r\nhost: x\r\n{huge}\r\n"), 431),
        ("GET / HTTP/1.1\r\nhost : x\r\n\r\n".into(), 400),
        ("\0\0\0\0\r\n\r\n".into(), 400),
        ("GET /health/live HTTP/1.1\r\n\r\n".into(), 400),
        ("GET /health/live HTTP/1.1\r\nhost: x\r\nHost: x\r\n\r\n".into(), 400),
        ("GET http://x/health/live HTTP/1.1\r\n\r\n".into(), 400),
        ("POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab".into(), 400),
        ("POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n".into(), 400),
    ];
    for (request, status) in table {
        let said = said_to(address, &request).await;
        let start: String = request.chars().take(30).collect();
        assert!(said.starts_with(&format!("HTTP/1.1 {status}")), "{start:?} got {said}");
        assert_eq!(fetch(address, "/health/live").await.0, 200);
    }
    assert_eq!(metric(address, "heureka_http_refused_total{reason=\"uri\"}").await, Some(1.0));
    assert_eq!(metric(address, "heureka_http_refused_total{reason=\"host\"}").await, Some(3.0));
    assert!(said_to(address, "GET /health/live HTTP/1.0\r\n\r\n").await.starts_with("HTTP/1.0 200"));
}

#[tokio::test]
async fn the_smallest_limits_that_are_accepted_serve_both_protocols() {
    let smallest = "[limits]\nconnections = 1\nheader_count = 8\nheader_bytes = '1KiB'\nuri_bytes = '256B'\n\
        streams_per_connection = 1\nwatches_per_connection = 0\nwatches = 0\nrest_body = '1KiB'\n\
        grpc_unary = '1KiB'\ngrpc_batch = '1KiB'\nmetadata_value = 1\ninstance = '1KiB'\n\
        [compat]\ncache_max_bytes = 0\n[server]\nlisten = '127.0.0.1:0'\n[log]\nmax_lines_per_second = 1\n";
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), smallest).unwrap();
    let sources = Sources { file: Some(file.path().to_owned()), ..Sources::default() };
    let mut config = Config::load(&sources).unwrap();
    // Clients follow each other faster than their places are given back.
    config.limits.connections = 0;
    let (_running, address) = start(config, Router::new()).await;
    assert_eq!(fetch(address, "/eureka/apps").await.0, 200);
    assert_eq!(fetch(address, "/health/live").await, (200, "live\n".into()));
    let response = h2(address).await.send_request(support::get(address, "/eureka/apps")).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let response = h2(address).await.send_request(grpc(address, "/no.Service/Method")).await.unwrap();
    assert_eq!(response.headers()["grpc-status"], "12");
    let long = format!("GET / HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "y".repeat(1 << 10));
    assert!(said_to(address, long).await.starts_with("HTTP/1.1 431"));
}

#[tokio::test]
async fn sizes_at_the_limit_are_taken() {
    let (_running, address) = start_plain().await;
    let longest = format!("/{}", "x".repeat((8 << 10) - 1));
    assert_eq!(fetch(address, &longest).await.0, 404);
    let many: String = (0..62).map(|n| format!("x-{n}: 1\r\n")).collect();
    let said =
        said_to(address, format!("GET /health/live HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{many}\r\n"))
            .await;
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
}

#[tokio::test]
async fn a_connection_carries_a_thousand_open_streams() {
    let arrived = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let release = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let (arrives, waits) = (arrived.clone(), release.clone());
    let held = async move || {
        arrives.add_permits(1);
        let _ = waits.acquire().await;
    };
    let (_running, address) = start(config(), Router::new().route("/held", get(held))).await;
    let connection = h2(address).await;
    let call = || {
        let mut connection = connection.clone();
        tokio::spawn(async move {
            connection.send_request(support::get(address, "/held")).await.unwrap().status()
        })
    };
    let calls: Vec<_> = (0..1024).map(|_| call()).collect();
    // All are in their handlers at the same time, or this never ends.
    let _all = arrived.acquire_many(1024).await.unwrap();
    release.add_permits(2048);
    for call in calls {
        assert_eq!(call.await.unwrap(), StatusCode::OK);
    }
}

#[tokio::test]
async fn connections_beyond_the_limit_are_closed_and_the_others_stay() {
    let mut config = config();
    config.limits.connections = 2;
    let (_running, address) = start(config, Router::new()).await;
    let (mut one, two) = (h1(address).await, h1(address).await);
    assert!(one.send_request(get_path("/health/live")).await.is_ok());
    assert_eq!(said_to(address, "GET /health/live HTTP/1.1\r\nhost: x\r\n\r\n").await, "");
    assert!(one.send_request(get_path("/health/live")).await.is_ok());
    drop(two);
    while !fetched(address).await {
        tokio::task::yield_now().await;
    }
}

async fn fetched(address: std::net::SocketAddr) -> bool {
    said_to(address, "GET /health/live HTTP/1.1\r\nconnection: close\r\nhost: x\r\n\r\n")
        .await
        .contains("live")
}

#[tokio::test]
async fn a_panic_costs_one_request() {
    let (_running, address) = start(config(), routes()).await;
    let mut connection = h1(address).await;
    let response = connection.send_request(get_path("/panics")).await.unwrap();
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(text(response).await, "");
    let response = connection.send_request(get_path("/health/live")).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(metric(address, "heureka_http_panics_total").await, Some(1.0));
}

#[tokio::test]
async fn unknown_paths_are_empty_404s_and_unknown_methods_status_12() {
    let (_running, address) = start_plain().await;
    assert_eq!(fetch(address, "/nowhere").await, (404, String::new()));
    let response = h2(address).await.send_request(grpc(address, "/no.Service/Method")).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["grpc-status"], "12");
    assert_eq!(response.headers()["content-type"], "application/grpc");
}

#[tokio::test]
async fn a_call_with_too_many_headers_is_told_in_the_language_of_grpc() {
    let (_running, address) = start_plain().await;
    let mut request = grpc(address, "/no.Service/Method");
    request.headers_mut().insert("x-long", "y".repeat(17 << 10).parse().unwrap());
    let response = h2(address).await.send_request(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["grpc-status"], "8");
    assert_eq!(response.headers()["content-type"], "application/grpc");
    let mut request = support::get(address, "/health/live");
    request.headers_mut().insert("x-long", "y".repeat(17 << 10).parse().unwrap());
    let response = h2(address).await.send_request(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
}

#[tokio::test]
async fn a_client_that_sends_too_much_sees_why_it_is_refused() {
    let (_running, address) = start_plain().await;
    let head = "POST /eureka/apps/X HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n";
    let length = 6 << 20;
    let mut raw = Raw::open(address).await;
    raw.send(format!("{head}content-length: {length}\r\n\r\n")).await;
    raw.send(vec![b' '; length]).await;
    assert!(raw.until("\r\n\r\n").await.starts_with("HTTP/1.1 413"));
    let mut chunked = Raw::open(address).await;
    chunked.send(format!("{head}transfer-encoding: chunked\r\n\r\n{length:x}\r\n")).await;
    chunked.send(vec![b' '; length]).await;
    chunked.send("\r\n0\r\n\r\n").await;
    assert!(chunked.until("\r\n\r\n").await.starts_with("HTTP/1.1 413"));
    let mut asks = Raw::open(address).await;
    asks.send(format!("{head}content-length: {length}\r\nexpect: 100-continue\r\n\r\n")).await;
    assert!(asks.until("\r\n\r\n").await.starts_with("HTTP/1.1 413"));
}

#[tokio::test]
async fn everything_http_moves_under_the_context_path() {
    let mut config = config();
    config.server.context_path = "/up/here".into();
    let (_running, address) = start(config, routes()).await;
    assert_eq!(fetch(address, "/up/here/health/live").await, (200, "live\n".into()));
    for outside in ["/health/live", "/metrics", "/", "/up/hereandthere/health/live", "/up/here/nowhere"] {
        assert_eq!(fetch(address, outside).await, (404, String::new()), "{outside}");
    }
    let response = h2(address).await.send_request(grpc(address, "/no.Service/Method")).await.unwrap();
    assert_eq!(response.headers()["grpc-status"], "12");
}

#[tokio::test]
async fn an_ipv4_client_of_a_dual_stack_socket_has_its_ipv4_address() {
    let mut config = config();
    config.server.listen = "[::]:0".parse().unwrap();
    let (_running, address) = start(config, routes()).await;
    let ipv4 = ("127.0.0.1".parse::<std::net::IpAddr>().unwrap(), address.port()).into();
    assert_eq!(fetch(ipv4, "/client").await.1, "127.0.0.1");
}

#[tokio::test]
async fn a_wish_for_h2c_by_upgrade_is_ignored() {
    let (_running, address) = start_plain().await;
    let wish = "connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n";
    let mut raw = Raw::open(address).await;
    raw.send(format!("GET /health/live HTTP/1.1\r\nhost: x\r\n{wish}\r\n")).await;
    assert!(raw.until("live\n").await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_client_that_asks_before_it_sends_is_told_to_go_on() {
    let (_running, address) = start(config(), routes()).await;
    let mut raw = Raw::open(address).await;
    raw.send("POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\nexpect: 100-continue\r\n\r\n").await;
    assert!(raw.until("\r\n\r\n").await.starts_with("HTTP/1.1 100"));
    raw.send("body").await;
    assert!(raw.until("body").await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn an_old_connection_is_asked_to_end() {
    let mut config = config();
    config.limits.connection_age = SHORT;
    let (_running, address) = start(config, Router::new()).await;
    let mut connection = h2(address).await;
    // Answers come until the server says goodbye; then the client has to connect anew, which works.
    while connection.send_request(support::get(address, "/health/live")).await.is_ok() {}
    while h2(address).await.send_request(support::get(address, "/health/live")).await.is_err() {}
}

#[tokio::test]
async fn resets_and_garbage_leave_the_server_serving() {
    let (_running, address) = start_plain().await;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice();
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let garbage: Vec<u8> = (0..4096_u32).map(|n| (n * 7919 % 251) as u8).collect();
    for tail in [garbage.as_slice(), &[0xff; 64], b"GET / HTTP/1.1\r\n\r\n"] {
        said_to(address, [preface, &settings, tail].concat()).await;
        said_to(address, [preface, tail].concat()).await;
    }
    let header_without_end = [0, 0, 9, 1, 5, 0, 0, 0, 1];
    let mut half = Raw::open(address).await;
    half.send([preface, &settings, &header_without_end].concat()).await;
    assert_eq!(fetch(address, "/health/live").await.0, 200);
}

/// Waits for the level of a counter, which follows the close by a moment.
async fn wait_for(address: std::net::SocketAddr, series: &str, value: f64) {
    while metric(address, series).await != Some(value) {
        tokio::task::yield_now().await;
    }
}
