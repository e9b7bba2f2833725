//! Whatever happens and however late it reads, a subscriber ends with the set it asked for.

use std::collections::BTreeMap;
use std::time::Duration;

use heureka_model::{
    Change, ChangeKind, InstanceKey, LabelOperator, LabelRequirement, Metadata, Registration, Selector,
    Selectors, SetDigest, Status, Version,
};
use proptest::prelude::*;

use super::support::{GRPC, START, World, config, instance, key, leased};
use crate::registry::Tuning;
use crate::{Config, MetadataPatch, PreservationMode, Registry, Seeds, SetOverride, Start, Subscription};

/// What a client holds: the algorithm of the watch contract.
pub(super) struct Client {
    pub(super) selectors: Selectors,
    pub(super) subscription: Subscription,
    pub(super) view: BTreeMap<InstanceKey, Registration>,
}

impl Client {
    pub(super) fn new(registry: &Registry, selectors: &Selectors) -> Self {
        Self {
            selectors: selectors.clone(),
            subscription: Subscription::new(registry, selectors.clone(), Start::Full),
            view: BTreeMap::new(),
        }
    }

    /// Reads once. A lost subscriber starts again with nothing.
    pub(super) fn poll(&mut self, world: &World, max: usize) {
        let batch = self.subscription.poll(&world.registry, max, world.now);
        assert!(batch.changes.len() <= max);
        let mut keys: Vec<&InstanceKey> = batch.changes.iter().map(|change| &change.key).collect();
        keys.sort();
        assert!(keys.is_sorted_by(|one, other| one < other), "a key twice in one batch");
        assert!(batch.changes.is_sorted_by(|one, other| one.revision < other.revision));
        batch.changes.iter().for_each(|told| self.apply(Change::clone(told)));
        if self.subscription.is_lost(&world.registry) {
            *self = Self::new(&world.registry, &self.selectors);
        }
        self.check_digest(&world.registry);
    }

    fn apply(&mut self, change: Change) {
        let held = self.view.get(&change.key).map(|held| held.version);
        assert!(held.is_none_or(|held| held <= change.version), "{} went back", change.key);
        match change.registration {
            Some(registration) => drop(self.view.insert(change.key, (*registration).clone())),
            None => drop(self.view.remove(&change.key)),
        }
    }

    /// When the registry says what the set's fingerprint is here, the client's is that.
    fn check_digest(&mut self, registry: &Registry) {
        if let Some(digest) = self.subscription.digest(registry) {
            assert_eq!(digest, self.digest(), "at {}", self.subscription.position());
        }
    }

    fn digest(&self) -> SetDigest {
        let mut digest = SetDigest::default();
        self.held().for_each(|held| digest.add(held.hash(), held.status()));
        digest
    }

    pub(super) fn held(&self) -> impl Iterator<Item = &Registration> {
        self.view.values()
    }

    /// Reads to the head and compares with what a list says.
    pub(super) fn settle(&mut self, world: &World) {
        while self.subscription.position() < world.registry.head() {
            self.poll(world, 50);
        }
        self.poll(world, 50);
        assert!(self.subscription.digest(&world.registry).is_some(), "at the head there is a fingerprint");
        let listed = world.registry.page(&self.selectors, None, usize::MAX - 1, world.now);
        let ours: Vec<(&InstanceKey, Version)> =
            self.held().map(|held| (&held.instance.key, held.version)).collect();
        let theirs: Vec<(&InstanceKey, Version)> =
            listed.instances.iter().map(|listed| (&listed.instance.key, listed.version)).collect();
        assert_eq!(ours, theirs);
    }
}

pub(super) fn selections() -> Vec<Selectors> {
    let label = |operator| LabelRequirement::new("k".into(), operator).unwrap();
    let one = |selector| Selectors::new(vec![selector]);
    vec![
        Selectors::default(),
        one(Selector { apps: ["A".into()].into(), ..Selector::default() }),
        one(Selector { statuses: vec![Status::Up], ..Selector::default() }),
        one(Selector { labels: vec![label(LabelOperator::In(["1".into()].into()))], ..Selector::default() }),
        Selectors::new(vec![
            Selector { apps: ["B".into()].into(), statuses: vec![Status::Up], ..Selector::default() },
            Selector { ids: ["1".into()].into(), ..Selector::default() },
        ]),
    ]
}

#[derive(Clone, Debug)]
enum Op {
    Register(u8),
    Cancel,
    Override(bool),
    Label(u8),
    Pass,
    Churn(u16),
    Poll { client: usize, max: usize },
    Reconnect(usize),
    Restart(usize),
    Herald,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..3_u8).prop_map(Op::Register),
        2 => Just(Op::Cancel),
        3 => any::<bool>().prop_map(Op::Override),
        3 => (0..3_u8).prop_map(Op::Label),
        2 => Just(Op::Pass),
        1 => (1..200_u16).prop_map(Op::Churn),
        9 => (0..10_usize, 1..20_usize).prop_map(|(client, max)| Op::Poll { client, max }),
        1 => (0..10_usize).prop_map(Op::Reconnect),
        2 => (0..10_usize).prop_map(Op::Restart),
        3 => Just(Op::Herald),
    ]
}

fn world(ring: usize, tombstone_max: usize) -> World {
    let settings =
        Config { tombstone_max, tombstone_ttl: Duration::from_secs(5), ..config(PreservationMode::Off) };
    let mut world = World::new(Config::default());
    let seeds = Seeds { boot: 1, hash: 7, shuffle: 11 };
    world.registry = Registry::tuned(settings, seeds, Tuning { ring, ..Tuning::default() }, START).into();
    world
}

fn act(world: &mut World, app: &str, id: &str, op: &Op) {
    match op {
        Op::Register(group) => {
            let mut new = leased(app, id, 6);
            new.app_group = group.to_string();
            new.metadata = Metadata::from([("k".to_owned(), group.to_string())]);
            world.register(new);
        }
        Op::Cancel => drop(world.registry.cancel(key(app, id), crate::Claim::Next, &GRPC, world.now)),
        Op::Override(out) => {
            let status = if *out { Status::OutOfService } else { Status::Up };
            let set = SetOverride { status, ttl: Some(Duration::from_secs(3)), drain: None };
            let _ = world.registry.set_override(key(app, id), set, &GRPC, world.now);
        }
        Op::Label(value) => {
            let set = Metadata::from([("k".to_owned(), value.to_string())]);
            let patch = MetadataPatch { set, ..MetadataPatch::default() };
            let _ = world.registry.update_metadata(key(app, id), patch, &GRPC, world.now);
        }
        Op::Pass => world.pass(2),
        Op::Churn(times) => {
            for n in 0..*times {
                let mut new = instance("C", &(n % 7).to_string());
                new.app_group = n.to_string();
                world.register(new);
            }
        }
        Op::Herald => world.registry.herald(),
        Op::Poll { .. } | Op::Reconnect(_) | Op::Restart(_) => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(384))]

    #[test]
    fn every_subscriber_ends_with_the_set_it_asked_for(
        ring in prop_oneof![Just(2_usize), Just(16), Just(8192)],
        tombstones in prop_oneof![Just(0_usize), Just(3), Just(1000)],
        steps in prop::collection::vec((0..2_usize, 0..4_usize, op()), 1..80),
    ) {
        let mut world = world(ring, tombstones);
        // Two of each selection: they share what they are told.
        let both = selections().into_iter().chain(selections());
        let mut clients: Vec<Client> = both.map(|selectors| Client::new(&world.registry, &selectors)).collect();
        for (app, id, op) in &steps {
            match op {
                Op::Poll { client, max } => clients[*client].poll(&world, *max),
                Op::Restart(client) => {
                    let client = &mut clients[*client];
                    *client = Client::new(&world.registry, &client.selectors);
                }
                Op::Reconnect(client) => {
                    // With what it holds and where it stood, as a token says it.
                    let client = &mut clients[*client];
                    let position = client.subscription.position();
                    if position >= world.registry.floor() && position > 0 {
                        client.settle(&world);
                        let position = client.subscription.position();
                        client.subscription =
                            Subscription::new(&world.registry, client.selectors.clone(), Start::After(position));
                    }
                }
                _ => act(&mut world, ["A", "B"][*app], &id.to_string(), op),
            }
        }
        clients.iter_mut().for_each(|client| client.settle(&world));
    }
}

/// Whether a receiver was woken since it was asked last.
fn woken(changes: &mut tokio::sync::watch::Receiver<u64>) -> bool {
    let woken = changes.has_changed().unwrap();
    changes.mark_unchanged();
    woken
}

#[test]
fn a_change_wakes_those_whom_it_may_concern() {
    let mut world = world(8192, 1000);
    let watches: Vec<_> =
        selections().into_iter().map(|selectors| world.watch(selectors, Start::Live)).collect();
    let mut changes: Vec<_> = watches.iter().map(Subscription::changes).collect();
    let mut told = |world: &World| {
        world.registry.herald();
        changes.iter_mut().map(woken).collect::<Vec<_>>()
    };
    told(&world);
    act(&mut world, "A", "1", &Op::Register(1));
    assert_eq!(told(&world), [true, true, true, true, true], "the last one selects an id in any application");
    act(&mut world, "C", "1", &Op::Register(1));
    assert_eq!(told(&world), [true, false, true, true, true]);
    assert_eq!(told(&world), [false; 5], "nothing happened");
}

#[test]
fn a_reader_passes_over_what_does_not_concern_it() {
    let mut world = world(8, 1000);
    let mut watch = world.watch(selections()[1].clone(), Start::Full);
    act(&mut world, "A", "1", &Op::Register(1));
    world.drain(&mut watch);
    let digest = watch.digest(&world.registry);
    for _ in 0..10 {
        act(&mut world, "A", "2", &Op::Churn(5));
        world.registry.herald();
    }
    assert_eq!(watch.pass(&world.registry), world.registry.head());
    assert_eq!(watch.digest(&world.registry), digest);
    act(&mut world, "A", "1", &Op::Cancel);
    assert_eq!(world.drain(&mut watch).len(), 1);
}

#[test]
fn readers_of_the_same_selection_share_what_they_are_told() {
    let mut world = world(8192, 1000);
    let [mut one, mut other] = [(); 2].map(|()| world.watch(selections()[3].clone(), Start::Live));
    act(&mut world, "A", "1", &Op::Register(1));
    let read = |watch: &mut Subscription| watch.poll(&world.registry, 100, world.now).frame;
    let (first, second) = (read(&mut one), read(&mut other));
    assert!(std::sync::Arc::ptr_eq(&first, &second) && first.changes.len() == 1);
}

#[test]
fn readers_who_start_together_share_the_pages_of_a_snapshot() {
    let mut world = world(8192, 1000);
    act(&mut world, "A", "1", &Op::Churn(200));
    let [mut one, mut other] = [(); 2].map(|()| world.watch(Selectors::default(), Start::Full));
    let read = |world: &World, watch: &mut Subscription| watch.poll(&world.registry, 3, world.now).frame;
    let first = read(&world, &mut one);
    act(&mut world, "C", "0", &Op::Cancel);
    let mut late = world.watch(Selectors::default(), Start::Full);
    assert!(
        [&mut other, &mut late]
            .map(|watch| read(&world, watch))
            .iter()
            .all(|page| std::sync::Arc::ptr_eq(page, &first))
    );
    let removed = |change: &Change| matches!(change.kind, ChangeKind::Removed(_));
    for watch in [&mut one, &mut other, &mut late] {
        let told = world.drain(watch);
        assert_eq!(
            told.iter().filter(|change| removed(change)).count(),
            1,
            "what went after the snapshot is told"
        );
    }
    assert_eq!(world.registry.interests.budget().taken(), 0);
    let mut alone = world.watch(Selectors::default(), Start::Full);
    read(&world, &mut alone);
    assert_eq!(world.registry.interests.budget().taken(), 0, "nobody else reads it");
}

#[test]
fn a_removal_of_what_was_not_here_is_told_to_whom_others_told_something() {
    let mut world = world(8192, 1000);
    let head = world.registry.head();
    let starts = [Start::Full, Start::After(head), Start::Since([].into()), Start::Live];
    let mut readers = starts.map(|start| world.watch(selections()[1].clone(), start));
    readers.iter_mut().for_each(|reader| drop(world.drain(reader)));
    act(&mut world, "A", "1", &Op::Cancel);
    act(&mut world, "B", "1", &Op::Cancel);
    let [full, others @ ..] = readers.each_mut().map(|reader| world.drain(reader));
    assert!(full.is_empty(), "it holds what it was told here, and nothing else");
    for told in others {
        let kinds: Vec<_> = told.iter().map(|change| (&*change.key.app, change.kind)).collect();
        assert_eq!(kinds, [("A", ChangeKind::Removed(heureka_model::RemovalReason::Cancelled))]);
        assert!(told[0].version.owner > 0, "a reader compares it with what it holds");
    }
}

#[test]
fn changes_of_a_key_that_nobody_read_in_between_are_told_as_one() {
    let mut world = world(8192, 1000);
    act(&mut world, "A", "1", &Op::Register(1));
    let mut reader = world.watch(selections()[1].clone(), Start::Full);
    let mut kinds = |world: &World| -> Vec<(String, ChangeKind)> {
        let told = world.drain(&mut reader);
        told.into_iter().map(|change| (change.key.id.to_string(), change.kind)).collect()
    };
    assert_eq!(kinds(&world), [("1".into(), ChangeKind::Added)]);
    for label in 2..9 {
        act(&mut world, "A", "1", &Op::Label(label % 3));
        act(&mut world, "A", "2", &Op::Register(label % 3));
    }
    // What came and went in between was never there.
    act(&mut world, "A", "3", &Op::Register(1));
    act(&mut world, "A", "3", &Op::Cancel);
    // What went and came was never away.
    act(&mut world, "A", "1", &Op::Cancel);
    act(&mut world, "A", "1", &Op::Register(1));
    assert_eq!(kinds(&world), [("2".into(), ChangeKind::Added), ("1".into(), ChangeKind::Modified)]);
    act(&mut world, "A", "2", &Op::Label(1));
    act(&mut world, "A", "2", &Op::Cancel);
    assert_eq!(kinds(&world), [("2".into(), ChangeKind::Removed(heureka_model::RemovalReason::Cancelled))]);
}

#[test]
fn nothing_stays_of_a_selection_that_nobody_reads() {
    let world = world(8192, 1000);
    let both = || [(); 2].map(|()| world.watch(selections()[4].clone(), Start::Live));
    let [one, other] = both();
    drop(one);
    assert_eq!(world.registry.interests.count(), 1);
    drop(other);
    assert_eq!(world.registry.interests.count(), 0);
}

#[test]
fn a_key_that_left_the_filter_while_nobody_read_is_removed() {
    // Matched, stopped matching, changed again: the ring's last entry alone would say that nothing happened.
    let mut world = world(2, 1000);
    let filter = &selections()[3];
    act(&mut world, "A", "1", &Op::Register(1));
    let mut client = Client::new(&world.registry, filter);
    client.settle(&world);
    assert_eq!(client.held().count(), 1);
    act(&mut world, "A", "1", &Op::Register(2));
    act(&mut world, "A", "1", &Op::Register(0));
    client.settle(&world);
    assert_eq!(client.held().count(), 0);
}

#[test]
fn a_change_at_the_head_is_told_exactly() {
    let mut world = world(8192, 1000);
    let mut watch = world.watch(selections()[3].clone(), Start::Live);
    let mut kinds = |world: &World| -> Vec<ChangeKind> {
        world.drain(&mut watch).into_iter().map(|change| change.kind).collect()
    };
    act(&mut world, "A", "1", &Op::Register(1));
    assert_eq!(kinds(&world), [ChangeKind::Added]);
    act(&mut world, "A", "1", &Op::Override(true));
    assert_eq!(kinds(&world), [ChangeKind::Modified]);
    act(&mut world, "A", "1", &Op::Label(2));
    assert_eq!(kinds(&world), [ChangeKind::Removed(heureka_model::RemovalReason::FilteredOut)]);
    act(&mut world, "A", "1", &Op::Label(0));
    assert_eq!(kinds(&world), []);
    act(&mut world, "A", "1", &Op::Label(1));
    assert_eq!(kinds(&world), [ChangeKind::Added]);
    act(&mut world, "A", "1", &Op::Cancel);
    assert_eq!(kinds(&world), [ChangeKind::Removed(heureka_model::RemovalReason::Cancelled)]);
}
