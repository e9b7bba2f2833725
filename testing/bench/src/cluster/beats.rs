//! No beat of any client arrives for long, and then some of them do not come back.

use std::time::Duration;

use heureka_cluster::cluster::Cluster;
use heureka_cluster::native::{self, fleet, leased};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::mirror::Mirrors;
use super::{Scale, three};
use crate::report;

const APP: &str = "BEATS";
/// Beats in a lease.
const BEATS: u32 = 3;

/// Clients that renew until the value goes.
struct Beating(Vec<JoinHandle<()>>);

pub(super) async fn run(scale: Scale) -> anyhow::Result<()> {
    let cluster = three().await?;
    let every = scale.lease / BEATS;
    let all =
        fleet(APP, scale.beating).into_iter().map(|instance| leased(instance, every, scale.lease)).collect();
    native::register_all(&cluster.node(0).running()?.channel().await?, all).await?;
    let mut mirrors = Mirrors::of(&cluster).await?;
    mirrors.equal().await?;
    let beating = Beating::begin(&cluster, 0..scale.beating, every).await?;
    // A lease that was never renewed is nobody's to protect.
    sleep(every * 2 + Duration::from_secs(1)).await;
    drop(beating);
    sleep(scale.cut).await;
    let what = format!(
        "no beat for {} s, leases of {} s: removals that watchers saw",
        scale.cut.as_secs(),
        scale.lease.as_secs()
    );
    let before = mirrors.removals(|_| true);
    report::line(&what, &before.to_string(), "0");
    let dead = scale.beating * 3 / 10;
    let is_dead = |id: &str| id[1..].parse::<usize>().is_ok_and(|number| number < dead);
    let _living = Beating::begin(&cluster, dead..scale.beating, every).await?;
    let gone = mirrors.saw(dead * cluster.len(), is_dead).await?;
    let figure = format!("{:.1} s", gone.as_secs_f64());
    report::line("  then 30 % stay away: gone from all three after", &figure, "two leases");
    // Whoever was removed beside them would be one too many.
    sleep(scale.lease).await;
    let beyond = mirrors.removals(|id| !is_dead(id));
    report::line("  removals of those that came back", &beyond.to_string(), "0");
    Ok(())
}

impl Beating {
    /// A third of these instances renews at each server.
    async fn begin(cluster: &Cluster, ids: std::ops::Range<usize>, every: Duration) -> anyhow::Result<Self> {
        let mut tasks = Vec::new();
        for (number, node) in cluster.nodes().iter().enumerate() {
            let channel = node.running()?.channel().await?;
            let own: Vec<String> =
                ids.clone().skip(number).step_by(cluster.len()).map(|id| format!("i{id}")).collect();
            tasks.push(tokio::spawn(async move {
                let mut pace = interval(every);
                pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
                loop {
                    pace.tick().await;
                    // Whoever is not there any more shows as a removal.
                    let _ = native::renew_all(&channel, APP, own.clone()).await;
                }
            }));
        }
        Ok(Self(tasks))
    }
}

impl Drop for Beating {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}
