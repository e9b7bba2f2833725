//! What people who run such registries reported, by the numbers of the collected cases.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Body;
use serde_json::{Value, json};

use crate::documents::Element;
use crate::support::{Answer, DATA_CENTER, Draft, Server};

const JSON: (&str, &str) = ("accept", "application/json");
const XML: (&str, &str) = ("accept", "application/xml");

/// Every read of one application in both formats answers 200.
pub(crate) async fn assert_readable(server: &Server, app: &str, id: &str) {
    for path in [String::new(), format!("/{app}"), format!("/{app}/{id}"), "/delta".to_owned()] {
        for accept in [JSON, XML] {
            let answer = server.send("GET", &format!("/eureka/apps{path}"), &[accept], Body::empty()).await;
            assert_eq!(answer.status, 200, "{path} {accept:?}");
            assert!(!answer.body.is_empty());
        }
    }
}

#[tokio::test]
async fn f01_a_minimal_body_is_filled_with_defaults_and_never_breaks_a_read() {
    let server = Server::new();
    let body = |id: &str, extra: &str| {
        format!(
            r#"{{"instance":{{"instanceId":"{id}","app":"ORDERS","hostName":"h1","ipAddr":"10.0.0.1",{DATA_CENTER}{extra}}}}}"#
        )
    };
    server.post("ORDERS", &body("o1", "")).await.assert_quiet(204);
    assert_readable(&server, "ORDERS", "o1").await;
    let one = server.instance("ORDERS", "o1").await;
    assert_eq!((&one["status"], &one["overriddenStatus"]), (&json!("UP"), &json!("UNKNOWN")));
    assert_eq!(one["port"], json!({"$": 7001, "@enabled": "true"}));
    assert_eq!(one["securePort"], json!({"$": 7002, "@enabled": "false"}));
    assert_eq!(one["countryId"], 1);
    assert_eq!(one["metadata"], json!({"@class": "java.util.Collections$EmptyMap"}));
    let lease = &one["leaseInfo"];
    assert_eq!((&lease["renewalIntervalInSecs"], &lease["durationInSecs"]), (&json!(30), &json!(90)));
    // The family: each optional member absent, null, empty.
    let members = [
        "sid",
        "status",
        "overriddenStatus",
        "overriddenstatus",
        "countryId",
        "port",
        "securePort",
        "leaseInfo",
        "metadata",
        "appGroupName",
        "homePageUrl",
        "statusPageUrl",
        "healthCheckUrl",
        "secureHealthCheckUrl",
        "vipAddress",
        "secureVipAddress",
        "isCoordinatingDiscoveryServer",
        "lastUpdatedTimestamp",
        "lastDirtyTimestamp",
        "actionType",
        "asgName",
    ];
    for member in members {
        for value in ["null", "\"\"", "{}"] {
            let id = format!("{member}-{}", value.len());
            let answer = server.post("ORDERS", &body(&id, &format!(",\"{member}\":{value}"))).await;
            assert!(matches!(answer.status.as_u16(), 204 | 400), "{member} {value}");
            if answer.status == 204 {
                assert_readable(&server, "ORDERS", &id).await;
            } else {
                assert!(answer.text().contains(member), "{member} {value}: {}", answer.text());
                assert!(value != "null", "{member}");
            }
        }
    }
}

#[tokio::test]
async fn f02_a_missing_data_centre_is_named_and_an_empty_amazon_one_taken() {
    let server = Server::new();
    let body = |app: &str, block: &str| {
        format!(
            r#"{{"instance":{{"instanceId":"n1","app":"{app}","hostName":"h1","ipAddr":"10.0.0.1"{block}}}}}"#
        )
    };
    for (block, text) in [
        ("", "Missing dataCenterInfo"),
        (r#","dataCenterInfo":null"#, "Missing dataCenterInfo"),
        (r#","dataCenterInfo":{}"#, "Missing dataCenterInfo Name"),
        (r#","dataCenterInfo":{"name":"Moon"}"#, "dataCenterInfo.name: expected MyOwn, Amazon or Netflix"),
    ] {
        let answer = server.post("NODC", &body("NODC", block)).await;
        assert_eq!((answer.status.as_u16(), answer.text()), (400, text), "{block}");
    }
    assert_eq!(server.registry.stats().instances, 0);
    let amazon = r#","dataCenterInfo":{"@class":"com.netflix.appinfo.AmazonInfo","name":"Amazon"}"#;
    server.post("AMZ", &body("AMZ", amazon)).await.assert_quiet(204);
    assert_readable(&server, "AMZ", "n1").await;
    let block = &server.instance("AMZ", "n1").await["dataCenterInfo"];
    let expected = json!({"@class": "com.netflix.appinfo.AmazonInfo", "name": "Amazon", "metadata": {"instance-id": "n1"}});
    assert_eq!(block, &expected);
}

#[tokio::test]
async fn f03_ports_are_taken_in_every_spelling_and_printed_in_one() {
    let server = Server::new();
    let spellings = [
        "8080",
        r#""8080""#,
        r#"{"$":8080,"@enabled":true}"#,
        r#"{"$":"8080","@enabled":"true"}"#,
        r#"{"@enabled":"true","$":8080}"#,
        r#"{"$":8080,"enabled":true}"#,
        r#"{"$":8080.0,"@enabled":"TRUE","extra":[1]}"#,
        r#"{"$":8080}"#,
        r#"{"\u0024":"808\u0030"}"#,
        r#"{"$":1,"@enabled":false,"$":8080,"@enabled":1}"#,
    ];
    for port in spellings {
        let body = format!(
            r#"{{"instance":{{"instanceId":"p1","app":"PORTS","hostName":"h1","ipAddr":"10.0.0.1","port":{port},
            "securePort":"8443",{DATA_CENTER}}}}}"#
        );
        server.post("PORTS", &body).await.assert_quiet(204);
        let one = server.instance("PORTS", "p1").await;
        assert_eq!(one["port"], json!({"$": 8080, "@enabled": "true"}), "{port}");
        assert_eq!(one["securePort"], json!({"$": 8443, "@enabled": "false"}), "{port}");
        server.delete("/PORTS/p1").await.assert_quiet(200);
    }
    // F13, its neighbour: what cannot be a port is refused by name and stored nowhere.
    for port in ["-1", "65536", "99999999999", r#""abc""#, r#""""#, "80.5", "true", "[80]"] {
        for member in ["port", "securePort"] {
            let body = format!(
                r#"{{"instance":{{"instanceId":"p1","app":"PORTS","hostName":"h1","ipAddr":"10.0.0.1",
                "{member}":{{"$":{port},"@enabled":"true"}},{DATA_CENTER}}}}}"#
            );
            let answer = server.post("PORTS", &body).await;
            assert_eq!(answer.status, 400, "{port}");
            assert!(answer.text().starts_with(&format!("{member}: ")), "{}", answer.text());
        }
    }
    assert_eq!(server.registry.stats().instances, 0);
}

#[tokio::test]
async fn f05_the_old_go_clients_body_is_taken() {
    let server = Server::unprotected();
    let body = r#"{"instance":{"hostName":"i-123456","app":"ES-Search","ipAddr":"10.0.0.9","vipAddress":"",
        "secureVipAddress":"","status":"UP","overriddenstatus":"","port":{"$":"6000","@enabled":"true"},
        "securePort":{"$":"0","@enabled":""},"homePageUrl":"","statusPageUrl":"","healthCheckUrl":"","countryId":0,
        "dataCenterInfo":{"name":"MyOwn","metadata":null},"leaseInfo":{"renewalIntervalInSecs":0,"durationInSecs":0,
        "registrationTimestamp":0,"lastRenewalTimestamp":0,"evictionTimestamp":0,"serviceUpTimestamp":0},
        "metadata":{"testkey":"testValue"}}}"#;
    server.post("ES-SEARCH", body).await.assert_quiet(204);
    let one = &server.json("/ES-SEARCH").await["application"]["instance"][0];
    assert_eq!((&one["instanceId"], &one["overriddenStatus"]), (&json!("i-123456"), &json!("UNKNOWN")));
    assert_eq!(one["leaseInfo"]["renewalIntervalInSecs"], 30);
    assert_eq!(one["leaseInfo"]["durationInSecs"], 90);
    assert_eq!(one["securePort"], json!({"$": 0, "@enabled": "false"}));
    assert_eq!(one["metadata"], json!({"testkey": "testValue"}));
    server.pass(Duration::from_secs(3));
    server.beat("ES-SEARCH", "i-123456", "").await.assert_quiet(200);
}

#[tokio::test]
async fn f06_everything_may_be_a_text_or_null() {
    let server = Server::new();
    let body = format!(
        r#"{{"instance":{{"instanceId":"10.0.0.5:netsvc:5002","app":"NETSVC","appGroupName":null,"ipAddr":"10.0.0.5",
        "sid":"na","port":{{"@enabled":"true","$":5002}},"securePort":{{"@enabled":"false","$":443}},
        "homePageUrl":"http://10.0.0.5:5002/","statusPageUrl":null,"healthCheckUrl":null,"secureHealthCheckUrl":null,
        "vipAddress":"netsvc","secureVipAddress":null,"countryId":"1",{DATA_CENTER},"hostName":"10.0.0.5","status":"UP",
        "overriddenstatus":"UNKNOWN","leaseInfo":{{"renewalIntervalInSecs":"30","durationInSecs":"90",
        "registrationTimestamp":"0","renewalTimestamp":"0","evictionTimestamp":"0","serviceUpTimestamp":"0"}},
        "isCoordinatingDiscoveryServer":"false","metadata":{{"@class":"java.util.Collections$EmptyMap"}},
        "lastUpdatedTimestamp":"1700000000000","lastDirtyTimestamp":"1700000000000","actionType":"ADDED",
        "asgName":null,"somethingNew":{{"x":1}}}}}}"#
    );
    server.post("NETSVC", &body).await.assert_quiet(204);
    let one = &server.json("/NETSVC").await["application"]["instance"][0];
    assert_eq!(one["metadata"], json!({"@class": "java.util.Collections$EmptyMap"}));
    assert_eq!(one["leaseInfo"]["registrationTimestamp"], crate::support::START);
    assert!(!one.to_string().contains("null"), "{one}");
    let query = "?status=UP&lastDirtyTimestamp=1700000000000";
    server.beat("NETSVC", "10.0.0.5:netsvc:5002", query).await.assert_quiet(200);
    assert!(server.stored("NETSVC", "10.0.0.5:netsvc:5002").unwrap().instance.metadata.is_empty());
}

#[tokio::test]
async fn f09_instances_without_an_id_are_told_apart_by_their_hosts() {
    let server = Server::new();
    for host in ["a.example", "b.example", "c.example"] {
        let body = format!(
            r#"{{"instance":{{"app":"IDLESS","hostName":"{host}","ipAddr":"10.0.0.1",{DATA_CENTER}}}}}"#
        );
        server.post("IDLESS", &body).await.assert_quiet(204);
    }
    let app = server.json("/IDLESS").await;
    let ids: Vec<_> =
        app["application"]["instance"].as_array().unwrap().iter().map(|one| &one["instanceId"]).collect();
    assert_eq!(ids, ["a.example", "b.example", "c.example"]);
    server.beat("IDLESS", "a.example", "").await.assert_quiet(200);
    server.beat("IDLESS", "made-up-id", "").await.assert_quiet(404);
}

#[tokio::test]
async fn f15_types_are_those_that_strict_readers_ask_for() {
    let server = Server::new();
    let expected = json!({"applications": {"versions__delta": "1", "apps__hashcode": "", "application": []}});
    assert_eq!(server.json("").await, expected);
    server.register(&Draft::new("ONE", "o1", "UP", 1)).await;
    let list = server.json("").await;
    assert_eq!(list["applications"]["apps__hashcode"], "UP_1_");
    assert!(list["applications"]["versions__delta"].as_str().unwrap().parse::<u64>().is_ok());
    let one = &list["applications"]["application"][0]["instance"][0];
    assert_eq!(one["port"], json!({"$": 8080, "@enabled": "true"}));
    assert_eq!(one["lastDirtyTimestamp"], "1");
    assert!(one["countryId"].is_u64() && one["leaseInfo"]["durationInSecs"].is_u64());
    assert!(one["dataCenterInfo"]["@class"].is_string() && one["dataCenterInfo"]["name"].is_string());
    assert!(server.json("/ONE").await["application"]["instance"].is_array());
    server.delete("/ONE/o1").await.assert_quiet(200);
    assert_eq!(server.json("").await, expected, "the last instance takes its application with it");
}

#[tokio::test]
async fn f16_xml_is_the_default_and_no_metadata_key_breaks_it() {
    let server = Server::new();
    let metadata = json!({
        "metrics_path": "/m?a=1&b=2", "prometheus.io/scrape": "true", "1st": "a", "a b": "<tag>", "": "e",
        "c:d": "]]>", "ctl": "\u{1}x", "$r": "1",
    });
    server.register(&Draft::new("XMLA", "x1", "UP", 1).extra(&format!(",\"metadata\":{metadata}"))).await;
    server.register(&Draft::new("XMLB", "y1", "DOWN", 1)).await;
    let answer = server.get_xml("").await;
    assert_eq!(answer.header("content-type"), Some("application/xml"));
    let root = Element::parse(answer.text()).unwrap();
    assert_eq!(root.name, "applications");
    let instances = root.instances();
    assert_eq!(instances.iter().map(|one| one.find("status").unwrap()).collect::<Vec<_>>(), ["UP", "DOWN"]);
    let entries = instances[0].child("metadata").unwrap();
    assert_eq!(entries.find("metrics__path"), Some("/m?a=1&b=2"));
    assert_eq!(entries.find("prometheus.io_.002fscrape"), Some("true"));
    assert_eq!(entries.find("c_.003ad"), Some("]]>"));
    assert_eq!(entries.find("ctl"), Some("\u{fffd}x"));
    assert_eq!(entries.children.len(), 7, "all but the empty key");
    assert_eq!(server.instance("XMLA", "x1").await["metadata"], metadata, "JSON keeps everything");
    // Sent back as XML, all but what XML cannot hold is kept.
    let xml = server.get_xml("/XMLA/x1").await;
    server.post_xml("XMLA", xml.text()).await.assert_quiet(204);
    let mut kept = metadata;
    kept.as_object_mut().unwrap().remove("");
    kept["ctl"] = json!("\u{fffd}x");
    assert_eq!(server.instance("XMLA", "x1").await["metadata"], kept);
}

#[tokio::test]
async fn f19_codes_are_exact_and_bodies_empty() {
    let server = Server::new();
    server.register(&Draft::new("CODES", "c1", "UP", 5)).await;
    server.beat("CODES", "c1", "?status=UP&lastDirtyTimestamp=5").await.assert_quiet(200);
    server.put("/CODES/c1/status?value=OUT_OF_SERVICE").await.assert_quiet(200);
    server.delete("/CODES/c1/status").await.assert_quiet(200);
    server.put("/CODES/c1/metadata?k=v").await.assert_quiet(200);
    server.put("/CODES/zz/metadata?k=v").await.assert_quiet(404);
    server.put("/CODES/zz/status?value=UP").await.assert_quiet(404);
    server.delete("/CODES/zz").await.assert_quiet(404);
    server.delete("/CODES/c1").await.assert_quiet(200);
    server.send("PATCH", "/eureka/apps/CODES", &[], Body::empty()).await.assert_quiet(405);
}

#[tokio::test]
async fn f20_a_404_has_no_body_whatever_is_accepted_and_however_the_path_is_spelt() {
    let server = Server::new();
    let calls = [
        ("PUT", "/apps/GHOST/g1?status=UP&lastDirtyTimestamp=1"),
        ("PUT", "/apps/GHOST/g1"),
        ("PUT", "/apps/GHOST/g1?lastDirtyTimestamp=junk"),
        ("PUT", "/apps/GHOST/g1/status?value=UP"),
        ("PUT", "/apps/GHOST/g1/metadata?k=v"),
        ("DELETE", "/apps/GHOST/g1/status"),
        ("PUT", "/apps/GHOST/g1/status?value=junk"),
        ("PUT", "/apps/GHOST/g1/status"),
        ("PUT", "/apps/GHOST/g1/metadata?k=%ff"),
        ("DELETE", "/apps/GHOST/g1/status?value=junk&lastDirtyTimestamp=junk"),
        ("DELETE", "/apps/GHOST/g1"),
        ("GET", "/apps/GHOST/g1"),
        ("HEAD", "/apps/GHOST/g1"),
        ("GET", "/apps/GHOST"),
        ("HEAD", "/apps/GHOST"),
        ("GET", "/instances/g1"),
        ("GET", "/nothing"),
        ("POST", "/nothing"),
        ("OPTIONS", "/apps/GHOST/g1/nothing"),
    ];
    for root in ["/eureka", "/eureka/v1", "/eureka/v2", "/v1", "/v2", "", "//eureka/"] {
        for accept in ["application/json", "*/*", "text/html", "application/xml"] {
            for (method, path) in calls {
                let headers =
                    [("accept", accept), ("accept-encoding", "gzip"), ("content-type", "application/json")];
                let answer = server.send(method, &format!("{root}{path}"), &headers, "{}").await;
                answer.assert_quiet(404);
                assert_eq!(answer.header("content-length"), Some("0"), "{method} {root}{path}");
            }
        }
    }
}

#[tokio::test]
async fn f23_ids_with_reserved_characters_are_reached_when_encoded_once() {
    let server = Server::new();
    let long = "x".repeat(512);
    let ids = [
        "host:app:8080",
        "svc#1.0",
        "100%",
        "a b",
        "a+b",
        "x/10.0.0.1:80",
        "http://h/x",
        "q?x=1",
        "semi;v=1",
        "dot.",
        "..",
        "é",
        "a%2Fb",
        "x/status",
        "%",
        "%zz",
        "%2e%2e",
        ".",
        "/",
        "//",
        "a\\b",
        "\"<&>'",
        "&a=b",
        "[::1]:80",
        "{x}|^`~*@!$()",
        " blanks ",
        " ",
        ",",
        "delta",
        "status",
        "metadata",
        "e\u{301}",
        "🚀",
        long.as_str(),
    ];
    for id in ids {
        let encoded: String =
            percent_encoding::utf8_percent_encode(id, percent_encoding::NON_ALPHANUMERIC).to_string();
        server.register(&Draft::new("IDS", id, "UP", 1)).await;
        server.beat("IDS", &encoded, "").await.assert_quiet(200);
        assert_eq!(server.instance("IDS", &encoded).await["instanceId"], id);
        server.put(&format!("/IDS/{encoded}/status?value=DOWN")).await.assert_quiet(200);
        server.put(&format!("/IDS/{encoded}/metadata?k=v")).await.assert_quiet(200);
        let by_id = server.send("GET", &format!("/eureka/instances/{encoded}"), &[JSON], Body::empty()).await;
        let told = &by_id.json()["instance"];
        assert_eq!((&told["instanceId"], &told["metadata"]["k"]), (&json!(id), &json!("v")));
        server.delete(&format!("/IDS/{encoded}")).await.assert_quiet(200);
        server.beat("IDS", &encoded, "").await.assert_quiet(404);
    }
    server.register(&Draft::new("IDS", "x/y", "UP", 1)).await;
    server.register(&Draft::new("IDS", "x/status", "UP", 1)).await;
    server.beat("IDS", "x/y", "").await.assert_quiet(404);
    server.beat("IDS", "x/status", "").await.assert_quiet(404);
    server.beat("IDS", "a/../x%2Fy", "").await.assert_quiet(404);
    assert_eq!(server.status("IDS", "x%2Fy").await, "UP");
}

#[tokio::test]
async fn f25_junk_in_a_heartbeats_query_is_refused_by_name() {
    let server = Server::new();
    server.register(&Draft::new("DT", "d1", "UP", 100)).await;
    for (query, code) in [
        ("?lastDirtyTimestamp=100", 200),
        ("?lastDirtyTimestamp=99", 200),
        ("", 200),
        ("?", 200),
        ("?&&=&a=b=c&lastDirtyTimestamp=100&", 200),
        ("?lastDirtyTimestamp=-9223372036854775808", 200),
        ("?lastDirtyTimestamp=0&lastDirtyTimestamp=junk", 200),
        ("?lastDirtyTimestamp=%31%300", 200),
        ("?lastDirtyTimestamp=9223372036854775807", 404),
        ("?lastDirtyTimestamp=101&lastDirtyTimestamp=100", 404),
        ("?%6castDirtyTimestamp=101", 404),
        ("?lastdirtytimestamp=junk", 200),
        ("?status=&overriddenstatus=junk", 200),
        ("?status=%ff&overriddenstatus=%ff&%ff=%zz", 200),
        ("?status=UP&status=DOWN&overriddenstatus=OUT_OF_SERVICE", 200),
    ] {
        server.beat("DT", "d1", query).await.assert_quiet(code);
    }
    for junk in [
        "abc",
        "",
        "99999999999999999999",
        "9223372036854775808",
        "-9223372036854775809",
        "1.5",
        "1e2",
        "null",
        "100%20",
        "%ff",
        "&lastDirtyTimestamp=100",
        "100;status=UP",
    ] {
        let answer = server.beat("DT", "d1", &format!("?lastDirtyTimestamp={junk}")).await;
        assert_eq!(answer.status, 400, "{junk}");
        assert!(answer.text().starts_with("lastDirtyTimestamp: "), "{}", answer.text());
    }
    server.beat("DT", "d1", "?status=SIDEWAYS&lastDirtyTimestamp=100").await.assert_quiet(200);
    for junk in
        ["value=SIDEWAYS", "value=up", "value=", "value", "value=UP%20", "Value=DOWN", "", "value=%ff"]
    {
        let answer = server.put(&format!("/DT/d1/status?{junk}")).await;
        assert_eq!(answer.status, 400, "{junk}");
        assert!(answer.text().starts_with("value: "), "{junk}: {}", answer.text());
    }
    for junk in ["x", "", "1.5", "9223372036854775808"] {
        let answer = server.put(&format!("/DT/d1/status?value=DOWN&lastDirtyTimestamp={junk}")).await;
        assert_eq!(answer.status, 400, "{junk}");
        assert!(answer.text().starts_with("lastDirtyTimestamp: "), "{junk}: {}", answer.text());
    }
    assert_eq!(server.status("DT", "d1").await, "UP");
    let one = server.instance("DT", "d1").await;
    assert_eq!((&one["overriddenStatus"], &one["lastDirtyTimestamp"]), (&json!("UNKNOWN"), &json!("100")));
}

#[tokio::test]
async fn f26_after_a_restart_each_client_needs_one_404_and_one_registration() {
    let server = Server::new();
    let (mut misses, mut registrations) = (0, 0);
    for round in 0..2 {
        for client in 0..2000 {
            let id = format!("c{client}");
            let answer = server.beat("FLEET", &id, "?status=UP&lastDirtyTimestamp=7").await;
            if answer.status == 404 {
                answer.assert_quiet(404);
                misses += 1;
                server.register(&Draft::new("FLEET", &id, "UP", 7)).await;
                registrations += 1;
            }
        }
        assert_eq!((misses, registrations), (2000, 2000), "after round {round}");
    }
    assert_eq!(server.registry.stats().instances, 2000, "no record came of a heartbeat");
}

#[tokio::test]
async fn f27_a_lease_ends_when_it_says_and_renewers_never_expire() {
    let server = Server::unprotected();
    for id in ["e1", "e2", "e3"] {
        server.register(&Draft::new("EXP", id, "UP", 1).duration(3)).await;
    }
    for second in 1..=60 {
        server.pass(Duration::from_secs(1));
        server.beat("EXP", "e2", "").await.assert_quiet(200);
        if second % 2 == 0 {
            server.put("/EXP/e3/status?value=UP").await.assert_quiet(200);
        }
        let gone = server.status("EXP", "e1").await.is_empty();
        assert_eq!(gone, second > 3, "second {second}");
    }
    let lease = &server.instance("EXP", "e2").await["leaseInfo"];
    let now = crate::support::START + 60_000;
    assert_eq!(lease["lastRenewalTimestamp"], now, "the time of the renewal, not one in the future");
}

#[tokio::test]
async fn f28_a_late_registration_after_the_cancel_never_brings_an_instance_up() {
    let server = Server::trusting();
    server.register(&Draft::new("LATE", "l1", "UP", 100).duration(3)).await;
    server.delete("/LATE/l1").await.assert_quiet(200);
    server.register(&Draft::new("LATE", "l1", "DOWN", 101).duration(3)).await;
    assert_eq!(server.status("LATE", "l1").await, "DOWN");
    server.pass(Duration::from_secs(5));
    assert_eq!(server.status("LATE", "l1").await, "", "gone after its lease, also while protecting");
    // A peer's copy from before the cancel.
    server.register(&Draft::new("LATE", "l2", "UP", 100)).await;
    server.delete("/LATE/l2").await.assert_quiet(200);
    let headers = [("content-type", "application/json"), ("x-netflix-discovery-replication", "true")];
    let old = Draft::new("LATE", "l2", "UP", 99).json();
    server.send("POST", "/eureka/apps/LATE", &headers, old.clone()).await.assert_quiet(204);
    assert_eq!(server.status("LATE", "l2").await, "");
    // Removed by an operator; the client lives on and comes back with the stamp it has.
    server.register(&Draft::new("LATE", "l3", "UP", 100)).await;
    server.delete("/LATE/l3").await.assert_quiet(200);
    server.beat("LATE", "l3", "?lastDirtyTimestamp=100").await.assert_quiet(404);
    server.register(&Draft::new("LATE", "l3", "UP", 100)).await;
    assert_eq!(server.status("LATE", "l3").await, "UP");
    // The header from somebody who is no trusted peer has no effect: an ordinary registration.
    let doubting = Server::new();
    doubting.register(&Draft::new("LATE", "l2", "UP", 100)).await;
    doubting.delete("/LATE/l2").await.assert_quiet(200);
    doubting.send("POST", "/eureka/apps/LATE", &headers, old).await.assert_quiet(204);
    assert_eq!(doubting.status("LATE", "l2").await, "UP");
}

#[tokio::test]
async fn f34_a_stamp_from_a_clock_far_ahead_blocks_nobody() {
    let server = Server::new();
    let now = crate::support::START;
    server.register(&Draft::new("SKEW", "s1", "UP", now + 86_400_000).host("old")).await;
    let ahead = format!("?lastDirtyTimestamp={}", now + 86_400_000);
    server.beat("SKEW", "s1", &ahead).await.assert_quiet(200);
    server.register(&Draft::new("SKEW", "s1", "UP", now).host("new")).await;
    assert_eq!(server.instance("SKEW", "s1").await["hostName"], "new");
    server.delete("/SKEW/s1").await.assert_quiet(200);
    server.register(&Draft::new("SKEW", "s1", "UP", now).host("new")).await;
    assert_eq!(server.instance("SKEW", "s1").await["hostName"], "new");
}

/// A client's copy: one full fetch, then deltas, as the original's client applies them.
#[derive(Default)]
struct Copy(BTreeMap<String, BTreeMap<String, String>>);

impl Copy {
    fn apply(&mut self, list: &Value) {
        for app in list["applications"]["application"].as_array().unwrap() {
            let name = app["name"].as_str().unwrap();
            for instance in app["instance"].as_array().unwrap() {
                self.apply_one(name, instance);
            }
        }
    }

    fn apply_one(&mut self, app: &str, instance: &Value) {
        let text = |member: &str| instance[member].as_str().unwrap().to_owned();
        let known = self.0.entry(app.to_owned()).or_default();
        match text("actionType").as_str() {
            "DELETED" => drop(known.remove(&text("instanceId"))),
            _ => drop(known.insert(text("instanceId"), text("status"))),
        }
    }

    fn hash(&self) -> String {
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        self.0.values().flat_map(BTreeMap::values).for_each(|status| *counts.entry(status).or_default() += 1);
        counts.iter().map(|(status, count)| format!("{status}_{count}_")).collect()
    }
}

fn in_xml(answer: &Answer) -> (String, BTreeMap<String, u32>) {
    let root = Element::parse(answer.text()).unwrap();
    let mut counts = BTreeMap::new();
    for one in root.instances() {
        *counts.entry(one.find("status").unwrap().to_owned()).or_default() += 1;
    }
    (root.find("apps__hashcode").unwrap().to_owned(), counts)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f35_a_deltas_hash_and_body_are_of_one_moment() {
    let server = std::sync::Arc::new(Server::new());
    for instance in 0..30 {
        server.register(&Draft::new(&format!("APP{}", instance % 4), &format!("i{instance}"), "UP", 1)).await;
    }
    let writers = (0..3).map(|writer| {
        let server = std::sync::Arc::clone(&server);
        tokio::spawn(async move {
            for turn in 0..400_usize {
                let instance = (turn * 7 + writer * 10) % 30;
                let status = ["UP", "STARTING", "OUT_OF_SERVICE"][turn % 3];
                let app = format!("APP{}", instance % 4);
                let answer = server.put(&format!("/{app}/i{instance}/status?value={status}")).await;
                // Another writer may be replacing the instance at this moment.
                assert!(matches!(answer.status.as_u16(), 200 | 404), "{answer:?}");
                if turn % 50 == 0 {
                    server.delete(&format!("/{app}/i{instance}")).await;
                    server.register(&Draft::new(&app, &format!("i{instance}"), "UP", 1)).await;
                }
                tokio::task::yield_now().await;
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    let mut copy = Copy::default();
    copy.apply(&server.json("").await);
    let mut reads = 0;
    while reads < 50 || writers.iter().any(|writer| !writer.is_finished()) {
        let delta = server.json("/delta").await;
        copy.apply(&delta);
        assert_eq!(copy.hash(), delta["applications"]["apps__hashcode"]);
        let full = server.json("").await;
        let mut whole = Copy::default();
        whole.apply(&full);
        assert_eq!(whole.hash(), full["applications"]["apps__hashcode"]);
        let (hash, counts) = in_xml(&server.get_xml("").await);
        assert_eq!(hash, counts.iter().map(|(name, count)| format!("{name}_{count}_")).collect::<String>());
        reads += 1;
        tokio::task::yield_now().await;
    }
    for writer in writers {
        writer.await.unwrap();
    }
}

#[tokio::test]
async fn f38_a_write_is_seen_by_the_next_read_of_every_view() {
    let server = Server::new();
    let views = ["/apps", "/apps/FR", "/apps/FR/f1", "/apps/delta", "/vips/FR", "/svips/FR", "/instances/f1"];
    let secure = r#","secureVipAddress":"FR""#;
    for round in 0..3 {
        for view in views {
            server.send("GET", &format!("/eureka{view}"), &[JSON], Body::empty()).await;
        }
        server
            .register(
                &Draft::new("FR", "f1", "UP", round)
                    .extra(&format!(r#"{secure},"metadata":{{"r":"round{round}"}}"#)),
            )
            .await;
        for view in views {
            for headers in [vec![JSON], vec![XML]] {
                let answer = server.send("GET", &format!("/eureka{view}"), &headers, Body::empty()).await;
                assert!(answer.text().contains(&format!("round{round}")), "{view} {headers:?}");
            }
        }
    }
    for (method, path, shown) in [
        ("PUT", "metadata?r=told", "told"),
        ("PUT", "status?value=OUT_OF_SERVICE", "OUT_OF_SERVICE"),
        ("PUT", "status?value=DOWN", "DOWN"),
        ("DELETE", "status?value=STARTING", "STARTING"),
    ] {
        server
            .send(method, &format!("/eureka/apps/FR/f1/{path}"), &[], Body::empty())
            .await
            .assert_quiet(200);
        for view in views {
            for headers in [JSON, XML] {
                let answer = server.send("GET", &format!("/eureka{view}"), &[headers], Body::empty()).await;
                assert!(answer.text().contains(shown), "{view} after {path}");
            }
        }
    }
    server.delete("/FR/f1").await.assert_quiet(200);
    for view in views {
        for headers in [JSON, XML] {
            let answer = server.send("GET", &format!("/eureka{view}"), &[headers], Body::empty()).await;
            let told = view == "/apps/delta";
            assert_eq!(answer.status == 200 && answer.text().contains("f1"), told, "{view}");
        }
    }
}

#[tokio::test]
async fn f40_an_instance_comes_back_after_its_override() {
    let server = Server::new();
    server.register(&Draft::new("OV", "o1", "UP", 100)).await;
    let set = "/OV/o1/status?value=OUT_OF_SERVICE&lastDirtyTimestamp=100";
    server.put(set).await.assert_quiet(200);
    assert_eq!(server.status("OV", "o1").await, "OUT_OF_SERVICE");
    server.beat("OV", "o1", "?status=UP&lastDirtyTimestamp=100").await.assert_quiet(200);
    server.register(&Draft::new("OV", "o1", "UP", 100)).await;
    assert_eq!(server.status("OV", "o1").await, "OUT_OF_SERVICE", "through heartbeats and registrations");
    server.delete("/OV/o1/status").await.assert_quiet(200);
    server.beat("OV", "o1", "?status=UP&lastDirtyTimestamp=100").await.assert_quiet(200);
    assert_eq!(server.status("OV", "o1").await, "UP");
    // The original never comes back from this: the override's stamp is ahead of the client's.
    server.put("/OV/o1/status?value=OUT_OF_SERVICE&lastDirtyTimestamp=900").await.assert_quiet(200);
    server.delete("/OV/o1/status").await.assert_quiet(200);
    server.beat("OV", "o1", "?lastDirtyTimestamp=100").await.assert_quiet(200);
    assert_eq!(server.status("OV", "o1").await, "UP");
    server.put("/OV/o1/status?value=OUT_OF_SERVICE").await.assert_quiet(200);
    server.delete("/OV/o1/status?value=UP").await.assert_quiet(200);
    assert_eq!(server.status("OV", "o1").await, "UP", "at once");
    let delta = server.json("/delta").await;
    assert_eq!(delta["applications"]["application"][0]["instance"][0]["status"], "UP");
    assert_eq!(delta["applications"]["apps__hashcode"], "UP_1_");
}

#[tokio::test]
async fn clients_that_come_up_by_the_status_call_are_up() {
    let server = Server::new();
    server.register(&Draft::new("SLOW", "s1", "STARTING", 1)).await;
    server.put("/SLOW/s1/status?value=UP").await.assert_quiet(200);
    assert_eq!(server.status("SLOW", "s1").await, "UP");
    server.beat("SLOW", "s1", "").await.assert_quiet(200);
    assert_eq!(server.status("SLOW", "s1").await, "UP");
}

#[tokio::test]
async fn an_instance_that_calls_itself_unknown_is_asked_to_register_at_each_heartbeat() {
    let server = Server::new();
    server.register(&Draft::new("U", "u1", "sideways", 1)).await;
    assert_eq!(server.status("U", "u1").await, "UNKNOWN");
    server.beat("U", "u1", "").await.assert_quiet(404);
    server.register(&Draft::new("U", "u1", "UP", 2)).await;
    server.beat("U", "u1", "").await.assert_quiet(200);
}
