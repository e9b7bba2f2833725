//! Lists of another server: taken in at the start, and followed by a shadow.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use heureka_compat_http::peer::{self, Mirror};
use heureka_compat_http::{Config, Regions};
use serde_json::{Value, json};

use crate::support::{Draft, Server};

fn listed(draft: &Draft, action: &str) -> Value {
    let mut instance = serde_json::from_str::<Value>(&draft.json()).unwrap()["instance"].take();
    instance["actionType"] = action.into();
    instance
}

fn document(hash: &str, instances: &[Value]) -> Vec<u8> {
    let app = json!({"name": "A", "instance": instances});
    json!({"applications": {"versions__delta": "1", "apps__hashcode": hash, "application": [app]}})
        .to_string()
        .into_bytes()
}

#[tokio::test]
async fn a_list_is_taken_in_whole_with_its_leases_and_a_bad_instance_costs_itself() {
    let server = Server::unprotected();
    let mut bad = listed(&Draft::new("A", "bad", "UP", 1), "ADDED");
    bad["hostName"] = "".into();
    let good = Draft::new("A", "short", "UP", 1).duration(5);
    let list = document(
        "UP_2_",
        &[listed(&good, "ADDED"), bad, listed(&Draft::new("A", "long", "DOWN", 1), "ADDED")],
    );
    let copied = peer::copy(&server.registry, &list, server.now()).unwrap();
    assert_eq!((copied.taken, copied.refused), (2, 1));
    assert_eq!(server.status("A", "long").await, "DOWN");
    server.pass(Duration::from_secs(7));
    assert_eq!(server.status("A", "short").await, "");
    for broken in ["", "{}", "[1]", "<applications/>"] {
        assert!(peer::copy(&server.registry, broken.as_bytes(), server.now()).is_err(), "{broken}");
    }
}

#[tokio::test]
async fn our_own_list_reads_back() {
    let (server, other) = (Server::new(), Server::new());
    server.register(&Draft::new("A", "1", "UP", 7).extra(r#","metadata":{"k":"v"}"#)).await;
    server.put("/A/1/status?value=OUT_OF_SERVICE").await.assert_quiet(200);
    let list = server.get("").await.body;
    assert_eq!(peer::copy(&other.registry, &list, other.now()).unwrap().taken, 1);
    assert_eq!(other.status("A", "1").await, "OUT_OF_SERVICE");
    let gzip = server
        .send("GET", "/eureka/apps", &[("accept", "application/json"), ("accept-encoding", "gzip")], "")
        .await;
    assert_eq!(peer::inflate(&gzip.body, 1 << 20).unwrap(), list);
    assert!(peer::inflate(&gzip.body, list.len() - 1).is_err() && peer::inflate(b"{}", 100).is_err());
}

#[tokio::test]
async fn a_shadow_follows_and_is_alike() {
    let server = Server::unprotected();
    let mut mirror = Mirror::default();
    let (one, two) = (Draft::new("A", "1", "UP", 1).duration(3), Draft::new("A", "2", "UP", 1).duration(3));
    let whole = document("UP_2_", &[listed(&one, "ADDED"), listed(&two, "ADDED")]);
    assert!(!mirror.follow(&server.registry, &whole, true, server.now()).unwrap());
    assert_eq!((mirror.report().listed, mirror.report().differing), (2, 0));
    // The other holds the leases.
    for _ in 0..4 {
        server.pass(Duration::from_secs(2));
        mirror.follow(&server.registry, &document("UP_2_", &[]), false, server.now()).unwrap();
    }
    assert_eq!(server.registry.stats().instances, 2);
    let delta = document("UP_1_", &[listed(&one, "DELETED")]);
    assert!(!mirror.follow(&server.registry, &delta, false, server.now()).unwrap());
    assert_eq!(server.status("A", "1").await, "");
    let out = Draft::new("A", "2", "OUT_OF_SERVICE", 1).duration(3);
    let set = Draft { extra: r#","overriddenStatus":"OUT_OF_SERVICE""#.into(), ..out };
    mirror
        .follow(
            &server.registry,
            &document("OUT_OF_SERVICE_1_", &[listed(&set, "MODIFIED")]),
            false,
            server.now(),
        )
        .unwrap();
    assert_eq!(server.status("A", "2").await, "OUT_OF_SERVICE");
    mirror
        .follow(&server.registry, &document("UP_1_", &[listed(&two, "MODIFIED")]), false, server.now())
        .unwrap();
    assert_eq!(server.status("A", "2").await, "UP");
    assert_eq!((mirror.report().differing, mirror.report().met), (0, 0));
    // A set of another size than the counts say: something was missed.
    assert!(mirror.follow(&server.registry, &document("UP_7_", &[]), false, server.now()).unwrap());
    mirror.follow(&server.registry, &document("", &[]), true, server.now()).unwrap();
    assert_eq!((mirror.report().listed, server.registry.stats().instances), (0, 0));
}

#[tokio::test]
async fn every_difference_is_named_with_both_values_and_ends_when_it_is_gone() {
    let server = Server::new();
    let mut mirror = Mirror::default();
    // A client wrote a newer record here than the other knows.
    server.register(&Draft::new("A", "1", "DOWN", 900).host("ours")).await;
    let theirs = listed(&Draft::new("A", "1", "UP", 100), "ADDED");
    for _ in 0..2 {
        mirror
            .follow(&server.registry, &document("UP_1_", std::slice::from_ref(&theirs)), true, server.now())
            .unwrap();
    }
    let report = mirror.report();
    assert_eq!((report.differing, report.met), (1, 1));
    assert_eq!((report.first[0].app.as_str(), report.first[0].id.as_str()), ("A", "1"));
    assert_eq!(
        report.first[0].what,
        ["status: there UP, here DOWN", "hostName: there h1.example, here ours"]
    );
    let newer = listed(&Draft::new("A", "1", "UP", 901), "MODIFIED");
    mirror.follow(&server.registry, &document("UP_1_", &[newer]), false, server.now()).unwrap();
    assert_eq!((mirror.report().differing, mirror.report().met), (0, 1));
}

#[tokio::test]
async fn other_regions_are_told_to_those_who_name_them() {
    let east = Server::new();
    let regions = Regions::new(BTreeMap::from([("us-east".to_owned(), Arc::clone(&east.registry))]));
    let config = Config { regions, ..Config::default() };
    let server = Server::with(config, heureka_registry::Config::default());
    server.register(&Draft::new("A", "own", "UP", 1)).await;
    for (app, id, status) in [("A", "far", "DOWN"), ("B", "only", "UP")] {
        east.register(&Draft::new(app, id, status, 1)).await;
    }
    let ids = |list: &Value| -> Vec<String> {
        let apps = list["applications"]["application"].as_array().unwrap();
        let ids = |app: &Value| {
            app["instance"]
                .as_array()
                .unwrap()
                .iter()
                .map(|one| one["instanceId"].to_string())
                .collect::<Vec<_>>()
        };
        apps.iter().flat_map(ids).collect()
    };
    for path in ["", "/delta"] {
        let own = server.json(path).await;
        assert_eq!(ids(&own), [r#""own""#], "{path}");
        assert_eq!(server.json(&format!("{path}?regions=")).await, own);
        assert_eq!(ids(&server.json(&format!("{path}?regions=mars")).await), [r#""own""#]);
        let both = server.json(&format!("{path}?regions=mars,US-EAST")).await;
        assert_eq!(ids(&both), [r#""own""#, r#""far""#, r#""only""#], "{path}");
        assert_eq!(both["applications"]["apps__hashcode"], "DOWN_1_UP_2_");
        let headers = [("accept", "application/json"), ("accept-encoding", "gzip")];
        let zipped = server.send("GET", &format!("/eureka/apps{path}?regions=us-east"), &headers, "").await;
        assert_eq!(zipped.header("content-encoding"), Some("gzip"));
        assert_eq!(
            serde_json::from_slice::<Value>(&peer::inflate(&zipped.body, 1 << 20).unwrap()).unwrap(),
            both
        );
        let xml = server.get_xml(&format!("{path}?regions=us-east")).await;
        assert!(xml.text().contains("<instanceId>only</instanceId>"));
    }
    let vips = |query: &str| format!("/eureka/vips/B{query}");
    let accept = [("accept", "application/json")];
    assert_eq!(ids(&server.send("GET", &vips(""), &accept, "").await.json()).len(), 0);
    assert_eq!(ids(&server.send("GET", &vips("?regions=us-east"), &accept, "").await.json()), [r#""only""#]);
    // A delta with regions tells every change of theirs, under a number of its own.
    let version =
        async || server.json("/delta?regions=us-east").await["applications"]["versions__delta"].clone();
    let before = version().await;
    east.delete("/B/only").await.assert_quiet(200);
    assert_ne!(version().await, before);
    assert_eq!(ids(&server.json("?regions=us-east").await), [r#""own""#, r#""far""#]);
}
