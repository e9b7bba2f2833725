//! The contract that all clients together rely on, as a table of requests: what is served where, in which format,
//! with which code, and with how quiet a body.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use heureka_registry::replication::{Hello, Identity, Replicator};
use serde_json::{Value, json};

use crate::support::{Answer, Draft, Server};

/// Roots of the surface.
const ROOTS: [&str; 4] = ["/eureka", "/eureka/v2", "/v2", ""];

const JSON: &str = "application/json";
const XML: &str = "application/xml";

/// A server with one instance, whose id needs encoding.
async fn filled() -> Server {
    let server = Server::new();
    let extra = r#","vipAddress":"red,Blue","secureVipAddress":"sec""#;
    let json =
        Draft::new("WEB", "10.0.0.1:web/1+a b#c", "UP", 7).json().replace(r#""vipAddress":"WEB","#, "");
    server
        .post("WEB", &json.replace(r#","dataCenterInfo""#, &format!(r#"{extra},"dataCenterInfo""#)))
        .await
        .assert_quiet(204);
    server
}

/// The id as clients encode it in full.
const ID: &str = "10.0.0.1%3Aweb%2F1%2Ba%20b%23c";

async fn send(server: &Server, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
    let answer = server.send(method, path, headers, Body::empty()).await;
    assert!(
        !answer.status.is_redirection() && answer.header("location").is_none(),
        "{method} {path}: {answer:?}"
    );
    answer
}

/// A body of that type, or a quiet answer.
fn assert_is(answer: &Answer, code: u16, kind: Option<&str>, row: &str) {
    assert_eq!(answer.status.as_u16(), code, "{row}: {answer:?}");
    assert_eq!(answer.header("content-type"), kind, "{row}: {answer:?}");
    assert_eq!(answer.body.is_empty(), kind.is_none(), "{row}: {answer:?}");
    if let Some(kind) = kind {
        assert_eq!(answer.text().starts_with('{'), kind == JSON, "{row}: {answer:?}");
    }
}

#[tokio::test]
async fn the_four_roots_serve_every_resource_in_every_spelling_and_never_redirect() {
    let server = filled().await;
    let reads = [
        "apps",
        "apps/delta",
        "apps/WEB",
        &format!("apps/WEB/{ID}"),
        "vips/red",
        "svips/sec",
        &format!("instances/{ID}"),
    ];
    for root in ROOTS {
        for read in reads {
            for path in [
                format!("{root}/{read}"),
                format!("{root}/{read}/"),
                format!("{root}//{read}//"),
                format!("/{root}/{read}"),
                format!("{root}/{}", read.replace('/', "//")),
                format!("{root}/{read}?regions=a,b&nobody=knows"),
            ] {
                for accept in [JSON, XML] {
                    let answer = send(&server, "GET", &path, &[("accept", accept)]).await;
                    assert_is(&answer, 200, Some(accept), &path);
                }
            }
        }
        for path in [format!("{root}/apps/WEB/{ID}"), format!("{root}//apps/WEB//{ID}/")] {
            assert_is(&send(&server, "PUT", &path, &[]).await, 200, None, &path);
        }
    }
}

#[tokio::test]
async fn what_is_no_root_is_a_quiet_404() {
    let server = filled().await;
    for path in [
        "/",
        "/v1",
        "/v3/apps",
        "/eureka",
        "/eureka/v3/apps",
        "/eureka/appsWEB",
        "/api/eureka/apps",
        "/eureka/",
    ] {
        for method in ["GET", "PUT", "POST", "DELETE"] {
            let answer = send(&server, method, path, &[("accept", "text/html")]).await;
            assert_is(&answer, 404, None, &format!("{method} {path}"));
        }
    }
}

#[tokio::test]
async fn ids_are_decoded_once_and_a_plus_is_a_plus() {
    let server = filled().await;
    for (id, code) in [
        (ID, 200),
        ("10.0.0.1:web%2F1+a%20b%23c", 200),
        ("10.0.0.1%3aweb%2f1%2ba%20b%23c", 200),
        ("10.0.0.1:web%2F1+a+b%23c", 404),
        ("10.0.0.1%253Aweb%252F1%252Ba%2520b%2523c", 404),
        ("10.0.0.1:web/1+a%20b%23c", 404),
        ("10.0.0.1:WEB%2F1+a%20b%23c", 404),
    ] {
        for app in ["WEB", "web", "WeB", "%57eb"] {
            let path = format!("/eureka/apps/{app}/{id}");
            assert_is(&send(&server, "PUT", &path, &[]).await, code, None, &path);
        }
    }
}

#[tokio::test]
async fn an_application_that_is_called_delta_does_not_hide_the_delta() {
    let server = Server::new();
    server.register(&Draft::new("DELTA", "d1", "UP", 1)).await;
    let delta = server.json("/delta").await;
    assert_eq!(delta["applications"]["application"][0]["name"], "DELTA");
    server.post("delta", &Draft::new("delta", "d2", "UP", 1).json()).await.assert_quiet(405);
    server.beat("delta", "d1", "").await.assert_quiet(200);
    assert_eq!(server.json("/delta/d1").await["instance"]["instanceId"], "d1");
}

#[tokio::test]
async fn virtual_addresses_are_found_one_by_one_and_by_their_case() {
    let server = filled().await;
    for (path, found) in [
        ("vips/red", 1),
        ("vips/Blue", 1),
        ("vips/blue", 0),
        ("vips/red,Blue", 0),
        ("vips/re", 0),
        ("vips/sec", 0),
        ("svips/sec", 1),
        ("svips/red", 0),
        ("vips/nobody", 0),
    ] {
        let answer = send(&server, "GET", &format!("/eureka/{path}"), &[("accept", JSON)]).await;
        let list = answer.json();
        assert_eq!(list["applications"]["application"].as_array().unwrap().len(), found, "{path}");
        assert_is(&answer, 200, Some(JSON), path);
    }
    assert_is(
        &send(&server, "GET", "/eureka/instances/nobody", &[("accept", JSON)]).await,
        404,
        None,
        "instances",
    );
}

#[tokio::test]
async fn json_comes_to_those_who_name_it_and_xml_to_all_others() {
    let server = filled().await;
    for (accept, kind) in [
        ("application/json", JSON),
        ("application/json;charset=utf-8", JSON),
        ("application/json; charset=utf-8", JSON),
        ("application/json, application/*+json", JSON),
        ("application/json;q=0.9,*/*;q=0.1", JSON),
        (" application/json", JSON),
        ("Application/JSON", JSON),
        ("*/*", XML),
        ("", XML),
        ("application/xml", XML),
        ("text/html, image/gif, image/jpeg, */*; q=0.2", XML),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", XML),
        ("nonsense", XML),
    ] {
        for path in ["/eureka/apps", "/eureka/apps/WEB", "/eureka/vips/red"] {
            // The type of a request that has no body says nothing.
            for sent in [JSON, XML, "text/plain"] {
                let headers = [("accept", accept), ("content-type", sent)];
                assert_is(&send(&server, "GET", path, &headers).await, 200, Some(kind), accept);
            }
        }
    }
    assert_is(&send(&server, "GET", "/eureka/apps", &[]).await, 200, Some(XML), "no Accept");
}

#[tokio::test]
async fn only_who_asks_gets_gzip_and_only_of_the_registry() {
    let server = filled().await;
    for (path, sent, coding) in [
        ("/eureka/apps", "gzip", Some("gzip")),
        ("/eureka/apps", "gzip, deflate", Some("gzip")),
        ("/eureka/apps/delta", "gzip, deflate, br", Some("gzip")),
        ("/eureka/apps", "deflate", None),
        ("/eureka/apps", "identity", None),
    ] {
        let answer = send(&server, "GET", path, &[("accept", JSON), ("accept-encoding", sent)]).await;
        assert_eq!(answer.header("content-encoding"), coding, "{path} {sent}");
    }
    assert_eq!(send(&server, "GET", "/eureka/apps", &[]).await.header("content-encoding"), None);
    let gzip = [("accept-encoding", "gzip"), ("accept", JSON)];
    for (method, path, code) in [("PUT", "/eureka/apps/NOPE/n", 404), ("DELETE", "/eureka/apps/NOPE/n", 404)]
    {
        assert_is(&send(&server, method, path, &gzip).await, code, None, path);
    }
}

/// Operations with their codes for an instance that is there and for one that is not.
const OPERATIONS: [(&str, &str, u16, u16); 8] = [
    ("PUT", "", 200, 404),
    ("PUT", "?status=UP&lastDirtyTimestamp=7", 200, 404),
    ("PUT", "?status=UP&lastDirtyTimestamp=7&overriddenstatus=UNKNOWN", 200, 404),
    ("PUT", "?lastDirtyTimestamp=8", 404, 404),
    ("PUT", "/status?value=OUT_OF_SERVICE&lastDirtyTimestamp=7", 200, 404),
    ("DELETE", "/status?value=UP&lastDirtyTimestamp=7", 200, 404),
    ("PUT", "/metadata?a=b&c=d", 200, 404),
    ("DELETE", "", 200, 404),
];

#[tokio::test]
async fn codes_are_those_that_clients_compare_and_bodies_are_empty() {
    for root in ROOTS {
        for accept in [JSON, XML, "*/*", "text/html", "application/json, application/*+json"] {
            let server = filled().await;
            for (method, rest, known, unknown) in OPERATIONS {
                for (id, code) in [("nobody", unknown), (ID, known)] {
                    let path = format!("{root}/apps/WEB/{id}{rest}");
                    let headers = [("accept", accept), ("content-type", JSON)];
                    let answer = send(&server, method, &path, &headers).await;
                    assert_is(&answer, code, None, &format!("{method} {path} {accept}"));
                    assert_eq!(answer.header("content-length"), Some("0"), "{method} {path}");
                }
            }
            for path in ["apps/WEB", "apps/WEB/nobody"] {
                let answer = send(&server, "GET", &format!("{root}/{path}"), &[("accept", accept)]).await;
                assert_is(&answer, 404, None, path);
            }
        }
    }
}

#[tokio::test]
async fn bodies_are_taken_with_any_charset_and_dropped_where_none_belongs() {
    let server = Server::new();
    for kind in [
        "application/json",
        "application/json; charset=utf-8",
        "application/json;charset=UTF-8",
        "Application/Json",
    ] {
        let body = Draft::new("KIND", "k1", "UP", 1).json();
        let answer = server.send("POST", "/eureka/apps/kind", &[("content-type", kind)], body).await;
        answer.assert_quiet(204);
    }
    for body in ["{}", "{", "<instance/>", "null"] {
        for path in ["/eureka/apps/KIND/k1", "/eureka/apps/KIND/k1/status?value=UP"] {
            let headers = [("content-type", "application/json"), ("accept", "application/json")];
            server.send("PUT", path, &headers, body).await.assert_quiet(200);
        }
    }
}

fn number(list: &Value) -> i64 {
    list["applications"]["versions__delta"].as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_deltas_number_changes_with_its_content_and_is_never_the_full_lists() {
    let server = Server::new();
    server.register(&Draft::new("N", "n1", "UP", 1)).await;
    let mut last = number(&server.json("/delta").await);
    assert_eq!(number(&server.json("/delta").await), last, "nothing happened");
    for path in ["metadata?k=1", "metadata?k=2", "status?value=OUT_OF_SERVICE", "status?value=DOWN"] {
        server.put(&format!("/N/n1/{path}")).await.assert_quiet(200);
        let next = number(&server.json("/delta").await);
        assert!(next > last && next > 1, "{path}: {next} after {last}");
        last = next;
        assert_eq!(server.json("").await["applications"]["versions__delta"], "1");
    }
    server.beat("N", "n1", "").await.assert_quiet(200);
    assert_eq!(number(&server.json("/delta").await), last, "a heartbeat is no change");
}

#[tokio::test]
async fn a_delta_reaches_back_three_minutes_and_tells_whole_records() {
    let server = Server::new();
    server.register(&Draft::new("W", "w1", "UP", 1).duration(3600)).await;
    server.register(&Draft::new("W", "w2", "UP", 1).duration(3600)).await;
    server.delete("/W/w1").await.assert_quiet(200);
    server.pass(Duration::from_secs(179));
    let told = [("w2", "ADDED"), ("w1", "DELETED")].map(|(id, action)| (id.to_owned(), action.to_owned()));
    assert_eq!(server.delta_actions("W").await, told);
    let delta = server.json("/delta").await;
    let gone = &delta["applications"]["application"][0]["instance"][1];
    assert_eq!(
        (&gone["hostName"], &gone["port"]["$"], &gone["vipAddress"]),
        (&json!("h1.example"), &json!(8080), &json!("W"))
    );
    server.pass(Duration::from_secs(61));
    assert!(server.delta_actions("W").await.is_empty());
    assert_eq!(
        server.json("/delta").await["applications"]["apps__hashcode"],
        "UP_1_",
        "of everything, not of the delta"
    );
}

#[tokio::test(start_paused = true)]
async fn writes_wait_for_another_server_that_can_be_reached_and_renewals_do_not() {
    let server = Server::new();
    let took = async |method: &str, path: &str| {
        let begun = tokio::time::Instant::now();
        let answer = server.send(method, &format!("/eureka/apps/A/1{path}"), &[], "").await;
        assert_eq!(answer.status, 200);
        begun.elapsed()
    };
    server.register(&Draft::new("A", "1", "UP", 1)).await;
    assert_eq!(took("PUT", "/metadata?k=0").await, Duration::ZERO);
    // A peer that never acknowledges.
    let identity = |node: &str| Identity { cluster: "c".into(), node: node.into(), address: String::new() };
    let ours = Arc::new(Replicator::new(Arc::clone(&server.registry), identity("ours")));
    let other = Server::new();
    let theirs = Replicator::new(Arc::clone(&other.registry), identity("theirs"));
    let hello = Hello { boot: 77, ..theirs.hello(other.now()) };
    let link = ours.join(&hello, "10.0.0.2:8761", true, server.now()).unwrap();
    let wait = Duration::from_millis(50);
    assert_eq!(took("PUT", "/metadata?k=1").await, wait);
    assert_eq!(took("PUT", "/status?value=OUT_OF_SERVICE").await, wait);
    assert_eq!(took("DELETE", "/status").await, wait);
    assert_eq!(took("PUT", "").await, Duration::ZERO);
    assert_eq!(took("GET", "").await, Duration::ZERO);
    let begun = tokio::time::Instant::now();
    server.register(&Draft::new("A", "2", "UP", 1)).await;
    assert_eq!(begun.elapsed(), wait);
    assert_eq!(took("DELETE", "").await, wait);
    drop(link);
    server.register(&Draft::new("A", "3", "UP", 1)).await;
    assert_eq!(begun.elapsed(), 2 * wait);
}
