//! A reader that moves from one server to another is told what it missed, and never anything older than it knows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use heureka_model::{InstanceKey, KeyHasher, Selector, Selectors, Status, Version};
use proptest::prelude::*;

use super::replication::Cluster;
use super::support::{GRPC, config, instance, key};
use crate::replication::{Adoption, Outgoing, Position, Standing};
use crate::{Config, Extent, PreservationMode, Registry, SetOverride, Start, Subscription, ToldApps};

/// What a client holds: per key the newest version it knows, and whether the instance is there.
#[derive(Default)]
struct View {
    known: BTreeMap<InstanceKey, (Version, bool)>,
    standing: Standing,
    /// Keys told since the last move.
    told: usize,
}

impl View {
    fn of(cluster: &Cluster, node: usize) -> Self {
        let mut view = Self::default();
        view.read(cluster, node, Start::Full);
        view
    }

    /// Reads to the head of one server.
    fn read(&mut self, cluster: &Cluster, node: usize, start: Start) {
        let registry = &cluster.nodes[node].world.registry;
        let mut subscription = Subscription::new(registry, Selectors::default(), start);
        let standing = registry.standing();
        self.told = 0;
        while subscription.position() < standing.revision {
            for told in &subscription.poll(registry, 7, cluster.now).changes {
                self.told += 1;
                let known = self.known.entry(told.key.clone()).or_default();
                *known = (*known).max((told.version, told.registration.is_some()));
            }
            assert!(!subscription.is_lost(registry));
        }
        self.standing = standing;
    }

    /// Goes on at another server, if that is possible.
    fn moves(&mut self, cluster: &Cluster, node: usize) -> bool {
        let registry = &cluster.nodes[node].world.registry;
        let vector = &self.standing.vector;
        let possible = registry.has_taken_in(vector) && registry.remembers_since(vector);
        if possible {
            let vector = vector.as_slice().into();
            self.read(cluster, node, Start::Since(vector));
        }
        possible
    }

    fn live(&self) -> Vec<(InstanceKey, Version)> {
        let live = self.known.iter().filter(|(_, (_, live))| *live);
        live.map(|(key, (version, _))| (key.clone(), *version)).collect()
    }

    /// Holds exactly what a server that knows as much lists.
    fn assert_level(&self, cluster: &Cluster, node: usize) {
        assert_eq!(self.live(), listed(&cluster.nodes[node].world.registry, cluster));
    }
}

fn listed(registry: &Registry, cluster: &Cluster) -> Vec<(InstanceKey, Version)> {
    let page = registry.page(&Selectors::default(), None, 10_000, cluster.now);
    page.instances.into_iter().map(|found| (found.instance.key, found.version)).collect()
}

fn write(cluster: &Cluster, node: usize, app: &str, id: &str) {
    cluster.nodes[node].world.register(instance(app, id));
}

/// Three servers that know a hundred instances.
fn filled() -> Cluster {
    let mut cluster = Cluster::meshed(3);
    for id in 0..100 {
        write(&cluster, id % 3, "A", &id.to_string());
    }
    cluster.settle();
    cluster
}

#[test]
fn only_what_was_missed_is_told_on_another_server() {
    let mut cluster = filled();
    let mut view = View::of(&cluster, 0);
    assert!(view.moves(&cluster, 1));
    assert_eq!(view.told, 0, "nothing happened meanwhile");
    write(&cluster, 0, "A", "new");
    cluster.nodes[1].world.cancel("A", "7");
    let set = SetOverride { status: Status::OutOfService, ttl: None, drain: None };
    cluster.nodes[2].world.registry.set_override(key("A", "8"), set, &GRPC, cluster.now).unwrap();
    cluster.settle();
    assert!(view.moves(&cluster, 2));
    assert_eq!(view.told, 3);
    view.assert_level(&cluster, 2);
}

#[test]
fn a_server_that_lacks_what_was_told_says_so_until_it_has_it() {
    let mut cluster = filled();
    cluster.cut(0, 1);
    write(&cluster, 0, "A", "new");
    cluster.settle();
    let mut view = View::of(&cluster, 0);
    assert!(!view.moves(&cluster, 1), "it has not heard of the write");
    assert!(view.moves(&cluster, 2));
    cluster.connect(0, 1);
    cluster.settle();
    cluster.pass(2);
    assert!(view.moves(&cluster, 1));
    assert_eq!(view.told, 0);
}

#[test]
fn what_a_standing_covers_was_told_by_its_revision() {
    let cluster = filled();
    for node in &cluster.nodes {
        let Standing { vector, revision } = node.world.registry.standing();
        assert_eq!(vector.len(), 3);
        assert!(vector.is_sorted_by(|one, other| one.boot < other.boot));
        assert_eq!(revision, node.world.registry.head());
    }
    let first = &cluster.nodes[0].world.registry;
    assert!(
        cluster.nodes[1..]
            .iter()
            .all(|node| node.world.registry.standing().vector == first.standing().vector)
    );
    assert!(first.has_taken_in(&first.covered()), "and clocks without a write count as well");
}

#[test]
fn servers_name_what_a_dead_one_wrote_alike_however_far_they_heard_its_clock() {
    let mut cluster = filled();
    cluster.cut(0, 1);
    // The clock of the first moves on with what it hears, and only the third is told how far.
    write(&cluster, 2, "A", "new");
    cluster.pass(3);
    cluster.cut(0, 2);
    let boot = cluster.nodes[0].world.registry.boot();
    let of_the_dead = |node: usize| {
        let vector = cluster.nodes[node].world.registry.standing().vector;
        vector.into_iter().find(|position| position.boot == boot)
    };
    assert!(of_the_dead(1).is_some());
    assert_eq!(of_the_dead(1), of_the_dead(2));
    assert!(View::of(&cluster, 2).moves(&cluster, 1));
}

#[test]
fn a_write_that_came_ahead_of_others_is_not_claimed() {
    let mut cluster = Cluster::meshed(2);
    write(&cluster, 0, "A", "0");
    cluster.settle();
    cluster.cut(0, 1);
    write(&cluster, 0, "A", "1");
    write(&cluster, 0, "A", "2");
    let state = cluster.nodes[0].world.registry.export(key("A", "2"), cluster.now).unwrap();
    let ahead = Outgoing { state, age: Duration::ZERO, beaten: false };
    cluster.nodes[1].world.registry.merge(ahead, Adoption::Any, cluster.now).unwrap();
    let mut view = View::of(&cluster, 1);
    assert_eq!(view.live().len(), 2);
    assert!(view.moves(&cluster, 0));
    view.assert_level(&cluster, 0);
}

#[test]
fn a_forgotten_removal_is_hidden_from_those_who_do_not_know_it() {
    let mut cluster = filled();
    let mut before = View::of(&cluster, 0);
    cluster.nodes[1].world.cancel("A", "7");
    cluster.settle();
    let mut after = View::of(&cluster, 0);
    assert!(cluster.nodes[2].world.registry.remembers_since(&before.standing.vector));
    let ttl = Config::default().tombstone_ttl.as_secs();
    for _ in 0..ttl / 60 + 2 {
        for id in (0..100).filter(|id| *id != 7) {
            cluster.nodes[0].world.renew("A", &id.to_string());
        }
        cluster.pass(60);
    }
    assert!(cluster.nodes[2].world.registry.floor() > 0, "the removal was forgotten");
    assert!(!before.moves(&cluster, 2));
    assert!(after.moves(&cluster, 2));
    after.assert_level(&cluster, 2);
}

#[test]
fn a_server_that_learned_all_from_another_takes_on_whoever_knows_as_much() {
    let mut cluster = filled();
    let mut early = View::of(&cluster, 0);
    cluster.nodes[0].world.cancel("A", "7");
    cluster.settle();
    let mut late = View::of(&cluster, 1);
    let new = cluster.add(9, PreservationMode::Off);
    cluster.nodes[new].replicator.set_ready(false);
    (0..3).for_each(|node| cluster.connect(node, new));
    cluster.settle();
    cluster.pass(1);
    assert!(cluster.nodes[new].replicator.is_synced());
    assert!(!early.moves(&cluster, new), "what was forgotten before it came is not known there");
    assert!(late.moves(&cluster, new));
    late.assert_level(&cluster, new);
    let mut there = View::of(&cluster, new);
    assert!(there.moves(&cluster, 2) && there.told == 0, "and back again");
}

#[test]
fn forgetting_in_the_middle_of_catching_up_is_noticed() {
    let mut cluster = Cluster::meshed(2);
    let settings = Config { tombstone_max: 0, ..config(PreservationMode::Off) };
    let forgetful =
        Arc::new(Registry::new(settings, crate::Seeds { boot: 7, hash: 7, shuffle: 1 }, cluster.now));
    cluster.nodes[0].world.registry = forgetful.clone();
    for id in 0..50 {
        write(&cluster, 0, "A", &id.to_string());
    }
    let vector: Arc<[Position]> = forgetful.standing().vector.into();
    write(&cluster, 0, "A", "before");
    cluster.nodes[0].world.cancel("A", "7");
    let mut subscription = Subscription::new(&forgetful, Selectors::default(), Start::Since(vector));
    assert_eq!(subscription.poll(&forgetful, 1, cluster.now).changes.len(), 1);
    assert!(!subscription.is_lost(&forgetful));
    cluster.now.mono.0 += 1000;
    forgetful.tick(cluster.now);
    assert!(subscription.is_lost(&forgetful));
}

#[test]
fn applications_that_differ_are_told_whole_and_of_the_others_what_changed() {
    let cluster = Cluster::meshed(1);
    for app in ["A", "B"] {
        (0..5).for_each(|id| write(&cluster, 0, app, &id.to_string()));
    }
    let world = &cluster.nodes[0].world;
    world.cancel("A", "0");
    let since = world.registry.head();
    let digests = world.registry.digests(&Selectors::default());
    assert_eq!(digests.iter().map(|app| app.digest.counts.total()).sum::<u32>(), 9);
    write(&cluster, 0, "B", "new");
    world.cancel("B", "1");
    let mut apps = ToldApps::default();
    apps.insert("", "A", Extent::Whole);
    let mut subscription =
        Subscription::new(&world.registry, Selectors::default(), Start::Apps(apps.into(), since));
    let mut told: Vec<_> = world.drain(&mut subscription).into_iter().collect();
    told.sort_by(|one, other| one.key.cmp(&other.key));
    let told: Vec<_> = told.iter().map(|told| (told.key.to_string(), told.registration.is_some())).collect();
    let expected = [("A", "1", true), ("A", "2", true), ("A", "3", true), ("A", "4", true)];
    let expected = expected.into_iter().chain([("B", "1", false), ("B", "new", true)]);
    let named = |(app, id, live)| (instance(app, id).key.to_string(), live);
    assert_eq!(told, expected.map(named).collect::<Vec<_>>());
    assert!(subscription.digest(&world.registry).is_some());
}

#[test]
fn of_an_application_the_buckets_that_differ_are_told_and_the_changes_of_the_others() {
    let cluster = Cluster::meshed(1);
    (0..64).for_each(|id| write(&cluster, 0, "A", &id.to_string()));
    let world = &cluster.nodes[0].world;
    let sums = |selectors| world.registry.bucket_sums(selectors, "", "A", 8);
    let everything = Selectors::default();
    let before = sums(&everything);
    let total = before.iter().fold(0_u64, |total, sum| total.wrapping_add(*sum));
    assert_eq!(total, world.registry.digests(&everything)[0].digest.hash);
    world.cancel("A", "0");
    let since = world.registry.head();
    let differing: Vec<_> = before.iter().zip(sums(&everything)).map(|(one, other)| *one != other).collect();
    let gone = instance("A", "0").key;
    let bucket = |key: &InstanceKey| KeyHasher::new(key.as_ref()).bucket(8);
    assert_eq!(differing, (0..8).map(|number| number == bucket(&gone)).collect::<Vec<_>>());
    let other = (1..64).map(|id| instance("A", &id.to_string()).key).find(|key| bucket(key) != bucket(&gone));
    let other = other.expect("64 keys fill more than one of 8 buckets");
    world.cancel("A", &other.id);
    let mut apps = ToldApps::default();
    apps.insert("", "A", Extent::Buckets(differing.into()));
    let mut subscription =
        Subscription::new(&world.registry, Selectors::default(), Start::Apps(apps.into(), since));
    let told = world.drain(&mut subscription);
    let (live, removed): (Vec<_>, Vec<_>) = told.iter().partition(|told| told.registration.is_some());
    assert!(live.iter().all(|told| bucket(&told.key) == bucket(&gone)));
    let whole = (1..64).filter(|id| bucket(&instance("A", &id.to_string()).key) == bucket(&gone)).count();
    assert_eq!(live.len(), whole);
    assert_eq!(removed.iter().map(|told| &told.key).collect::<Vec<_>>(), [&other]);
}

#[test]
fn digests_by_application_are_those_of_the_instances_that_match() {
    let cluster = filled();
    write(&cluster, 0, "B", "1");
    let registry = &cluster.nodes[0].world.registry;
    let by_app = |selector| {
        let mut digests = registry.digests(&Selectors::new(vec![selector]));
        digests.sort_by(|one, other| one.app.cmp(&other.app));
        digests
    };
    let all = by_app(Selector::default());
    assert_eq!(all.iter().map(|app| app.app.as_str()).collect::<Vec<_>>(), ["A", "B"]);
    let up = by_app(Selector { statuses: vec![Status::Up], ..Selector::default() });
    assert_eq!(up, all, "all of them are UP");
    assert!(by_app(Selector { statuses: vec![Status::Down], ..Selector::default() }).is_empty());
    assert_eq!(by_app(Selector { apps: ["B".into()].into(), ..Selector::default() }), all[1..]);
}

#[derive(Clone, Debug)]
enum Op {
    Register(usize, u8),
    Cancel(usize, u8),
    Override(usize, u8),
    Cut(usize, usize),
    Heal(usize, usize),
    Settle,
    Pass(u64),
    Move(usize, usize),
}

fn op() -> impl Strategy<Value = Op> {
    let node = || 0..3_usize;
    prop_oneof![
        5 => (node(), 0..6_u8).prop_map(|(node, id)| Op::Register(node, id)),
        2 => (node(), 0..6_u8).prop_map(|(node, id)| Op::Cancel(node, id)),
        2 => (node(), 0..6_u8).prop_map(|(node, id)| Op::Override(node, id)),
        1 => (node(), node()).prop_map(|(one, other)| Op::Cut(one, other)),
        2 => (node(), node()).prop_map(|(one, other)| Op::Heal(one, other)),
        3 => Just(Op::Settle),
        2 => (1..4_u64).prop_map(Op::Pass),
        5 => (0..4_usize, node()).prop_map(|(view, node)| Op::Move(view, node)),
    ]
}

fn act(cluster: &mut Cluster, views: &mut [View], op: &Op) {
    match *op {
        Op::Register(node, id) => write(cluster, node, "A", &id.to_string()),
        Op::Cancel(node, id) => drop(cluster.nodes[node].world.cancel("A", &id.to_string())),
        Op::Override(node, id) => {
            let set = SetOverride { status: Status::Down, ttl: Some(Duration::from_secs(5)), drain: None };
            let registry = &cluster.nodes[node].world.registry;
            let _ = registry.set_override(key("A", &id.to_string()), set, &GRPC, cluster.now);
        }
        Op::Cut(one, other) => cluster.cut(one, other),
        Op::Heal(one, other) if one < other && !cluster.is_connected(one, other) => {
            cluster.connect(one, other);
        }
        Op::Heal(..) => {}
        Op::Settle => cluster.settle(),
        Op::Pass(seconds) => cluster.pass(seconds),
        Op::Move(view, node) => drop(views[view].moves(cluster, node)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whoever_moves_between_servers_ends_with_what_all_of_them_hold(ops in prop::collection::vec(op(), 1..80)) {
        let mut cluster = Cluster::meshed(3);
        write(&cluster, 0, "A", "0");
        cluster.settle();
        let mut views: Vec<View> = (0..4).map(|view| View::of(&cluster, view % 3)).collect();
        ops.iter().for_each(|op| act(&mut cluster, &mut views, op));
        for (one, other) in [(0, 1), (0, 2), (1, 2)] {
            act(&mut cluster, &mut views, &Op::Heal(one, other));
        }
        cluster.pass(8);
        for (place, view) in views.iter_mut().enumerate() {
            prop_assert!(view.moves(&cluster, place % 3), "in the end all servers have all");
            view.assert_level(&cluster, place % 3);
        }
    }
}
