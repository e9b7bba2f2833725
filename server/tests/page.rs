//! The status page and its documents, seen from outside.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by them")]

mod support;

use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::Value;
use support::{config, fetch, h1, start, start_plain};

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

async fn ask(address: SocketAddr, method: Method, path: &str, header: (&str, &str), body: &str) -> Answer {
    let request = Request::builder().method(method).uri(path).header("host", "test");
    let request = request.header("content-type", "application/json").header(header.0, header.1);
    let request = request.body(Body::from(body.to_owned())).unwrap();
    let (head, body) = h1(address).await.send_request(request).await.unwrap().into_parts();
    let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    Answer { status: head.status, headers: head.headers, text }
}

async fn browse(address: SocketAddr, path: &str) -> Answer {
    ask(address, Method::GET, path, ("accept", "text/html,*/*;q=0.8"), "").await
}

async fn document(address: SocketAddr, path: &str) -> Value {
    let answer = browse(address, path).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text);
    assert_eq!(answer.header("content-type"), "application/json", "{path}");
    assert_eq!(answer.header("cache-control"), "no-store", "{path}");
    assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
    serde_json::from_str(&answer.text).unwrap()
}

async fn write(address: SocketAddr, method: Method, path: &str, body: &str) {
    let answer = ask(address, method, path, ("accept", "*/*"), body).await;
    assert!(answer.status.is_success(), "{path}: {}", answer.text);
}

async fn register(address: SocketAddr, prefix: &str, id: &str, status: &str) {
    let body = format!(
        r#"{{"instance":{{"instanceId":"{id}","hostName":"h","app":"WEB","ipAddr":"10.0.0.1","status":"{status}",
        "vipAddress":"web","dataCenterInfo":{{"name":"MyOwn"}}}}}}"#
    );
    write(address, Method::POST, &format!("{prefix}/eureka/apps/WEB"), &body).await;
}

/// Addresses that the page and its parts name.
fn named(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for before in ["href=\"", "src=\"", "from './", "fetched(`", "fetched('", "= `"] {
        for rest in text.split(before).skip(1) {
            found.push(rest.split(['"', '\'', '`', '?', '$']).next().unwrap().to_owned());
        }
    }
    found
}

#[tokio::test]
async fn the_page_and_all_that_it_names_are_served_with_a_policy_that_nothing_escapes() {
    let (_running, address) = start_plain().await;
    let page = browse(address, "/").await;
    assert_eq!((page.status, page.header("content-type")), (StatusCode::OK, "text/html; charset=utf-8"));
    let parts: Vec<String> = named(&page.text).into_iter().filter(|name| name.starts_with("page/")).collect();
    assert!(parts.len() >= 3, "{parts:?}");
    let mut left = parts;
    let mut seen = std::collections::BTreeSet::new();
    while let Some(part) = left.pop() {
        if !seen.insert(part.clone()) {
            continue;
        }
        let answer = browse(address, &format!("/{part}")).await;
        assert_eq!(answer.status, 200, "{part}");
        assert!(!answer.text.contains("innerHTML") && !answer.text.contains("://cdn"), "{part}");
        let imported = named(&answer.text).into_iter().filter(|name| name.ends_with(".js"));
        left.extend(imported.map(|name| format!("page/{}", name.trim_start_matches("page/"))));
        for (name, value) in [("x-content-type-options", "nosniff"), ("referrer-policy", "no-referrer")] {
            assert_eq!(answer.header(name), value, "{part}");
        }
    }
    assert_eq!(seen.len(), 10, "every part is named: {seen:?}");
    let policy = page.header("content-security-policy");
    for directive in [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ] {
        assert!(policy.contains(directive), "{policy}");
    }
    assert!(!policy.contains("unsafe") && !policy.contains('*') && !policy.contains("data:"), "{policy}");
    for forbidden in [" style=", " onclick=", " onload=", "<style", "javascript:"] {
        assert!(!page.text.contains(forbidden), "{forbidden}");
    }
    assert_eq!(page.text.matches("<script").count(), 1, "one script, from a file");
}

#[tokio::test]
async fn every_address_is_relative() {
    let (_running, address) = start_plain().await;
    for path in
        ["/", "/page/main.js", "/page/feed.js", "/page/detail.js", "/page/recent.js", "/page/server.js"]
    {
        let answer = browse(address, path).await;
        let absolute: Vec<_> = named(&answer.text).into_iter().filter(|name| name.starts_with('/')).collect();
        assert!(absolute.is_empty(), "{path}: {absolute:?}");
    }
}

#[tokio::test]
async fn heads_tags_and_other_verbs_are_answered_as_everywhere() {
    let (_running, address) = start_plain().await;
    for path in ["/", "/lastn", "/page/main.js", "/v1/server", "/v1/events", "/v1/instance?app=A&id=b"] {
        let whole = browse(address, path).await;
        let head = ask(address, Method::HEAD, path, ("accept", "*/*"), "").await;
        assert_eq!((head.status, head.text.as_str()), (StatusCode::OK, ""), "{path}");
        for name in ["content-type", "etag", "content-security-policy", "cache-control"] {
            assert_eq!(head.header(name), whole.header(name), "{path} {name}");
        }
        for method in [Method::POST, Method::PUT, Method::DELETE] {
            let refused = ask(address, method.clone(), path, ("accept", "*/*"), "").await;
            assert_eq!(refused.status, StatusCode::METHOD_NOT_ALLOWED, "{method} {path}");
            assert_eq!(refused.header("allow"), "GET,HEAD", "{method} {path}");
        }
    }
    let page = browse(address, "/").await;
    let again = ask(address, Method::GET, "/", ("if-none-match", page.header("etag")), "").await;
    assert_eq!((again.status, again.text.as_str()), (StatusCode::NOT_MODIFIED, ""));
    let other = ask(address, Method::GET, "/", ("if-none-match", "\"0\""), "").await;
    assert_eq!(other.status, StatusCode::OK);
    assert_ne!(page.header("etag"), browse(address, "/page/main.js").await.header("etag"));
}

#[tokio::test]
async fn browsers_are_led_from_the_originals_places_and_others_find_nothing_there() {
    let (_running, address) = start_plain().await;
    for (path, target) in [
        ("/eureka", "./"),
        ("/eureka/", "../"),
        ("/eureka/jsp/status.jsp", "../../"),
        ("/eureka/jsp/lastN.jsp", "../../lastn"),
    ] {
        let answer = browse(address, path).await;
        assert_eq!((answer.status, answer.header("location")), (StatusCode::FOUND, target), "{path}");
        for accept in ["application/json", "application/xml", "*/*"] {
            let answer = ask(address, Method::GET, path, ("accept", accept), "").await;
            assert_eq!((answer.status, answer.text.as_str()), (StatusCode::NOT_FOUND, ""), "{path} {accept}");
        }
        for method in [Method::OPTIONS, Method::POST, Method::DELETE] {
            let answer = ask(address, method.clone(), path, ("accept", "text/html"), "").await;
            assert_eq!(answer.status, StatusCode::NOT_FOUND, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn the_page_takes_no_path_of_the_eureka_surface() {
    let (_running, address) = start_plain().await;
    register(address, "", "a", "UP").await;
    for root in ["", "/eureka", "/v1", "/v2", "/eureka/v1"] {
        for path in ["/apps", "/apps/", "/apps/delta", "/apps/WEB", "/apps/WEB/a", "/status"] {
            let path = format!("{root}{path}");
            let answer = browse(address, &path).await;
            assert_eq!(answer.status, 200, "{path}");
            assert_eq!(
                answer.header("content-type"),
                "application/xml",
                "{path}: no page, whatever is accepted"
            );
        }
    }
    for path in ["//", "/index.html", "/page", "/page/", "/page/none.js", "/lastn/", "/v1/none"] {
        let answer = browse(address, path).await;
        assert_eq!((answer.status, answer.text.as_str()), (StatusCode::NOT_FOUND, ""), "{path}");
    }
}

#[tokio::test]
async fn below_a_prefix_everything_is_and_nothing_above() {
    let mut config = config();
    config.server.context_path = "/tools/registry".into();
    let (_running, address) = start(config, Router::new()).await;
    register(address, "/tools/registry", "a", "UP").await;
    for path in ["/", "/lastn", "/page/main.js", "/v1/server", "/v1/events", "/v1/instance?app=web&id=a"] {
        assert_eq!(browse(address, &format!("/tools/registry{path}")).await.status, 200, "{path}");
        assert_eq!(browse(address, path).await.status, 404, "{path}");
    }
    let bare = browse(address, "/tools/registry").await;
    assert_eq!((bare.status, bare.header("location")), (StatusCode::FOUND, "registry/"));
    let original = browse(address, "/tools/registry/eureka/").await;
    assert_eq!(original.header("location"), "../");
}

#[tokio::test]
async fn a_page_that_is_switched_off_is_not_there() {
    let mut config = config();
    config.server.page = false;
    let (_running, address) = start(config, Router::new()).await;
    for path in
        ["/", "/lastn", "/page/main.js", "/v1/server", "/v1/events", "/v1/instance?app=A&id=b", "/eureka/"]
    {
        let answer = browse(address, path).await;
        assert_eq!((answer.status, answer.text.as_str()), (StatusCode::NOT_FOUND, ""), "{path}");
    }
    assert_eq!(fetch(address, "/eureka/apps").await.0, 200);
}

#[tokio::test]
async fn the_status_document_tells_how_the_server_is() {
    let mut config = config();
    (config.server.node_id, config.server.zone) = ("n1".into(), "z1".into());
    let (_running, address) = start(config, Router::new()).await;
    register(address, "", "a", "UP").await;
    register(address, "", "b", "STARTING").await;
    let told = document(address, "/v1/server").await;
    let server = &told["server"];
    assert_eq!(
        (&server["node"], &server["zone"], &server["state"]),
        (&"n1".into(), &"z1".into(), &"ready".into())
    );
    assert_eq!(
        server["now_ms"].as_u64().unwrap() - server["started_ms"].as_u64().unwrap(),
        server["uptime_ms"]
    );
    let registry = &told["registry"];
    assert_eq!((&registry["instances"], &registry["applications"]), (&2.into(), &1.into()));
    assert_eq!((&registry["status"]["UP"], &registry["status"]["STARTING"]), (&1.into(), &1.into()));
    let preservation = &told["preservation"];
    assert_eq!((&preservation["mode"], &preservation["next"]), (&"budget".into(), &"at_once".into()));
    assert_eq!((&preservation["protecting"], &preservation["held"]), (&false.into(), &0.into()));
    assert_eq!((&told["peers"], &told["peers_count"]), (&Value::Array(Vec::new()), &0.into()));
    assert_eq!(told["store"], Value::Null);
}

#[tokio::test]
async fn the_status_document_has_the_members_that_its_page_of_the_manual_names() {
    let manual = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/page.md")).unwrap();
    let (_running, address) = start_plain().await;
    register(address, "", "a", "UP").await;
    let instance = document(address, "/v1/instance?app=WEB&id=a").await;
    let status = document(address, "/v1/server").await;
    let events = document(address, "/v1/events").await;
    let mut names = Vec::new();
    for told in [&status, &instance, &events, &events["events"][0]] {
        members(told, &mut names);
    }
    for name in names {
        assert!(manual.contains(&format!("`{name}`")), "docs/page.md does not name {name}");
    }
}

fn members(value: &Value, names: &mut Vec<String>) {
    for (name, value) in value.as_object().into_iter().flatten() {
        let is_status = name.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_');
        if !is_status {
            names.push(name.clone());
        }
        members(value, names);
    }
}

#[tokio::test]
async fn events_are_told_newest_first_by_kind_and_after_a_revision() {
    let (_running, address) = start_plain().await;
    register(address, "", "a", "UP").await;
    let seen = document(address, "/v1/events").await["revision"].as_u64().unwrap();
    write(address, Method::PUT, "/eureka/apps/WEB/a/status?value=OUT_OF_SERVICE", "").await;
    register(address, "", "b", "UP").await;
    write(address, Method::DELETE, "/eureka/apps/WEB/a", "").await;
    let told = |document: &Value| -> Vec<String> {
        let word = |event: &Value, name: &str| event[name].as_str().unwrap().to_owned();
        let events = document["events"].as_array().unwrap().iter();
        events
            .map(|event| format!("{} {} {}", word(event, "kind"), word(event, "cause"), word(event, "id")))
            .collect()
    };
    let all = [
        "removal cancelled a",
        "registration registered b",
        "change override_set a",
        "registration registered a",
    ];
    assert_eq!(told(&document(address, "/v1/events").await), all);
    assert_eq!(told(&document(address, &format!("/v1/events?after={seen}")).await), all[..3]);
    assert_eq!(told(&document(address, "/v1/events?kind=removal&kind=change").await), [all[0], all[2]]);
    assert!(told(&document(address, "/v1/events?namespace=other").await).is_empty());
    let removal = &document(address, "/v1/events?kind=removal").await["events"][0];
    assert_eq!((&removal["removal"], &removal["origin"]), (&"cancelled".into(), &"rest_client".into()));
}

#[tokio::test]
async fn an_instance_is_told_with_its_lease_its_override_and_its_events() {
    let (_running, address) = start_plain().await;
    register(address, "", "a", "UP").await;
    write(address, Method::PUT, "/eureka/apps/WEB/a/status?value=OUT_OF_SERVICE", "").await;
    let told = document(address, "/v1/instance?app=web&id=a").await;
    let instance = &told["instance"];
    assert_eq!((&instance["status"], &instance["own_status"]), (&"OUT_OF_SERVICE".into(), &"UP".into()));
    assert_eq!(instance["override"]["status"], "OUT_OF_SERVICE");
    assert_eq!(
        (&instance["lease"]["duration_ms"], &instance["lease"]["overdue"]),
        (&90_000.into(), &false.into())
    );
    assert_eq!(told["events"].as_array().unwrap().len(), 2);
    write(address, Method::DELETE, "/eureka/apps/WEB/a", "").await;
    let gone = document(address, "/v1/instance?app=WEB&id=a").await;
    assert_eq!((&gone["instance"], &gone["events"][0]["cause"]), (&Value::Null, &"cancelled".into()));
}

#[tokio::test]
async fn a_request_that_cannot_be_meant_is_refused_by_name() {
    let (_running, address) = start_plain().await;
    let long = format!("/v1/instance?app=A&id={}", "x".repeat(5000));
    for (path, name) in [
        ("/v1/events?after=x", "after"),
        ("/v1/events?after=-1", "after"),
        ("/v1/events?kind=eviction", "kind"),
        ("/v1/events?since=1", "since"),
        ("/v1/events?kind=%FF", "kind"),
        ("/v1/events?after=1&after=2", "after"),
        ("/v1/events?namespace=&kind=removal&namespace=a", "namespace"),
        ("/v1/server?verbose=true", "verbose"),
        ("/v1/server?=", "is unknown"),
        ("/v1/instance", "app"),
        ("/v1/instance?app=A&id=b&id=c", "id"),
        ("/v1/instance?app=A", "id"),
        ("/v1/instance?app=A&id=", "id"),
        ("/v1/instance?app=A&id=b&vip=c", "vip"),
        (&long, "id"),
    ] {
        let answer = browse(address, path).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path}");
        assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8", "{path}");
        assert!(answer.text.contains(name) && answer.text.lines().count() == 1, "{path}: {}", answer.text);
    }
}

#[tokio::test]
async fn a_server_that_catches_up_shows_the_page_and_no_instance() {
    let mut config = config();
    config.startup.hold = std::time::Duration::from_secs(10);
    let (_running, address) = start(config, Router::new()).await;
    assert_eq!(browse(address, "/").await.status, 200);
    let told = document(address, "/v1/server").await;
    assert_eq!(
        (&told["server"]["state"], &told["preservation"]["next"]),
        (&"syncing".into(), &"never".into())
    );
    let refused = browse(address, "/v1/instance?app=A&id=b").await;
    assert_eq!((refused.status, refused.header("retry-after")), (StatusCode::SERVICE_UNAVAILABLE, "2"));
}
