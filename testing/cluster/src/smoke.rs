//! A minute and a half of what happens to clusters: one server is killed, one stops for 20 s, one is cut off.

use std::path::Path;
use std::time::Duration;

use heureka_cluster::cluster::Layout;
use heureka_cluster::fleet::{Natives, Terms};
use heureka_cluster::ledger::Fate;
use heureka_cluster::server::Program;
use heureka_cluster::wire::Fault;
use heureka_model::Status;
use tokio::time::{Instant, sleep};

use crate::trial::{Size, Trial};

/// Leases outlast every fault of this program together with a call that hangs.
const SIZE: Size = Size {
    clients: 6,
    instances: 5,
    legacies: 15,
    servers: 3,
    terms: Terms { interval: Duration::from_secs(4), lease: Duration::from_secs(30) },
};
/// Leases of those that die.
const MORTAL: Terms = Terms { interval: Duration::from_secs(2), lease: Duration::from_secs(6) };
const PAUSE: Duration = Duration::from_secs(20);
const PARTITION: Duration = Duration::from_secs(10);
const ALL: [usize; 3] = [0, 1, 2];

/// The number of broken promises.
pub(crate) async fn run(program: &Program, recording: Option<&Path>) -> anyhow::Result<usize> {
    let mut trial = Trial::begin(Layout::new(program, 3), SIZE).await?;
    trial.agree("at the start", &ALL).await?;
    quiet_writes(&mut trial).await?;
    let mut mortals = mortals(&trial).await?;
    kill(&mut trial).await?;
    pause(&mut trial, &mut mortals).await?;
    partition(&mut trial).await?;
    trial.end(recording).await
}

/// Cancels over both surfaces, a write of an operator, all of them at different servers.
async fn quiet_writes(trial: &mut Trial) -> anyhow::Result<()> {
    trial.natives[0].cancel().await?;
    trial.cancel_legacy(1).await?;
    trial.cancel_legacy(2).await?;
    let kept = trial.legacies[0].key().clone();
    let path = format!("/{}/{}/status?value=OUT_OF_SERVICE", kept.app, kept.id);
    heureka_cluster::checks::code("override", &trial.cluster.node(1).rest.put(&path).await?, 200)?;
    trial.agree("after cancels and an override", &ALL).await?;
    let (_, shown) = trial.cluster.agree(&ALL, crate::trial::AGREE).await?;
    let status = shown.get(&kept).map(|(_, status)| *status);
    if status != Some(Status::OutOfService) {
        trial.ledger.breach(format!("an override at n1 left {kept} {status:?}"));
    }
    Ok(())
}

/// Instances with short leases that begin at the two servers that do not stop.
async fn mortals(trial: &Trial) -> anyhow::Result<Natives> {
    let mut mortals = Natives::new(&trial.cluster.doors()[..2], MORTAL, &trial.ledger, &trial.recorder)?;
    mortals.register("MORTAL", (0..2).map(|number| format!("m{number}"))).await?;
    Ok(mortals)
}

/// A server is killed right after it acknowledged.
async fn kill(trial: &mut Trial) -> anyhow::Result<()> {
    trial.legacy("last-word", 1).await?;
    trial.cluster.kill(1).await?;
    trial.agree("n1 was killed", &[0, 2]).await?;
    trial.natives[1].cancel().await?;
    sleep(Duration::from_secs(2)).await;
    trial.cluster.restart(&[1]).await?;
    trial.cluster.meet(&ALL).await?;
    trial.agree("n1 is back", &ALL).await.map(drop)
}

/// A server stops, and goes on as if no time had passed. Meanwhile others are written to, and some die.
async fn pause(trial: &mut Trial, mortals: &mut Natives) -> anyhow::Result<()> {
    trial.cluster.node(2).running()?.signal("STOP")?;
    let begun = Instant::now();
    let dead = [mortals.die()?, mortals.die()?];
    trial.legacy("while-n2-stands", 0).await?;
    trial.natives[2].cancel().await?;
    trial.cancel_legacy(0).await?;
    trial.agree("n2 stands still", &[0, 1]).await?;
    sleep(PAUSE.saturating_sub(begun.elapsed())).await;
    dead.iter().for_each(|key| trial.ledger.note(key, Fate::Left));
    trial.agree("n2 still stands, the dead are gone", &[0, 1]).await?;
    trial.cluster.node(2).running()?.signal("CONT")?;
    trial.cluster.meet(&ALL).await?;
    trial.agree("n2 goes on", &ALL).await.map(drop)
}

/// Nothing passes between one server and the others, and nobody is told. Both sides are written to.
async fn partition(trial: &mut Trial) -> anyhow::Result<()> {
    trial.cluster.between(0, None, Fault::held());
    let begun = Instant::now();
    trial.legacy("at-n0", 0).await?;
    trial.legacy("at-n1", 1).await?;
    trial.cancel_legacy(0).await?;
    trial.cancel_legacy(1).await?;
    trial.natives[3].cancel().await?;
    trial.natives[4].cancel().await?;
    sleep(PARTITION.saturating_sub(begun.elapsed())).await;
    trial.agree_alone("n1 and n2, without n0", &[1, 2]).await?;
    trial.cluster.heal();
    trial.agree("n0 is reached again", &ALL).await.map(drop)
}
