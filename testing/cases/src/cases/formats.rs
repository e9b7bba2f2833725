//! What readers receive: types, formats, codes.

use anyhow::ensure;
use serde_json::{Value, json};

use crate::case::{Bench, Case, Found};
use crate::xml::Element;
use heureka_cluster::checks::{code, json, quiet, same};
use heureka_cluster::draft::Draft;

pub(crate) const CASES: &[Case] = &[
    Case::new("F15", "JSON has the types that strict readers ask for", |bench| Box::pin(f15(bench))),
    Case::new("F16", "XML by default, whatever the metadata keys", |bench| Box::pin(f16(bench))),
    Case::new("F17", "the format follows Accept, and nobody is told 406", |bench| Box::pin(f17(bench))),
    Case::new("F19", "exact codes and quiet bodies", |bench| Box::pin(f19(bench))),
    Case::new("F20", "a 404 has no body under any Accept and path", |bench| Box::pin(f20(bench))),
];

async fn f15(bench: Bench) -> Found {
    let server = bench.start(&[]).await?;
    let empty = json!({"applications": {"versions__delta": "1", "apps__hashcode": "", "application": []}});
    json("empty registry", &server.rest.json("").await?, empty.clone())?;
    server.rest.register(&Draft::new("ONE", "o1", "UP", 1)).await?;
    let list = server.rest.json("").await?["applications"].take();
    json("hash", &list["apps__hashcode"], json!("UP_1_"))?;
    let version = list["versions__delta"].as_str().is_some_and(|text| text.parse::<u64>().is_ok());
    same("versions__delta is a text of digits", version, true)?;
    same("application is a list", list["application"].is_array(), true)?;
    let app = server.rest.json("/ONE").await?["application"].take();
    same("instance is a list", app["instance"].is_array(), true)?;
    types(&app["instance"][0])?;
    quiet("cancel", &server.rest.delete("/ONE/o1").await?, 200)?;
    json("the last one takes its application along", &server.rest.json("").await?, empty)?;
    Ok(String::new())
}

fn types(one: &Value) -> anyhow::Result<()> {
    json("port", &one["port"], json!({"$": 8080, "@enabled": "true"}))?;
    json("lastDirtyTimestamp", &one["lastDirtyTimestamp"], json!("1"))?;
    same("countryId is a number", one["countryId"].is_u64(), true)?;
    same("durationInSecs is a number", one["leaseInfo"]["durationInSecs"].is_u64(), true)?;
    json("metadata", &one["metadata"], json!({"@class": "java.util.Collections$EmptyMap"}))?;
    let class = json!("com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo");
    json("dataCenterInfo", &one["dataCenterInfo"], json!({"@class": class, "name": "MyOwn"}))
}

async fn f16(bench: Bench) -> Found {
    let server = bench.start(&[]).await?;
    let metadata = json!({
        "metrics_path": "/m?a=1&b=2", "prometheus.io/scrape": "true", "1st": "a", "a b": "<tag>", "": "e",
        "c:d": "]]>", "ctl": "\u{1}x", "$r": "1",
    });
    server.rest.register(&Draft::new("XMLA", "x1", "UP", 1).with("metadata", metadata.clone())).await?;
    server.rest.register(&Draft::new("XMLB", "y1", "DOWN", 1)).await?;
    let answer = server.rest.get_xml("").await?;
    same("type", answer.header("content-type"), Some("application/xml"))?;
    let root = Element::parse(&answer.text())?;
    same("root", root.name.as_str(), "applications")?;
    root.number("versions__delta")?;
    let instances = root.instances();
    same("instances", instances.len(), 2)?;
    instances.iter().try_for_each(|one| strictly_read(one))?;
    let entries = instances[0].child("metadata")?;
    same("metrics_path", entries.find("metrics__path")?, "/m?a=1&b=2")?;
    same("all but the empty key", entries.children.len(), 7)?;
    json("JSON keeps everything", &server.rest.instance("XMLA", "x1").await?["metadata"], metadata.clone())?;
    // Sent back as XML, all but what XML cannot hold is kept.
    let xml = server.rest.get_xml("/XMLA/x1").await?;
    let kind = [("content-type", "application/xml")];
    quiet("XML sent back", &server.rest.send("POST", "/eureka/apps/XMLA", &kind, xml.body).await?, 204)?;
    let mut kept = metadata;
    kept.as_object_mut().map(|entries| entries.remove(""));
    kept["ctl"] = json!("\u{fffd}x");
    json("sent back as XML", &server.rest.instance("XMLA", "x1").await?["metadata"], kept)?;
    Ok(String::new())
}

/// What the Python and Go readers of XML ask of an instance.
fn strictly_read(one: &Element) -> anyhow::Result<()> {
    ensure!(!one.find("instanceId")?.is_empty(), "an instance without an id");
    for port in ["port", "securePort"] {
        one.number(port)?;
        ensure!(["true", "false"].contains(&one.child(port)?.attribute("enabled")?), "{port}: no flag");
    }
    one.child("dataCenterInfo")?.attribute("class")?;
    for member in ["countryId", "lastUpdatedTimestamp", "lastDirtyTimestamp"] {
        one.number(member)?;
    }
    let lease = one.child("leaseInfo")?;
    lease.children.iter().try_for_each(|member| lease.number(&member.name).map(drop))
}

async fn f17(bench: Bench) -> Found {
    let server = bench.start(&[]).await?;
    let accepts = [
        "*/*",
        "application/json",
        "application/xml",
        "application/json, application/*+json",
        "application/json;q=0.9,*/*;q=0.1",
        "application/*+json",
        "text/html",
        "text/plain",
        "nonsense",
        "",
    ];
    for accept in accepts {
        let answer = server.rest.send("GET", "/eureka/apps", &[("accept", accept)], "").await?;
        code(accept, &answer, 200)?;
        let expected = if accept.contains("json") { "application/json" } else { "application/xml" };
        same(accept, answer.header("content-type"), Some(expected))?;
        same(accept, answer.text().starts_with('{'), accept.contains("json"))?;
    }
    let answer = server.rest.send("GET", "/eureka/apps", &[("content-type", "application/json")], "").await?;
    same("no Accept", answer.header("content-type"), Some("application/xml"))?;
    Ok(format!("{} kinds of Accept, and none", accepts.len()))
}

async fn f19(bench: Bench) -> Found {
    let server = bench.start(&[]).await?;
    server.rest.register(&Draft::new("CODES", "c1", "UP", 5)).await?;
    let table = [
        ("PUT", "/CODES/c1?status=UP&lastDirtyTimestamp=5", 200),
        ("PUT", "/CODES/c1/status?value=OUT_OF_SERVICE", 200),
        ("DELETE", "/CODES/c1/status", 200),
        ("PUT", "/CODES/c1/metadata?k=v", 200),
        ("PUT", "/CODES/zz/metadata?k=v", 404),
        ("PUT", "/CODES/zz/status?value=UP", 404),
        ("DELETE", "/CODES/zz", 404),
        ("DELETE", "/CODES/c1", 200),
        ("PATCH", "/CODES", 405),
    ];
    server.rest.calls(&table).await?;
    Ok(format!("{} calls", table.len() + 1))
}

async fn f20(bench: Bench) -> Found {
    let server = bench.start(&[]).await?;
    let calls = [
        ("PUT", "/apps/GHOST/g1?status=UP&lastDirtyTimestamp=1"),
        ("PUT", "/apps/GHOST/g1/status?value=UP"),
        ("DELETE", "/apps/GHOST/g1"),
        ("GET", "/apps/GHOST/g1"),
    ];
    let mut answers = 0;
    for root in ["/eureka", "/eureka/v2", "/v2", "", "//eureka/"] {
        for accept in ["application/json", "*/*", "text/html", "application/xml"] {
            for (method, path) in calls {
                let what = format!("{method} {root}{path} under {accept}");
                let answer =
                    server.rest.send(method, &format!("{root}{path}"), &[("accept", accept)], "{}").await?;
                quiet(&what, &answer, 404)?;
                same(&what, answer.header("content-length"), Some("0"))?;
                answers += 1;
            }
        }
    }
    Ok(format!("{answers} answers"))
}
