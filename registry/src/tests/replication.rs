//! Servers that are connected by streams, frame by frame.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use heureka_model::{InstanceKey, Now, Report, Status, Version, Wall};

use super::support::{GRPC, START, World, config, instance, key, leased};
use crate::replication::{Declined, Fault, Frame, Identity, Link, Replicator, Versions};
use crate::{Config, PreservationMode, SetOverride};

/// Some servers and the streams between them.
pub(super) struct Cluster {
    pub(super) nodes: Vec<Node>,
    /// Both ends of each stream, by the two servers, the lower first.
    streams: BTreeMap<(usize, usize), (Link, Link)>,
    pub(super) now: Now,
    /// Frames carried, by kind.
    carried: BTreeMap<&'static str, usize>,
    /// Records carried.
    records: usize,
}

pub(super) struct Node {
    pub(super) world: World,
    pub(super) replicator: Arc<Replicator>,
}

impl Cluster {
    fn new(size: u64) -> Self {
        let mut cluster = Self {
            nodes: Vec::new(),
            streams: BTreeMap::new(),
            now: START,
            carried: BTreeMap::new(),
            records: 0,
        };
        for boot in 1..=size {
            cluster.add(boot, PreservationMode::Off);
        }
        cluster
    }

    /// All connected with all.
    pub(super) fn meshed(size: u64) -> Self {
        let mut cluster = Self::new(size);
        for one in 0..size as usize {
            for other in one + 1..size as usize {
                cluster.connect(one, other);
            }
        }
        cluster.settle();
        cluster
    }

    pub(super) fn add(&mut self, boot: u64, mode: PreservationMode) -> usize {
        let config = Config { asks_peers: true, ..config(mode) };
        let mut world = World::with_boot(config, boot);
        world.now = self.now;
        let identity = Identity {
            cluster: "c".into(),
            node: format!("n{boot}"),
            address: format!("10.0.0.{boot}:8761"),
        };
        let replicator = Arc::new(Replicator::new(world.registry.clone(), identity));
        self.nodes.push(Node { world, replicator });
        self.nodes.len() - 1
    }

    pub(super) fn connect(&mut self, one: usize, other: usize) {
        let (a, b) = (&self.nodes[one].replicator, &self.nodes[other].replicator);
        let first = a.join(&b.hello(self.now), "b", true, self.now).unwrap();
        let second = b.join(&a.hello(self.now), "a", false, self.now).unwrap();
        self.streams.insert((one, other), (first, second));
    }

    pub(super) fn cut(&mut self, one: usize, other: usize) {
        self.streams.remove(&(one.min(other), one.max(other)));
    }

    pub(super) fn is_connected(&self, one: usize, other: usize) -> bool {
        self.streams.contains_key(&(one.min(other), one.max(other)))
    }

    /// Carries frames until nobody has one.
    pub(super) fn settle(&mut self) {
        for _ in 0..10_000 {
            let mut quiet = true;
            for (one, other) in self.streams.values_mut() {
                quiet &= !carry(one, other, self.now, &mut self.carried, &mut self.records);
                quiet &= !carry(other, one, self.now, &mut self.carried, &mut self.records);
            }
            if quiet {
                return;
            }
        }
        panic!("the servers never fall silent");
    }

    /// Time passes as on servers that tick every second and carry frames twice as often.
    pub(super) fn pass(&mut self, seconds: u64) {
        for half in 0..2 * seconds {
            self.now.mono.0 += 500;
            self.now.wall.0 += 500;
            for node in &mut self.nodes {
                node.world.now = self.now;
                if half % 2 == 1 {
                    node.replicator.tick(self.now);
                }
            }
            self.settle();
        }
    }

    /// Time passes in which one instance renews at one server.
    fn pass_renewing(&mut self, seconds: u64, node: usize, app: &str, id: &str) {
        for _ in 0..seconds {
            assert!(self.nodes[node].world.renew(app, id));
            self.pass(1);
        }
    }

    fn sees(&self, app: &str, id: &str) -> Vec<Option<Status>> {
        self.nodes.iter().map(|node| node.world.status(app, id)).collect()
    }

    fn roots(&self) -> Vec<Option<u64>> {
        self.nodes.iter().map(|node| node.replicator.root()).collect()
    }

    fn assert_level(&self) {
        let roots = self.roots();
        assert!(roots.iter().all(|root| *root == roots[0]), "{roots:x?}");
    }
}

fn carry(
    from: &mut Link,
    to: &mut Link,
    now: Now,
    carried: &mut BTreeMap<&'static str, usize>,
    records: &mut usize,
) -> bool {
    let Some(frame) = from.next(now) else { return false };
    let kind = match &frame {
        Frame::Hello(_) => "hello",
        Frame::Pull => "pull",
        Frame::Records(told) => {
            *records += told.records.len();
            "records"
        }
        Frame::Renewals(_) => "renewals",
        Frame::Reports(_) => "reports",
        Frame::Want(_) => "want",
        Frame::Probe(_) => "probe",
        Frame::State(_) => "state",
        Frame::Groups(_) => "groups",
        Frame::Buckets(_) => "buckets",
        Frame::Summary(_) => "summary",
        Frame::Inspect(_) => "inspect",
        Frame::Versions(_) => "versions",
        Frame::Ack(_) => "ack",
        Frame::Drain => "drain",
    };
    *carried.entry(kind).or_default() += 1;
    to.receive(frame, now).unwrap();
    true
}

/// Carries a frame unless it tells of changes.
fn pass_on(from: &mut Link, to: &mut Link, now: Now) {
    let frame = from.next(now).filter(|frame| !matches!(frame, Frame::Records(_)));
    if let Some(frame) = frame {
        to.receive(frame, now).unwrap();
    }
}

const UP: Option<Status> = Some(Status::Up);

#[test]
fn what_is_written_to_one_is_read_from_all() {
    let mut cluster = Cluster::meshed(3);
    cluster.nodes[0].world.register(instance("A", "1"));
    cluster.settle();
    assert_eq!(cluster.sees("A", "1"), [UP, UP, UP]);
    let set = SetOverride { status: Status::OutOfService, ttl: None, drain: None };
    cluster.nodes[1].world.registry.set_override(key("A", "1"), set, &GRPC, cluster.now).unwrap();
    cluster.settle();
    assert_eq!(cluster.sees("A", "1"), [Some(Status::OutOfService); 3]);
    assert!(cluster.nodes[2].world.cancel("A", "1"));
    cluster.settle();
    assert_eq!(cluster.sees("A", "1"), [None, None, None]);
    cluster.assert_level();
}

#[test]
fn every_write_goes_over_each_stream_once() {
    let mut cluster = Cluster::meshed(3);
    for id in 0..100 {
        cluster.nodes[id % 3].world.register(instance("A", &id.to_string()));
    }
    cluster.settle();
    assert_eq!(cluster.records, 200);
    cluster.pass(5);
    assert_eq!(cluster.records, 200, "and nothing is told again");
    cluster.assert_level();
}

#[test]
fn a_write_is_acknowledged_once_a_peer_has_it() {
    let mut cluster = Cluster::meshed(2);
    let acks = cluster.nodes[0].world.registry.acks();
    assert!(acks.reachable());
    cluster.nodes[0].world.register(instance("A", "1"));
    let entered = cluster.nodes[0].world.registry.entered();
    assert!(acks.highest() < entered);
    cluster.settle();
    assert!(cluster.nodes[0].world.registry.acks().highest() >= entered);
    assert_eq!(cluster.nodes[1].world.registry.entered(), 0, "it did not enter at the peer");
    cluster.cut(0, 1);
    assert!(!cluster.nodes[0].world.registry.acks().reachable());
}

#[test]
fn renewals_at_one_keep_the_lease_at_all() {
    let mut cluster = Cluster::meshed(3);
    cluster.nodes[0].world.register(leased("A", "1", 6));
    cluster.settle();
    cluster.pass_renewing(30, 0, "A", "1");
    assert_eq!(cluster.sees("A", "1"), [UP, UP, UP]);
    let carried = cluster.records;
    cluster.pass(5);
    assert_eq!(cluster.sees("A", "1"), [UP, UP, UP]);
    cluster.pass(2);
    assert_eq!(
        cluster.sees("A", "1"),
        [None, None, None],
        "two seconds after its lease it is gone everywhere"
    );
    assert!(cluster.records > carried);
    cluster.assert_level();
}

#[test]
fn an_owner_may_move_from_server_to_server() {
    let mut cluster = Cluster::meshed(3);
    cluster.nodes[0].world.register(leased("A", "1", 6));
    cluster.settle();
    for node in [1, 2, 0, 2] {
        cluster.pass_renewing(5, node, "A", "1");
    }
    assert_eq!(cluster.sees("A", "1"), [UP, UP, UP]);
}

#[test]
fn a_stream_that_comes_back_goes_on_where_it_was() {
    let mut cluster = Cluster::meshed(2);
    for id in 0..1000 {
        cluster.nodes[0].world.register(instance("A", &id.to_string()));
    }
    cluster.settle();
    cluster.cut(0, 1);
    cluster.nodes[0].world.register(instance("A", "late"));
    assert!(cluster.nodes[0].world.cancel("A", "7"));
    assert!(cluster.nodes[1].world.cancel("A", "8"));
    let before = cluster.records;
    cluster.connect(0, 1);
    cluster.settle();
    assert_eq!(cluster.records - before, 3);
    assert_eq!(cluster.sees("A", "late"), [UP, UP]);
    assert_eq!(cluster.sees("A", "7"), [None, None]);
    assert_eq!(cluster.sees("A", "8"), [None, None]);
    cluster.assert_level();
}

#[test]
fn a_new_server_asks_one_that_is_ready_for_everything() {
    let mut cluster = Cluster::meshed(2);
    for id in 0..2000 {
        cluster.nodes[id % 2].world.register(leased("A", &id.to_string(), 90));
    }
    cluster.pass(1);
    assert!(cluster.nodes[0].world.cancel("A", "7"));
    cluster.settle();
    let new = cluster.add(3, PreservationMode::Off);
    let replicator = cluster.nodes[new].replicator.clone();
    replicator.set_ready(false);
    cluster.connect(0, new);
    cluster.connect(1, new);
    assert!(!replicator.is_synced());
    cluster.settle();
    assert!(replicator.is_synced());
    assert_eq!(cluster.carried["pull"], 1);
    replicator.set_ready(true);
    cluster.assert_level();
    assert_eq!(cluster.sees("A", "7"), [None, None, None]);
    // The new one knows how old the leases are.
    cluster.pass(88);
    assert_eq!(cluster.sees("A", "11"), [UP, UP, UP]);
    cluster.pass(3);
    assert_eq!(cluster.sees("A", "11"), [None, None, None]);
}

#[test]
fn a_server_that_is_learning_takes_renewals_of_what_it_does_not_know_yet() {
    let mut cluster = Cluster::meshed(1);
    cluster.nodes[0].world.register(leased("A", "1", 6));
    cluster.pass(5);
    let new = cluster.add(2, PreservationMode::Off);
    let replicator = cluster.nodes[new].replicator.clone();
    assert!(!cluster.nodes[new].world.renew("A", "1"), "a server that knows all says so");
    replicator.set_ready(false);
    assert!(cluster.nodes[new].world.renew("A", "1"));
    cluster.connect(0, new);
    cluster.settle();
    replicator.set_ready(true);
    cluster.pass(5);
    assert_eq!(cluster.sees("A", "1"), [UP, UP], "the renewal counts everywhere");
    assert!(!cluster.nodes[new].world.renew("A", "2"));
}

#[test]
fn what_a_stream_never_told_is_found_by_the_digest() {
    let mut cluster = Cluster::new(2);
    // Each takes for told what the other never heard.
    for node in 0..2 {
        for id in 0..50 {
            cluster.nodes[node].world.register(instance("A", &format!("{node}-{id}")));
        }
        assert!(cluster.nodes[node].world.cancel("A", &format!("{node}-3")));
    }
    let (a, b) = (cluster.nodes[0].replicator.clone(), cluster.nodes[1].replicator.clone());
    let all = |replicator: &Replicator| crate::replication::Applied {
        boot: replicator.registry().boot(),
        revision: replicator.registry().head(),
    };
    let mut hello = b.hello(cluster.now);
    hello.applied.push(all(&a));
    let first = a.join(&hello, "b", true, cluster.now).unwrap();
    let mut hello = a.hello(cluster.now);
    hello.applied.push(all(&b));
    let second = b.join(&hello, "a", false, cluster.now).unwrap();
    cluster.streams.insert((0, 1), (first, second));
    cluster.settle();
    assert_ne!(cluster.roots()[0], cluster.roots()[1]);
    cluster.pass(3);
    cluster.assert_level();
    assert_eq!(cluster.sees("A", "1-7"), [UP, UP]);
    assert_eq!(cluster.records, 98, "only what differs is told");
}

#[test]
fn everybody_hears_of_everybody_through_a_chain() {
    let mut cluster = Cluster::new(3);
    cluster.connect(0, 1);
    cluster.connect(1, 2);
    cluster.settle();
    cluster.nodes[0].world.register(leased("A", "1", 9));
    cluster.pass(3);
    assert_eq!(cluster.sees("A", "1"), [UP, UP, UP]);
    cluster.pass_renewing(40, 0, "A", "1");
    assert_eq!(cluster.sees("A", "1"), [UP, UP, UP], "renewals go on as well");
    assert!(cluster.nodes[2].world.cancel("A", "1"));
    cluster.pass(3);
    assert_eq!(cluster.sees("A", "1"), [None, None, None]);
    cluster.assert_level();
}

#[test]
fn an_eviction_is_undone_by_whoever_heard_of_the_instance() {
    let mut cluster = Cluster::meshed(2);
    cluster.nodes[0].world.register(leased("A", "1", 6));
    cluster.settle();
    cluster.cut(0, 1);
    cluster.pass_renewing(10, 0, "A", "1");
    assert_eq!(cluster.sees("A", "1"), [UP, None], "cut off, the other one cannot know");
    cluster.connect(0, 1);
    cluster.settle();
    assert_eq!(cluster.sees("A", "1"), [UP, UP]);
    cluster.assert_level();
    assert_eq!(cluster.nodes[0].replicator.stats().revived, 1);
}

#[test]
fn before_an_eviction_the_peers_are_asked() {
    let mut cluster = Cluster::meshed(2);
    cluster.nodes[0].world.register(leased("A", "1", 6));
    cluster.nodes[0].world.register(leased("A", "2", 6));
    cluster.settle();
    cluster.pass(5);
    assert!(cluster.nodes[0].world.renew("A", "1"));
    cluster.pass(4);
    assert!(cluster.nodes[1].replicator.stats().probed > 0);
    assert_eq!(cluster.sees("A", "1"), [UP, UP]);
    assert_eq!(cluster.sees("A", "2"), [None, None]);
}

#[test]
fn what_was_forgotten_does_not_come_back_without_a_sign_of_life() {
    let mut cluster = Cluster::new(1);
    let config =
        Config { asks_peers: true, tombstone_ttl: Duration::from_secs(1), ..config(PreservationMode::Off) };
    let world = World::with_boot(config, 2);
    let identity = Identity { cluster: "c".into(), node: "n2".into(), address: String::new() };
    let replicator = Arc::new(Replicator::new(world.registry.clone(), identity));
    cluster.nodes.push(Node { world, replicator });
    cluster.connect(0, 1);
    cluster.settle();
    cluster.nodes[0].world.register(leased("A", "1", 6));
    cluster.settle();
    cluster.cut(0, 1);
    assert!(cluster.nodes[1].world.cancel("A", "1"));
    // The server that was cut off stands still, so its leases do not run out by its own clock.
    for _ in 0..30 {
        cluster.now.mono.0 += 1000;
        cluster.now.wall.0 += 1000;
        cluster.nodes[1].world.now = cluster.now;
        cluster.nodes[1].replicator.tick(cluster.now);
    }
    assert_eq!(cluster.nodes[1].world.registry.stats().tombstones, 0, "the removal is forgotten");
    cluster.nodes[0].world.now = cluster.now;
    cluster.connect(0, 1);
    cluster.nodes[0].replicator.tick(cluster.now);
    cluster.pass(4);
    assert_eq!(cluster.sees("A", "1"), [None, None]);
    cluster.assert_level();
}

#[test]
fn an_operator_is_told_where_two_servers_differ() {
    let mut cluster = Cluster::meshed(2);
    for id in 0..600 {
        cluster.nodes[0].world.register(instance("A", &id.to_string()));
    }
    cluster.settle();
    let replicator = cluster.nodes[0].replicator.clone();
    let mut none = replicator.diff("n2").unwrap();
    cluster.settle();
    assert_eq!(none.try_recv().unwrap(), []);
    // Carried before the changes are.
    cluster.nodes[0].world.register(instance("A", "new"));
    assert!(cluster.nodes[1].world.cancel("A", "7"));
    let mut answer = replicator.diff("n2").unwrap();
    assert!(replicator.diff("n2").is_none() && replicator.diff("n9").is_none());
    let (one, other) = cluster.streams.get_mut(&(0, 1)).unwrap();
    while answer.is_empty() {
        pass_on(one, other, cluster.now);
        pass_on(other, one, cluster.now);
    }
    let differences = answer.try_recv().unwrap();
    let found: Vec<_> = differences
        .iter()
        .map(|found| (found.key.id.as_str(), found.local.is_some(), found.remote.is_some()))
        .collect();
    assert_eq!(found, [("7", true, false), ("new", true, false)]);
}

#[test]
fn an_answer_that_nobody_waits_for_is_not_kept_and_another_may_ask_once_it_is_over() {
    let mut cluster = Cluster::meshed(2);
    let replicator = cluster.nodes[0].replicator.clone();
    let now = cluster.now;
    drop(replicator.diff("n2").unwrap());
    let (one, _) = cluster.streams.get_mut(&(0, 1)).unwrap();
    while !matches!(one.next(now).unwrap(), Frame::Inspect(_)) {}
    let told = |id: &str, complete| {
        let key = InstanceKey { namespace: String::new(), app: "A".into(), id: id.into() };
        Frame::Versions(Versions { versions: vec![(key, Version::default())], complete, groups: vec![] })
    };
    one.receive(told("late", false), now).unwrap();
    assert_eq!(one.answer_kept(), 0);
    let mut answer = replicator.diff("n2").unwrap();
    one.receive(told("last", true), now).unwrap();
    while !matches!(one.next(now).unwrap(), Frame::Inspect(_)) {}
    one.receive(told("new", true), now).unwrap();
    let found: Vec<_> = answer.try_recv().unwrap().into_iter().map(|found| found.key.id).collect();
    assert_eq!(found, ["new"]);
}

#[test]
fn what_a_restart_found_does_not_bring_back_what_was_removed_and_forgotten() {
    let mut cluster = Cluster::meshed(2);
    cluster.nodes[0].world.register(leased("A", "1", 60));
    cluster.settle();
    let stored = cluster.nodes[0].world.registry.export(key("A", "1"), cluster.now).unwrap();
    let restarted = cluster.add(3, PreservationMode::Off);
    cluster.cut(0, 1);
    // The others never heard of it, or not any more.
    let other = cluster.add(4, PreservationMode::Off);
    cluster.nodes[restarted].world.registry.restore(stored, cluster.now).unwrap();
    cluster.connect(restarted, other);
    cluster.pass(5);
    assert_eq!(cluster.nodes[other].world.status("A", "1"), None);
    assert_eq!(cluster.nodes[restarted].world.status("A", "1"), None);
}

#[test]
fn a_stream_is_declined_for_a_reason() {
    let cluster = Cluster::meshed(2);
    let node = &cluster.nodes[0].replicator;
    let hello = cluster.nodes[1].replicator.hello(cluster.now);
    let decline = |hello, dialed| node.join(&hello, "x", dialed, cluster.now).unwrap_err();
    let mut other = hello.clone();
    other.cluster = "d".into();
    assert_eq!(decline(other, true), Declined::OtherCluster { cluster: "d".into() });
    assert_eq!(decline(node.hello(cluster.now), true), Declined::OwnNode);
    let mut namesake = hello.clone();
    namesake.boot = 9;
    let address = "10.0.0.2:8761".to_owned();
    assert_eq!(decline(namesake.clone(), true), Declined::NodeAlive { node: "n2".into(), address });
    namesake.node = "n1".into();
    assert_eq!(decline(namesake, true), Declined::NameTaken { node: "n1".into() });
    for protocol in [0, 3, u32::MAX] {
        let mut other = hello.clone();
        other.protocol = protocol;
        assert_eq!(decline(other, true), Declined::Protocol { protocol });
    }
    let mut ahead = hello.clone();
    ahead.clock = START.wall.plus(Duration::from_hours(400 * 24)).0 << 16;
    assert_eq!(decline(ahead.clone(), true), Declined::Clock { clock: ahead.clock });
    assert_eq!(decline(hello, false), Declined::Duplicate, "the one that the smaller id opened stays");
}

#[test]
fn a_server_that_comes_back_elsewhere_takes_its_place_over() {
    let mut cluster = Cluster::meshed(2);
    let mut back = cluster.nodes[1].replicator.hello(cluster.now);
    back.boot = 9;
    let node = cluster.nodes[0].replicator.clone();
    assert!(node.join(&back, "elsewhere", false, cluster.now).is_err(), "the other one answers");
    let later =
        Now { mono: cluster.now.mono.plus(Duration::from_secs(4)), wall: Wall(cluster.now.wall.0 + 4000) };
    let link = node.join(&back, "elsewhere", false, later).unwrap();
    assert_eq!(link.peer(), "n2");
    assert!(cluster.streams[&(0, 1)].0.is_replaced());
    cluster.cut(0, 1);
    assert!(!link.is_replaced());
    assert_eq!(node.peers(later).len(), 1);
}

#[test]
fn what_was_sent_to_a_server_that_stood_still_does_not_bring_back_the_dead() {
    let mut cluster = Cluster::meshed(2);
    cluster.nodes[0].world.register(leased("A", "1", 6));
    cluster.pass_renewing(3, 0, "A", "1");
    // The last beat is sent when the other stops, and so is what becomes of it while nobody reads.
    assert!(cluster.nodes[0].world.renew("A", "1"));
    let (sending, mut reading) = cluster.streams.remove(&(0, 1)).unwrap();
    let (mut sending, mut sent) = (sending, Vec::new());
    for _ in 0..20 {
        cluster.now.mono.0 += 1000;
        cluster.now.wall.0 += 1000;
        cluster.nodes[0].world.now = cluster.now;
        sent.extend(std::iter::from_fn(|| sending.next(cluster.now)));
        let _ = sending.receive(Frame::Probe(Vec::new()), cluster.now);
        cluster.nodes[0].replicator.tick(cluster.now);
    }
    assert_eq!(cluster.nodes[0].world.status("A", "1"), None);
    assert!(sent.iter().any(|frame| matches!(frame, Frame::Renewals(_))));
    cluster.nodes[1].world.now = cluster.now;
    for frame in sent {
        assert_eq!(reading.receive(frame, cluster.now), Err(Fault::StoodStill));
    }
    drop((sending, reading));
    cluster.connect(0, 1);
    cluster.settle();
    cluster.pass(2);
    assert_eq!(cluster.sees("A", "1"), [None, None]);
    cluster.assert_level();
}

#[test]
fn a_report_reaches_the_readers_of_other_servers_once_and_leaves_no_trace() {
    let mut cluster = Cluster::meshed(3);
    cluster.nodes[0].world.register(leased("A", "1", 80_000));
    cluster.settle();
    let heads: Vec<u64> = cluster.nodes.iter().map(|node| node.world.registry.head()).collect();
    let slots =
        |amount: i64| Report { available: [("slots".to_owned(), amount)].into(), ..Report::default() };
    let report = |cluster: &Cluster, node: usize, amount| {
        let World { registry, now } = &cluster.nodes[node].world;
        registry.report(key("A", "1"), slots(amount), *now).unwrap();
    };
    let known = |cluster: &Cluster| -> Vec<Option<i64>> {
        let of = |node: &Node| {
            let (report, _) = node.world.registry.reported(key("A", "1"))?;
            report.available.get("slots").copied()
        };
        cluster.nodes.iter().map(of).collect()
    };
    (0..4).for_each(|amount| report(&cluster, 0, amount));
    cluster.pass(1);
    assert_eq!(known(&cluster), [Some(3); 3]);
    let frames = cluster.carried["reports"];
    assert_eq!(frames, 2, "one to each of the others, who pass nothing on");
    cluster.pass(5);
    assert_eq!(cluster.carried["reports"], frames, "nothing new, nothing told");
    report(&cluster, 1, 9);
    cluster.pass(2);
    assert_eq!(known(&cluster), [Some(9); 3], "the owner went to another server");
    let after: Vec<u64> = cluster.nodes.iter().map(|node| node.world.registry.head()).collect();
    assert_eq!(after, heads, "reports are no changes anywhere");
    cluster.assert_level();
    cluster.nodes[2].world.cancel("A", "1");
    cluster.pass(2);
    assert_eq!(known(&cluster), [None; 3]);
}

#[test]
fn a_server_that_comes_later_is_told_what_is_known() {
    let mut cluster = Cluster::meshed(2);
    cluster.cut(0, 1);
    cluster.nodes[0].world.register(leased("A", "1", 80_000));
    let report = Report { gauges: [("load".to_owned(), 0.5)].into(), ..Report::default() };
    let World { registry, now } = &cluster.nodes[0].world;
    registry.report(key("A", "1"), report.clone(), *now).unwrap();
    cluster.connect(0, 1);
    cluster.pass(2);
    let (told, at) = cluster.nodes[1].world.registry.reported(key("A", "1")).unwrap();
    assert_eq!(*told, report);
    assert!(at <= cluster.now.wall);
}
