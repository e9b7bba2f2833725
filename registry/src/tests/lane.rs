//! Reports and who is overdue: told to those who ask, never a change, and gone with the instance.

use std::collections::BTreeMap;
use std::time::Duration;

use heureka_model::{Reading, Report, Selector, Selectors};

use super::support::{GRPC, World, config, instance, key, leased};
use crate::{
    Claim, Config, Gauges, Lane, LaneWish, PreservationMode, Reader, Refused, RegisterMode, Start, Writer,
};

fn world() -> World {
    World::new(config(PreservationMode::Off))
}

fn slots(amount: i64) -> Report {
    Report { available: [("slots".to_owned(), amount)].into(), ..Report::default() }
}

fn of_app(app: &str) -> Selectors {
    Selectors::new(vec![Selector { apps: [app.to_owned()].into(), ..Selector::default() }])
}

impl World {
    fn report(&self, app: &str, id: &str, report: Report) {
        self.registry.report(key(app, id), report, self.now).unwrap();
    }

    /// An instance that nobody has to renew.
    fn lasting(&self, app: &str, id: &str) {
        self.register(leased(app, id, 80_000));
    }
}

/// A reader of readings beside a watch.
struct Beside {
    lane: Lane,
    reader: Reader,
}

impl Beside {
    fn new(world: &World, selectors: &Selectors, wish: LaneWish) -> Self {
        let lane = Lane::new(&world.registry, selectors, wish, world.now);
        Self { lane, reader: world.watch(selectors.clone(), Start::Live).into() }
    }

    fn told(&mut self, world: &World) -> Vec<Reading> {
        let mut told = Vec::new();
        while self.lane.is_behind(&world.registry) {
            told.extend(self.lane.poll(&world.registry, &self.reader));
        }
        told
    }

    /// Slots by id; nothing where nothing is known.
    fn slots(&mut self, world: &World) -> Vec<(String, Option<i64>)> {
        let one = |reading: Reading| {
            let amount = reading.report.and_then(|(report, _)| report.available.get("slots").copied());
            (reading.key.id, amount)
        };
        self.told(world).into_iter().map(one).collect()
    }
}

fn brief(told: &[(&str, Option<i64>)]) -> Vec<(String, Option<i64>)> {
    told.iter().map(|(id, amount)| ((*id).to_owned(), *amount)).collect()
}

#[test]
fn a_report_is_no_change_and_no_sign_of_life() {
    let mut world = world();
    world.register(leased("A", "1", 6));
    let before = (world.registry.head(), world.get("A", "1").unwrap(), world.registry.stats().renewals);
    world.pass(5);
    world.report("A", "1", slots(3));
    let after = world.get("A", "1").unwrap();
    assert_eq!((world.registry.head(), after, world.registry.stats().renewals), before);
    world.pass(2);
    assert!(world.get("A", "1").is_none(), "the lease ran out all the same");
    assert_eq!(world.registry.report(key("A", "1"), slots(3), world.now), Err(Refused::NotFound));
}

#[test]
fn what_a_slow_reader_missed_it_is_told_once_and_as_it_is() {
    let mut world = world();
    ["1", "2"].iter().for_each(|id| world.lasting("A", id));
    world.lasting("B", "1");
    let mut reader = Beside::new(&world, &of_app("A"), LaneWish::everything());
    assert_eq!(reader.slots(&world), []);
    for amount in 1..=5 {
        world.report("A", "1", slots(amount));
        world.report("A", "2", slots(amount * 10));
        world.report("B", "1", slots(amount));
        world.pass(1);
    }
    world.registry.herald_readings(world.now);
    assert_eq!(reader.slots(&world), brief(&[("1", Some(5)), ("2", Some(50))]));
    assert_eq!(reader.slots(&world), []);
    let mut late = Beside::new(&world, &of_app("A"), LaneWish::everything());
    assert_eq!(late.slots(&world).len(), 2, "whoever comes later is told what is known");
}

#[test]
fn only_those_are_woken_who_ask_for_readings_of_the_application() {
    let world = world();
    ["A", "B"].iter().for_each(|app| world.lasting(app, "1"));
    let plain = world.watch(of_app("A"), Start::Live);
    let lanes: Vec<Lane> = [of_app("A"), of_app("B"), Selectors::default()]
        .iter()
        .map(|selectors| Lane::new(&world.registry, selectors, LaneWish::everything(), world.now))
        .collect();
    let mut news: Vec<_> = lanes.iter().map(Lane::news).chain([plain.changes()]).collect();
    news.iter_mut().for_each(tokio::sync::watch::Receiver::mark_unchanged);
    world.report("A", "1", slots(1));
    world.registry.herald();
    world.registry.herald_readings(world.now);
    let woken: Vec<_> = news.iter().map(|news| news.has_changed().unwrap()).collect();
    assert_eq!(woken, [true, false, true, false]);
    drop(lanes);
    assert!(world.registry.nobody_listens());
}

#[test]
fn a_reader_is_told_of_its_set_only_and_of_whoever_enters_it() {
    let world = world();
    world.lasting("A", "1");
    world.lasting("A", "2");
    let one = Selectors::new(vec![Selector { ids: ["2".to_owned()].into(), ..Selector::default() }]);
    let mut reader = Beside::new(&world, &one, LaneWish::everything());
    ["1", "2"].iter().for_each(|id| world.report("A", id, slots(1)));
    assert_eq!(reader.slots(&world), brief(&[("2", Some(1))]));
    reader.lane.enter(&world.registry, &instance("A", "2").key);
    assert_eq!(reader.slots(&world), brief(&[("2", Some(1))]), "it was told anew of the instance");
}

#[test]
fn a_report_whose_turn_has_come_is_told_once_although_nobody_had_told_the_one_before() {
    let mut world = world();
    world.lasting("A", "1");
    let mut reader = Beside::new(&world, &of_app("A"), LaneWish::everything());
    world.report("A", "1", slots(1));
    assert_eq!(reader.slots(&world), brief(&[("1", Some(1))]));
    world.report("A", "1", slots(2));
    assert_eq!(reader.slots(&world), [], "it waits for its turn");
    world.pass(1);
    world.report("A", "1", slots(3));
    assert_eq!(reader.slots(&world), brief(&[("1", Some(3))]));
    world.registry.herald_readings(world.now);
    assert_eq!(reader.slots(&world), [], "what waited went with it");
}

#[test]
fn readings_of_what_is_still_to_be_told_come_after_it() {
    let world = world();
    let mut reader = Beside::new(&world, &of_app("A"), LaneWish::everything());
    world.lasting("A", "0");
    reader.reader.poll(&world.registry, 10, world.now);
    world.report("A", "0", slots(1));
    assert_eq!(reader.slots(&world), brief(&[("0", Some(1))]));
    world.lasting("A", "new");
    world.report("A", "new", slots(7));
    assert_eq!(reader.slots(&world), []);
    assert_eq!(reader.reader.poll(&world.registry, 10, world.now).changes.len(), 1);
    reader.lane.enter(&world.registry, &instance("A", "new").key);
    assert_eq!(reader.slots(&world), brief(&[("new", Some(7))]));
}

#[test]
fn a_report_that_comes_between_two_looks_at_an_entrant_is_told() {
    let mut world = world();
    world.lasting("A", "1");
    world.report("A", "1", slots(1));
    let mut reader = Beside::new(&world, &of_app("A"), LaneWish::everything());
    assert_eq!(reader.slots(&world), brief(&[("1", Some(1))]));
    world.pass(2);
    reader.lane.enter(&world.registry, &instance("A", "1").key);
    let mut page = Default::default();
    reader.lane.tell_entrants(&world.registry, &mut page);
    world.report("A", "1", slots(2));
    reader.lane.read_on(&world.registry, &reader.reader, &mut page);
    let told: Vec<_> =
        page.readings.iter().map(|reading| reading.report.as_ref().unwrap().0.available["slots"]).collect();
    assert_eq!(told, [1, 2]);
    assert_eq!(reader.slots(&world), []);
    reader.lane.enter(&world.registry, &instance("A", "1").key);
    world.pass(2);
    world.report("A", "1", slots(3));
    assert_eq!(reader.slots(&world), brief(&[("1", Some(3))]), "what both looks find is told once");
}

#[test]
fn only_gauges_that_were_asked_for_are_told() {
    let world = world();
    world.lasting("A", "1");
    let gauges = BTreeMap::from([("load".to_owned(), 0.5), ("queue".to_owned(), 3.0)]);
    world.report("A", "1", Report { gauges, ..slots(1) });
    let told = |gauges, available| {
        let wish = LaneWish { available, gauges, suspect: false };
        let told = Beside::new(&world, &of_app("A"), wish).told(&world);
        let (report, _) = told[0].report.clone().unwrap();
        (report.available.len(), report.gauges.keys().cloned().collect::<Vec<_>>())
    };
    assert_eq!(told(Gauges::Named(["queue".to_owned()].into()), false), (0, vec!["queue".into()]));
    assert_eq!(told(Gauges::None, true), (1, vec![]));
    assert_eq!(told(Gauges::All, true), (1, vec!["load".into(), "queue".into()]));
}

#[test]
fn who_is_overdue_is_told_within_a_tick_and_so_is_when_it_is_over() {
    let mut world = world();
    world.register(leased("A", "1", 60));
    world.lasting("A", "2");
    let wish = LaneWish { suspect: true, ..LaneWish::default() };
    let mut reader = Beside::new(&world, &of_app("A"), wish.clone());
    let mut told = |world: &World| -> Vec<_> {
        reader.told(world).into_iter().map(|reading| (reading.key.id, reading.suspect)).collect()
    };
    world.pass(30);
    assert_eq!(told(&world), [], "one and a half intervals of 20 s are not over yet");
    world.pass(1);
    assert_eq!(told(&world), [("1".to_owned(), true)]);
    world.pass(5);
    assert_eq!(told(&world), [], "it is told once");
    let mut late = Beside::new(&world, &of_app("A"), wish);
    assert_eq!(late.told(&world).len(), 1, "whoever comes later is told at once");
    world.renew("A", "1");
    world.report("A", "2", slots(1));
    world.pass(1);
    assert_eq!(told(&world), [("1".to_owned(), false)], "of reports it did not ask");
    world.pass(31);
    assert_eq!(told(&world), [("1".to_owned(), true)]);
    world.cancel("A", "1");
    world.pass(1);
    assert_eq!(told(&world), []);
    assert_eq!(world.registry.readings_kept().0, 1, "only what is reported stays");
}

#[test]
fn what_was_reported_goes_with_the_instance() {
    let mut world = world();
    (0..50).for_each(|id| world.lasting("A", &id.to_string()));
    (0..50).for_each(|id| world.report("A", &id.to_string(), slots(id)));
    let (kept, bytes) = world.registry.readings_kept();
    assert!(kept == 50 && bytes > 0);
    (0..49).for_each(|id| assert!(world.cancel("A", &id.to_string())));
    world.pass(1);
    assert_eq!(world.registry.readings_kept().0, 1);
    world.cancel("A", "49");
    world.pass(1);
    assert_eq!(world.registry.readings_kept(), (0, 0));
    assert!(!world.registry.has_reports("", "A"));
}

#[test]
fn what_one_process_reported_says_nothing_of_the_next() {
    let world = world();
    let register = |incarnation: u8, version| {
        let writer = Writer { incarnation: [incarnation; 16], version, first: true };
        let claim = Claim::Writer(writer);
        let new = leased("A", "1", 80_000);
        world.registry.register(&new, claim, RegisterMode::Upsert, &GRPC, world.now).unwrap();
    };
    register(1, 1);
    world.report("A", "1", slots(5));
    register(1, 2);
    assert!(world.registry.reported(key("A", "1")).is_some(), "the same process");
    let mut reader = Beside::new(&world, &of_app("A"), LaneWish::everything());
    assert_eq!(reader.slots(&world), brief(&[("1", Some(5))]));
    register(2, 3);
    assert_eq!(world.registry.reported(key("A", "1")), None);
    reader.lane.enter(&world.registry, &instance("A", "1").key);
    assert_eq!(reader.slots(&world), brief(&[("1", None)]), "the reader is told that nothing is known");
}

#[test]
fn reports_are_counted_by_what_becomes_of_them() {
    let mut world = World::new(Config { max_bytes: 16 << 10, ..config(PreservationMode::Off) });
    world.lasting("A", "1");
    let counted = |world: &World| {
        let stats = world.registry.stats();
        [stats.reports_accepted, stats.reports_capped, stats.reports_refused]
    };
    (0..3).for_each(|amount| world.report("A", "1", slots(amount)));
    assert_eq!(counted(&world), [1, 2, 0], "two come before their turn");
    world.pass(2);
    world.registry.herald_readings(world.now);
    world.pass(2);
    world.report("A", "1", slots(4));
    assert_eq!(counted(&world), [2, 2, 0]);
    let refused = |id, report| world.registry.report(key("A", id), report, world.now).unwrap_err();
    assert_eq!(refused("none", slots(1)), Refused::NotFound);
    assert!(matches!(refused("1", slots(-1)), Refused::Invalid(_)));
    let large = Report { gauges: [("g".repeat(1 << 8), 1.0)].into(), ..slots(1) };
    world.lasting("A", "2");
    assert_eq!((counted(&world), refused("2", large.clone())), ([2, 2, 2], Refused::Full));
    let far = world.registry.report_from_peer(key("A", "2"), large.into(), Duration::ZERO, world.now);
    assert_eq!(far, Err(Refused::Full));
    assert_eq!(counted(&world), [2, 2, 3], "those of peers are counted where they came from");
}

#[test]
fn reports_take_a_bounded_part_of_the_memory() {
    let world = World::new(Config { max_bytes: 1 << 20, ..config(PreservationMode::Off) });
    (0..60).for_each(|id| world.lasting("A", &id.to_string()));
    let large = |fill: usize| Report {
        gauges: (0..16).map(|n| (format!("{n:0fill$}"), 1.0)).collect(),
        ..Report::default()
    };
    let report = |id: usize, fill| world.registry.report(key("A", &id.to_string()), large(fill), world.now);
    let taken = (0..60).take_while(|id| report(*id, 200).is_ok()).count();
    let (kept, bytes) = world.registry.readings_kept();
    assert!(taken > 5 && taken < 60 && kept == taken, "{taken}");
    assert!(bytes <= (1 << 20) / 16);
    assert_eq!(report(59, 200), Err(Refused::Full));
    assert_eq!(report(0, 200), Ok(()), "in its own place there is room");
    assert_eq!(report(0, 2), Ok(()));
    assert!(world.registry.readings_kept().1 < bytes);
}
