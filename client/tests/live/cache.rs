//! The cache: no server, an empty server, a real end.

use heureka_client::{Cache, Lease};
use tokio_stream::StreamExt as _;

use crate::support::*;

const PROVIDERS: usize = 20;

async fn providers(node: &Node) -> Vec<Lease> {
    let owner = client(&[node]);
    let mut leases = Vec::new();
    for number in 0..PROVIDERS {
        leases.push(owner.register(instance("BILLING", &format!("{number:02}"))).await.unwrap());
    }
    leases
}

async fn follow(node: &Node) -> Cache {
    let cache = client(&[node]).cache(Vec::new());
    cache.ready().await.unwrap();
    assert_eq!(cache.up("BILLING").len(), PROVIDERS);
    cache
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_any_server_look_ups_answer_and_the_age_is_told() {
    bounded(async {
        let node = Node::start().await;
        let _leases = providers(&node).await;
        let cache = follow(&node).await;
        node.kill().await;
        let age = cache.age();
        while cache.age() <= age {
            tokio::task::yield_now().await;
        }
        assert_eq!(cache.up("BILLING").len(), PROVIDERS);
        assert!(cache.pick("billing").unwrap().to_string().ends_with(".lan:9100"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_comes_back_empty_empties_nothing() {
    bounded(async {
        let node = Node::start().await;
        let leases = providers(&node).await;
        let cache = follow(&node).await;
        // The providers are silent when the cache hears of the empty server.
        drop(leases);
        let node = node.restart().await;
        let mut changes = cache.changes();
        while cache.withheld() != Some(PROVIDERS) {
            changes.next().await.unwrap();
        }
        assert_eq!(cache.holds(), 1);
        let leases = providers(&node).await;
        while cache.withheld().is_some() {
            assert_eq!(cache.up("BILLING").len(), PROVIDERS);
            changes.next().await.unwrap();
        }
        assert_eq!((cache.up("BILLING").len(), cache.holds()), (PROVIDERS, 1));
        drop(leases);
        node.kill().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_cancelled_leaves_at_once() {
    bounded(async {
        let node = Node::start().await;
        let leases = providers(&node).await;
        let cache = follow(&node).await;
        let mut changes = cache.changes();
        for lease in leases {
            assert_eq!(lease.cancel().await, Ok(true));
        }
        while !cache.is_empty() {
            changes.next().await.unwrap();
        }
        assert_eq!((cache.holds(), cache.up("BILLING").len()), (0, 0));
        node.kill().await;
    })
    .await;
}
