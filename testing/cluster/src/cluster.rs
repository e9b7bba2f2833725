//! Several servers that are each other's peers. Every server is reached through wires: each of the others dials it
//! by one of its own, and clients by the door, which keeps its address when the server comes back elsewhere.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use futures_util::future::try_join_all;
use heureka_model::{InstanceKey, Registration, Status, Version};
use heureka_proto::v1;
use heureka_proto::v1::discovery_service_client::DiscoveryServiceClient;
use tokio::time::{Instant, sleep};
use tonic::transport::Channel;

use crate::checks::eventually;
use crate::rest::Rest;
use crate::server::{Program, Server, connect};
use crate::wire::{Fault, Wire};

/// Longest time for servers to be ready and have streams to each other.
const MEET: Duration = Duration::from_secs(20);
/// How long the first servers wait for one that is ready: there is none.
const FIRST_WAIT: &str = "1s";
/// Longest time for a server to be gone that was killed.
const GONE: Duration = Duration::from_secs(10);
/// Time between two looks at what servers hold.
const GLANCE: Duration = Duration::from_millis(50);
/// Instances on a page.
const PAGE: i32 = 5000;

/// How a cluster is made.
#[derive(Clone, Debug)]
pub struct Layout {
    program: Program,
    nodes: usize,
    settings: Vec<(String, String)>,
    stores: Option<PathBuf>,
    host: String,
}

/// Servers that are each other's peers; all are gone with the value.
#[derive(Debug)]
pub struct Cluster {
    layout: Layout,
    nodes: Vec<Node>,
    /// From who dials to who is dialed.
    wires: BTreeMap<(usize, usize), Wire>,
}

/// One server of a cluster, running or not.
#[derive(Debug)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Through which clients come.
    pub door: Wire,
    /// A caller that comes through the door.
    pub rest: Rest,
    server: Option<Server>,
}

/// What a server shows: versions and statuses by key.
pub type Shown = BTreeMap<InstanceKey, (Version, Status)>;

impl Layout {
    /// So many servers of this program, all in memory, with default settings.
    #[must_use]
    pub fn new(program: &Program, nodes: usize) -> Self {
        Self {
            program: program.clone(),
            nodes,
            settings: Vec::new(),
            stores: None,
            host: "127.0.0.1".to_owned(),
        }
    }

    /// With a setting, such as `("preservation.mode", "off")`.
    #[must_use]
    pub fn set(mut self, key: &str, value: &str) -> Self {
        self.settings.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Each server keeps what survives a restart below this folder.
    #[must_use]
    pub fn stores(mut self, folder: impl Into<PathBuf>) -> Self {
        self.stores = Some(folder.into());
        self
    }

    /// Servers are told of each other by this name of the machine, such as `localhost`.
    #[must_use]
    pub fn host(mut self, host: &str) -> Self {
        host.clone_into(&mut self.host);
        self
    }

    /// Starts all servers and waits until they have met.
    ///
    /// # Errors
    /// One does not start, or two do not meet.
    pub async fn start(self) -> anyhow::Result<Cluster> {
        let mut cluster = Cluster::prepare(self).await?;
        let all: Vec<usize> = (0..cluster.len()).collect();
        cluster.launch(&all, &[("startup.peer_wait", FIRST_WAIT)]).await?;
        cluster.meet(&all).await?;
        Ok(cluster)
    }
}

impl Cluster {
    /// Doors and wires, with nobody behind them.
    async fn prepare(layout: Layout) -> anyhow::Result<Self> {
        let mut nodes = Vec::new();
        for number in 0..layout.nodes {
            let door = Wire::new().await?;
            let rest = Rest::new(door.address);
            nodes.push(Node { name: format!("n{number}"), door, rest, server: None });
        }
        let mut wires = BTreeMap::new();
        for from in 0..layout.nodes {
            for to in (0..layout.nodes).filter(|to| *to != from) {
                wires.insert((from, to), Wire::new().await?);
            }
        }
        Ok(Self { layout, nodes, wires })
    }

    /// Number of servers, running or not.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a cluster has servers")]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// A server by its number.
    #[must_use]
    pub fn node(&self, node: usize) -> &Node {
        &self.nodes[node]
    }

    /// All of them.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The wire by which one server dials another.
    #[must_use]
    pub fn wire(&self, from: usize, to: usize) -> &Wire {
        &self.wires[&(from, to)]
    }

    /// Where clients find the servers, as `http://host:port`.
    #[must_use]
    pub fn doors(&self) -> Vec<String> {
        self.nodes.iter().map(|node| format!("http://{}", node.door.address)).collect()
    }

    /// Starts servers that are not running, all at once. They have their names, their stores and their addresses
    /// for others, and a port of their own.
    ///
    /// # Errors
    /// One does not start.
    pub async fn restart(&mut self, which: &[usize]) -> anyhow::Result<()> {
        self.launch(which, &[]).await
    }

    async fn launch(&mut self, which: &[usize], settings: &[(&str, &str)]) -> anyhow::Result<()> {
        let started = try_join_all(which.iter().map(|node| self.start(*node, settings))).await?;
        for (node, server) in which.iter().zip(started) {
            self.lead_to(*node, Some(server.address));
            self.nodes[*node].server = Some(server);
        }
        Ok(())
    }

    async fn start(&self, node: usize, further: &[(&str, &str)]) -> anyhow::Result<Server> {
        let name = &self.nodes[node].name;
        let mut arguments = vec!["--node-id".to_owned(), name.clone(), "--cluster".into(), "trial".into()];
        for to in (0..self.len()).filter(|to| *to != node) {
            let port = self.wire(node, to).address.port();
            arguments.extend(["--peer".to_owned(), format!("{}:{port}", self.layout.host)]);
        }
        if let Some(folder) = &self.layout.stores {
            arguments.extend(["--data-dir".to_owned(), folder.join(name).display().to_string()]);
        }
        let door = self.nodes[node].door.address.to_string();
        let settings = self.layout.settings.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let settings = settings.chain([("peer.advertise", door.as_str())]).chain(further.iter().copied());
        let settings: Vec<_> = settings.collect();
        let started = self.layout.program.start_with(&arguments, &settings).await;
        started.with_context(|| format!("server {name}"))
    }

    fn lead_to(&self, node: usize, server: Option<SocketAddr>) {
        self.nodes[node].door.lead_to(server);
        self.wires.iter().filter(|((_, to), _)| *to == node).for_each(|(_, wire)| wire.lead_to(server));
    }

    /// Waits until each of these servers is ready and has a stream to each other of them; how long that took.
    ///
    /// # Errors
    /// It is not so within 20 s.
    pub async fn meet(&self, which: &[usize]) -> anyhow::Result<Duration> {
        let others = which.len() - 1;
        self.meet_each(&which.iter().map(|node| (*node, others)).collect::<Vec<_>>()).await
    }

    /// Waits until each of these servers is ready and has so many streams.
    ///
    /// # Errors
    /// It is not so within 20 s.
    pub async fn meet_each(&self, which: &[(usize, usize)]) -> anyhow::Result<Duration> {
        let begun = Instant::now();
        for (node, others) in which {
            let node = &self.nodes[*node];
            let rest = &node.running()?.rest;
            let met = || async {
                // One that has just started may not answer yet.
                let ready =
                    rest.send("GET", "/health/ready", &[], "").await.is_ok_and(|ready| ready.status == 200);
                let streams = rest.metric("heureka_peer_connected").await.unwrap_or_default();
                Ok(ready && streams + 0.5 > *others as f64)
            };
            eventually(format!("{} is ready and has {others} peers", node.name), MEET, met).await?;
        }
        Ok(begun.elapsed())
    }

    /// Kills a server with nothing but the one call to the system; [`Self::kill`] waits for the rest.
    ///
    /// # Errors
    /// It is not running.
    pub fn strike(&mut self, node: usize) -> anyhow::Result<()> {
        let node = &mut self.nodes[node];
        node.server.as_mut().with_context(|| format!("{} is not running", node.name))?.kill()
    }

    /// Kills a server at once: nobody is told. It is gone when this returns.
    ///
    /// # Errors
    /// It is not running.
    pub async fn kill(&mut self, node: usize) -> anyhow::Result<()> {
        let mut server = self.nodes[node].server.take().with_context(|| format!("n{node} is not running"))?;
        server.kill()?;
        self.lead_to(node, None);
        server.ended(GONE).await.map(drop)
    }

    /// Asks a server to end and waits for it.
    ///
    /// # Errors
    /// It is not running, does not end within that time, or ends with a complaint.
    pub async fn stop(&mut self, node: usize, within: Duration) -> anyhow::Result<Duration> {
        let begun = Instant::now();
        let server = self.nodes[node].server.as_mut().with_context(|| format!("n{node} is not running"))?;
        server.signal("TERM")?;
        let status = server.ended(within).await.with_context(|| format!("n{node} was asked to end"))?;
        let said = server.complaints();
        self.nodes[node].server = None;
        self.lead_to(node, None);
        anyhow::ensure!(status.success(), "n{node} ended with {status}; its complaints: {said:?}");
        Ok(begun.elapsed())
    }

    /// Does this with everything between a server and all others, or between two.
    pub fn between(&self, node: usize, other: Option<usize>, fault: Fault) {
        let is_meant = |(from, to): (usize, usize)| match other {
            Some(other) => [(node, other), (other, node)].contains(&(from, to)),
            None => from == node || to == node,
        };
        self.wires.iter().filter(|(ends, _)| is_meant(**ends)).for_each(|(_, wire)| wire.set(fault));
    }

    /// From now on all wires between servers carry everything again.
    pub fn heal(&self) {
        self.wires.values().for_each(|wire| wire.set(Fault::default()));
    }

    /// Bytes that went between two servers so far, from the first to the second.
    #[must_use]
    pub fn passed(&self, from: usize, to: usize) -> u64 {
        self.wire(from, to).passed()[0] + self.wire(to, from).passed()[1]
    }

    /// What a server shows to those who list everything.
    ///
    /// # Errors
    /// It is not running or refuses.
    pub async fn shown(&self, node: usize) -> anyhow::Result<Shown> {
        shown(&self.nodes[node].running()?.channel().await?).await
    }

    /// Waits until all these servers show the same; how long that took, and what they show.
    ///
    /// # Errors
    /// They do not within that time; where they differ stands in the message.
    pub async fn agree(&self, which: &[usize], within: Duration) -> anyhow::Result<(Duration, Shown)> {
        let begun = Instant::now();
        let channels = try_join_all(which.iter().map(|node| async {
            let server = self.nodes[*node].running()?;
            anyhow::Ok(server.channel().await?)
        }))
        .await?;
        loop {
            let lists = try_join_all(channels.iter().map(shown)).await;
            match &lists {
                Ok(lists) if lists.iter().all(|list| *list == lists[0]) => {
                    return Ok((begun.elapsed(), lists[0].clone()));
                }
                Ok(lists) if begun.elapsed() > within => {
                    bail!("not equal after {} s: {}", within.as_secs(), difference(lists));
                }
                Err(error) if begun.elapsed() > within => bail!("not equal: {error:#}"),
                _ => sleep(GLANCE).await,
            }
        }
    }

    /// The latest complaints of every server that runs, each line with the server's name.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        let of = |node: &Node| {
            let lines = node.server.as_ref().map(Server::complaints).unwrap_or_default();
            lines.into_iter().map(|line| format!("{}: {line}", node.name)).collect::<Vec<_>>()
        };
        self.nodes.iter().flat_map(of).collect()
    }
}

impl Node {
    /// The server.
    ///
    /// # Errors
    /// It is not running.
    pub fn running(&self) -> anyhow::Result<&Server> {
        self.server.as_ref().with_context(|| format!("{} is not running", self.name))
    }

    /// A gRPC connection of its own through the door.
    ///
    /// # Errors
    /// There is none to be had.
    pub async fn channel(&self) -> anyhow::Result<Channel> {
        connect(self.door.address).await
    }
}

/// What a server shows on this connection.
///
/// # Errors
/// It refuses.
pub async fn shown(channel: &Channel) -> anyhow::Result<Shown> {
    let mut client = DiscoveryServiceClient::new(channel.clone());
    let (mut shown, mut token) = (Shown::new(), String::new());
    loop {
        let request = v1::ListInstancesRequest { page_size: PAGE, page_token: token, ..Default::default() };
        let page = client.list_instances(request).await?.into_inner();
        for instance in page.instances {
            let read = Registration::try_from(instance)?;
            shown.insert(read.instance.key.clone(), (read.version, read.status()));
        }
        token = page.next_page_token;
        if token.is_empty() {
            return Ok(shown);
        }
    }
}

/// The first keys in which lists differ from the first list.
fn difference(lists: &[Shown]) -> String {
    let keys = lists.iter().flat_map(Shown::keys).collect::<std::collections::BTreeSet<_>>();
    let differ = keys.into_iter().filter(|key| lists.iter().any(|list| list.get(*key) != lists[0].get(*key)));
    let told = differ.map(|key| {
        let each: Vec<String> = lists.iter().map(|list| format!("{:?}", list.get(key))).collect();
        format!("{key} is {}", each.join(" / "))
    });
    let told: Vec<String> = told.collect();
    format!("{} keys, such as {}", told.len(), told.iter().take(3).cloned().collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: usize) -> InstanceKey {
        InstanceKey { namespace: String::new(), app: "A".into(), id: format!("i{id}") }
    }

    fn list(versions: &[(usize, u64)]) -> Shown {
        let version = |owner| Version { owner, ..Version::default() };
        versions.iter().map(|(id, owner)| (key(*id), (version(*owner), Status::Up))).collect()
    }

    #[test]
    fn where_lists_differ_is_told() {
        let told = difference(&[list(&[(0, 1), (1, 1)]), list(&[(0, 1), (1, 2)]), list(&[(0, 1)])]);
        assert!(told.starts_with("1 keys, such as A/i1 is Some("), "{told}");
        assert!(told.ends_with("None"), "{told}");
    }

    #[tokio::test]
    async fn a_fault_between_two_leaves_the_third_alone() {
        let layout = Layout::new(&Program::new("false"), 3);
        let cluster = Cluster::prepare(layout).await.unwrap();
        assert_eq!(cluster.wires.len(), 6);
        assert!(cluster.node(1).running().is_err());
        assert!(cluster.shown(0).await.is_err());
    }
}
