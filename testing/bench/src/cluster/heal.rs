//! A server that was cut off, and the time until all of them hold the same again.

use std::time::Duration;

use heureka_cluster::cluster::Cluster;
use heureka_cluster::native::{self, fleet, leased};
use heureka_cluster::wire::Fault;
use heureka_proto::v1;
use heureka_proto::v1::registry_service_client::RegistryServiceClient;
use tokio::time::{sleep, timeout};

use super::mirror::Mirrors;
use super::{PATIENCE, Scale, three};
use crate::report;
use crate::watch::middle;

/// No lease ends by itself.
const LONG: Duration = Duration::from_hours(24);
const APP: &str = "DIVIDED";
/// One of so many changes on each side: one in twenty in all.
const SHARE: usize = 40;

pub(super) async fn run(scale: Scale) -> anyhow::Result<()> {
    let cluster = three().await?;
    let all = fleet(APP, scale.divided).into_iter().map(|instance| leased(instance, LONG, LONG)).collect();
    native::register_all(&cluster.node(0).running()?.channel().await?, all).await?;
    let mut mirrors = Mirrors::of(&cluster).await?;
    mirrors.equal().await?;
    let mut took = Vec::new();
    let (rounds, lasts) = scale.partitions;
    for round in 0..rounds {
        cluster.between(2, None, Fault::held());
        churn(&cluster, 0, scale.divided, round * 2).await?;
        churn(&cluster, 2, scale.divided, round * 2 + 1).await?;
        sleep(lasts).await;
        differ(&mirrors).await?;
        cluster.heal();
        took.push(mirrors.equal().await?.as_secs_f64());
    }
    let longest = took.iter().copied().fold(0.0, f64::max);
    let figure = format!("{:.2} / {longest:.2} s", middle(took));
    let what =
        format!("heal of {} s, {} instances, 5 % churn, middle / longest", lasts.as_secs(), scale.divided);
    report::line(&what, &figure, "1 s; 5 s of p99; 10 s");
    Ok(())
}

/// A heal of what never fell apart would be no figure.
async fn differ(mirrors: &Mirrors) -> anyhow::Result<()> {
    let apart = async {
        while mirrors.are_equal() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, apart)
        .await
        .map_err(|_| anyhow::anyhow!("the server that is cut off holds what the others do"))
}

/// Changes at one server: some instances come, some go, some are replaced.
async fn churn(cluster: &Cluster, node: usize, instances: usize, turn: usize) -> anyhow::Result<()> {
    let channel = cluster.node(node).running()?.channel().await?;
    let mut client = RegistryServiceClient::new(channel.clone());
    let changes = (instances / SHARE).max(3);
    let ids = (0..changes).map(|number| (number * SHARE + turn) % instances);
    let mut written = Vec::new();
    for (number, id) in ids.enumerate() {
        let id = format!("i{id}");
        match number % 3 {
            0 => {
                let request = v1::CancelRequest { key: Some(native::key(APP, &id)), writer: None };
                client.cancel(request).await?;
            }
            1 => written.push(native::instance(APP, &format!("{id}-{turn}"))),
            _ => {
                let mut instance = native::instance(APP, &id);
                instance.metadata.insert("turn".to_owned(), turn.to_string());
                written.push(instance);
            }
        }
    }
    let written = written.into_iter().map(|instance| leased(instance, LONG, LONG)).collect();
    native::register_all(&channel, written).await
}
