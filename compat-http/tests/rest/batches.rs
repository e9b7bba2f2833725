//! Batches of another server: who may send them, what becomes of each item, what a sender reads in the answer.

use std::io::Write as _;

use axum::body::Body;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::{FutureExt as _, stream};
use heureka_compat_http::{Config, PeerAddresses};
use heureka_model::{DrainPlan, Status, Wall};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{Answer, Draft, Server};

const PATH: &str = "/eureka/peerreplication/batch/";
const JSON: [(&str, &str); 2] = [("content-type", "application/json"), ("accept", "application/json")];

async fn send(server: &Server, items: Value) -> Answer {
    server.send("POST", PATH, &JSON, json!({ "replicationList": items }).to_string()).await
}

/// The codes of the items; every answer has no other member than the original's.
async fn codes(server: &Server, items: Value) -> Vec<u64> {
    let answer = send(server, items).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let document = answer.json();
    assert_eq!(document.as_object().unwrap().len(), 1);
    let list = document["responseList"].as_array().unwrap();
    let known = |name: &String| matches!(name.as_str(), "statusCode" | "responseEntity");
    assert!(list.iter().all(|one| one.as_object().unwrap().keys().all(known)), "{document}");
    list.iter().map(|one| one["statusCode"].as_u64().unwrap()).collect()
}

fn item(action: &str, app: &str, id: &str, stamp: u64) -> Value {
    json!({"action": action, "appName": app, "id": id, "lastDirtyTimestamp": stamp, "status": "UP"})
}

fn registration(draft: &Draft) -> Value {
    let mut item = item("Register", &draft.app, &draft.id, draft.dirty);
    item["instanceInfo"] = serde_json::from_str::<Value>(&draft.json()).unwrap()["instance"].take();
    item
}

fn with(mut item: Value, member: &str, value: impl Into<Value>) -> Value {
    item[member] = value.into();
    item
}

#[tokio::test]
async fn vector_14_each_item_is_answered_in_its_place() {
    let server = Server::trusting();
    server.register(&Draft::new("BA", "old", "UP", 200)).await;
    let items = json!([
        registration(&Draft::new("BA", "b1", "UP", 100)),
        item("Heartbeat", "BA", "unknown", 1),
        item("Cancel", "BA", "unknown", 1),
        item("Heartbeat", "BA", "old", 100),
    ]);
    let answer = send(&server, items.clone()).await.json();
    let list = answer["responseList"].as_array().unwrap();
    let codes: Vec<_> = list.iter().map(|one| one["statusCode"].as_u64().unwrap()).collect();
    assert_eq!(codes, [200, 404, 404, 409]);
    assert_eq!(list[3]["responseEntity"], server.instance("BA", "old").await);
    assert!(list[..3].iter().all(|one| one.get("responseEntity").is_none()));
}

#[tokio::test]
async fn vector_15_unknown_members_are_skipped() {
    let server = Server::trusting();
    server.register(&Draft::new("BA", "b", "UP", 1)).await;
    let body = json!({"later": [{"x": 1}], "replicationList": [with(item("Heartbeat", "BA", "b", 1), "x", json!([{}]))]});
    let answer = server.send("POST", PATH, &JSON, body.to_string()).await;
    assert_eq!(answer.json(), json!({"responseList": [{"statusCode": 200}]}));
}

#[tokio::test]
async fn one_bad_item_costs_no_other() {
    let server = Server::trusting();
    let good = |id| registration(&Draft::new("BA", id, "UP", 1));
    let mut unreadable = good("bad");
    unreadable["instanceInfo"]["port"] = json!({"$": [], "@enabled": "true"});
    let items = json!([
        good("1"),
        null,
        "x",
        {},
        unreadable,
        item("Teleport", "BA", "1", 1),
        item("Heartbeat", "", "1", 1),
        item("Heartbeat", "BA", "", 1),
        with(item("Heartbeat", "BA", "1", 1), "lastDirtyTimestamp", "soon"),
        item("Register", "BA", "none", 1),
        with(item("StatusUpdate", "BA", "1", 1), "status", "SIDEWAYS"),
        with(good("other"), "appName", "OTHER"),
        good("2"),
    ]);
    let mut expected = vec![400; 13];
    (expected[0], expected[12]) = (200, 200);
    assert_eq!(codes(&server, items).await, expected);
    assert_eq!(server.registry.stats().instances, 2);
}

#[tokio::test]
async fn what_is_no_batch_is_refused_as_a_whole() {
    let server = Server::trusting();
    for (body, named) in [
        ("", "cannot parse"),
        ("{", "cannot parse"),
        ("[]", "body: expected an object"),
        ("null", "body: expected an object"),
        ("{}", "replicationList is missing"),
        (r#"{"replicationList":null}"#, "replicationList: expected a list"),
        (r#"{"replicationList":{"a":1}}"#, "replicationList: expected a list"),
        ("\u{0}", "cannot parse"),
    ] {
        let answer = server.send("POST", PATH, &JSON, body.to_owned()).await;
        assert!(answer.status == 400 && answer.text().contains(named), "{body}: {}", answer.text());
    }
    let answer = server.send("POST", PATH, &JSON, vec![0xff, 0xfe]).await;
    assert_eq!(answer.status, 400);
    let answer = server.send("POST", PATH, &[("content-type", "application/xml")], "<a/>").await;
    assert_eq!(answer.status, 400);
    assert_eq!(server.registry.stats().instances, 0);
}

#[tokio::test]
async fn strangers_are_refused_and_nothing_of_theirs_is_applied() {
    let headers = [JSON[0], JSON[1], ("x-netflix-discovery-replication", "true")];
    let body = json!({"replicationList": [registration(&Draft::new("BA", "b", "UP", 1))]}).to_string();
    let server = Server::new();
    let answer = server.send("POST", PATH, &headers, body.clone()).await;
    assert_eq!(answer.status, 403);
    assert!(
        answer.text().contains("127.0.0.1") && answer.text().contains("peer.trusted"),
        "{}",
        answer.text()
    );
    // Behind a proxy that is not trusted, the socket's address tells nothing.
    let trusting = Server::trusting();
    let forwarded = [JSON[0], JSON[1], ("x-forwarded-for", "10.0.0.1")];
    assert_eq!(trusting.send("POST", PATH, &forwarded, body.clone()).await.status, 403);
    assert_eq!((server.registry.head(), trusting.registry.head()), (0, 0));
}

#[tokio::test]
async fn resolved_peers_are_trusted_beside_those_that_are_set() {
    let resolved = PeerAddresses::default();
    let config = Config { resolved_peers: resolved.clone(), ..Config::default() };
    let server = Server::with(config, heureka_registry::Config::default());
    assert_eq!(send(&server, json!([])).await.status, 403);
    resolved.set(["::ffff:127.0.0.1".parse().unwrap()]);
    assert_eq!(send(&server, json!([])).await.json(), json!({"responseList": []}));
    resolved.set([]);
    assert_eq!(send(&server, json!([])).await.status, 403);
}

#[tokio::test]
async fn every_root_takes_batches_whole_in_chunks_or_compressed() {
    let server = Server::trusting();
    let body =
        |id: &str| json!({"replicationList": [registration(&Draft::new("BA", id, "UP", 1))]}).to_string();
    for (number, root) in ["/eureka", "/eureka/v2", "/v2", ""].into_iter().enumerate() {
        for slash in ["", "/"] {
            let path = format!("{root}/peerreplication/batch{slash}");
            let answer = server.send("POST", &path, &JSON, body(&format!("{number}{slash}"))).await;
            assert_eq!(answer.json(), json!({"responseList": [{"statusCode": 200}]}), "{path}");
        }
    }
    let text = body("chunked");
    let chunks: Vec<_> =
        text.as_bytes().chunks(7).map(|part| Ok::<_, std::io::Error>(Bytes::copy_from_slice(part))).collect();
    assert_eq!(server.send("POST", PATH, &JSON, Body::from_stream(stream::iter(chunks))).await.status, 200);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(body("gzip").as_bytes()).unwrap();
    let headers = [JSON[0], ("content-encoding", "gzip")];
    assert_eq!(server.send("POST", PATH, &headers, encoder.finish().unwrap()).await.status, 200);
    assert_eq!(server.registry.stats().instances, 10);
    assert_eq!(server.send("GET", PATH, &JSON, Body::empty()).await.status, 405);
}

#[tokio::test]
async fn sizes_are_bounded() {
    let server = Server::trusting();
    let beat = item("Heartbeat", "BA", "b", 1);
    assert_eq!(codes(&server, json!(vec![beat.clone(); 1000])).await.len(), 1000);
    let answer = send(&server, json!(vec![beat; 1001])).await;
    assert!(answer.status == 400 && answer.text().contains("1000 items"), "{}", answer.text());
    let large = format!(r#"{{"replicationList":[],"x":"{}"}}"#, "x".repeat(2 << 20));
    assert_eq!(server.send("POST", PATH, &JSON, large).await.status, 413);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&vec![b' '; (8 << 20) + 1]).unwrap();
    let headers = [JSON[0], ("content-encoding", "gzip")];
    assert_eq!(server.send("POST", PATH, &headers, encoder.finish().unwrap()).await.status, 413);
}

#[tokio::test]
async fn too_many_batches_at_once_are_a_503_at_which_senders_wait() {
    let server = Server::trusting();
    let stalled = || {
        let body = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
        Box::pin(server.send("POST", PATH, &JSON, body))
    };
    let mut held: Vec<_> = (0..32).map(|_| stalled()).collect();
    for call in &mut held {
        assert!(call.now_or_never().is_none());
    }
    assert_eq!(send(&server, json!([])).await.status, 503);
    drop(held);
    assert_eq!(send(&server, json!([])).await.status, 200);
}

#[tokio::test]
async fn a_full_registry_is_our_fault_and_told_as_503() {
    let core = heureka_registry::Config { max_bytes: 1, ..heureka_registry::Config::default() };
    let config = Config { trusted_peers: vec!["127.0.0.1".parse().unwrap()], ..Config::default() };
    let server = Server::with(config, core);
    server.register(&Draft::new("BA", "a", "UP", 1)).await;
    let draft = Draft::new("BA", "b", "UP", 1);
    assert_eq!(codes(&server, json!([registration(&draft)])).await, [503]);
    let headers = [JSON[0], ("x-netflix-discovery-replication", "true")];
    let single = server.send("POST", "/eureka/apps/BA", &headers, draft.json()).await;
    assert_eq!(single.status, 503);
}

#[tokio::test]
async fn f28_a_late_copy_in_a_batch_stays_gone_and_a_newer_one_comes_back() {
    let server = Server::trusting();
    server.register(&Draft::new("LATE", "l2", "UP", 100)).await;
    server.delete("/LATE/l2").await.assert_quiet(200);
    let removed = server.clock_wall();
    let late = [99, 100, removed];
    for stamp in late {
        assert_eq!(
            codes(&server, json!([registration(&Draft::new("LATE", "l2", "UP", stamp))])).await,
            [200]
        );
        assert_eq!(server.status("LATE", "l2").await, "", "{stamp}");
    }
    let newer = removed + 1000;
    assert_eq!(codes(&server, json!([registration(&Draft::new("LATE", "l2", "UP", newer))])).await, [200]);
    assert_eq!(server.status("LATE", "l2").await, "UP");
}

#[tokio::test]
async fn f28_a_late_copy_loses_to_an_owner_that_repeated_itself() {
    let server = Server::trusting();
    let late =
        |id: &str, stamp| registration(&Draft::new("A", id, "DOWN", stamp).extra(r#","vipAddress":"old""#));
    for id in ["1", "2"] {
        server.register(&Draft::new("A", id, "UP", 100)).await;
        server.register(&Draft::new("A", id, "UP", 200)).await;
    }
    assert_eq!(codes(&server, json!([late("1", 150)])).await, [200]);
    let headers = [("content-type", "application/json"), ("x-netflix-discovery-replication", "true")];
    let body = Draft::new("A", "2", "DOWN", 150).json();
    server.send("POST", "/eureka/apps/A", &headers, body).await.assert_quiet(204);
    for id in ["1", "2"] {
        let found = server.instance("A", id).await;
        assert_eq!((&found["status"], &found["lastDirtyTimestamp"]), (&"UP".into(), &"200".into()));
    }
    assert_eq!(codes(&server, json!([late("1", 200)])).await, [200]);
    assert_eq!(server.status("A", "1").await, "DOWN");
}

#[tokio::test]
async fn f46_conflicts_resolve_and_stop() {
    let server = Server::trusting();
    server.register(&Draft::new("CF", "c1", "UP", 200)).await;
    assert_eq!(codes(&server, json!([item("Heartbeat", "CF", "c1", 300)])).await, [404]);
    assert_eq!(codes(&server, json!([registration(&Draft::new("CF", "c1", "STARTING", 150))])).await, [200]);
    assert_eq!(server.status("CF", "c1").await, "UP");
    let told = send(&server, json!([item("Heartbeat", "CF", "c1", 100)])).await.json();
    assert_eq!(told["responseList"][0]["statusCode"], 409);
    // The peer takes over what it was told, and from then on both are silent.
    let stamp =
        told["responseList"][0]["responseEntity"]["lastDirtyTimestamp"].as_str().unwrap().parse().unwrap();
    assert_eq!(codes(&server, json!([item("Heartbeat", "CF", "c1", stamp)])).await, [200]);
}

#[tokio::test]
async fn an_override_of_a_peer_leaves_the_owners_word_alone() {
    let server = Server::trusting();
    server.register(&Draft::new("OV", "o", "UP", 100)).await;
    let out = with(item("StatusUpdate", "OV", "o", 100), "status", "OUT_OF_SERVICE");
    assert_eq!(codes(&server, json!([out])).await, [200]);
    assert_eq!(server.status("OV", "o").await, "OUT_OF_SERVICE");
    // A peer's copy shows what its readers see.
    let shown = Draft::new("OV", "o", "OUT_OF_SERVICE", 100).extra(r#","overriddenStatus":"OUT_OF_SERVICE""#);
    assert_eq!(codes(&server, json!([registration(&shown)])).await, [200]);
    assert_eq!(server.stored("OV", "o").unwrap().instance.status, Status::Up);
    let end = with(item("DeleteStatusOverride", "OV", "o", 100), "status", "UNKNOWN");
    assert_eq!(codes(&server, json!([end])).await, [200]);
    assert_eq!(server.status("OV", "o").await, "UP");
}

#[tokio::test]
async fn a_single_heartbeat_tells_an_override_too_and_a_bad_one_is_none() {
    let server = Server::trusting();
    server.register(&Draft::new("OV", "o", "UP", 100)).await;
    for (told, shown) in [
        ("junk", "UP"),
        ("%ff", "UP"),
        ("", "UP"),
        ("down", "UP"),
        ("OUT_OF_SERVICE", "OUT_OF_SERVICE"),
        ("UNKNOWN", "OUT_OF_SERVICE"),
    ] {
        let path = format!("/eureka/apps/OV/o?lastDirtyTimestamp=100&overriddenstatus={told}");
        server.send("PUT", &path, &[("x-netflix-discovery-replication", "true")], "").await.assert_quiet(200);
        assert_eq!(server.status("OV", "o").await, shown, "{told}");
    }
}

#[tokio::test]
async fn a_heartbeat_tells_an_override_that_was_missed_but_not_one_that_just_ended_here() {
    let server = Server::trusting();
    server.register(&Draft::new("OV", "o", "UP", 100)).await;
    let beat = with(item("Heartbeat", "OV", "o", 100), "overriddenStatus", "OUT_OF_SERVICE");
    assert_eq!(codes(&server, json!([beat.clone()])).await, [200]);
    assert_eq!(server.status("OV", "o").await, "OUT_OF_SERVICE");
    server.delete("/OV/o/status").await.assert_quiet(200);
    assert_eq!(codes(&server, json!([beat.clone()])).await, [200]);
    assert_eq!(server.status("OV", "o").await, "UP");
    server.pass(std::time::Duration::from_secs(61));
    assert_eq!(codes(&server, json!([beat])).await, [200]);
    assert_eq!(server.status("OV", "o").await, "OUT_OF_SERVICE");
}

#[tokio::test]
async fn native_fields_come_back_out_of_a_peers_metadata_and_stay_there_for_clients() {
    let metadata = r#","overriddenStatus":"OUT_OF_SERVICE","metadata":{"heureka.port.grpc":"9090/grpc",
        "heureka.zone":"z1","heureka.weight":"5","heureka.capacity.slots":"8","heureka.drain.deadline":"77","k":"v"}"#;
    let server = Server::trusting();
    let draft = Draft::new("NA", "n", "UP", 1).extra(metadata);
    assert_eq!(codes(&server, json!([registration(&draft)])).await, [200]);
    let stored = server.stored("NA", "n").unwrap();
    let instance = &stored.instance;
    assert_eq!((instance.ports[0].number, instance.ports[0].protocol.as_str()), (9090, "grpc"));
    assert_eq!((instance.locality.zone.as_str(), instance.capacity.weight), ("z1", Some(5)));
    assert_eq!(stored.overlay.drain, Some(DrainPlan { start: None, deadline: Some(Wall(77)) }));
    assert_eq!(server.instance("NA", "n").await["metadata"], json!({"k": "v"}));
    server.register(&Draft::new("NA", "client", "UP", 1).extra(metadata)).await;
    assert_eq!(server.stored("NA", "client").unwrap().instance.locality.zone, "");
}

/// What a genuine server sent to its peer, recorded.
#[derive(Deserialize)]
struct Sent {
    name: String,
    path: String,
    headers: std::collections::BTreeMap<String, String>,
    body: String,
}

#[tokio::test]
async fn what_a_genuine_server_sends_is_taken_and_leaves_what_it_had() {
    let server = Server::trusting();
    let sent = include_str!("../sent/java.jsonl").lines();
    let sent: Vec<Sent> = sent.map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(sent.len() > 20);
    for step in &sent {
        server.step();
        let headers: Vec<_> =
            step.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let answer = server.send("POST", &step.path, &headers, step.body.clone()).await;
        let code = &answer.json()["responseList"][0]["statusCode"];
        // What it took over from its peer at that time never came here.
        let expected = if step.name == "heartbeat under override" { 404 } else { 200 };
        assert_eq!(*code, expected, "{}: {}", step.name, answer.text());
        match step.name.as_str() {
            "status override" => assert_eq!(server.status("REP", "p1").await, "OUT_OF_SERVICE"),
            "remove override" => assert_eq!(server.status("REP", "p1").await, "UP"),
            "metadata" => assert_eq!(server.instance("REP", "p1").await["metadata"]["weight"], "5"),
            "cancel" => assert_eq!(server.status("REP", "p1").await, ""),
            _ => {}
        }
    }
}
