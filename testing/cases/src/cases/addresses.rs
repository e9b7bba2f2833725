//! Security and addresses.

use serde_json::json;
use std::time::Duration;

use crate::case::{Bench, Case, Found};
use crate::xml::Element;
use heureka_cluster::checks::{code, json, quiet, same};
use heureka_cluster::draft::Draft;
use heureka_cluster::rest::JSON;
use heureka_cluster::watcher::{Watcher, spec};
use heureka_model::{Instance, InstanceKey};

pub(crate) const CASES: &[Case] = &[
    Case::new("F66", "Basic auth without tokens and login pages", |bench| Box::pin(f66(bench))),
    Case::new("F67", "a secure port only (server)", |bench| Box::pin(f67(bench))),
    Case::new("F68", "one id from two addresses (server)", |bench| Box::pin(f68(bench))),
];

/// A user as `auth.users` has it and an address too, and the header that says the same.
const ADMIN: &str = "admin:p%40ss%3Aw%25rd!%C3%A9";
const RIGHT: (&str, &str) = ("authorization", "Basic YWRtaW46cEBzczp3JXJkIcOp");
const WRONG: (&str, &str) = ("authorization", "Basic YWRtaW46d3Jvbmc=");

async fn f66(bench: Bench) -> Found {
    let server = bench.start(&[("auth.users", ADMIN), ("peer.trusted", "127.0.0.1")]).await?;
    let draft = Draft::new("AUTH", "a1", "UP", 1).json();
    let calls = [
        ("POST", "/eureka/apps/AUTH", 204),
        ("PUT", "/eureka/apps/AUTH/a1", 200),
        ("GET", "/eureka/apps", 200),
        ("POST", "/eureka/peerreplication/batch", 200),
        ("DELETE", "/eureka/apps/AUTH/a1", 200),
    ];
    let body = |method: &str, path: &str| match (method, path.ends_with("batch")) {
        ("POST", true) => "{\"replicationList\":[]}".to_owned(),
        ("POST", false) => draft.clone(),
        _ => String::new(),
    };
    for (method, path, wanted) in calls {
        for refused in [&[JSON][..], &[JSON, WRONG]] {
            let answer = server.rest.send(method, path, refused, body(method, path)).await?;
            quiet(format!("{method} {path} without credentials"), &answer, 401)?;
            let challenge = answer.header("www-authenticate").unwrap_or_default().to_owned();
            same("challenge", challenge.starts_with("Basic"), true)?;
        }
        let kind = ("content-type", "application/json");
        let answer = server.rest.send(method, path, &[JSON, kind, RIGHT], body(method, path)).await?;
        code(format!("{method} {path}"), &answer, wanted)?;
    }
    code("health", &server.rest.send("GET", "/health/ready", &[], "").await?, 200)?;
    // The peers' half: `servers_of_one_cluster_let_each_other_in`.
    let client = heureka_client::Client::connect([format!("http://{ADMIN}@{}", server.address)])?;
    let lease = client.register(instance("AUTH", "a2")).await?;
    let held = server.rest.send("GET", "/eureka/apps/AUTH/a2", &[JSON, RIGHT], "").await?;
    code("what our client registered", &held, 200)?;
    lease.cancel().await?;
    let told = server.complaints().join("\n");
    same("passwords in the log", told.contains("p@ss") || told.contains("p%40ss"), false)?;
    Ok(String::new())
}

fn instance(app: &str, id: &str) -> Instance {
    Instance::new(InstanceKey { namespace: String::new(), app: app.into(), id: id.into() })
}

async fn f67(bench: Bench) -> Found {
    let server = bench.start(&[]).await?;
    let draft = Draft::new("SEC", "s1", "UP", 1)
        .with("port", json!({"$": 8080, "@enabled": "false"}))
        .with("securePort", json!({"$": 8443, "@enabled": "true"}))
        .with("secureVipAddress", "sec")
        .with("homePageUrl", "https://h1.example:8443/");
    server.rest.register(&draft).await?;
    let one = server.rest.instance("SEC", "s1").await?;
    json("port", &one["port"], json!({"$": 8080, "@enabled": "false"}))?;
    json("securePort", &one["securePort"], json!({"$": 8443, "@enabled": "true"}))?;
    json("homePageUrl", &one["homePageUrl"], json!("https://h1.example:8443/"))?;
    let xml = server.rest.get_xml("/SEC/s1").await?.text();
    let root = Element::parse(&xml)?;
    same("port in XML", root.child("port")?.attribute("enabled")?, "false")?;
    same("securePort in XML", root.child("securePort")?.attribute("enabled")?, "true")?;
    let mut watcher =
        Watcher::open(&server.channel().await?, spec(Some("SEC"), Duration::from_secs(1))).await?;
    watcher.settle().await?;
    let held = watcher.view.get("SEC", "s1").map(|held| held.instance.clone()).unwrap_or_default();
    let flags = [held.port, held.secure_port].map(|port| port.map(|port| (port.number, port.enabled)));
    same("ports over gRPC", flags, [Some((8080, false)), Some((8443, true))])?;
    for (path, found) in [("/eureka/svips/sec", true), ("/eureka/svips/SEC", false)] {
        let answer = server.rest.send("GET", path, &[JSON], "").await?;
        code(path, &answer, 200)?;
        same(path, answer.text().contains("\"s1\""), found)?;
    }
    Ok(String::new())
}

async fn f68(bench: Bench) -> Found {
    let server = bench.start(&[]).await?;
    let draft = |address: &str, port: u32, dirty| {
        let port = json!({"$": port, "@enabled": "true"});
        Draft::new("DUP", "d1", "UP", dirty).with("ipAddr", address).with("port", port)
    };
    server.rest.register(&draft("10.0.0.1", 9001, 1)).await?;
    server.rest.register(&draft("10.0.0.2", 9002, 2)).await?;
    for round in 0..3 {
        quiet(
            format!("renewal {round}"),
            &server.rest.beat("DUP", "d1", "?lastDirtyTimestamp=2").await?,
            200,
        )?;
        quiet(format!("renewal {round}"), &server.rest.beat("DUP", "d1", "").await?, 200)?;
    }
    let one = server.rest.instance("DUP", "d1").await?;
    json("address as it was sent", &one["ipAddr"], json!("10.0.0.2"))?;
    json("port", &one["port"]["$"], json!(9002))?;
    json("instances", &server.rest.json("").await?["applications"]["apps__hashcode"], json!("UP_1_"))?;
    let told = server.rest.metric("heureka_registry_endpoints_replaced_total").await?;
    same("heureka_registry_endpoints_replaced_total", told > 0.5, true)?;
    same("it is told in the log", server.complaints().join("\n").contains("another address"), true)?;
    Ok("addresses are kept as sent, never the caller's; the newest stamp stays".to_owned())
}
