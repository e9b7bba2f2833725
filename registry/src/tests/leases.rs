use std::collections::BTreeMap;
use std::time::Duration;

use heureka_model::{ChangeKind, Instance, RemovalReason, Selectors, Status, Wall};

use super::support::{GRPC, World, config, instance, key, leased};
use crate::replication::{Adoption, Outgoing};
use crate::{Config, Preservation, PreservationMode, SetOverride, Start};

fn off() -> World {
    World::new(config(PreservationMode::Off))
}

#[test]
fn a_silent_instance_goes_after_its_lease_and_a_steady_one_never() {
    let mut world = off();
    world.register(leased("EXP", "silent", 3));
    world.register(leased("EXP", "steady", 3));
    let mut watch = world.watch(Selectors::default(), Start::Live);
    for second in 1..=60 {
        world.pass(1);
        assert!(world.renew("EXP", "steady"));
        assert_eq!(world.get("EXP", "silent").is_some(), second < 4, "second {second}");
    }
    let changes = world.drain(&mut watch);
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].kind, ChangeKind::Removed(RemovalReason::Expired));
    let steady = world.get("EXP", "steady").unwrap();
    assert_eq!(steady.times.renewed, world.now.wall, "the renewal time is true, not a lease ahead");
}

#[test]
fn a_status_call_over_rest_is_a_sign_of_life() {
    let mut world = off();
    world.register(leased("EXP", "e3", 3));
    let set = SetOverride { status: Status::Up, ttl: None, drain: None };
    for _ in 0..20 {
        world.pass(2);
        world.registry.set_override(key("EXP", "e3"), set, &super::support::REST, world.now).unwrap();
    }
    assert!(world.get("EXP", "e3").is_some());
}

#[test]
fn an_operators_call_is_no_sign_of_life() {
    let mut world = off();
    world.register(leased("EXP", "e1", 3));
    world.pass(2);
    let set = SetOverride { status: Status::OutOfService, ttl: None, drain: None };
    world.registry.set_override(key("EXP", "e1"), set, &GRPC, world.now).unwrap();
    world.pass(2);
    assert!(world.get("EXP", "e1").is_none());
}

#[test]
fn a_renewed_lease_is_counted_twice_only_on_request() {
    let mut world = World::new(Config { eureka_double_lease: true, ..config(PreservationMode::Off) });
    world.register(leased("EXP", "renewed", 3));
    world.register(leased("EXP", "never", 3));
    world.renew("EXP", "renewed");
    world.pass(4);
    assert!(world.get("EXP", "renewed").is_some());
    assert!(world.get("EXP", "never").is_none());
    world.pass(3);
    assert!(world.get("EXP", "renewed").is_none());
}

#[test]
fn a_paused_server_removes_nobody_who_comes_back_in_time() {
    let mut world = World::new(Config::default());
    let ids: Vec<String> = (0..200).map(|n| n.to_string()).collect();
    for id in &ids {
        world.register(leased("P", id, 6));
    }
    for _ in 0..5 {
        world.pass(2);
        ids.iter().for_each(|id| assert!(world.renew("P", id)));
    }
    let head = world.registry.head();
    world.pause(20);
    for _ in 0..5 {
        world.pass(1);
    }
    ids.iter().for_each(|id| assert!(world.renew("P", id), "{id}"));
    world.pass(5);
    assert_eq!(world.registry.head(), head, "watchers saw nothing");
}

#[test]
fn a_renewal_before_the_late_tick_of_a_paused_server_counts_once() {
    let mut world = off();
    world.register(leased("P", "p", 6));
    world.pass(3);
    world.pause(60);
    assert!(world.renew("P", "p"));
    world.pass(6);
    assert!(world.get("P", "p").is_some());
    world.pass(1);
    assert!(world.get("P", "p").is_none(), "its lease is not longer by the pause");
}

#[test]
fn what_a_peer_heard_while_this_server_stood_still_is_passed_on_as_old_as_it_is() {
    let (mut world, other) = (off(), off());
    other.register(leased("P", "p", 90));
    let state = other.registry.export(key("P", "p"), other.now).unwrap();
    world.pass(3);
    world.pause(60);
    let age = Duration::from_secs(33);
    world.registry.merge(Outgoing { state, age, beaten: true }, Adoption::Fresh, world.now).unwrap();
    world.pass(1);
    let slot = world.registry.slot_of(key("P", "p")).unwrap();
    let heard = world.registry.slots.lease(slot).view().unwrap().renewed;
    assert_eq!(world.registry.age(heard, world.now), age + Duration::from_secs(1), "the pause counts once");
}

#[test]
fn steps_of_the_wall_clock_change_no_lease() {
    for step in [-3_600_000_i64, 3_600_000] {
        let mut world = off();
        world.register(leased("W", "w1", 6));
        world.pass(3);
        world.now.wall = Wall(world.now.wall.0.saturating_add_signed(step));
        world.pass(3);
        assert!(world.get("W", "w1").is_some());
        world.pass(1);
        assert!(world.get("W", "w1").is_none());
    }
}

#[test]
fn half_of_the_renewers_gone_for_good_go_slowly_and_spread() {
    let mut world = World::new(Config::default());
    let apps = ["A", "B", "C", "D"];
    let all: Vec<(&str, String)> =
        apps.iter().flat_map(|app| (0..25).map(|n| (*app, n.to_string()))).collect();
    for (app, id) in &all {
        world.register(leased(app, id, 6));
    }
    let mut gone_per_minute = BTreeMap::<u64, usize>::new();
    let mut left = 100;
    for second in 0..900_u64 {
        if second % 2 == 0 {
            for (app, id) in &all {
                let dead = *app == "A" || *app == "B";
                if second < 20 || !dead {
                    world.renew(app, id);
                }
            }
        }
        world.pass(1);
        let now = apps
            .iter()
            .map(|app| world.registry.application("", app, world.now).map_or(0, |a| a.instances.len()))
            .sum();
        *gone_per_minute.entry(second / 60).or_default() += left - now;
        left = now;
        if second == 60 {
            assert!(world.registry.protecting());
            assert_eq!(left, 100);
        }
    }
    assert!(gone_per_minute.values().all(|gone| *gone <= 16), "{gone_per_minute:?}");
    assert!(left <= 52, "{gone_per_minute:?}");
}

#[test]
fn no_tick_empties_an_application() {
    let mut world = off();
    for n in 0..5 {
        world.register(leased("ALL", &n.to_string(), 3));
    }
    world.pass(4);
    assert_eq!(world.registry.application("", "ALL", world.now).map(|app| app.instances.len()), Some(1));
    world.pass(1);
    assert!(world.registry.application("", "ALL", world.now).is_none());
}

#[test]
fn the_original_removes_three_of_twenty_at_a_sweep() {
    let preservation = Preservation { mode: PreservationMode::Eureka, ..Preservation::default() };
    let mut world = World::new(Config { preservation, ..Config::default() });
    for n in 0..20 {
        world.register(leased("V18", &n.to_string(), 30));
    }
    let alive =
        |world: &World| world.registry.application("", "V18", world.now).map_or(0, |app| app.instances.len());
    // Twenty renewals a second for one instance keep the rate above the threshold while the leases run out.
    let mut sizes = Vec::new();
    for _ in 0..400 {
        world.register(leased("OTHER", "o", 86_400));
        for _ in 0..20 {
            world.renew("OTHER", "o");
        }
        world.pass(1);
        if sizes.last() != Some(&alive(&world)) {
            sizes.push(alive(&world));
        }
    }
    assert_eq!(&sizes[..4], [20, 16, 13, 10], "4 of 21 leases, 3 of 17, 3 of 14");
}

#[test]
fn an_owner_that_reported_down_is_not_held() {
    let mut world = World::new(Config::default());
    for n in 0..10 {
        world.register(leased("H", &n.to_string(), 6));
    }
    for _ in 0..5 {
        world.pass(2);
        for n in 0..10 {
            world.renew("H", &n.to_string());
        }
    }
    let mut down = leased("H", "0", 6);
    (down.status, down.last_dirty) = (Status::Down, Some(Wall(200)));
    world.register(down);
    world.pass(10);
    assert!(world.registry.protecting());
    assert!(world.get("H", "0").is_none());
    assert!(world.get("H", "1").is_some());
}

#[test]
fn removals_are_remembered_and_then_forgotten() {
    let mut world = off();
    world.register(instance("T", "t1"));
    world.cancel("T", "t1");
    assert_eq!(world.registry.stats().tombstones, 1);
    world.pass(3599);
    assert_eq!((world.registry.stats().tombstones, world.registry.floor()), (1, 0));
    world.pass(2);
    assert_eq!(world.registry.stats().tombstones, 0);
    assert!(world.registry.apps.namespace("").is_none(), "the application went with its last key");
    assert_eq!(world.registry.floor(), 2);
}

#[test]
fn a_tombstone_outlives_twice_the_longest_lease() {
    let mut world =
        World::new(Config { tombstone_ttl: Duration::from_secs(1), ..config(PreservationMode::Off) });
    world.register(leased("T", "long", 600));
    world.pass(1);
    world.register(instance("T", "t1"));
    world.cancel("T", "t1");
    world.pass(1199);
    assert_eq!(world.registry.stats().tombstones, 1 + 1, "the long lease ran out too");
    world.pass(2);
    assert_eq!(world.registry.stats().tombstones, 1);
}

#[test]
fn the_oldest_removals_make_room() {
    let mut world = World::new(Config { tombstone_max: 10, ..Config::default() });
    for n in 0..30 {
        world.cancel("T", &n.to_string());
    }
    world.pass(1);
    assert_eq!(world.registry.stats().tombstones, 10);
    assert_eq!(world.registry.floor(), 20);
}

#[test]
fn shared_texts_are_counted_and_go_with_their_last_record() {
    let mut world = off();
    for n in 0..50 {
        let mut odd = instance(&format!("APP{n}"), "i");
        odd.metadata.insert(format!("only-{n}"), "v".repeat(1000));
        world.register(odd);
    }
    let full = world.registry.stats();
    assert!(full.templates >= 50 && full.record_bytes > 50 * 1000);
    for n in 0..50 {
        world.cancel(&format!("APP{n}"), "i");
    }
    world.pass(3700);
    // What explanations and readers near the head still hold goes as others come.
    for n in 0..9000_u64 {
        world.register(Instance { app_group: n.to_string(), ..instance("CHURN", "c") });
    }
    let left = world.registry.stats();
    assert!(left.templates <= 3 && left.record_bytes < 2000, "{left:?}");
}
