//! Deltas and freshness.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::case::{Bench, Case, Found};
use crate::xml::Element;
use heureka_cluster::checks::{code, quiet, same};
use heureka_cluster::draft::Draft;
use heureka_cluster::figures::Times;
use heureka_cluster::rest::{JSON, Rest, XML};
use heureka_cluster::server::Server;
use heureka_cluster::watcher::{Watcher, spec};

pub(crate) const CASES: &[Case] = &[
    Case::new("F35", "a delta's hash and body are of one moment", |bench| Box::pin(f35(bench))),
    Case::new("F38", "a write is seen by the next read of every view", |bench| Box::pin(f38(bench))),
];

/// A client's copy: one full fetch, then deltas.
#[derive(Debug, Default)]
struct Copy(BTreeMap<(String, String), String>);

impl Copy {
    fn apply(&mut self, list: &Value) -> anyhow::Result<()> {
        let apps = list["applications"]["application"].as_array().context("application is no list")?;
        for app in apps {
            for one in app["instance"].as_array().context("instance is no list")? {
                let text =
                    |member: &str| one[member].as_str().map(str::to_owned).context("a text is missing");
                let key = (text("app")?, text("instanceId")?);
                match text("actionType")?.as_str() {
                    "DELETED" => self.0.remove(&key),
                    _ => self.0.insert(key, text("status")?),
                };
            }
        }
        Ok(())
    }

    fn hash(&self) -> String {
        hash(self.0.values().map(String::as_str))
    }
}

fn hash<'a>(statuses: impl Iterator<Item = &'a str>) -> String {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    statuses.for_each(|status| *counts.entry(status).or_default() += 1);
    counts.iter().map(|(status, count)| format!("{status}_{count}_")).collect()
}

const FLIPPED: usize = 30;

async fn f35(bench: Bench) -> Found {
    let server = Arc::new(bench.start(&[]).await?);
    for instance in 0..FLIPPED {
        let draft = Draft::new(&format!("APP{}", instance % 4), &format!("i{instance}"), "UP", 1);
        server.rest.register(&draft).await?;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..3).map(|writer| flip(&server, writer, Arc::clone(&stop))).collect();
    let end = Instant::now() + bench.seconds(10, 120);
    let (mut copy, mut reads) = (Copy::default(), 0);
    copy.apply(&server.rest.json("").await?)?;
    while Instant::now() < end {
        let delta = server.rest.json("/delta").await?;
        copy.apply(&delta)?;
        same(
            "delta",
            copy.hash().as_str(),
            delta["applications"]["apps__hashcode"].as_str().unwrap_or_default(),
        )?;
        full_lists(&server).await?;
        reads += 1;
        sleep(Duration::from_millis(20)).await;
    }
    stop.store(true, Ordering::SeqCst);
    let mut writes = 0;
    for writer in writers {
        writes += writer.await??;
    }
    Ok(format!("{reads} deltas and {} lists beside {writes} writes, 0 mismatches", 2 * reads))
}

/// Both formats against their own hash.
async fn full_lists(server: &Server) -> anyhow::Result<()> {
    let full = server.rest.json("").await?;
    let mut whole = Copy::default();
    whole.apply(&full)?;
    same("list", whole.hash().as_str(), full["applications"]["apps__hashcode"].as_str().unwrap_or_default())?;
    let root = Element::parse(&server.rest.get_xml("").await?.text())?;
    let statuses: anyhow::Result<Vec<&str>> = root.instances().iter().map(|one| one.find("status")).collect();
    same("list in XML", hash(statuses?.into_iter()).as_str(), root.find("apps__hashcode")?)
}

fn flip(server: &Server, writer: usize, stop: Arc<AtomicBool>) -> JoinHandle<anyhow::Result<u64>> {
    let rest = Rest::new(server.address);
    tokio::spawn(async move {
        let mut writes = 0;
        for turn in 0.. {
            if stop.load(Ordering::SeqCst) {
                break;
            }
            let instance = (turn * 7 + writer * 10) % FLIPPED;
            let status = ["UP", "STARTING", "OUT_OF_SERVICE"][turn % 3];
            let path = format!("/APP{}/i{instance}/status?value={status}", instance % 4);
            quiet(&path, &rest.put(&path).await?, 200)?;
            writes += 1;
        }
        Ok(writes)
    })
}

const VIEWS: [&str; 5] = ["/apps", "/apps/FR", "/apps/delta", "/vips/FR", "/instances/f1"];

async fn f38(bench: Bench) -> Found {
    let server = bench.start(&[]).await?;
    let mut watcher =
        Watcher::open(&server.channel().await?, spec(Some("FR"), Duration::from_secs(1))).await?;
    watcher.settle().await?;
    let mut times = Times::default();
    let rounds = 50;
    for round in 1..=rounds {
        let word = format!("round{round}x");
        server.rest.register(&Draft::new("FR", "f1", "UP", round).with("sid", word.as_str())).await?;
        for view in VIEWS {
            for headers in [vec![JSON], vec![XML], vec![JSON, ("accept-encoding", "gzip")]] {
                let answer = server.rest.send("GET", &format!("/eureka{view}"), &headers, "").await?;
                code(view, &answer, 200)?;
                ensure!(plain(&answer)?.contains(&word), "{view}: expected {word}, saw {}", answer.start());
            }
        }
        // The watch had its event long before it is looked at, so this one is timed apart.
        let begun = Instant::now();
        server.rest.register(&Draft::new("FR", "f2", "UP", round).with("sid", word.as_str())).await?;
        watcher
            .until("watch", Duration::from_secs(5), |view| {
                view.get("FR", "f2").is_some_and(|held| {
                    held.instance.legacy.as_ref().is_some_and(|legacy| legacy.sid == word)
                })
            })
            .await?;
        times.push(begun.elapsed());
    }
    for id in ["f1", "f2"] {
        quiet("cancel", &server.rest.delete(&format!("/FR/{id}")).await?, 200)?;
    }
    quiet("application", &server.rest.get("/FR").await?, 404)?;
    ensure!(!server.rest.json("").await?.to_string().contains("\"f1\""), "expected f1 gone from the list");
    Ok(format!("{rounds} writes × {} views; from the write to the watch event {times}", VIEWS.len() * 3))
}

fn plain(answer: &heureka_cluster::rest::Answer) -> anyhow::Result<String> {
    if answer.header("content-encoding") != Some("gzip") {
        return Ok(answer.text());
    }
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(answer.body.as_ref()), &mut text)?;
    Ok(text)
}
