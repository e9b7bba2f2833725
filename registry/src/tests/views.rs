//! Whatever happens, and whoever reads it how late, a view holds what its rule says.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use heureka_model::{
    Change, ChangeKind, Finite, GaugeRange, Instance, InstanceKey, Numbers, Registration, RemovalReason,
    Report, Selector, Selectors, SetDigest, Status, affinity,
};
use proptest::prelude::*;

use super::support::{GRPC, World, config, key, leased};
use crate::registry::Tuning;
use crate::{
    Batch, Best, By, Choice, Config, PreservationMode, Refused, Registry, Seeds, SetOverride, Subset, View,
};

const APPS: [&str; 2] = ["A", "B"];

#[test]
fn who_changes_while_it_is_looked_at_is_not_told_as_it_was_not_chosen() {
    let world = World::new(config(PreservationMode::Off));
    world.register(leased("A", "1", 90));
    world.register(leased("A", "2", 90));
    let statuses = [Status::Up].into();
    let up = Selectors::new(vec![Selector { statuses, ..Selector::default() }]);
    let part = Choice::Subset(Subset { key: "client".into(), size: 5, zone: String::new() });
    let mut view = View::new(&world.registry, up, part).unwrap();
    let goes_down = || {
        world.register(Instance { status: Status::Down, ..leased("A", "1", 90) });
    };
    let batch = view.poll_beside(&world.registry, 10, world.now, goes_down);
    let told = |batch: &Batch| -> Vec<_> {
        let status = |told: &Change| told.registration.as_ref().map(|told| told.status());
        batch.changes.iter().map(|told| (told.key.id.clone(), status(told))).collect()
    };
    assert_eq!(told(&batch), [("2".to_owned(), Some(Status::Up))]);
    assert!(!batch.at_head, "of 1 it is still to be seen what it is");
    let batch = view.poll(&world.registry, 10, world.now);
    assert_eq!((told(&batch), batch.at_head), (vec![], true));
    assert_eq!(view.digest().unwrap().counts.total(), 1);
}

/// A client of a view, which believes what it is told.
pub(super) struct Client {
    selectors: Selectors,
    choice: Choice,
    view: View,
    held: BTreeMap<InstanceKey, Registration>,
    /// What the rule says that it holds, worked out at each time it was told everything.
    expected: BTreeSet<InstanceKey>,
}

impl Client {
    pub(super) fn new(world: &World, selectors: &Selectors, choice: &Choice) -> Self {
        let view = View::new(&world.registry, selectors.clone(), choice.clone()).unwrap();
        let (held, expected) = (BTreeMap::new(), BTreeSet::new());
        Self { selectors: selectors.clone(), choice: choice.clone(), view, held, expected }
    }

    /// Reads once; whether that was everything.
    pub(super) fn poll(&mut self, world: &World, max: usize) -> bool {
        let batch = self.view.poll(&world.registry, max, world.now);
        assert!(batch.changes.len() <= max);
        if self.view.is_lost() {
            self.view.begin_again();
            self.held.clear();
            return false;
        }
        let keys: BTreeSet<_> = batch.changes.iter().map(|told| &told.key).collect();
        assert_eq!(keys.len(), batch.changes.len(), "a key twice in one batch");
        for told in &batch.changes {
            self.apply(told);
        }
        assert!(self.view.digest().is_none_or(|digest| digest == self.digest()));
        assert_eq!(self.view.digest().is_some(), batch.at_head);
        batch.at_head
    }

    fn apply(&mut self, change: &Change) {
        let before = match &change.registration {
            Some(told) => self.held.insert(change.key.clone(), Registration::clone(told)),
            None => self.held.remove(&change.key),
        };
        let kind = match (before.is_some(), change.registration.is_some()) {
            (false, true) => ChangeKind::Added,
            (true, true) => ChangeKind::Modified,
            (_, false) => change.kind,
        };
        assert_eq!(change.kind, kind, "{}", change.key);
        let Some(before) = before else {
            assert!(change.registration.is_some(), "the removal of {}, which is not held", change.key);
            return;
        };
        assert!(change.version >= before.version, "{} went back", change.key);
    }

    fn digest(&self) -> SetDigest {
        let mut digest = SetDigest::default();
        self.held.values().for_each(|held| digest.add(held.hash(), held.status()));
        digest
    }

    /// Reads everything and compares with the rule, applied to what is there.
    pub(super) fn settle(&mut self, world: &World) {
        while !self.poll(world, 3) {}
        let candidates = self.candidates(world);
        self.expected = self.rule(&candidates);
        let told: BTreeMap<_, _> = self.held.iter().map(|(key, held)| (key, held.version)).collect();
        let right: BTreeMap<_, _> =
            self.expected.iter().map(|key| (key, candidates[key].0.version)).collect();
        assert_eq!(told, right, "{:?}", self.choice);
        assert_eq!(self.view.position(), world.registry.head());
    }

    fn candidates(&self, world: &World) -> Candidates {
        let by_record = world.registry.page(&self.selectors.by_record(), None, usize::MAX - 1, world.now);
        let with_report = |found: Registration| {
            let report = world.registry.reported(found.instance.key.as_ref()).map(|(report, _)| report);
            (found.instance.key.clone(), (found, report))
        };
        let mut candidates: Candidates = by_record.instances.into_iter().map(with_report).collect();
        candidates.retain(|_, (found, report)| self.selectors.matches_reported(found, report.as_deref()));
        candidates
    }

    /// The rule in the plainest words.
    fn rule(&self, candidates: &Candidates) -> BTreeSet<InstanceKey> {
        match &self.choice {
            Choice::All => candidates.keys().cloned().collect(),
            Choice::Best(best) => self.best(best, candidates),
            Choice::Subset(subset) => {
                let mut drawn: Vec<&InstanceKey> = candidates.keys().collect();
                let elsewhere = |key: &InstanceKey| {
                    !subset.zone.is_empty() && candidates[key].0.instance.locality.zone != subset.zone
                };
                drawn.sort_by_key(|key| (elsewhere(key), Reverse(affinity(&subset.key, key.as_ref()))));
                drawn.into_iter().take(subset.size).cloned().collect()
            }
        }
    }

    fn best(&self, best: &Best, candidates: &Candidates) -> BTreeSet<InstanceKey> {
        let value = |key: &InstanceKey| {
            let (found, report) = &candidates.get(key)?;
            let value = match &best.by {
                By::Gauge(name) => *report.as_ref()?.gauges.get(name)?,
                By::Available(name) => Report::available(report.as_deref(), &found.instance, name) as f64,
            };
            Finite::new(if best.ascending { value } else { -value })
        };
        let mut members: Vec<_> =
            self.expected.iter().filter_map(|key| Some((value(key)?, key.clone()))).collect();
        let mut others: Vec<_> = candidates
            .keys()
            .filter(|key| !self.expected.contains(*key))
            .filter_map(|key| Some((value(key)?, key.clone())))
            .collect();
        others.sort();
        for other in others {
            members.sort();
            if members.len() < best.limit {
                members.push(other);
            } else if let Some(last) = members.last_mut()
                && last.0.value() - other.0.value() > best.hysteresis.value()
            {
                *last = other;
            }
        }
        members.into_iter().map(|(_, key)| key).collect()
    }
}

type Candidates = BTreeMap<InstanceKey, (Registration, Option<Arc<Report>>)>;

fn slots_at_least(slots: i64) -> Selectors {
    let numbers = Numbers { min_available: [("slots".to_owned(), slots)].into(), ..Numbers::default() };
    Selectors::new(vec![Selector { numbers, ..Selector::default() }])
}

fn load_at_most(load: f64) -> Numbers {
    let range = GaugeRange::new("load".into(), None, Some(load)).unwrap();
    Numbers { gauges: vec![range], ..Numbers::default() }
}

fn best(by: By, ascending: bool, limit: usize, hysteresis: f64) -> Choice {
    Choice::Best(Best { by, ascending, limit, hysteresis: Finite::new(hysteresis).unwrap() })
}

fn subset(key: &str, size: usize, zone: &str) -> Choice {
    Choice::Subset(Subset { key: key.into(), size, zone: zone.into() })
}

pub(super) fn views() -> Vec<(Selectors, Choice)> {
    let up = || Selector { statuses: vec![Status::Up], ..Selector::default() };
    let one = |selector| Selectors::new(vec![selector]);
    let (slots, load) = (|| By::Available("slots".into()), || By::Gauge("load".into()));
    vec![
        (slots_at_least(3), Choice::All),
        (one(Selector { numbers: load_at_most(2.0), ..up() }), Choice::All),
        (
            Selectors::new(vec![
                Selector { apps: ["A".into()].into(), numbers: load_at_most(1.0), ..Selector::default() },
                Selector { apps: ["B".into()].into(), ..up() },
            ]),
            Choice::All,
        ),
        (Selectors::default(), best(slots(), false, 3, 0.0)),
        (one(up()), best(load(), true, 2, 1.0)),
        (slots_at_least(1), best(load(), true, 4, 0.5)),
        (Selectors::default(), subset("one", 3, "")),
        (Selectors::default(), subset("other", 2, "z1")),
        (one(Selector { numbers: load_at_most(3.0), ..up() }), subset("one", 2, "z2")),
    ]
}

#[derive(Clone, Debug)]
enum Op {
    Register { group: u8, slots: u8 },
    Cancel,
    Override(bool),
    Report { slots: Option<u8>, load: Option<u8> },
    Pass(u8),
    Churn(u16),
    Poll { client: usize, max: usize },
    Settle(usize),
    Restart(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..3_u8, 0..5_u8).prop_map(|(group, slots)| Op::Register { group, slots }),
        2 => Just(Op::Cancel),
        2 => any::<bool>().prop_map(Op::Override),
        8 => (prop::option::of(0..5_u8), prop::option::of(0..4_u8))
            .prop_map(|(slots, load)| Op::Report { slots, load }),
        3 => (1..3_u8).prop_map(Op::Pass),
        1 => (1..60_u16).prop_map(Op::Churn),
        6 => (0..9_usize, 1..4_usize).prop_map(|(client, max)| Op::Poll { client, max }),
        4 => (0..9_usize).prop_map(Op::Settle),
        1 => (0..9_usize).prop_map(Op::Restart),
    ]
}

fn world(ring: usize, tombstone_max: usize) -> World {
    let settings = Config { tombstone_max, ..config(PreservationMode::Off) };
    let mut world = World::new(Config::default());
    let seeds = Seeds { boot: 1, hash: 7, shuffle: 11 };
    let tuning = Tuning { ring, ..Tuning::default() };
    world.registry = Registry::tuned(settings, seeds, tuning, super::support::START).into();
    world
}

fn report(world: &World, app: &str, id: &str, slots: Option<i64>, load: Option<f64>) -> bool {
    let report = Report {
        available: slots.map(|slots| ("slots".to_owned(), slots)).into_iter().collect(),
        gauges: load.map(|load| ("load".to_owned(), load)).into_iter().collect(),
    };
    world.registry.report(key(app, id), report, world.now).is_ok()
}

fn register(world: &World, app: &str, id: &str, zone: &str, slots: i64) {
    let mut new = leased(app, id, 6);
    new.locality.zone = zone.to_owned();
    new.capacity.total = [("slots".to_owned(), slots)].into();
    world.register(new);
}

fn act(world: &mut World, app: &str, id: &str, op: &Op) {
    match op {
        Op::Register { group, slots } => register(world, app, id, &format!("z{group}"), (*slots).into()),
        Op::Cancel => drop(world.registry.cancel(key(app, id), crate::Claim::Next, &GRPC, world.now)),
        Op::Override(out) => {
            let status = if *out { Status::OutOfService } else { Status::Up };
            let set = SetOverride { status, ttl: None, drain: None };
            let _ = world.registry.set_override(key(app, id), set, &GRPC, world.now);
        }
        Op::Report { slots, load } => {
            report(world, app, id, slots.map(i64::from), load.map(f64::from));
        }
        Op::Pass(seconds) => world.pass((*seconds).into()),
        Op::Churn(times) => {
            for n in 0..*times {
                register(world, "B", &format!("churn{}", n % 5), "z1", i64::from(n % 3));
            }
        }
        Op::Poll { .. } | Op::Settle(_) | Op::Restart(_) => {}
    }
}

/// Time passes until every report may be told.
pub(super) fn catch_up(world: &mut World) {
    world.now.mono.0 += 1000;
    world.now.wall.0 += 1000;
    world.registry.herald_readings(world.now);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_view_holds_what_its_rule_says(
        ring in prop_oneof![Just(2_usize), Just(16), Just(8192)],
        tombstones in prop_oneof![Just(0_usize), Just(3), Just(1000)],
        steps in prop::collection::vec((0..2_usize, 0..6_usize, op()), 1..80),
    ) {
        let mut world = world(ring, tombstones);
        let mut clients: Vec<Client> =
            views().iter().map(|(selectors, choice)| Client::new(&world, selectors, choice)).collect();
        for (app, id, op) in &steps {
            match op {
                Op::Poll { client, max } if clients[*client].is_free_of_history() => {
                    clients[*client].poll(&world, *max);
                }
                Op::Poll { .. } => {}
                Op::Settle(client) => {
                    catch_up(&mut world);
                    clients[*client].settle(&world);
                }
                Op::Restart(client) => {
                    let client = &mut clients[*client];
                    *client = Client::new(&world, &client.selectors, &client.choice);
                }
                _ => act(&mut world, APPS[*app], &id.to_string(), op),
            }
        }
        catch_up(&mut world);
        clients.iter_mut().for_each(|client| client.settle(&world));
        drop(clients);
        prop_assert_eq!(world.registry.pools.taken(), (0, 0));
    }
}

impl Client {
    /// Whether what it holds depends on what is there alone, not on what it held before.
    pub(super) fn is_free_of_history(&self) -> bool {
        !matches!(self.choice, Choice::Best(_))
    }

    fn ids(&self) -> Vec<&str> {
        self.held.keys().map(|key| key.id.as_str()).collect()
    }
}

fn told(world: &World, view: &mut View) -> Vec<(ChangeKind, String)> {
    let mut told = Vec::new();
    loop {
        let batch = view.poll(&world.registry, 100, world.now);
        told.extend(batch.changes.iter().map(|change| (change.kind, change.key.id.clone())));
        if batch.at_head {
            return told;
        }
    }
}

const OUT: ChangeKind = ChangeKind::Removed(RemovalReason::FilteredOut);

#[test]
fn a_report_lets_an_instance_in_and_out() {
    let mut world = world(8192, 1000);
    register(&world, "A", "1", "", 4);
    let mut view = View::new(&world.registry, slots_at_least(3), Choice::All).unwrap();
    assert_eq!(told(&world, &mut view), [(ChangeKind::Added, "1".into())], "as registered");
    report(&world, "A", "1", Some(2), None);
    assert_eq!(told(&world, &mut view), [(OUT, "1".into())]);
    catch_up(&mut world);
    report(&world, "A", "1", Some(3), None);
    assert_eq!(told(&world, &mut view), [(ChangeKind::Added, "1".into())]);
    let head = world.registry.head();
    assert_eq!((head, view.position()), (1, 1), "a report takes no revision");
    world.cancel("A", "1");
    assert_eq!(told(&world, &mut view), [(ChangeKind::Removed(RemovalReason::Cancelled), "1".into())]);
}

#[test]
fn reports_in_a_row_are_told_once_and_the_last_one_counts() {
    let mut world = world(8192, 1000);
    register(&world, "A", "1", "", 9);
    let mut view = View::new(&world.registry, slots_at_least(3), Choice::All).unwrap();
    told(&world, &mut view);
    assert!(report(&world, "A", "1", Some(5), None));
    assert_eq!(told(&world, &mut view), []);
    assert_eq!(world.registry.herald_readings(world.now), None);
    for slots in [4, 1, 2] {
        report(&world, "A", "1", Some(slots), None);
    }
    assert_eq!(told(&world, &mut view), [], "readers hear of it when the interval is over");
    let wait = world.registry.herald_readings(world.now).unwrap();
    assert_eq!(wait, world.registry.config().report_interval);
    world.now.mono = world.now.mono.plus(wait);
    assert_eq!(world.registry.herald_readings(world.now), None);
    assert_eq!(told(&world, &mut view), [(OUT, "1".into())]);
}

#[test]
fn a_better_one_takes_the_last_place_only_beyond_the_hysteresis() {
    let mut world = world(8192, 1000);
    for (id, load) in [("1", 1.0), ("2", 2.0), ("3", 3.0)] {
        register(&world, "A", id, "", 1);
        report(&world, "A", id, None, Some(load));
    }
    register(&world, "A", "unknown", "", 1);
    let choice = best(By::Gauge("load".into()), true, 2, 1.0);
    let mut client = Client::new(&world, &Selectors::default(), &choice);
    client.settle(&world);
    assert_eq!(client.ids(), ["1", "2"]);
    let mut to = |world: &mut World, load: f64| {
        catch_up(world);
        report(world, "A", "3", None, Some(load));
        client.settle(world);
        client.ids().join(" ")
    };
    assert_eq!(to(&mut world, 1.0), "1 2", "better by exactly the hysteresis");
    assert_eq!(to(&mut world, 0.999), "1 3");
    assert_eq!(to(&mut world, 2.5), "1 3", "the one outside is better by less");
    assert_eq!(to(&mut world, 3.5), "1 2");
    world.cancel("A", "1");
    client.settle(&world);
    assert_eq!(client.ids(), ["2", "3"], "a free place takes whoever is best");
    world.cancel("A", "3");
    client.settle(&world);
    assert_eq!(client.ids(), ["2"], "whose number is not known is no candidate");
}

#[test]
fn of_a_part_one_departure_brings_one_and_an_arrival_takes_one_place_at_most() {
    let world = world(8192, 1000);
    let ids: Vec<String> = (0..40).map(|n| n.to_string()).collect();
    ids.iter().for_each(|id| register(&world, "A", id, "", 1));
    let mut client = Client::new(&world, &Selectors::default(), &subset("gateway-1", 5, ""));
    client.settle(&world);
    for id in &ids {
        let before: BTreeSet<_> = client.held.keys().cloned().collect();
        world.cancel("A", id);
        client.settle(&world);
        let after: BTreeSet<_> = client.held.keys().cloned().collect();
        let (gone, came) = (before.difference(&after).count(), after.difference(&before).count());
        let was_member = before.iter().any(|key| key.id == *id);
        let others = world.registry.page(&Selectors::default(), None, 99, world.now).instances.len();
        let expected = (usize::from(was_member), usize::from(was_member && others >= 5));
        assert_eq!((gone, came), expected);
    }
    for id in &ids {
        let before: BTreeSet<_> = client.held.keys().cloned().collect();
        register(&world, "A", id, "", 1);
        client.settle(&world);
        let after: BTreeSet<_> = client.held.keys().cloned().collect();
        assert!(before.difference(&after).count() <= 1 && after.difference(&before).count() <= 1);
    }
}

#[test]
fn other_zones_help_out_only_while_the_preferred_one_has_too_few() {
    let world = world(8192, 1000);
    ["a", "b", "c", "d"].iter().for_each(|id| register(&world, "A", id, "far", 1));
    register(&world, "A", "n1", "near", 1);
    let mut client = Client::new(&world, &Selectors::default(), &subset("c", 3, "near"));
    client.settle(&world);
    assert!(client.ids().contains(&"n1") && client.held.len() == 3);
    for id in ["n2", "n3", "n4"] {
        register(&world, "A", id, "near", 1);
        client.settle(&world);
    }
    assert!(client.ids().iter().all(|id| id.starts_with('n')));
    register(&world, "A", client.ids()[0].to_owned().as_str(), "far", 1);
    client.settle(&world);
    assert!(client.ids().iter().all(|id| id.starts_with('n')), "one moved away, another of the zone came");
}

#[test]
fn views_choose_among_so_many_instances_and_no_more() {
    let world = world(8192, 1000);
    (0..50).for_each(|n| register(&world, "A", &n.to_string(), "", 1));
    let open = |size| View::new(&world.registry, Selectors::default(), subset("c", size, ""));
    let one = open(10).unwrap();
    let other = open(20).unwrap();
    assert_eq!(world.registry.pools.taken(), (50 + 10 + 20, 1), "candidates are shared");
    let far_too_many = open(5 << 20);
    assert_eq!(far_too_many.unwrap_err(), Refused::Full);
    drop((one, other));
    assert_eq!(world.registry.pools.taken(), (0, 0));
}

#[test]
fn a_view_that_was_away_for_long_compares_everything() {
    let mut world = world(16, 10);
    (0..10).for_each(|n| register(&world, "A", &n.to_string(), "", n));
    let choices = [Choice::All, subset("c", 8, "")];
    let mut clients = choices.map(|choice| Client::new(&world, &slots_at_least(4), &choice));
    let mut busy = Client::new(&world, &slots_at_least(4), &Choice::All);
    clients.iter_mut().for_each(|client| client.settle(&world));
    assert!(clients.iter().all(|client| client.ids().contains(&"7")));
    world.cancel("A", "7");
    // More of them come and go than departures are remembered.
    for n in 0..5000 {
        let id = format!("n{n}");
        register(&world, "A", &id, "", 9);
        busy.poll(&world, 100);
        world.cancel("A", &id);
        busy.poll(&world, 100);
    }
    catch_up(&mut world);
    for client in clients.iter_mut().chain([&mut busy]) {
        client.settle(&world);
        assert!(!client.ids().contains(&"7") && client.ids().contains(&"8"));
    }
}
