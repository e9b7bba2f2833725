//! A change at one server on its way to the watchers of another.

use super::{Scale, three};
use crate::drive::{Audience, Layout, Way};
use crate::machine;
use crate::report;

/// Changes before those that are measured.
const WARMING: usize = 5;

pub(super) async fn run(scale: Scale) -> anyhow::Result<()> {
    let cluster = three().await?;
    let (from, to) = (cluster.node(0).running()?, cluster.node(1).running()?);
    let layout = Layout { connections: scale.connections, watchers: scale.streams, way: Way::Each };
    let watchers = layout.all();
    let mut audience = Audience::across(from.address, to.address, layout).await?;
    let cpu = || machine::used_by(from.process()) + machine::used_by(to.process());
    audience.tell(cpu, WARMING.min(scale.changes)).await?;
    let sample = audience.tell(cpu, scale.changes).await?;
    let spread = sample.latencies.unwrap_or_default();
    let figure = format!("{} / {}", report::millis(spread.p50 / 1e9), report::millis(spread.p99 / 1e9));
    let what = format!("change to the last of {watchers} watchers of another, p50 / p99");
    report::line(&what, &figure, "<= 100 ms");
    Ok(())
}
