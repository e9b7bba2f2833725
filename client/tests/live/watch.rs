//! Watches: from server to server, and back after a long absence.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use heureka_client::model::{Clock as _, Report};
use heureka_client::{
    Best, BestBy, Client, Event, InstanceSelector, ReadingsSpec, SubscriptionId, WatchMany, WatchOptions,
};
use tokio_stream::StreamExt as _;

use crate::support::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_goes_to_the_next_server_and_ends_with_its_set() {
    bounded(async {
        let nodes = [Node::start().await, Node::start().await];
        let mut leases = Vec::new();
        for (node, ids) in nodes.iter().zip([["a", "both"], ["b", "both"]]) {
            for id in ids {
                leases.push(client(&[node]).register(instance("WEB", id)).await.unwrap());
            }
        }
        let mut watch = client(&[&nodes[0], &nodes[1]]).watch(Vec::new());
        let (first, _) = synced(&mut watch).await;
        let [one, other] = nodes;
        let (followed, rest) = if first == ["a", "both"] { (one, other) } else { (other, one) };
        followed.kill().await;
        let (came, went) = synced(&mut watch).await;
        let mut moved = [went, came].concat();
        moved.sort();
        assert_eq!(moved, ["a", "b"]);
        rest.kill().await;
    })
    .await;
}

/// Removals since the token are forgotten, so the server starts over; the watch makes a difference of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_older_than_the_memory_of_removals_costs_no_event() {
    bounded(async {
        let clock = Arc::new(ManualClock::default());
        let mut config = config();
        config.tombstones.ttl = Duration::from_secs(1);
        let node = Node::at((Ipv4Addr::LOCALHOST, 0).into(), config, clock.clone()).await;
        let proxy = Proxy::to(node.address()).await;
        let owner = client(&[&node]);
        let mut leases = Vec::new();
        for number in 0..20 {
            leases.push(owner.register(instance("WEB", &format!("{number:02}"))).await.unwrap());
        }
        let mut watch = Client::connect_with(quick(), [proxy.url()]).unwrap().watch(Vec::new());
        assert_eq!(synced(&mut watch).await.0.len(), 20);

        proxy.cut();
        for gone in leases.drain(..10) {
            gone.cancel().await.unwrap();
        }
        for number in 20..25 {
            leases.push(owner.register(instance("WEB", &number.to_string())).await.unwrap());
        }
        // A removal is remembered for twice the longest lease.
        while node.core().stats().tombstones > 0 {
            clock.pass(Duration::from_secs(60));
            node.core().tick(clock.now());
        }
        proxy.open();
        let (came, went) = synced(&mut watch).await;
        assert_eq!(came, ["20", "21", "22", "23", "24"]);
        let expected: Vec<String> = (0..10).map(|number| format!("{number:02}")).collect();
        assert_eq!(went, expected);
        node.kill().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_connection_loses_and_doubles_nothing() {
    bounded(async {
        let node = Node::start().await;
        let proxy = Proxy::to(node.address()).await;
        let owner = client(&[&node]);
        let mut watch = Client::connect_with(quick(), [proxy.url()]).unwrap().watch(Vec::new());
        synced(&mut watch).await;
        let (mut leases, mut told) = (Vec::new(), BTreeSet::new());
        for number in 0..5 {
            proxy.cut();
            let id = number.to_string();
            leases.push(owner.register(instance("WEB", &id)).await.unwrap());
            proxy.open();
            while !told.contains(&id) {
                if let Event::Added(now) = watch.next().await.unwrap().unwrap() {
                    assert!(told.insert(now.instance.key.id.clone()), "told twice");
                }
            }
        }
        node.kill().await;
    })
    .await;
}

/// What each subscription holds when all of them were told everything.
async fn all_synced(many: &mut WatchMany, held: &mut BTreeMap<SubscriptionId, BTreeSet<String>>) {
    let mut waiting: BTreeSet<_> = held.keys().copied().collect();
    while !waiting.is_empty() {
        let (id, event) = many.next().await.unwrap();
        let set = held.get_mut(&id).unwrap();
        match event.unwrap() {
            Event::Added(live) => drop(set.insert(live.instance.key.id.clone())),
            Event::Removed { last, .. } => drop(set.remove(&last.instance.key.id)),
            Event::Synced { instances } => {
                assert_eq!(instances, set.len());
                waiting.remove(&id);
            }
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_subscriptions_go_to_the_next_server_together_and_end_with_its_sets() {
    bounded(async {
        let nodes = [Node::start().await, Node::start().await];
        let mut leases = Vec::new();
        for (node, id) in nodes.iter().zip(["a", "b"]) {
            for app in ["WEB", "DB"] {
                leases.push(client(&[node]).register(instance(app, id)).await.unwrap());
                leases.push(client(&[node]).register(instance(app, "both")).await.unwrap());
            }
        }
        let mut many = client(&[&nodes[0], &nodes[1]]).watch_many();
        let of = |app: &str| vec![InstanceSelector { apps: vec![app.to_owned()], ..Default::default() }];
        let ids = [many.subscribe(of("WEB")), many.subscribe(of("DB")), many.subscribe(of("NONE"))];
        let mut held: BTreeMap<_, _> = ids.into_iter().map(|id| (id, BTreeSet::new())).collect();
        all_synced(&mut many, &mut held).await;
        let set = |ids: [&str; 2]| BTreeSet::from(ids.map(str::to_owned));
        let follows_first = held[&ids[0]] == set(["a", "both"]);
        let [one, other] = nodes;
        let (followed, rest) = if follows_first { (one, other) } else { (other, one) };
        let (before, after) = if follows_first { ("a", "b") } else { ("b", "a") };
        assert!(ids[..2].iter().all(|id| held[id] == set([before, "both"])), "{held:?}");
        followed.kill().await;
        all_synced(&mut many, &mut held).await;
        assert!(ids[..2].iter().all(|id| held[id] == set([after, "both"])), "{held:?}");
        assert!(held[&ids[2]].is_empty());
        rest.kill().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_of_the_best_follows_what_is_reported() {
    bounded(async {
        let node = Node::start().await;
        let mut leases = Vec::new();
        for (id, load) in [("a", 1.0), ("b", 2.0), ("c", 3.0)] {
            let lease = client(&[&node]).register(instance("WEB", id)).await.unwrap();
            let gauges = [("load".to_owned(), load)].into();
            lease.report(Report { gauges, ..Report::default() }).await.unwrap();
            leases.push(lease);
        }
        let by = Some(BestBy::Gauge("load".to_owned()));
        let best = Best { by, ascending: true, limit: 2, hysteresis: 0.5 };
        let readings = Some(ReadingsSpec::default());
        let options = WatchOptions { best: Some(best), readings, ..WatchOptions::default() };
        let mut watch = client(&[&node]).watch_with(options);
        assert_eq!(synced(&mut watch).await.0, ["a", "b"]);
        let gauges = [("load".to_owned(), 0.1)].into();
        leases[2].report(Report { gauges, ..Report::default() }).await.unwrap();
        let (mut came, mut went, mut read) = (None, None, 0);
        while came.is_none() || went.is_none() || read < 3 {
            match watch.next().await.unwrap().unwrap() {
                Event::Added(now) => came = Some(now.instance.key.id.clone()),
                Event::Removed { last, .. } => went = Some(last.instance.key.id.clone()),
                Event::Reading(reading) => read += usize::from(reading.report.is_some()),
                _ => {}
            }
        }
        assert_eq!((came.as_deref(), went.as_deref()), (Some("c"), Some("b")));
        node.kill().await;
    })
    .await;
}
