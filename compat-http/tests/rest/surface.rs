//! The rest of the original's surface: versions in paths, the server about itself, overrides in one list, scaling groups, and
//! tags of documents.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use heureka_compat_http::{About, Config, Replica, ServerStatus};
use heureka_model::{Clock, Instance, InstanceKey};
use tower::ServiceExt as _;

use crate::support::{Answer, Draft, Server};

const JSON: (&str, &str) = ("accept", "application/json");

async fn get(server: &Server, path: &str, headers: &[(&str, &str)]) -> Answer {
    server.send("GET", path, headers, Body::empty()).await
}

/// The status that a document of XML shows of its first instance.
fn shown(answer: &Answer) -> String {
    let (_, rest) = answer.text().split_once("<status>").unwrap();
    rest.split_once('<').unwrap().0.to_owned()
}

async fn with_status(status: &'static str) -> Server {
    let server = Server::new();
    server.register(&Draft::new("A", "1", status, 1)).await;
    server
}

#[tokio::test]
async fn the_first_version_knows_three_statuses_in_xml() {
    let paths = ["apps", "apps/delta", "apps/A", "apps/A/1", "instances/1", "vips/A"];
    for (status, first) in [
        ("UP", "UP"),
        ("DOWN", "DOWN"),
        ("STARTING", "STARTING"),
        ("OUT_OF_SERVICE", "DOWN"),
        ("UNKNOWN", "DOWN"),
    ] {
        let server = with_status(status).await;
        for (path, root) in
            paths.iter().flat_map(|path| ["/eureka/v1", "/v1", "/eureka/V1"].map(|root| (path, root)))
        {
            let answer = get(&server, &format!("{root}/{path}"), &[]).await;
            assert_eq!(shown(&answer), first, "{root}/{path}");
            assert_eq!(
                answer.text().contains("UNKNOWN_1_"),
                status == "UNKNOWN" && answer.text().contains("hash")
            );
        }
        for path in paths {
            assert_eq!(shown(&get(&server, &format!("/eureka/v2/{path}"), &[]).await), status, "{path}");
        }
    }
}

#[tokio::test]
async fn json_and_the_compact_shape_are_the_same_in_both_versions() {
    let server = with_status("OUT_OF_SERVICE").await;
    let compact = ("x-eureka-accept", "compact");
    for headers in [&[JSON][..], &[JSON, compact], &[compact]] {
        for path in ["apps", "apps/A"] {
            let first = get(&server, &format!("/eureka/v1/{path}"), headers).await;
            let second = get(&server, &format!("/eureka/v2/{path}"), headers).await;
            assert_eq!(first.text(), second.text());
            assert_eq!(first.header("etag"), second.header("etag"));
        }
    }
}

#[tokio::test]
async fn writes_are_served_in_every_version() {
    let server = Server::new();
    let draft = Draft::new("A", "1", "UP", 1);
    let headers = [("content-type", "application/json")];
    for root in ["/eureka/v1", "/v1", "/eureka/v2", "/v2", "/eureka", ""] {
        let path = |rest: &str| format!("{root}/apps/A{rest}");
        server.send("POST", &path(""), &headers, draft.json()).await.assert_quiet(204);
        server.send("PUT", &path("/1"), &[], Body::empty()).await.assert_quiet(200);
        server.send("PUT", &path("/1/status?value=DOWN"), &[], Body::empty()).await.assert_quiet(200);
        server.send("DELETE", &path("/1"), &[], Body::empty()).await.assert_quiet(200);
    }
}

fn talkative() -> Config {
    let key = InstanceKey { app: "HEUREKA".into(), id: "node-1".into(), ..InstanceKey::default() };
    let instance = Instance { host_name: "n1.example".into(), ..Instance::new(key) };
    let replica = |url: &str, available| Replica { url: url.into(), available };
    let about = About::new(move || ServerStatus {
        environment: "prod & <test>".into(),
        processors: 2,
        memory_total: Some(4 << 30),
        memory_used: Some(1 << 30),
        uptime: Duration::from_secs(3 * 3600 + 60),
        replicas: vec![replica("http://a/eureka/", true), replica("http://b/eureka/", false)],
        instance: Some(instance.clone()),
    });
    Config { about, ..Config::default() }
}

#[tokio::test]
async fn the_server_tells_of_itself_in_the_originals_members() {
    let server = Server::with(talkative(), heureka_registry::Config::default());
    let answer = get(&server, "/eureka/status", &[JSON]).await;
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let told = answer.json();
    let general = &told["generalStats"];
    assert_eq!(general["environment"], "prod & <test>");
    assert_eq!(general["num-of-cpus"], "2");
    assert_eq!(general["total-avail-memory"], "4096mb");
    assert_eq!(general["current-memory-usage"], "1024mb (25%)");
    assert_eq!(general["server-uptime"], "03:01");
    let replicas = &told["applicationStats"];
    assert_eq!(replicas["registered-replicas"], "http://a/eureka/, http://b/eureka/");
    assert_eq!(replicas["available-replicas"], "http://a/eureka/,");
    assert_eq!(replicas["unavailable-replicas"], "http://b/eureka/,");
    assert_eq!(told["instanceInfo"]["instanceId"], "node-1");
    assert_eq!(told.as_object().unwrap().len(), 3);
}

#[tokio::test]
async fn the_status_document_in_xml_has_the_originals_root() {
    let server = Server::with(talkative(), heureka_registry::Config::default());
    for path in ["/eureka/status", "/status/", "/eureka/v1/status"] {
        let answer = get(&server, path, &[]).await;
        assert_eq!(answer.header("content-type"), Some("application/xml"));
        let text = answer.text();
        assert!(
            text.starts_with(
                "<com.netflix.eureka.util.StatusInfo><generalStats><environment>prod &amp; &lt;"
            )
        );
        assert!(text.contains("<instanceInfo><instanceId>node-1</instanceId>"), "{text}");
        assert!(text.ends_with("</instanceInfo></com.netflix.eureka.util.StatusInfo>"), "{text}");
    }
}

#[tokio::test]
async fn a_server_that_knows_nothing_of_itself_says_so_briefly() {
    let told = get(&Server::new(), "/eureka/status", &[JSON]).await.json();
    assert_eq!(told["generalStats"].as_object().unwrap().len(), 1);
    assert_eq!(told["applicationStats"]["registered-replicas"], "");
    assert!(told.get("instanceInfo").is_none());
}

#[tokio::test]
async fn a_server_that_knows_too_little_for_readers_still_tells_of_itself() {
    let server = Server::new();
    let clock = Arc::clone(&server.clock) as Arc<dyn Clock>;
    let shut = heureka_compat_http::Gate::new(|| false);
    let router = heureka_compat_http::gated(Arc::clone(&server.registry), clock, talkative(), shut);
    for (path, code) in [
        ("/eureka/status", 200),
        ("/eureka/serverinfo/statusoverrides", 503),
        ("/eureka/apps", 503),
        ("/eureka/v1/apps/A", 503),
        ("/eureka/asg/x/status", 405),
    ] {
        let request = http::Request::get(path).header("if-none-match", "*").body(Body::empty()).unwrap();
        assert_eq!(router.clone().oneshot(request).await.unwrap().status(), code, "{path}");
    }
}

#[tokio::test]
async fn vector_20_overrides_are_told_by_id() {
    let server = Server::new();
    for path in [
        "/eureka/serverinfo/statusoverrides",
        "/serverinfo/statusoverrides",
        "/v2/serverinfo/statusoverrides/",
    ] {
        assert_eq!(get(&server, path, &[]).await.text(), "{}");
    }
    for (app, id, value) in [
        ("A", "1", "OUT_OF_SERVICE"),
        ("A", "2", ""),
        ("B", "3", "DOWN"),
        ("A", "s", "UP"),
        ("B", "s", "DOWN"),
    ] {
        server.register(&Draft::new(app, id, "STARTING", 1)).await;
        if !value.is_empty() {
            server.put(&format!("/{app}/{id}/status?value={value}")).await.assert_quiet(200);
        }
    }
    let answer = get(&server, "/eureka/serverinfo/statusoverrides", &[("accept", "application/xml")]).await;
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.text(), r#"{"1":"OUT_OF_SERVICE","3":"DOWN","s":"DOWN"}"#);
    server.delete("/B/s/status").await.assert_quiet(200);
    server.delete("/A/1").await.assert_quiet(200);
    assert_eq!(
        get(&server, "/eureka/serverinfo/statusoverrides", &[]).await.text(),
        r#"{"3":"DOWN","s":"UP"}"#
    );
}

#[tokio::test]
async fn scaling_groups_are_refused_and_other_verbs_are_not_served() {
    let server = Server::new();
    for value in ["?value=ENABLED", "?value=disabled", "?value=nonsense", ""] {
        let answer =
            server.send("PUT", &format!("/eureka/asg/group/status{value}"), &[], Body::empty()).await;
        assert_eq!(answer.status, 400);
        assert_eq!(answer.text(), "asg: this server knows no auto scaling groups");
    }
    for (path, allowed) in [("asg/group/status", "OPTIONS, PUT"), ("status", "GET, HEAD, OPTIONS")] {
        let answer = server.send("DELETE", &format!("/eureka/{path}"), &[], Body::empty()).await;
        answer.assert_quiet(405);
        assert_eq!(answer.header("allow"), Some(allowed));
        let answer = server.send("OPTIONS", &format!("/eureka/{path}"), &[], Body::empty()).await;
        answer.assert_quiet(200);
        assert_eq!(answer.header("allow"), Some(allowed));
    }
}

/// What a reader keeps to ask with the next time.
fn tag(answer: &Answer) -> String {
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("vary"), Some("Accept, Accept-Encoding, X-Eureka-Accept"));
    answer.header("etag").unwrap().to_owned()
}

async fn again(server: &Server, path: &str, headers: &[(&str, &str)], tag: &str) -> Answer {
    let mut headers = headers.to_vec();
    headers.push(("if-none-match", tag));
    get(server, path, &headers).await
}

const LISTS: [&str; 5] =
    ["/eureka/apps", "/eureka/apps/delta", "/eureka/apps/A", "/eureka/vips/A", "/eureka/svips/none"];

#[tokio::test]
async fn a_reader_that_holds_a_list_is_told_so_until_the_list_changes() {
    let server = with_status("UP").await;
    for path in LISTS {
        let held = tag(&get(&server, path, &[JSON]).await);
        let answer = again(&server, path, &[JSON], &held).await;
        answer.assert_quiet(304);
        assert_eq!(answer.header("etag"), Some(held.as_str()));
        assert!(held.starts_with("W/\""), "{held}");
        // In another compression the same is said.
        again(&server, path, &[JSON, ("accept-encoding", "gzip")], &held).await.assert_quiet(304);
        server.send("HEAD", path, &[JSON, ("if-none-match", &held)], Body::empty()).await.assert_quiet(304);
        server.put(&format!("/A/1/metadata?last={path}")).await.assert_quiet(200);
        let fresh = again(&server, path, &[JSON], &held).await;
        assert_ne!(tag(&fresh), held, "{path}");
        assert!(!fresh.body.is_empty());
    }
}

#[tokio::test]
async fn each_form_has_a_tag_of_its_own() {
    let server = with_status("UP").await;
    let compact = ("x-eureka-accept", "compact");
    for path in ["apps", "apps/delta", "apps/A"] {
        let mut seen = std::collections::BTreeSet::new();
        for (root, headers) in
            [("", &[JSON][..]), ("", &[JSON, compact]), ("", &[]), ("", &[compact]), ("/v1", &[])]
        {
            seen.insert(tag(&get(&server, &format!("{root}/{path}"), headers).await));
        }
        assert_eq!(seen.len(), 5, "{seen:?}");
    }
}

#[tokio::test]
async fn tags_are_compared_as_the_header_may_spell_them() {
    let server = with_status("UP").await;
    let held = tag(&get(&server, "/eureka/apps", &[JSON]).await);
    let strong = held.strip_prefix("W/").unwrap();
    for told in
        [held.clone(), strong.to_owned(), format!("\"x\", {held}"), format!("W/\"y\",{strong}"), "*".into()]
    {
        again(&server, "/eureka/apps", &[JSON], &told).await.assert_quiet(304);
    }
    for told in ["", "\"\"", "W/\"0-0-j\"", "nonsense", &held[..held.len() - 1], &held.to_uppercase()] {
        assert_eq!(again(&server, "/eureka/apps", &[JSON], told).await.status, 200, "{told}");
    }
}

#[tokio::test]
async fn a_tag_outlives_renewals_and_no_restart() {
    let server = with_status("UP").await;
    let held = tag(&get(&server, "/eureka/apps", &[]).await);
    server.pass(Duration::from_secs(40));
    server.beat("A", "1", "").await.assert_quiet(200);
    again(&server, "/eureka/apps", &[], &held).await.assert_quiet(304);
    let seeds = heureka_registry::Seeds { boot: 2, hash: 2, shuffle: 3 };
    let other = Server::seeded(Config::default(), heureka_registry::Config::default(), seeds);
    other.register(&Draft::new("A", "1", "UP", 1)).await;
    assert_eq!(again(&other, "/eureka/apps", &[], &held).await.status, 200);
}

#[tokio::test]
async fn a_delta_has_another_tag_when_something_grew_too_old_for_it() {
    let server = with_status("UP").await;
    let held = tag(&get(&server, "/eureka/apps/delta", &[JSON]).await);
    for _ in 0..8 {
        server.pass(Duration::from_secs(30));
        server.beat("A", "1", "").await.assert_quiet(200);
    }
    let fresh = again(&server, "/eureka/apps/delta", &[JSON], &held).await;
    assert_ne!(tag(&fresh), held);
    assert_eq!(fresh.json()["applications"]["application"].as_array().unwrap().len(), 0);
}

#[tokio::test]
async fn an_application_that_is_gone_is_not_found_whatever_the_reader_holds() {
    let server = with_status("UP").await;
    let held = tag(&get(&server, "/eureka/apps/A", &[JSON]).await);
    server.delete("/A/1").await.assert_quiet(200);
    again(&server, "/eureka/apps/A", &[JSON], &held).await.assert_quiet(404);
    again(&server, "/eureka/apps/A", &[JSON], "*").await.assert_quiet(404);
}

#[tokio::test]
async fn single_instances_writes_and_lists_of_regions_have_no_tag() {
    let server = with_status("UP").await;
    for path in
        ["/eureka/apps/A/1", "/eureka/instances/1", "/eureka/status", "/eureka/serverinfo/statusoverrides"]
    {
        let answer = again(&server, path, &[JSON], "*").await;
        assert_eq!((answer.status.as_u16(), answer.header("etag")), (200, None), "{path}");
    }
    server.send("PUT", "/eureka/apps/A/1", &[("if-none-match", "*")], Body::empty()).await.assert_quiet(200);
}
