//! A server is killed at the moment when it has acknowledged a write. The others must have it.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use heureka_cluster::checks::{code, eventually};
use heureka_cluster::cluster::{Cluster, Layout};
use heureka_cluster::draft::Draft;
use heureka_cluster::figures::{Times, millis};
use heureka_cluster::native;
use heureka_cluster::server::Program;
use heureka_proto::v1;
use heureka_proto::v1::registry_service_client::RegistryServiceClient;
use tokio::time::{Instant, sleep};

use crate::report::{complain, say};

/// From the acknowledgement to the kill.
const AT_ONCE: Duration = Duration::from_millis(1);
/// What a server waits for the other at most; a call that took longer was answered without one.
const ACK_WAIT: Duration = Duration::from_millis(50);
/// Longest time until a survivor shows what it has.
const SHOWN: Duration = Duration::from_secs(2);
/// Kills between two lines.
const STEP: usize = 100;
/// Instances that are there in any case, so that what is copied at each start is not nothing.
const BALLAST: usize = 300;
/// What is written at last.
const APP: &str = "LAST";

/// A write that is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Write {
    Register,
    Cancel,
    Override,
}

/// How it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Surface {
    Native,
    Rest,
}

/// What happened so far.
#[derive(Default)]
struct Tally {
    kills: usize,
    lost: usize,
    /// Acknowledged without another server: not to be lost only while this one lives.
    alone: usize,
    /// Killed later than at once.
    late: usize,
    gaps: Times,
    calls: Times,
    returns: Times,
}

/// One after the other; the number of writes that were lost.
pub(crate) async fn run(program: &Program, count: usize) -> anyhow::Result<usize> {
    let mut cluster = Layout::new(program, 3).start().await?;
    native::register_all(&cluster.node(0).running()?.channel().await?, native::fleet("BALLAST", BALLAST))
        .await?;
    let mut tally = Tally::default();
    let mut round = 0;
    while tally.kills < count {
        let outcome = one(&mut cluster, round, &mut tally).await;
        outcome.with_context(|| format!("round {round}; complaints {:?}", cluster.complaints()))?;
        round += 1;
        ensure!(tally.alone <= count, "more writes were acknowledged without another server than with one");
        if tally.kills.is_multiple_of(STEP) && tally.kills > 0 {
            say(format_args!("{} killed, {} lost", tally.kills, tally.lost));
        }
    }
    tally.print();
    Ok(tally.lost)
}

/// One write, kill and look.
async fn one(cluster: &mut Cluster, round: usize, tally: &mut Tally) -> anyhow::Result<()> {
    let victim = round % cluster.len();
    let write = [Write::Register, Write::Cancel, Write::Override][round / 3 % 3];
    let surface = if (round / 9).is_multiple_of(2) { Surface::Native } else { Surface::Rest };
    let id = format!("w{round}");
    if write != Write::Register {
        prepare(cluster, &id).await?;
    }
    let call = Call::prepare(cluster, victim, write, surface, &id).await?;
    let begun = Instant::now();
    call.send().await.with_context(|| format!("{write:?} over {surface:?}"))?;
    let answered = Instant::now();
    let took = answered - begun;
    if took >= ACK_WAIT {
        tally.alone += 1;
        return Ok(());
    }
    cluster.strike(victim)?;
    let gap = answered.elapsed();
    cluster.kill(victim).await?;
    tally.kills += 1;
    tally.late += usize::from(gap > AT_ONCE);
    tally.gaps.push(gap);
    tally.calls.push(took);
    let survivors: Vec<usize> = (0..cluster.len()).filter(|node| *node != victim).collect();
    for node in &survivors {
        if let Err(error) = has(cluster, *node, write, &id).await {
            tally.lost += 1;
            complain(format_args!(
                "round {round}: {write:?} of {APP}/{id} over {surface:?}, acknowledged by n{victim} after {}, is lost \
                 on n{node}: {error:#}",
                millis(took)
            ));
        }
    }
    let begun = Instant::now();
    cluster.restart(&[victim]).await?;
    cluster.meet(&(0..cluster.len()).collect::<Vec<_>>()).await?;
    tally.returns.push(begun.elapsed());
    Ok(())
}

/// An instance that all servers know, to be cancelled or overridden.
async fn prepare(cluster: &Cluster, id: &str) -> anyhow::Result<()> {
    native::register(&cluster.node(0).running()?.channel().await?, native::instance(APP, id)).await?;
    for node in cluster.nodes() {
        eventually(format!("{} knows {id}", node.name), SHOWN, || async {
            Ok(node.running()?.rest.status(APP, id).await? == "UP")
        })
        .await?;
    }
    Ok(())
}

/// Waits until a survivor shows what was written.
async fn has(cluster: &Cluster, node: usize, write: Write, id: &str) -> anyhow::Result<()> {
    let rest = &cluster.node(node).running()?.rest;
    let expected = match write {
        Write::Register => "UP",
        Write::Cancel => "",
        Write::Override => "OUT_OF_SERVICE",
    };
    let begun = Instant::now();
    loop {
        let status = rest.status(APP, id).await?;
        if status == expected {
            return Ok(());
        }
        ensure!(begun.elapsed() < SHOWN, "it is {status:?}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// A call on a connection that is there before it is sent.
enum Call<'a> {
    Native(RegistryServiceClient<tonic::transport::Channel>, Write, v1::InstanceKey),
    Rest(&'a heureka_cluster::rest::Rest, Write, Draft),
}

impl<'a> Call<'a> {
    async fn prepare(
        cluster: &'a Cluster,
        victim: usize,
        write: Write,
        surface: Surface,
        id: &str,
    ) -> anyhow::Result<Self> {
        let server = cluster.node(victim).running()?;
        if surface == Surface::Rest {
            server.rest.get("/NONE").await?;
            return Ok(Self::Rest(&server.rest, write, Draft::new(APP, id, "UP", 1)));
        }
        Ok(Self::Native(RegistryServiceClient::new(server.channel().await?), write, native::key(APP, id)))
    }

    async fn send(self) -> anyhow::Result<()> {
        match self {
            Self::Native(mut client, Write::Register, key) => {
                let instance = Some(native::instance(&key.app, &key.id));
                client.register(v1::RegisterRequest { instance, ..Default::default() }).await?;
            }
            Self::Native(mut client, Write::Cancel, key) => {
                client.cancel(v1::CancelRequest { key: Some(key), writer: None }).await?;
            }
            Self::Native(mut client, Write::Override, key) => {
                let status = v1::InstanceStatus::OutOfService.into();
                let request = v1::SetStatusOverrideRequest { key: Some(key), status, ..Default::default() };
                client.set_status_override(request).await?;
            }
            Self::Rest(rest, Write::Register, draft) => rest.register(&draft).await?,
            Self::Rest(rest, Write::Cancel, draft) => {
                code("cancel", &rest.delete(&format!("/{APP}/{}", draft.id)).await?, 200)?;
            }
            Self::Rest(rest, Write::Override, draft) => {
                let path = format!("/{APP}/{}/status?value=OUT_OF_SERVICE", draft.id);
                code("override", &rest.put(&path).await?, 200)?;
            }
        }
        Ok(())
    }
}

impl Tally {
    fn print(&self) {
        say(format_args!("{} kills, {} writes lost", self.kills, self.lost));
        say(format_args!("acknowledged after {}", self.calls));
        say(format_args!(
            "killed {} after that at the 99th percentile, {} at most; {} later than 1 ms",
            millis(self.gaps.quantile(0.99)),
            millis(self.gaps.quantile(1.0)),
            self.late
        ));
        say(format_args!("back among the others after {}", self.returns));
        say(format_args!("{} more were acknowledged without another server and not counted", self.alone));
    }
}
