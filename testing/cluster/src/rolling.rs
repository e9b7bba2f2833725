//! Every server is drained and started again, one after the other, round after round, while clients renew, come and
//! go. Nobody may notice.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use heureka_cluster::cluster::Layout;
use heureka_cluster::figures::Times;
use heureka_cluster::fleet::Terms;
use heureka_cluster::server::Program;
use tokio::time::Instant;

use crate::trial::{Size, Trial};

/// Clients that know two of the three servers each.
const SIZE: Size = Size {
    clients: 12,
    instances: 10,
    legacies: 60,
    servers: 2,
    terms: Terms { interval: Duration::from_secs(1), lease: Duration::from_secs(30) },
};
/// Longest time from the signal to the exit: the grace of 30 s, and what comes before and after.
const DRAINED: Duration = Duration::from_secs(50);
/// Most calls that a renewal over REST may take beyond the first.
const RETRIES: u64 = 1;

/// So many rounds; the number of broken promises.
pub(crate) async fn run(program: &Program, rounds: usize, recording: Option<&Path>) -> anyhow::Result<usize> {
    let mut trial = Trial::begin(Layout::new(program, 3), SIZE).await?;
    trial.agree("at the start", &[0, 1, 2]).await?;
    let (mut drains, mut returns) = (Times::default(), Times::default());
    for round in 0..rounds {
        for node in 0..trial.cluster.len() {
            drains.push(trial.cluster.stop(node, DRAINED).await?);
            churn(&mut trial, round, node).await?;
            let begun = Instant::now();
            trial.cluster.restart(&[node]).await?;
            trial.cluster.meet(&[0, 1, 2]).await?;
            returns.push(begun.elapsed());
        }
        trial.agree(&format!("round {}", round + 1), &[0, 1, 2]).await?;
    }
    trial.say(format_args!("drained in {drains}; back among the others after {returns}"));
    judge(&trial);
    trial.end(recording).await
}

/// While a server is away, one client comes and another goes.
async fn churn(trial: &mut Trial, round: usize, away: usize) -> anyhow::Result<()> {
    trial.legacy(&format!("r{round}-{away}"), (away + 1) % 3).await?;
    trial.cancel_legacy(1).await?;
    let client = (round + away) % trial.natives.len();
    trial.natives[client].register("CHURN", [format!("r{round}-{away}")]).await?;
    if round % 2 == 1 {
        trial.natives[client].cancel().await?;
    }
    Ok(())
}

/// Holds what the clients went through against what they may go through.
fn judge(trial: &Trial) {
    let [native, legacy] = trial.troubles();
    for (who, troubles) in [("gRPC clients", &native), ("REST clients", &legacy)] {
        for (what, count) in [("failed", &troubles.failed), ("found nothing", &troubles.misses)] {
            let count = count.load(Ordering::Relaxed);
            if count > 0 {
                trial.ledger.breach(format!("{who}: {count} renewals {what}"));
            }
        }
    }
    let most = legacy.most_retries.load(Ordering::Relaxed);
    if most > RETRIES {
        trial.ledger.breach(format!("REST clients: {most} calls beyond the first for one renewal"));
    }
}
