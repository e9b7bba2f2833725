//! Registration bodies: what clients in the field send, and what cannot be meant.

use anyhow::ensure;
use serde_json::{Value, json};

use crate::case::{Bench, Case, Found};
use crate::xml::Element;
use heureka_cluster::checks::{code, json, quiet, refused, same};
use heureka_cluster::draft::{DATA_CENTER, Draft, minimal};
use heureka_cluster::figures::mebibytes;
use heureka_cluster::rest::{JSON, encoded};
use heureka_cluster::server::Server;
use heureka_cluster::watcher::{Watcher, spec};
use std::time::Duration;

pub(crate) const CASES: &[Case] = &[
    Case::new("F01", "a body without optional members never breaks a read", |bench| Box::pin(f01(bench))),
    Case::new("F02", "a missing data centre is named, an empty Amazon block taken", |bench| {
        Box::pin(f02(bench))
    }),
    Case::new("F03", "ports in five spellings come back in one", |bench| Box::pin(f03(bench))),
    Case::new("F05", "the body of the old Go client", |bench| Box::pin(f05(bench))),
    Case::new("F06", "everything a text, what is unused null", |bench| Box::pin(f06(bench))),
    Case::new("F09", "instances without an id are told apart", |bench| Box::pin(f09(bench))),
    Case::new("F10", "virtual addresses: absent, empty, a list", |bench| Box::pin(f10(bench))),
    Case::new("F11", "text beyond ASCII stays as it is on every wire", |bench| Box::pin(f11(bench))),
    Case::new("F12", "long metadata is kept whole or refused by name", |bench| Box::pin(f12(bench))),
    Case::new("F13", "ports that cannot be are refused by name", |bench| Box::pin(f13(bench))),
    Case::new("F14", "names in mixed case, and a body for another application", |bench| Box::pin(f14(bench))),
];

async fn f01(bench: Bench) -> Found {
    let server = bench.start(&[]).await?;
    quiet("register", &server.rest.post("ORDERS", minimal("ORDERS", "o1", "")).await?, 204)?;
    server.rest.readable("ORDERS", "o1").await?;
    let one = server.rest.instance("ORDERS", "o1").await?;
    for (member, expected) in [
        ("status", json!("UP")),
        ("overriddenStatus", json!("UNKNOWN")),
        ("port", json!({"$": 7001, "@enabled": "true"})),
        ("securePort", json!({"$": 7002, "@enabled": "false"})),
        ("countryId", json!(1)),
        ("metadata", json!({"@class": "java.util.Collections$EmptyMap"})),
    ] {
        json(member, &one[member], expected)?;
    }
    lease(&one, 30, 90)?;
    Ok("8 of 8 reads are 200".to_owned())
}

fn lease(instance: &Value, interval: u64, duration: u64) -> anyhow::Result<()> {
    json("renewalIntervalInSecs", &instance["leaseInfo"]["renewalIntervalInSecs"], json!(interval))?;
    json("durationInSecs", &instance["leaseInfo"]["durationInSecs"], json!(duration))
}

async fn f02(bench: Bench) -> Found {
    let server = bench.start(&[]).await?;
    let body = |app: &str, id: &str, block: &str| {
        format!(
            r#"{{"instance":{{"instanceId":"{id}","app":"{app}","hostName":"h1","ipAddr":"10.0.0.1"{block}}}}}"#
        )
    };
    let missing = server.rest.post("NODC", body("NODC", "n1", "")).await?;
    refused("without a data centre", &missing, "dataCenterInfo")?;
    code("what was refused", &server.rest.get("/NODC").await?, 404)?;
    let amazon = r#","dataCenterInfo":{"@class":"com.netflix.appinfo.AmazonInfo","name":"Amazon"}"#;
    quiet("empty Amazon block", &server.rest.post("AMZ", body("AMZ", "i-0abc", amazon)).await?, 204)?;
    server.rest.readable("AMZ", "i-0abc").await?;
    let block = &server.rest.instance("AMZ", "i-0abc").await?["dataCenterInfo"];
    json("class", &block["@class"], json!("com.netflix.appinfo.AmazonInfo"))?;
    Ok(missing.text())
}

async fn f03(bench: Bench) -> Found {
    let server = bench.start(&[]).await?;
    let spellings = [
        "8080",
        r#""8080""#,
        r#"{"$":8080,"@enabled":true}"#,
        r#"{"$":"8080","@enabled":"true"}"#,
        r#"{"@enabled":"true","$":8080}"#,
    ];
    for port in spellings {
        let body = minimal("PORTS", "p1", &format!(r#","port":{port},"securePort":"8443""#));
        quiet(port, &server.rest.post("PORTS", body).await?, 204)?;
        let one = server.rest.instance("PORTS", "p1").await?;
        json(port, &one["port"], json!({"$": 8080, "@enabled": "true"}))?;
        json(port, &one["securePort"], json!({"$": 8443, "@enabled": "false"}))?;
    }
    Ok(String::new())
}

async fn f05(bench: Bench) -> Found {
    let server = bench.start(&[("preservation.mode", "off")]).await?;
    let body = json!({"instance": {
        "hostName": "i-123456", "app": "ES-Search", "ipAddr": "10.0.0.9", "vipAddress": "", "secureVipAddress": "",
        "status": "UP", "overriddenstatus": "", "port": {"$": "6000", "@enabled": "true"},
        "securePort": {"$": "0", "@enabled": ""}, "homePageUrl": "", "statusPageUrl": "", "healthCheckUrl": "",
        "countryId": 0, "dataCenterInfo": {"name": "MyOwn", "metadata": null},
        "leaseInfo": {"renewalIntervalInSecs": 0, "durationInSecs": 0, "registrationTimestamp": 0,
            "lastRenewalTimestamp": 0, "evictionTimestamp": 0, "serviceUpTimestamp": 0},
        "metadata": {"testkey": "testValue"},
    }});
    quiet("register", &server.rest.post("ES-SEARCH", body.to_string()).await?, 204)?;
    let one = server.rest.json("/ES-SEARCH").await?["application"]["instance"][0].take();
    json("id", &one["instanceId"], json!("i-123456"))?;
    json("overridden status", &one["overriddenStatus"], json!("UNKNOWN"))?;
    lease(&one, 30, 90)?;
    json("metadata", &one["metadata"], json!({"testkey": "testValue"}))?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    quiet("heartbeat 3 s later", &server.rest.beat("ES-SEARCH", "i-123456", "").await?, 200)?;
    Ok("a lease of zeros lasts 90 s".to_owned())
}

async fn f06(bench: Bench) -> Found {
    let server = bench.start(&[]).await?;
    let before = heureka_cluster::clock::wall_millis();
    let draft = Draft::new("NETSVC", "10.0.0.5:netsvc:5002", "UP", 1_700_000_000_000)
        .with(
            "leaseInfo",
            json!({"renewalIntervalInSecs": "30", "durationInSecs": "90", "registrationTimestamp": "0",
            "renewalTimestamp": "0", "evictionTimestamp": "0", "serviceUpTimestamp": "0"}),
        )
        .with("metadata", json!({"@class": "java.util.Collections$EmptyMap"}))
        .with("isCoordinatingDiscoveryServer", "false")
        .with("lastUpdatedTimestamp", "1700000000000")
        .with("actionType", "ADDED")
        .with("countryId", "1")
        .with("somethingNew", json!({"x": 1}));
    let unused = [
        "appGroupName",
        "statusPageUrl",
        "healthCheckUrl",
        "secureHealthCheckUrl",
        "secureVipAddress",
        "asgName",
    ];
    let draft = unused.iter().fold(draft, |draft, member| draft.with(member, Value::Null));
    server.rest.register(&draft).await?;
    let one = server.rest.instance("NETSVC", "10.0.0.5:netsvc:5002").await?;
    json("metadata", &one["metadata"], json!({"@class": "java.util.Collections$EmptyMap"}))?;
    let registered = one["leaseInfo"]["registrationTimestamp"].as_u64().unwrap_or_default();
    ensure!(
        registered + 60_000 > before,
        "registrationTimestamp: expected the server's own, saw {registered}"
    );
    ensure!(!one.to_string().contains("null"), "expected no null, saw {one}");
    let query = "?status=UP&lastDirtyTimestamp=1700000000000";
    quiet("heartbeat", &server.rest.beat("NETSVC", "10.0.0.5:netsvc:5002", query).await?, 200)?;
    Ok(String::new())
}

async fn f09(bench: Bench) -> Found {
    let server = bench.start(&[]).await?;
    let hosts = ["a.example", "b.example", "c.example"];
    for host in hosts {
        let body = format!(
            r#"{{"instance":{{"app":"IDLESS","hostName":"{host}","ipAddr":"10.0.0.1",{DATA_CENTER}}}}}"#
        );
        quiet(host, &server.rest.post("IDLESS", body).await?, 204)?;
    }
    let ids = |document: &Value| -> Vec<String> {
        let instances = document["instance"].as_array().cloned().unwrap_or_default();
        instances.iter().map(|one| one["instanceId"].as_str().unwrap_or_default().to_owned()).collect()
    };
    same("JSON", ids(&server.rest.json("/IDLESS").await?["application"]), hosts.map(str::to_owned).to_vec())?;
    let delta = server.rest.json("/delta").await?;
    same("delta", ids(&delta["applications"]["application"][0]), hosts.map(str::to_owned).to_vec())?;
    let xml = server.rest.get_xml("").await?.text();
    let root = Element::parse(&xml)?;
    let found: anyhow::Result<Vec<&str>> =
        root.instances().iter().map(|one| one.find("instanceId")).collect();
    same("XML", found?, hosts.to_vec())?;
    let held = watched(&server, "IDLESS").await?;
    same("watch", hosts.iter().all(|host| held.view.get("IDLESS", host).is_some()), true)?;
    quiet("heartbeat", &server.rest.beat("IDLESS", "a.example", "").await?, 200)?;
    quiet("heartbeat of an id that nobody has", &server.rest.beat("IDLESS", "made-up-id", "").await?, 404)?;
    Ok(String::new())
}

/// A watch of one application that has its snapshot.
async fn watched(server: &Server, app: &str) -> anyhow::Result<Watcher> {
    let mut watcher =
        Watcher::open(&server.channel().await?, spec(Some(app), Duration::from_secs(1))).await?;
    watcher.settle().await?;
    Ok(watcher)
}

async fn f10(bench: Bench) -> Found {
    let server = bench.start(&[]).await?;
    quiet("no address", &server.rest.post("NOVIP", minimal("NOVIP", "v1", "")).await?, 204)?;
    quiet(
        "a list",
        &server.rest.post("MVIP", minimal("MVIP", "m1", r#","vipAddress":"red,blue""#)).await?,
        204,
    )?;
    let mut found = Vec::new();
    for vip in ["red", "blue", "red,blue", "NOVIP", "nope"] {
        let answer = server.rest.send("GET", &format!("/eureka/vips/{}", encoded(vip)), &[JSON], "").await?;
        code(vip, &answer, 200)?;
        found.push(answer.text().contains("m1"));
    }
    same("who is found", found, vec![true, true, false, false, false])?;
    code("no name", &server.rest.send("GET", "/eureka/vips/", &[JSON], "").await?, 404)?;
    ensure!(server.rest.json("").await?.to_string().contains("\"v1\""), "expected v1 in the list");
    Ok(String::new())
}

async fn f11(bench: Bench) -> Found {
    let server = bench.start(&[]).await?;
    let mut metadata = json!({"owner": "Žofie Ñandú", "場所": "東京🚀", "rtl": "שלום"});
    server.rest.register(&Draft::new("UNI", "u1", "UP", 1).with("metadata", metadata.clone())).await?;
    let query = format!("/UNI/u1/metadata?team={}", encoded("équipe β"));
    quiet("metadata", &server.rest.put(&query).await?, 200)?;
    metadata["team"] = json!("équipe β");
    json("JSON", &server.rest.instance("UNI", "u1").await?["metadata"], metadata.clone())?;
    let delta = server.rest.json("/delta").await?;
    json("delta", &delta["applications"]["application"][0]["instance"][0]["metadata"], metadata.clone())?;
    let watcher = watched(&server, "UNI").await?;
    let held = watcher.view.get("UNI", "u1").map(|held| json!(held.instance.metadata)).unwrap_or_default();
    json("gRPC", &held, metadata)?;
    let xml = server.rest.get_xml("/UNI/u1").await?;
    same("XML", xml.header("content-type"), Some("application/xml"))?;
    let root = Element::parse(std::str::from_utf8(&xml.body)?)?;
    let entries = root.child("metadata")?;
    for (name, value) in [("owner", "Žofie Ñandú"), ("場所", "東京🚀"), ("rtl", "שלום"), ("team", "équipe β")]
    {
        same(name, entries.find(name)?, value)?;
    }
    server.rest.register(&Draft::new("UNI", "ü-1", "UP", 1)).await?;
    server.rest.calls(&[("PUT", "/UNI/%C3%BC-1", 200), ("DELETE", "/UNI/%C3%BC-1", 200)]).await?;
    Ok(String::new())
}

async fn f12(bench: Bench) -> Found {
    let server = bench.start(&[]).await?;
    let long = "x".repeat(100_000);
    server.rest.register(&Draft::new("BIG", "b1", "UP", 1).with("metadata", json!({"ifaces": long}))).await?;
    let kept = server.rest.instance("BIG", "b1").await?["metadata"]["ifaces"].as_str().map(str::len);
    same("length", kept, Some(100_000))?;
    let before = server.rest.resident().await?;
    let answer = server.rest.post("BIG", vec![b'x'; 20_000_000]).await;
    // The server may close while most of it is still on its way: that is a refusal as well.
    let told = match &answer {
        Ok(answer) => {
            code("20 MB", answer, 413)?;
            ensure!(answer.text().contains("1048576"), "expected the limit, saw {}", answer.start());
            answer.start()
        }
        Err(_) => "closed".to_owned(),
    };
    let grown = server.rest.resident().await?.saturating_sub(before);
    let value = "x".repeat(300_000);
    let answer = server
        .rest
        .post("BIG", Draft::new("BIG", "b2", "UP", 1).with("metadata", json!({"k": value})).json());
    refused("a value beyond its limit", &answer.await?, "metadata")?;
    let refused = over_grpc(&server, &value).await?;
    same("the same over gRPC", refused.code(), tonic::Code::InvalidArgument)?;
    ensure!(refused.message().contains("metadata"), "expected metadata, saw {}", refused.message());
    server.rest.readable("BIG", "b1").await?;
    Ok(format!("20 MB: {told}; memory grew by {}", mebibytes(grown)))
}

async fn over_grpc(server: &Server, value: &str) -> anyhow::Result<tonic::Status> {
    let mut instance = heureka_cluster::native::instance("BIG", "b3");
    instance.metadata.insert("k".to_owned(), value.to_owned());
    let answer = heureka_cluster::native::register(&server.channel().await?, instance).await;
    answer.err().ok_or_else(|| anyhow::anyhow!("over gRPC: expected a refusal, saw none"))
}

async fn f13(bench: Bench) -> Found {
    let server = bench.start(&[]).await?;
    for (port, right) in [
        ("0", true),
        ("null", true),
        ("-1", false),
        ("65536", false),
        ("99999999999", false),
        (r#""abc""#, false),
        (r#""""#, false),
        ("80.5", false),
    ] {
        let block = format!(r#","port":{{"$":{port},"@enabled":"true"}}"#);
        let answer = server.rest.post("BADP", minimal("BADP", "x", &block)).await?;
        if right {
            quiet(port, &answer, 204)?;
            let stored = &server.rest.instance("BADP", "x").await?["port"];
            json(port, stored, json!({"$": 0, "@enabled": "true"}))?;
        } else {
            refused(port, &answer, "port")?;
        }
    }
    quiet("port null", &server.rest.post("BADP", minimal("BADP", "y", r#","port":null"#)).await?, 204)?;
    json("port null", &server.rest.instance("BADP", "y").await?["port"]["$"], json!(7001))?;
    let xml = server.rest.get_xml("/BADP").await?.text();
    let root = Element::parse(&xml)?;
    for one in root.children.iter().filter(|child| child.name == "instance") {
        ensure!((0..=65535).contains(&one.number("port")?), "expected a port, saw {}", one.find("port")?);
    }
    Ok(String::new())
}

async fn f14(bench: Bench) -> Found {
    let server = bench.start(&[]).await?;
    quiet("register", &server.rest.post("orders", Draft::new("Orders", "c1", "UP", 1).json()).await?, 204)?;
    let reads = ["orders", "ORDERS", "OrDeRs"];
    for name in reads {
        code(name, &server.rest.get(&format!("/{name}/c1")).await?, 200)?;
    }
    json("name", &server.rest.json("/orders").await?["application"]["name"], json!("ORDERS"))?;
    let other = server.rest.post("ORDERS", Draft::new("PAYMENTS", "c2", "UP", 1).json()).await?;
    refused("another application", &other, "ORDERS")?;
    refused("another application", &other, "PAYMENTS")?;
    server
        .rest
        .calls(&[("GET", "/PAYMENTS", 404), ("PUT", "/oRDERS/c1", 200), ("PUT", "/orders/C1", 404)])
        .await?;
    Ok(other.text())
}
