//! Security and addresses.

use serde_json::json;
use std::time::Duration;

use crate::case::{Bench, Case, Found};
use crate::xml::Element;
use heureka_cluster::checks::{code, json, quiet, same};
use heureka_cluster::draft::Draft;
use heureka_cluster::rest::JSON;
use heureka_cluster::watcher::{Watcher, spec};

pub(crate) const CASES: &[Case] = &[
    Case::not_yet("F66", "Basic auth without tokens and login pages", "needs authentication"),
    Case::now("F67", "a secure port only (server)", |bench| Box::pin(f67(bench))),
    Case::now("F68", "one id from two addresses (server)", |bench| Box::pin(f68(bench))),
];

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
    Ok("addresses are kept as sent, never the caller's; the newest stamp stays".to_owned())
}
