//! Input that nobody should send. Whatever comes, the answer is a documented code, nothing is stored on a refusal,
//! and everybody else's reads go on.

use std::io::Write;

use axum::body::Body;
use flate2::Compression;
use flate2::write::GzEncoder;
use heureka_compat_http::Config;
use proptest::prelude::*;
use tower::ServiceExt as _;

use crate::support::{Answer, DATA_CENTER, Draft, Server};

const JSON: (&str, &str) = ("content-type", "application/json");
const XML: (&str, &str) = ("content-type", "application/xml");

/// A server with one instance of somebody else.
async fn busy() -> Server {
    let server = Server::new();
    server.register(&Draft::new("GOOD", "g1", "UP", 1)).await;
    server
}

/// Sends a registration that must be refused with this code and text, without effect.
async fn refused(server: &Server, headers: &[(&str, &str)], body: impl Into<Body>, code: u16, text: &str) {
    let before = server.registry.head();
    let answer = server.send("POST", "/eureka/apps/BAD", headers, body).await;
    assert_eq!(answer.status.as_u16(), code, "{}", answer.text());
    assert!(answer.text().contains(text), "{} does not say {text}", answer.text());
    assert_untouched(server, before).await;
}

async fn assert_untouched(server: &Server, head: u64) {
    assert_eq!(server.registry.head(), head, "a refusal changed something");
    assert_eq!(server.registry.stats().instances, 1);
    for list in [server.get("").await, server.get_xml("").await, server.get("/delta").await] {
        assert_eq!(list.status, 200);
        assert!(list.text().contains("g1"));
    }
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

fn instance(members: &str) -> String {
    format!(
        r#"{{"instance":{{"instanceId":"b1","app":"BAD","hostName":"h","ipAddr":"10.0.0.1",{DATA_CENTER}{members}}}}}"#
    )
}

#[tokio::test]
async fn a_malformed_body_is_refused_with_the_reason() {
    let server = busy().await;
    let json = [
        ("", "cannot parse request body"),
        ("null", "body: expected an object"),
        ("[]", "body: expected an object"),
        ("{}", "root member instance is missing"),
        ("{", "EOF"),
        (r#"{"instance":null}"#, "instance: expected an object"),
        (r#"{"instance":[]}"#, "instance: expected an object"),
        (r#"{"instance":[{}]}"#, "instance: expected an object"),
        (r#"{"instance":{},"instance2":{}}"#, "Missing instanceId"),
        (r#"{"other":{}}"#, "unexpected root member other"),
        (r#"{"instance":{"app":"\ud800"}}"#, "app: is no valid text"),
        ("<instance/>", "cannot parse request body"),
    ];
    for (body, text) in json {
        if body.contains("instance2") {
            refused(&server, &[JSON], body, 400, "unexpected root member instance2").await;
        } else {
            refused(&server, &[JSON], body, 400, text).await;
        }
    }
    let xml = [
        ("", "no root element"),
        ("text", "text outside the root element"),
        ("<instance>", "unexpected end"),
        ("<instance><app>A</instance>", "cannot parse request body"),
        ("<instance/><instance/>", "a second root element"),
        ("<instance/>text", "text outside the root element"),
        ("<applications/>", "unexpected root element applications"),
        ("<!DOCTYPE instance><instance/>", "a document type is not taken"),
        ("<instance><app>a & b</app></instance>", "cannot parse request body"),
        ("<instance><app>&unknown;</app></instance>", "unknown reference &unknown;"),
        ("<instance><app>&#0;</app></instance>", "unknown reference &#0;"),
        ("<instance><app>\u{1}</app></instance>", "a character that XML does not know"),
        ("<instance><app><b/></app></instance>", "app: expected a text"),
        ("{}", "text outside the root element"),
    ];
    for (body, text) in xml {
        refused(&server, &[XML], body, 400, text).await;
    }
    refused(&server, &[JSON], vec![b'{', 0xff, b'}'], 400, "the text is not UTF-8").await;
}

#[tokio::test]
async fn entities_are_not_expanded() {
    let server = busy().await;
    let laughs = r#"<?xml version="1.0"?><!DOCTYPE i [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>
        <instance><app>&b;</app></instance>"#;
    refused(&server, &[XML], laughs, 400, "a document type is not taken").await;
    let file = r#"<!DOCTYPE i [<!ENTITY f SYSTEM "file:///etc/passwd">]><instance><app>&f;</app></instance>"#;
    refused(&server, &[XML], file, 400, "a document type is not taken").await;
}

#[tokio::test]
async fn a_member_that_cannot_be_meant_is_named() {
    let server = busy().await;
    let members = [
        (r#","port":{"$":70000}"#, "port: 70000 is outside 0 to 65535"),
        (r#","securePort":[1]"#, "securePort: expected a single value"),
        (r#","port":{"$":1,"@enabled":"perhaps"}"#, "port.@enabled: expected true or false"),
        (r#","countryId":"far""#, "countryId: expected a whole number"),
        (r#","leaseInfo":{"durationInSecs":"long"}"#, "leaseInfo.durationInSecs: expected a whole number"),
        (r#","leaseInfo":90"#, "leaseInfo: expected an object"),
        (r#","lastDirtyTimestamp":"now""#, "lastDirtyTimestamp: expected a whole number"),
        (r#","lastDirtyTimestamp":99999999999999999999"#, "lastDirtyTimestamp: "),
        (r#","metadata":{"key":{"nested":1}}"#, "metadata.key: expected a single value"),
        (r#","metadata":[]"#, "metadata: expected an object"),
        (r#","status":{}"#, "status: expected a single value"),
        (r#","hostName":["h"]"#, "hostName: expected a single value"),
        (r#","vipAddress":"a\nb""#, "vipAddress: holds a control character"),
        (r#","dataCenterInfo":"Amazon""#, "dataCenterInfo: expected an object"),
        (r#","dataCenterInfo":{"name":"myown"}"#, "dataCenterInfo.name: "),
        (r#","dataCenterInfo":{"name":"Amazon","metadata":{"a":[]}}"#, "dataCenterInfo.metadata.a: "),
        (r#","port":{"$":1,"@enabled":[]}"#, "port.@enabled: expected a single value"),
        (r#","securePort":{"$":1,"@enabled":"1"}"#, "securePort.@enabled: expected true or false"),
        (r#","leaseInfo":{"durationInSecs":{}}"#, "leaseInfo.durationInSecs: expected a single value"),
        (r#","leaseInfo":{"renewalIntervalInSecs":true}"#, "leaseInfo.renewalIntervalInSecs: "),
        (r#","countryId":2147483648"#, "countryId: 2147483648 is outside"),
        (r#","metadata":{"a\ud800":""}"#, "metadata: "),
        (r#","lastDirtyTimestamp":"null""#, "lastDirtyTimestamp: expected a whole number"),
    ];
    for (member, text) in members {
        refused(&server, &[JSON], instance(member), 400, text).await;
    }
}

#[tokio::test]
async fn sizes_are_bounded_and_each_bound_is_named() {
    let server = busy().await;
    let text = |length: usize| "x".repeat(length);
    let limits = [
        (format!(r#","homePageUrl":"{}""#, text(2049)), "homePageUrl: has 2049, more than the limit of 2048"),
        (format!(r#","vipAddress":"{}""#, text(1025)), "vipAddress: has 1025"),
        (format!(r#","metadata":{{"big":"{}"}}"#, text(262_145)), "metadata.big: has 262145"),
        (format!(r#","metadata":{{"{}":""}}"#, text(257)), "has 257, more than the limit of 256"),
        (format!(r#","metadata":{{"a":"{0}","b":"{0}","c":"{0}"}}"#, text(200_000)), "instance: has "),
    ];
    for (member, reason) in limits {
        refused(&server, &[JSON], instance(&member), 400, reason).await;
    }
    let many: Vec<_> = (0..1025).map(|number| format!(r#""k{number}":"v""#)).collect();
    let many = format!(r#","metadata":{{{}}}"#, many.join(","));
    refused(&server, &[JSON], instance(&many), 400, "metadata: has 1025, more than the limit of 1024").await;
    let huge = instance(&format!(r#","unknown":"{}""#, text(1 << 20)));
    refused(&server, &[JSON], huge, 413, "more than the limit of 1048576 bytes").await;
    let many: Vec<_> = (0..1025).map(|number| format!("k{number}")).collect();
    for (parameters, reason) in [
        (text(257), "has 257, more than the limit of 256"),
        (many.join("&"), "metadata: has 1025, more than the limit of 1024"),
        ("k=%ff".to_owned(), "metadata: is not UTF-8"),
    ] {
        let before = server.registry.head();
        let answer = server.put(&format!("/GOOD/g1/metadata?{parameters}")).await;
        assert_eq!(answer.status, 400, "{reason}");
        assert!(answer.text().contains(reason), "{}", answer.text());
        assert_untouched(&server, before).await;
    }
    // F12: 100 KB in one value are taken whole.
    let long = instance(&format!(r#","metadata":{{"ifaces":"{}"}}"#, text(100_000)));
    server.send("POST", "/eureka/apps/BAD", &[JSON], long).await.assert_quiet(204);
    assert_eq!(server.instance("BAD", "b1").await["metadata"]["ifaces"].as_str().unwrap().len(), 100_000);
}

#[tokio::test]
async fn a_body_whose_length_is_not_told_is_bounded_as_well() {
    let server = busy().await;
    let chunks = (0..64).map(|_| Ok::<_, std::convert::Infallible>(vec![b' '; 64 * 1024]));
    let body = Body::from_stream(futures_util::stream::iter(chunks));
    refused(&server, &[JSON], body, 413, "more than the limit").await;
    let chunks = (0..64).map(|_| Ok::<_, std::convert::Infallible>(vec![b' '; 64 * 1024]));
    let body = Body::from_stream(futures_util::stream::iter(chunks));
    let before = server.registry.head();
    let answer = server.send("PUT", "/eureka/apps/GOOD/g1", &[], body).await;
    assert_eq!(answer.status, 413);
    assert_untouched(&server, before).await;
}

#[tokio::test]
async fn compressed_bodies_are_bounded_after_decompression() {
    let server = busy().await;
    let headers = [JSON, ("content-encoding", "gzip")];
    let bomb = gzip(&vec![b' '; 64 << 20]);
    assert!(bomb.len() < 1 << 20, "the bomb itself passes the first bound");
    refused(&server, &headers, bomb, 413, "more than the limit of 1048576 bytes").await;
    let whole = gzip(instance("").as_bytes());
    refused(&server, &headers, whole[..whole.len() / 2].to_vec(), 400, "the gzip stream is broken").await;
    refused(&server, &[JSON, ("content-encoding", "br")], instance(""), 415, "Content-Encoding").await;
    server.send("POST", "/eureka/apps/BAD", &headers, whole).await.assert_quiet(204);
}

#[tokio::test]
async fn depth_costs_nothing() {
    let server = busy().await;
    let deep = 200_000;
    let json = instance(&format!(r#","unknown":{}{}"#, "[".repeat(deep), "]".repeat(deep)));
    server.send("POST", "/eureka/apps/BAD", &[JSON], json).await.assert_quiet(204);
    server.delete("/BAD/b1").await.assert_quiet(200);
    let xml = format!(
        "<instance><instanceId>b1</instanceId><app>BAD</app><hostName>h</hostName><ipAddr>1</ipAddr>{}{}
        <dataCenterInfo><name>MyOwn</name></dataCenterInfo></instance>",
        "<a>".repeat(deep / 2),
        "</a>".repeat(deep / 2)
    );
    server.send("POST", "/eureka/apps/BAD", &[XML], xml).await.assert_quiet(204);
    let unclosed = "{\"instance\":{\"a\":".to_owned() + &"[".repeat(deep);
    assert_eq!(server.send("POST", "/eureka/apps/BAD", &[JSON], unclosed).await.status, 400);
    let known = instance(&format!(r#","port":{}{}"#, "[".repeat(deep), "]".repeat(deep)));
    assert_eq!(server.send("POST", "/eureka/apps/BAD", &[JSON], known).await.status, 400);
}

#[tokio::test]
async fn other_content_types_are_refused() {
    let server = busy().await;
    for kind in ["text/json", "text/xml", "application/vnd.api+json", "application/json;charset=utf-16"] {
        refused(&server, &[("content-type", kind)], instance(""), 415, "Content-Type: ").await;
    }
    refused(&server, &[], instance(""), 415, "Content-Type: ").await;
    for kind in ["json", "", "application/json, application/json"] {
        refused(&server, &[("content-type", kind)], instance(""), 400, "Content-Type: is no media type")
            .await;
    }
}

#[tokio::test]
async fn a_full_registry_says_429() {
    let core = heureka_registry::Config { max_bytes: 1, ..heureka_registry::Config::default() };
    let server = Server::with(Config::default(), core);
    server.register(&Draft::new("GOOD", "g1", "UP", 1)).await;
    let answer = server.post("BAD", &instance("")).await;
    assert_eq!(answer.status, 429);
    assert_eq!(answer.text(), "the registry is full");
    assert!(answer.header("retry-after").is_some());
}

#[tokio::test]
async fn bad_paths_are_refused_and_never_reach_another_instance() {
    let server = busy().await;
    let before = server.registry.head();
    for path in ["/apps/GOOD/%zz", "/apps/GOOD/%ff", "/apps/%/g1", "/apps/GOOD/%00"] {
        for method in ["GET", "PUT", "DELETE"] {
            let answer = server.send(method, &format!("/eureka{path}"), &[], Body::empty()).await;
            assert_eq!(answer.status, 400, "{method} {path}");
            assert!(answer.text().starts_with("path: "));
        }
    }
    for path in
        ["/apps/GOOD/../GOOD/g1", "/apps/./GOOD/g1", "/apps/GOOD/g1/..", "/apps/GOOD/g1%2F", "/apps/GOOD/G1"]
    {
        server.send("PUT", &format!("/eureka{path}"), &[], Body::empty()).await.assert_quiet(404);
    }
    assert_untouched(&server, before).await;
}

#[tokio::test]
async fn cancelling_what_is_not_there_shows_nowhere() {
    let server = busy().await;
    for path in ["/GOOD/../GOOD/g1", "/GOOD/G1", "/GOOD/g1%2F", "/NOPE/n1"] {
        server.delete(path).await.assert_quiet(404);
    }
    assert_eq!(server.delta_actions("GOOD").await, [("g1".to_owned(), "ADDED".to_owned())]);
    assert!(server.delta_actions("NOPE").await.is_empty());
    assert_untouched(&server, server.registry.head()).await;
}

#[tokio::test]
async fn a_key_that_nobody_may_register_is_not_remembered_either() {
    let server = busy().await;
    let long = "x".repeat(3900);
    for (path, field) in [(format!("/{long}/n1"), "app: has "), (format!("/GOOD/{long}"), "instanceId: has ")]
    {
        let answer = server.delete(&path).await;
        assert_eq!(answer.status, 400);
        assert!(answer.text().starts_with(field), "{}", answer.text());
        for change in ["", "/status?value=UP", "/metadata?k=v"] {
            let path = format!("/eureka/apps{path}{change}");
            server.send("PUT", &path, &[], Body::empty()).await.assert_quiet(404);
        }
    }
    assert_eq!(server.registry.stats().tombstones, 0);
    server.delete("/GOOD/gone").await.assert_quiet(404);
    assert_eq!(server.registry.stats().tombstones, 1);
}

#[tokio::test]
async fn documents_that_nobody_reads_are_bounded() {
    let config = Config { cache_max_bytes: 0, ..Config::default() };
    let server = Server::with(config, heureka_registry::Config::default());
    let value = "x".repeat(250_000);
    for number in 0..8 {
        let extra = format!(r#","metadata":{{"a":"{value}","b":"{value}"}}"#);
        server.register(&Draft::new("BIG", &format!("b{number}"), "UP", 1).extra(&extra)).await;
    }
    server.register(&Draft::new("GOOD", "g1", "UP", 1)).await;
    let ask = async |path: &str| {
        let request = http::Request::get(path).body(Body::empty()).unwrap();
        server.router().oneshot(request).await.unwrap()
    };
    let mut unread = Vec::new();
    while let answer = ask("/eureka/apps/BIG").await
        && answer.status() == 200
    {
        unread.push(answer);
    }
    assert_eq!(unread.len(), 5, "of 4 MB each under a bound of 16 MiB, the last of them over it");
    for path in ["/eureka/apps/BIG", "/eureka/apps/BIG/b1", "/eureka/vips/BIG", "/eureka/apps"] {
        let refused = ask(path).await;
        assert_eq!(refused.status(), 503, "{path}");
        assert_eq!(refused.headers()["retry-after"], "5");
    }
    assert_eq!(ask("/eureka/apps/GOOD").await.status(), 200);
    drop(unread.pop());
    assert_eq!(ask("/eureka/apps/BIG").await.status(), 200);
}

/// Bytes near a valid registration: cut, flipped, doubled, or something else entirely.
fn mutated() -> impl Strategy<Value = (bool, Vec<u8>)> {
    let xml = "<instance><instanceId>b1</instanceId><app>BAD</app><hostName>h</hostName><ipAddr>1</ipAddr>\
        <port enabled=\"true\">80</port><dataCenterInfo><name>MyOwn</name></dataCenterInfo>\
        <metadata><a_b>&lt;&#65;</a_b></metadata></instance>";
    let seeds = [
        instance(r#","port":{"$":80,"@enabled":"true"},"metadata":{"k":"\u00e9"},"x":[{"y":1e3}]"#),
        xml.to_owned(),
    ];
    let edits = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0_u8..4), 0..6);
    let edited = (0_usize..2, edits).prop_map(move |(seed, edits)| {
        let mut bytes = seeds[seed].clone().into_bytes();
        for (at, byte, kind) in edits {
            let at = at.index(bytes.len().max(1));
            match kind {
                0 if at < bytes.len() => bytes[at] = byte,
                1 => bytes.truncate(at.max(1)),
                2 => bytes.insert(at.min(bytes.len()), b"{}[]\"<>&:,\\"[usize::from(byte) % 11]),
                _ => bytes.extend_from_within(at.min(bytes.len())..),
            }
        }
        (seed == 0, bytes)
    });
    prop_oneof![4 => edited, 1 => (any::<bool>(), prop::collection::vec(any::<u8>(), 0..300))]
}

/// What is refused leaves the registry as it was; what is taken is readable by everybody.
async fn check(server: &Server, before: u64, answer: &Answer) {
    match answer.status.as_u16() {
        204 => {}
        400 | 415 => assert_eq!(server.registry.head(), before, "{}", answer.text()),
        other => panic!("{other}: {}", answer.text()),
    }
    for list in [server.get("").await, server.get_xml("").await] {
        assert_eq!(list.status, 200);
        assert!(list.text().contains("g1"));
    }
    serde_json::from_slice::<serde_json::Value>(&server.get("").await.body).unwrap();
    crate::documents::Element::parse(server.get_xml("").await.text()).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_body_breaks_the_surface((json, body) in mutated(), compressed in any::<bool>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let server = busy().await;
            let before = server.registry.head();
            let mut headers = vec![if json { JSON } else { XML }];
            let mut sent = body;
            if compressed {
                headers.push(("content-encoding", "gzip"));
                sent = gzip(&sent);
            }
            let answer = server.send("POST", "/eureka/apps/BAD", &headers, sent).await;
            check(&server, before, &answer).await;
        });
    }

    #[test]
    fn no_path_or_query_breaks_the_surface(
        method in prop::sample::select(vec!["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "POST"]),
        path in "/{1,2}(eureka/|v2/|eureka/v2/)?(apps|vips|svips|instances|x)(/[a-z%0-9+;.]{0,6}){0,4}",
        query in "([a-zA-Z]{0,5}|value|lastDirtyTimestamp)=[A-Z_0-9%+-]{0,12}(&[a-z]{0,3}=?[a-z%]{0,4})?",
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let server = busy().await;
            let before = server.registry.head();
            let answer = server.send(method, &format!("{path}?{query}"), &[], Body::empty()).await;
            assert!(matches!(answer.status.as_u16(), 200 | 400 | 404 | 405 | 415), "{answer:?}");
            // A cancel is remembered even for what is not there, and shows nowhere.
            let head = if method == "DELETE" { server.registry.head() } else { before };
            assert_untouched(&server, head).await;
        });
    }
}
