//! The watch over plain HTTP.

use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::StreamExt as _;
use http::{HeaderMap, Request as Call, StatusCode};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::*;
use crate::grpc::token::Resume;

/// What a browser reads.
struct Feed {
    headers: HeaderMap,
    body: axum::body::BodyDataStream,
    text: String,
}

#[derive(Debug, PartialEq)]
struct Heard {
    name: String,
    id: Option<String>,
    data: Value,
}

async fn call(server: &Server, query: &str, id: Option<&str>) -> http::Response<Body> {
    let mut call = Call::get(format!("/v1/watch{query}"));
    if let Some(id) = id {
        call = call.header("last-event-id", id);
    }
    server.grpc.feed.clone().oneshot(call.body(Body::empty()).unwrap()).await.unwrap()
}

impl Feed {
    async fn open(server: &Server, query: &str, id: Option<&str>) -> Self {
        let response = call(server, query, id).await;
        assert_eq!(response.status(), StatusCode::OK);
        let (head, body) = response.into_parts();
        Self { headers: head.headers, body: body.into_data_stream(), text: String::new() }
    }

    /// The next block of lines; nothing at the end.
    async fn block(&mut self) -> Option<String> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.text = rest;
                return Some(block);
            }
            let more = self.body.next().await?.unwrap();
            self.text.push_str(std::str::from_utf8(&more).unwrap());
        }
    }

    /// The next event, comments and waits left out.
    async fn event(&mut self) -> Heard {
        loop {
            let block = self.block().await.expect("the feed goes on");
            let field = |name: &str| {
                block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).map(str::to_owned)
            };
            if let Some(name) = field("event") {
                let data = serde_json::from_str(&field("data").unwrap()).unwrap();
                return Heard { name, id: field("id"), data };
            }
        }
    }

    /// Everything up to the end of the initial part: its mode, the ids told, the token.
    async fn start(&mut self) -> (Value, Vec<Value>, String) {
        let begin = self.event().await;
        assert_eq!((begin.name.as_str(), begin.id), ("begin", None));
        let mut ids = Vec::new();
        loop {
            let heard = self.event().await;
            match heard.name.as_str() {
                "change" => ids.push(heard.data["id"].clone()),
                "end" => return (begin.data["mode"].clone(), ids, heard.id.unwrap()),
                other => panic!("{other} within the initial part"),
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_and_its_changes_come_as_events() {
    let server = Server::start().await;
    server.register(instance("web", "n1")).await;
    let mut feed = Feed::open(&server, "?app=web", None).await;
    let header = |name: &str| feed.headers[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "text/event-stream");
    assert_eq!(
        (header("x-accel-buffering"), header("cache-control")),
        ("no".into(), "no-cache, no-transform".into())
    );
    assert_eq!(feed.block().await.unwrap(), ": heureka\nretry: 1000");
    let (mode, ids, _) = feed.start().await;
    assert_eq!((mode, ids), (json!("FULL"), vec![json!("n1")]));
    server.register(instance("db", "other")).await;
    let version = server.register(instance("web", "<n2>\"'")).await.version.unwrap();
    let heard = feed.event().await;
    assert_eq!((heard.name.as_str(), heard.id), ("change", None));
    assert_eq!(heard.data["type"], "ADDED");
    assert_eq!(heard.data["id"], "<n2>\"'");
    assert_eq!(heard.data["version"][0], version.owner.to_string());
    assert_eq!(heard.data["instance"]["instanceId"], "<n2>\"'");
    assert_eq!(heard.data["instance"]["status"], "UP");
    assert_eq!(heard.data.get("zone"), None, "nobody said where it runs");
    let locality = v1::Locality { zone: "east-1".into(), ..v1::Locality::default() };
    server.register(v1::Instance { locality: Some(locality), ..instance("web", "n3") }).await;
    assert_eq!(feed.event().await.data["zone"], "east-1");
    server.cancel("web", "n1").await;
    let heard = feed.event().await;
    assert_eq!((&heard.data["type"], &heard.data["reason"]), (&json!("REMOVED"), &json!("CANCELLED")));
    assert_eq!(heard.data.get("instance"), None);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_comes_back_is_told_what_it_missed() {
    let server = Server::start().await;
    server.register(instance("web", "n1")).await;
    let token = Feed::open(&server, "?app=web", None).await.start().await.2;
    server.register(instance("web", "n2")).await;
    let mut feed = Feed::open(&server, "?app=web", Some(&token)).await;
    let (mode, ids, _) = feed.start().await;
    assert_eq!((mode, ids), (json!("RESUME"), vec![json!("n2")]));
    // The same token is good for the native contract, and the other way round.
    let bookmark = loop {
        let heard = feed.event().await;
        if heard.name == "bookmark" {
            break heard;
        }
    };
    assert_eq!(bookmark.data["digest"]["count"], 2);
    let native = watch::following("web");
    let token = URL_SAFE_NO_PAD.decode(bookmark.id.unwrap()).unwrap();
    let mut watch = watch::watch(&server, v1::WatchSpec { resume_token: token.into(), ..native }).await;
    assert_eq!(watch::begin(watch::event(&mut watch).await), v1::SnapshotMode::Resume);
}

#[tokio::test(start_paused = true)]
async fn a_place_that_is_of_no_use_means_everything() {
    let server = Server::start().await;
    server.register(instance("web", "n1")).await;
    let foreign = Resume { spec: 0, boot: 77, revision: 0, vector: Vec::new() }.encode("red");
    for id in ["7", "not base64!", "", &URL_SAFE_NO_PAD.encode(foreign)] {
        let (mode, ids, _) = Feed::open(&server, "?app=web", Some(id)).await.start().await;
        assert_eq!((mode, ids), (json!("FULL"), vec![json!("n1")]), "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn parameters_select_as_the_fields_of_a_selector() {
    let server = Server::start().await;
    let mut zoned = instance("web", "a");
    zoned.locality = Some(v1::Locality { zone: "z 1".into(), ..Default::default() });
    server.register(zoned).await;
    server.register(instance("web", "b")).await;
    server.register(instance("db", "c")).await;
    for (query, expected) in [
        ("", &["a", "b", "c"][..]),
        ("?app=web&app=db", &["a", "b", "c"]),
        ("?app=WEB&zone=z+1", &["a"]),
        ("?id=b&id=c&status=UP", &["b", "c"]),
        ("?namespace=other", &[]),
        ("?status=DOWN&client=page", &[]),
    ] {
        let (_, mut ids, _) = Feed::open(&server, query, None).await.start().await;
        ids.sort_by_key(Value::to_string);
        assert_eq!(ids, expected, "{query}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_answered_is_refused_and_named() {
    let server = Server::start().await;
    for (query, named) in [
        ("?application=web", "application"),
        ("?status=up", "status"),
        ("?interval=61", "interval"),
        ("?interval=5&app=web&interval=6", "interval"),
        ("?namespace=a&namespace=b", "namespace"),
        ("?interval=soon", "interval"),
        (&format!("?app={}", "x".repeat(2000)), "spec.selectors[0].apps"),
        ("?app=%ff", "app"),
        (&format!("?client={}", "x".repeat(300)), "client_name"),
    ] {
        let response = call(&server, query, None).await;
        assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{query}");
        let text = axum::body::to_bytes(response.into_body(), 4096).await.unwrap();
        assert!(text.starts_with(named.as_bytes()), "{query}: {text:?}");
    }
    server.drain.cancel();
    let response = call(&server, "", None).await;
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(response.headers().contains_key("retry-after"));
    assert_eq!(server.grpc.watches.open(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_leaves_says_when_to_come_back_and_ends_the_feed() {
    let server = Server::start().await;
    let mut feed = Feed::open(&server, "", None).await;
    let token = feed.start().await.2;
    server.drain.cancel();
    let wait = feed.block().await.unwrap();
    let wait: u64 = wait.strip_prefix("retry: ").unwrap().parse().unwrap();
    assert!(wait <= 5000, "{wait}");
    let goodbye = feed.event().await;
    assert_eq!((goodbye.name.as_str(), &goodbye.data["reason"]), ("go_away", &json!("DRAINING")));
    assert_eq!(goodbye.id, Some(token));
    assert_eq!(feed.block().await, None);
}

#[tokio::test(start_paused = true)]
async fn readings_are_events_for_who_asks_for_them() {
    let server = Server::start().await;
    server.register(instance("web", "n1")).await;
    let report = v1::ReportRequest {
        key: Some(key("web", "n1")),
        available: [("slots".to_owned(), 3)].into(),
        gauges: [("load".to_owned(), 0.5)].into(),
    };
    server.writer().report(report).await.unwrap();
    let mut feed = Feed::open(&server, "?app=web&readings=true", None).await;
    feed.start().await;
    let heard = feed.event().await;
    assert_eq!((heard.name.as_str(), heard.id), ("reading", None));
    assert_eq!((&heard.data["app"], &heard.data["id"]), (&json!("WEB"), &json!("n1")));
    assert_eq!(heard.data["available"], json!({ "slots": 3 }));
    assert_eq!(heard.data["gauges"], json!({ "load": 0.5 }));
    assert_eq!(heard.data["suspect"], json!(false));
    assert!(heard.data["reported"].as_str().unwrap().starts_with("2025-11-24T"));
    let mut plain = Feed::open(&server, "?app=web&readings=false", None).await;
    plain.start().await;
    assert_eq!(plain.event().await.name, "bookmark");
    assert_eq!(call(&server, "?readings=yes", None).await.status(), StatusCode::BAD_REQUEST);
}
