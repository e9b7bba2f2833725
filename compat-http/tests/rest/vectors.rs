//! The acceptance vectors of the study of the original, by number. Those that ours answers otherwise on purpose
//! name their deviation.

use axum::body::Body;
use serde_json::{Value, json};

use crate::documents::Element;
use crate::support::{DATA_CENTER, Draft, Server};

/// The study's example of a full registration.
const FULL: &str = r#"{"instance":{"instanceId":"n7:billing:9100","hostName":"n7.lan","app":"BILLING","ipAddr":"10.1.2.7",
"status":"UP","overriddenStatus":"UNKNOWN","port":{"$":9100,"@enabled":"true"},"securePort":{"$":443,"@enabled":"false"},
"countryId":1,"dataCenterInfo":{"@class":"com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo","name":"MyOwn"},
"leaseInfo":{"renewalIntervalInSecs":30,"durationInSecs":90,"registrationTimestamp":1800000000000,
"lastRenewalTimestamp":1800000120000,"evictionTimestamp":0,"serviceUpTimestamp":1800000000000},
"metadata":{"zone":"z1","capacity":"16"},"homePageUrl":"http://n7.lan:9100/","vipAddress":"billing",
"secureVipAddress":"billing","isCoordinatingDiscoveryServer":"false","lastUpdatedTimestamp":"1800000000050",
"lastDirtyTimestamp":"1800000000001","actionType":"ADDED"}}"#;

/// The body of current Spring clients: nulls, unquoted numbers and flags, ports and metadata last.
const SPRING: &str = r#"{"instance":{"instanceId":"n7:billing:9100","app":"BILLING","appGroupName":null,"ipAddr":"10.1.2.7",
"sid":"na","homePageUrl":"http://n7.lan:9100/","statusPageUrl":"http://n7.lan:9100/actuator/info",
"healthCheckUrl":"http://n7.lan:9100/actuator/health","secureHealthCheckUrl":null,"vipAddress":"billing",
"secureVipAddress":"billing","countryId":1,
"dataCenterInfo":{"@class":"com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo","name":"MyOwn"},
"hostName":"n7.lan","status":"UP","overriddenStatus":"UNKNOWN","leaseInfo":{"renewalIntervalInSecs":30,
"durationInSecs":90,"registrationTimestamp":0,"lastRenewalTimestamp":0,"evictionTimestamp":0,"serviceUpTimestamp":0},
"isCoordinatingDiscoveryServer":false,"lastUpdatedTimestamp":1800000000000,"lastDirtyTimestamp":1800000000001,
"actionType":null,"asgName":null,"port":{"$":9100,"@enabled":"true"},"securePort":{"$":443,"@enabled":"false"},
"metadata":{"management.port":"9100"}}}"#;

#[tokio::test]
async fn vector_1_a_registration_is_read_back_as_it_was_sent() {
    let server = Server::new();
    server.post("billing", FULL).await.assert_quiet(204);
    let app = server.json("/BILLING").await;
    assert_eq!(app["application"]["name"], "BILLING");
    let instance = &app["application"]["instance"][0];
    let lease = &instance["leaseInfo"];
    assert_eq!(lease["lastRenewalTimestamp"], lease["registrationTimestamp"]);
    assert_eq!(instance["actionType"], "ADDED");
    assert_eq!(instance["lastDirtyTimestamp"], "1800000000001");
    assert_eq!(instance["metadata"], json!({"zone": "z1", "capacity": "16"}));
}

#[tokio::test]
async fn vector_2_a_body_for_another_application_is_refused_by_both_names() {
    let server = Server::new();
    let answer = server.post("other", FULL).await;
    assert_eq!(
        (answer.status.as_u16(), answer.text()),
        (400, "Mismatched appName, expecting OTHER but was BILLING")
    );
    assert_eq!(server.registry.stats().instances, 0);
}

#[tokio::test]
async fn vector_3_an_unwrapped_body_is_refused_and_odd_shapes_are_taken() {
    let server = Server::new();
    let unwrapped: Value = serde_json::from_str(FULL).unwrap();
    let answer = server.post("BILLING", &unwrapped["instance"].to_string()).await;
    assert_eq!(answer.status, 400);
    assert!(answer.text().starts_with("cannot parse request body"), "{}", answer.text());
    let odd = [
        FULL.replace(r#"{"$":9100,"@enabled":"true"}"#, "8080"),
        FULL.replace(r#""@class":"com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo","#, ""),
    ];
    for body in odd {
        assert_ne!(body, FULL);
        server.post("BILLING", &body).await.assert_quiet(204);
    }
}

#[tokio::test]
async fn vector_4_the_body_of_spring_clients_is_taken() {
    let server = Server::new();
    server.post("BILLING", SPRING).await.assert_quiet(204);
    let instance = server.instance("BILLING", "n7:billing:9100").await;
    assert_eq!(instance["metadata"], json!({"management.port": "9100"}));
    for absent in ["appGroupName", "secureHealthCheckUrl", "asgName", "sid"] {
        assert_eq!(instance.get(absent), None, "{absent}");
    }
}

#[tokio::test]
async fn vector_5_heartbeats_compare_the_dirty_timestamp() {
    let server = Server::trusting();
    server.beat("HB", "h1", "").await.assert_quiet(404);
    server.register(&Draft::new("HB", "h1", "UP", 100)).await;
    for (query, code) in [("", 200), ("?lastDirtyTimestamp=100", 200), ("?lastDirtyTimestamp=101", 404)] {
        server.beat("HB", "h1", query).await.assert_quiet(code);
    }
    server.beat("HB", "h1", "?lastDirtyTimestamp=99").await.assert_quiet(200);
    let headers = [("x-netflix-discovery-replication", "true"), ("accept", "application/json")];
    let path = "/eureka/apps/HB/h1?lastDirtyTimestamp=99";
    let answer = server.send("PUT", path, &headers, Body::empty()).await;
    assert_eq!((answer.status.as_u16(), answer.header("content-type")), (409, Some("application/json")));
    assert_eq!(answer.json()["instance"]["lastDirtyTimestamp"], "100");
    let doubted = Server::new();
    doubted.register(&Draft::new("HB", "h1", "UP", 100)).await;
    doubted.send("PUT", path, &headers, Body::empty()).await.assert_quiet(200);
}

#[tokio::test]
async fn vector_6_an_override_stays_until_it_is_removed() {
    let server = Server::new();
    server.register(&Draft::new("OV", "o1", "UP", 100)).await;
    server.put("/OV/o1/status?value=OUT_OF_SERVICE").await.assert_quiet(200);
    let instance = server.instance("OV", "o1").await;
    assert_eq!(
        (&instance["status"], &instance["overriddenStatus"]),
        (&json!("OUT_OF_SERVICE"), &json!("OUT_OF_SERVICE"))
    );
    server.register(&Draft::new("OV", "o1", "UP", 200)).await;
    assert_eq!(server.status("OV", "o1").await, "OUT_OF_SERVICE");
    server.delete("/OV/o1/status").await.assert_quiet(200);
    // D15: the owner's own status is back at once, so no heartbeat needs a 404.
    assert_eq!(server.status("OV", "o1").await, "UP");
    server.beat("OV", "o1", "?lastDirtyTimestamp=200").await.assert_quiet(200);
}

#[tokio::test]
async fn vector_7_a_status_is_spelt_exactly() {
    let server = Server::new();
    server.register(&Draft::new("ST", "s1", "UP", 1)).await;
    let answer = server.put("/ST/s1/status?value=up").await;
    assert_eq!(answer.status, 400);
    assert!(answer.text().starts_with("value: "), "{}", answer.text());
    assert_eq!(server.status("ST", "s1").await, "UP");
}

#[tokio::test]
async fn vector_8_an_override_does_not_hide_that_the_owner_is_down() {
    let server = Server::new();
    server.register(&Draft::new("OV", "o1", "UP", 1)).await;
    server.put("/OV/o1/status?value=OUT_OF_SERVICE").await.assert_quiet(200);
    server.register(&Draft::new("OV", "o1", "DOWN", 2)).await;
    assert_eq!(server.status("OV", "o1").await, "DOWN");
}

#[tokio::test]
async fn vector_9_the_delta_tells_each_instance_once_with_its_last_action() {
    let server = Server::new();
    server.register(&Draft::new("ONE", "o1", "UP", 1)).await;
    server.register(&Draft::new("ONE", "o2", "UP", 1)).await;
    assert_eq!(server.delta_actions("ONE").await, [("o1", "ADDED"), ("o2", "ADDED")].map(owned));
    server.delete("/ONE/o1").await.assert_quiet(200);
    assert_eq!(server.delta_actions("ONE").await, [("o2", "ADDED"), ("o1", "DELETED")].map(owned));
    // Java clients drop an application at its last removal, so removals come last however old they are.
    server.register(&Draft::new("ONE", "o3", "UP", 1)).await;
    let expected = [("o2", "ADDED"), ("o3", "ADDED"), ("o1", "DELETED")].map(owned);
    assert_eq!(server.delta_actions("ONE").await, expected);
    let (delta, full) = (server.json("/delta").await, server.json("").await);
    assert_eq!(delta["applications"]["apps__hashcode"], full["applications"]["apps__hashcode"]);
}

fn owned((id, action): (&str, &str)) -> (String, String) {
    (id.to_owned(), action.to_owned())
}

#[tokio::test]
async fn vector_10_the_hash_counts_statuses_in_alphabetical_order() {
    let server = Server::new();
    assert_eq!(server.json("").await["applications"]["apps__hashcode"], "");
    for (id, status) in [("1", "UP"), ("2", "DOWN"), ("3", "UP")] {
        server.register(&Draft::new("H", id, status, 1)).await;
    }
    assert_eq!(server.json("").await["applications"]["apps__hashcode"], "DOWN_1_UP_2_");
}

#[tokio::test]
async fn vector_11_the_format_follows_accept_and_nobody_is_told_406() {
    let server = Server::new();
    let read = async |headers: &[(&str, &str)]| {
        let answer = server.send("GET", "/eureka/apps", headers, Body::empty()).await;
        let header = |name| answer.header(name).unwrap_or_default().to_owned();
        (answer.status.as_u16(), header("content-type"), header("content-encoding"))
    };
    let told = |kind: &str, coding: &str| (200, kind.to_owned(), coding.to_owned());
    assert_eq!(read(&[]).await, told("application/xml", ""));
    assert_eq!(read(&[("accept", "application/json")]).await, told("application/json", ""));
    assert_eq!(read(&[("accept", "text/html")]).await, told("application/xml", ""));
    let gzip = [("accept", "application/json"), ("accept-encoding", "gzip")];
    assert_eq!(read(&gzip).await, told("application/json", "gzip"));
}

#[tokio::test]
async fn vector_12_the_compact_shape_leaves_out_what_it_says() {
    let server = Server::new();
    server.post("BILLING", FULL).await.assert_quiet(204);
    let headers = [("accept", "application/json"), ("x-eureka-accept", "compact")];
    let list = server.send("GET", "/eureka/apps", &headers, Body::empty()).await.json();
    let instance = list["applications"]["application"][0]["instance"][0].as_object().unwrap();
    let mut members: Vec<_> = instance.keys().map(String::as_str).collect();
    members.sort_unstable();
    let expected = [
        "actionType",
        "app",
        "dataCenterInfo",
        "hostName",
        "instanceId",
        "ipAddr",
        "lastUpdatedTimestamp",
        "port",
        "securePort",
        "secureVipAddress",
        "status",
        "vipAddress",
    ];
    assert_eq!(members, expected);
    assert!(instance["lastUpdatedTimestamp"].is_u64());
}

#[tokio::test]
async fn vector_13_empty_metadata_is_marked_and_keys_are_coded() {
    let server = Server::new();
    server.register(&Draft::new("M", "empty", "UP", 1)).await;
    server.register(&Draft::new("M", "full", "UP", 1).extra(r#","metadata":{"my_key":"v"}"#)).await;
    let marker = json!({"@class": "java.util.Collections$EmptyMap"});
    assert_eq!(server.instance("M", "empty").await["metadata"], marker);
    let xml = Element::parse(server.get_xml("/M/full").await.text()).unwrap();
    assert_eq!(xml.child("metadata").unwrap().find("my__key"), Some("v"));
    let xml = Element::parse(server.get_xml("/M/empty").await.text()).unwrap();
    let class = xml.child("metadata").unwrap().attribute("class");
    assert_eq!(class, Some("java.util.Collections$EmptyMap"));
}

#[tokio::test]
async fn vector_16_an_unknown_address_is_an_empty_list() {
    let server = Server::new();
    let answer =
        server.send("GET", "/eureka/vips/none", &[("accept", "application/json")], Body::empty()).await;
    assert_eq!(answer.status, 200);
    let expected =
        json!({"applications": {"versions__delta": "-1", "apps__hashcode": "", "application": []}});
    assert_eq!(answer.json(), expected);
}

#[tokio::test]
async fn vector_19_unknown_members_of_any_shape_are_skipped() {
    let server = Server::new();
    let nested = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
    for (number, value) in
        ["{}", "[]", "[1]", "[{}]", "{\"a\":{\"b\":[{}]}}", "null", &nested].iter().enumerate()
    {
        let id = format!("u{number}");
        let body = format!(
            r#"{{"instance":{{"unknown":{value},"instanceId":"{id}","app":"U","hostName":"h","middle":{value},
            "ipAddr":"10.0.0.1",{DATA_CENTER},"metadata":{{"k":"v"}},"last":{value}}}}}"#
        );
        server.post("U", &body).await.assert_quiet(204);
        assert_eq!(server.instance("U", &id).await["metadata"]["k"], "v", "{value:.20}");
    }
}
