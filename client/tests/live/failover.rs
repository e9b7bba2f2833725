//! Two servers that replicate, and a client that goes from one to the other.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use heureka_client::{Cache, Client, Event, Lease, Watch};
use heureka_server::clock::SystemClock;
use tokio_stream::StreamExt as _;

use crate::support::*;

const PROVIDERS: usize = 20;

/// Two linked servers with providers, and a way to each.
struct Pair {
    nodes: [Node; 2],
    ways: [Proxy; 2],
    link: Linked,
    clock: Arc<SystemClock>,
    leases: Vec<Lease>,
}

impl Pair {
    async fn start() -> Self {
        let clock = Arc::new(SystemClock::new());
        let node = || Node::at((Ipv4Addr::LOCALHOST, 0).into(), config(), clock.clone());
        let nodes = [node().await, node().await];
        let link = Linked::new(&nodes[0], &nodes[1], clock.clone());
        let ways = [Proxy::to(nodes[0].address()).await, Proxy::to(nodes[1].address()).await];
        let leases = providers(&client(&[&nodes[0]])).await;
        for node in &nodes {
            holds(node, PROVIDERS).await;
        }
        Self { nodes, ways, link, clock, leases }
    }

    /// A client that knows both ways, while only the first leads on.
    fn client(&self) -> Client {
        self.ways[1].cut();
        Client::connect_with(quick(), self.ways.iter().map(Proxy::url)).unwrap()
    }

    /// A watch that follows the first server, with the second as its refuge.
    async fn watch(&self) -> Watch {
        let mut watch = self.client().watch(Vec::new());
        assert_eq!(synced(&mut watch).await.0.len(), PROVIDERS);
        self.ways[1].open();
        watch
    }

    async fn cache(&self) -> Cache {
        let cache = self.client().cache(Vec::new());
        cache.ready().await.unwrap();
        self.ways[1].open();
        cache
    }
}

async fn providers(owner: &Client) -> Vec<Lease> {
    let mut leases = Vec::new();
    for number in 0..PROVIDERS {
        leases.push(owner.register(instance("BILLING", &format!("{number:02}"))).await.unwrap());
    }
    leases
}

/// Waits until a server has so many instances.
async fn holds(node: &Node, instances: usize) {
    while node.core().stats().instances != instances as u64 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Reads until an instance is told; nothing but that may be.
async fn only_hears_of(watch: &mut Watch, id: &str) {
    loop {
        match watch.next().await.unwrap().unwrap() {
            Event::Added(now) => return assert_eq!(now.instance.key.id, id),
            other => assert!(matches!(other, Event::Synced { .. } | Event::Preserving(_)), "{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_whose_server_dies_goes_on_at_the_other_with_what_it_missed() {
    bounded(async {
        let pair = Pair::start().await;
        let mut watch = pair.watch().await;
        let [first, second] = pair.nodes;
        first.kill().await;
        let _lease = client(&[&second]).register(instance("BILLING", "new")).await.unwrap();
        only_hears_of(&mut watch, "new").await;
        second.kill().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_whose_cable_is_pulled_goes_on_at_the_other_server() {
    bounded(async {
        let pair = Pair::start().await;
        let mut watch = pair.watch().await;
        pair.ways[0].silence();
        let _lease = client(&[&pair.nodes[0]]).register(instance("BILLING", "new")).await.unwrap();
        only_hears_of(&mut watch, "new").await;
        for node in pair.nodes {
            node.kill().await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_lags_brings_nothing_back() {
    bounded(async {
        let mut pair = Pair::start().await;
        let mut watch = pair.watch().await;
        drop(pair.link);
        // The first server alone hears of it.
        assert_eq!(pair.leases.remove(3).cancel().await, Ok(true));
        while !matches!(watch.next().await.unwrap().unwrap(), Event::Removed { .. }) {}
        let [first, second] = pair.nodes;
        first.kill().await;
        let lease = client(&[&second]).register(instance("BILLING", "new")).await.unwrap();
        assert_eq!(second.core().stats().instances, PROVIDERS as u64 + 1, "the one that is gone among them");
        only_hears_of(&mut watch, "new").await;
        drop(lease);
        second.kill().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_any_of_two_servers_look_ups_answer_and_the_age_grows() {
    bounded(async {
        let pair = Pair::start().await;
        let cache = pair.cache().await;
        for node in pair.nodes {
            node.kill().await;
        }
        let age = cache.age();
        while cache.age() <= age {
            tokio::task::yield_now().await;
        }
        assert_eq!((cache.up("BILLING").len(), cache.holds()), (PROVIDERS, 0));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_servers_one_that_comes_back_empty_empties_nothing() {
    bounded(async {
        let pair = Pair::start().await;
        let cache = pair.cache().await;
        let mut changes = cache.changes();
        // Nobody renews or registers again, and nobody tells the server what it lost.
        drop((pair.leases, pair.link));
        let [first, second] = pair.nodes;
        let first = first.restart().await;
        second.kill().await;
        while cache.withheld() != Some(PROVIDERS) {
            changes.next().await.unwrap();
        }
        assert_eq!((cache.up("BILLING").len(), cache.holds()), (PROVIDERS, 1));
        let leases = providers(&client(&[&first])).await;
        while cache.withheld().is_some() {
            assert_eq!(cache.up("BILLING").len(), PROVIDERS);
            changes.next().await.unwrap();
        }
        assert_eq!(cache.up("BILLING").len(), PROVIDERS);
        drop(leases);
        first.kill().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_cancelled_at_one_server_leaves_a_cache_of_the_other_at_once() {
    bounded(async {
        let pair = Pair::start().await;
        let cache = pair.cache().await;
        let mut changes = cache.changes();
        for lease in pair.leases {
            assert_eq!(lease.cancel().await, Ok(true));
        }
        while !cache.is_empty() {
            changes.next().await.unwrap();
        }
        assert_eq!(cache.holds(), 0);
        for node in pair.nodes {
            node.kill().await;
        }
        drop((pair.ways, pair.clock));
    })
    .await;
}
