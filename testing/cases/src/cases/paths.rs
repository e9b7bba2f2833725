//! Paths and identifiers.

use crate::case::{Bench, Case, Found};
use heureka_cluster::checks::{code, quiet, same};
use heureka_cluster::draft::Draft;
use heureka_cluster::rest::{JSON, Rest, encoded};

pub(crate) const CASES: &[Case] = &[
    Case::new("F22", "slashes doubled, trailing, versioned, prefixed", |bench| Box::pin(f22(bench))),
    Case::new("F23", "ids with reserved characters can be renewed and removed", |bench| Box::pin(f23(bench))),
];

const SPELLINGS: [&str; 9] = [
    "/eureka/apps/SL/s1",
    "/eureka//apps/SL/s1",
    "//eureka/apps/SL/s1",
    "/eureka/apps//SL/s1",
    "/eureka/apps/SL/s1/",
    "/eureka/v2/apps/SL/s1",
    "/eureka/v2//apps/SL/s1",
    "/v2/apps/SL/s1",
    "/apps/SL/s1",
];

async fn f22(bench: Bench) -> Found {
    let server = bench.start(&[]).await?;
    server.rest.register(&Draft::new("SL", "s1", "UP", 1)).await?;
    spelt(&server.rest, "").await?;
    for read in ["/eureka/apps/", "/eureka/apps/delta/"] {
        code(read, &server.rest.send("GET", read, &[JSON], "").await?, 200)?;
    }
    quiet("POST with a slash", &server.rest.post("SL/", Draft::new("SL", "s2", "UP", 1).json()).await?, 204)?;
    quiet("another word", &server.rest.send("GET", "/eureka/appsSL", &[], "").await?, 404)?;
    let prefixed = bench.start(&[("server.context_path", "/reg")]).await?;
    let kind = [("content-type", "application/json")];
    let body = Draft::new("SL", "s1", "UP", 1).json();
    quiet("prefixed", &prefixed.rest.send("POST", "/reg/eureka/apps/SL", &kind, body).await?, 204)?;
    spelt(&prefixed.rest, "/reg").await?;
    code("health", &prefixed.rest.send("GET", "/reg/health/ready", &[], "").await?, 200)?;
    quiet("without its prefix", &prefixed.rest.send("PUT", SPELLINGS[0], &[], "").await?, 404)?;
    Ok(format!("{} spellings, with and without a prefix", SPELLINGS.len()))
}

async fn spelt(rest: &Rest, prefix: &str) -> anyhow::Result<()> {
    for path in SPELLINGS {
        let path = format!("{prefix}{path}");
        quiet(&path, &rest.send("PUT", &path, &[], "").await?, 200)?;
    }
    Ok(())
}

async fn f23(bench: Bench) -> Found {
    let server = bench.start(&[]).await?;
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
    ];
    for id in ids {
        server.rest.register(&Draft::new("IDS", id, "UP", 1)).await?;
        quiet(id, &server.rest.beat("IDS", id, "").await?, 200)?;
        same(id, server.rest.instance("IDS", id).await?["instanceId"].as_str(), Some(id))?;
        quiet(id, &server.rest.delete(&format!("/IDS/{}", encoded(id))).await?, 200)?;
        quiet(id, &server.rest.beat("IDS", id, "").await?, 404)?;
    }
    for id in ["host:app:8080", "x/y", "x/status"] {
        server.rest.register(&Draft::new("IDS", id, "UP", 1)).await?;
    }
    server
        .rest
        .calls(&[
            ("PUT", "/IDS/host%3Aapp%3A8080", 200),
            ("PUT", "/IDS/host:app:8080", 200),
            ("PUT", "/IDS/x/y", 404),
            ("PUT", "/IDS/x/status", 404),
            ("DELETE", "/IDS/x/status", 404),
            ("PUT", "/IDS/a/../x%2Fy", 404),
        ])
        .await?;
    same("nobody else was touched", server.rest.status("IDS", "x/y").await?, "UP".to_owned())?;
    Ok(format!("{} ids", ids.len() + 1))
}
