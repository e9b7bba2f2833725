use std::time::Duration;

use heureka_model::{Action, Instance, Port, Status, Wall};

use super::support::{GRPC, REST, World, instance, key};
use crate::{Beat, Cause, Claim, Config, MetadataPatch, Origin, Refused, RegisterMode, SetOverride, Writer};

fn world() -> World {
    World::new(Config::default())
}

fn stamped(id: &str, status: Status, stamp: u64) -> Instance {
    Instance { status, last_dirty: Some(Wall(stamp)), ..instance("W", id) }
}

fn set(status: Status) -> SetOverride {
    SetOverride { status, ttl: None, drain: None }
}

#[test]
fn what_was_registered_is_what_is_read() {
    let world = world();
    let mut full = instance("W", "host-1.example:w:8080");
    full.host_name = "host-1.example".into();
    full.urls.home_page = "http://host-1.example:8080/\u{1}odd\u{4}".into();
    full.urls.status_page = "http://host-1.example:8080/info".into();
    full.metadata = [("a", "10.0.0.1"), ("b", ""), ("\u{2}c", "\u{3}:8080")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
    full.capacity.total = [("slots".to_owned(), i64::MIN)].into();
    full.legacy.implicit_id = true;
    world.register(full.clone());
    assert_eq!(world.get("W", "host-1.example:w:8080").unwrap().instance, full);
    for n in 2..20 {
        let mut other = full.clone();
        other.key.id = format!("host-{n}.example:w:8080");
        other.host_name = format!("host-{n}.example");
        other.metadata.insert("n".into(), n.to_string());
        world.register(other.clone());
        assert_eq!(world.get("W", &other.key.id).unwrap().instance, other);
    }
    assert_eq!(world.get("W", "host-1.example:w:8080").unwrap().instance, full);
}

#[test]
fn identical_content_is_a_renewal_and_raises_the_stamp() {
    let world = world();
    let first = world.register(stamped("a", Status::Up, 100));
    let again = world.register(stamped("a", Status::Up, 300));
    assert_eq!((again.version, again.created, again.applied), (first.version, false, true));
    assert_eq!(world.registry.head(), 1);
    assert_eq!(world.get("W", "a").unwrap().instance.last_dirty, Some(Wall(300)));
    let beat = |stamp| world.registry.renew(key("W", "a"), Beat::Stamp(Wall(stamp)), None, &REST, world.now);
    assert!(beat(300).is_ok());
    assert!(beat(299).is_ok());
    assert_eq!(beat(301), Err(Refused::Outdated));
}

#[test]
fn a_record_of_a_clock_that_was_ahead_does_not_last() {
    let world = world();
    let tomorrow = world.now.wall.0 + 86_400_000;
    let mut ahead = stamped("s", Status::Up, tomorrow);
    ahead.host_name = "old".into();
    world.register(ahead);
    assert!(world.registry.renew(key("W", "s"), Beat::Stamp(Wall(tomorrow)), None, &REST, world.now).is_ok());
    let mut right = stamped("s", Status::Up, world.now.wall.0);
    right.host_name = "new".into();
    world.register(right.clone());
    assert_eq!(world.get("W", "s").unwrap().instance.host_name, "new");
    assert_eq!(world.registry.stats().stamps_ahead, 1);
    world.cancel("W", "s");
    world.register(right);
    assert_eq!(world.get("W", "s").unwrap().instance.host_name, "new");
}

#[test]
fn an_id_that_comes_from_two_endpoints_is_counted() {
    let world = world();
    let at = |stamp, host: &str, address: &str, port| Instance {
        host_name: host.into(),
        ip_address: address.into(),
        port: Some(Port { number: port, enabled: true }),
        ..stamped("d", Status::Up, stamp)
    };
    for (instance, replaced) in [
        (at(1, "h", "10.0.0.1", 9001), 0),
        (at(2, "h", "10.0.0.1", 9001), 0),
        (Instance { app_group: "G".into(), ..at(3, "h", "10.0.0.1", 9001) }, 0),
        (at(4, "h", "10.0.0.1", 9002), 1),
        (at(5, "h", "10.0.0.2", 9002), 2),
        (at(6, "i", "10.0.0.2", 9002), 3),
        // Older, and yet another incarnation, since it is of another place.
        (at(1, "h", "10.0.0.1", 9001), 4),
        (Instance { port: None, ..at(7, "h", "10.0.0.1", 1) }, 5),
    ] {
        world.register(instance);
        assert_eq!(world.registry.stats().endpoints_replaced, replaced);
    }
    world.cancel("W", "d");
    world.register(at(8, "j", "10.0.0.3", 1));
    assert_eq!(world.registry.stats().endpoints_replaced, 5, "nobody was there any more");
}

#[test]
fn two_heartbeats_of_an_older_record_are_believed() {
    let world = world();
    world.register(stamped("b", Status::Up, 100));
    let older = || Instance { app_group: "G".into(), ..stamped("b", Status::Up, 50) };
    assert!(!world.register(older()).applied);
    let beat = || world.registry.renew(key("W", "b"), Beat::Stamp(Wall(50)), None, &REST, world.now);
    beat().unwrap();
    assert!(!world.register(older()).applied);
    beat().unwrap();
    assert!(world.register(older()).applied);
    assert_eq!(world.get("W", "b").unwrap().instance.app_group, "G");
}

#[test]
fn a_registration_of_what_is_stored_ends_a_row_of_older_heartbeats() {
    let world = world();
    let newer = Instance { app_group: "N".into(), ..stamped("r", Status::Up, 100) };
    world.register(&newer);
    let older = stamped("r", Status::Up, 50);
    for _ in 0..2 {
        world.registry.renew(key("W", "r"), Beat::Stamp(Wall(50)), None, &REST, world.now).unwrap();
        assert!(world.register(&newer).applied);
    }
    assert!(!world.register(older).applied, "both live, so the newer stamp counts");
}

#[test]
fn a_late_register_after_a_cancel() {
    let mut world = world();
    let lease = |instance: Instance| Instance {
        lease: heureka_model::LeaseTerms::clamped(Duration::from_secs(1), Duration::from_secs(3)),
        ..instance
    };
    world.register(lease(stamped("l1", Status::Up, 100)));
    world.cancel("W", "l1");
    world.register(lease(stamped("l1", Status::Down, 101)));
    assert_eq!(world.status("W", "l1"), Some(Status::Down));
    world.pass(5);
    assert_eq!(world.status("W", "l1"), None, "also while other leases are held");

    world.register(stamped("l2", Status::Up, 100));
    world.cancel("W", "l2");
    let copy = stamped("l2", Status::Up, 99);
    let late =
        world.registry.register(&copy, Claim::PeerStamp, RegisterMode::Upsert, &Origin::Eureka, world.now);
    assert!(!late.unwrap().applied);
    assert_eq!(world.status("W", "l2"), None);

    world.register(stamped("l3", Status::Up, 100));
    world.cancel("W", "l3");
    let beat = world.registry.renew(key("W", "l3"), Beat::Stamp(Wall(100)), None, &REST, world.now);
    assert_eq!(beat, Err(Refused::NotFound));
    world.register(stamped("l3", Status::Up, 100));
    assert_eq!(world.status("W", "l3"), Some(Status::Up));
}

#[test]
fn native_writers_adopt_and_retry() {
    let world = world();
    let register = |incarnation, version, first, group: &str| {
        let writer = Writer { incarnation: [incarnation; 16], version, first };
        let instance = Instance { app_group: group.into(), ..instance("W", "n") };
        world.registry.register(&instance, Claim::Writer(writer), RegisterMode::Upsert, &GRPC, world.now)
    };
    let first = register(1, 10, true, "a").unwrap();
    assert_eq!((first.version.owner, first.created), (10, true));
    let restarted = register(2, 3, true, "b").unwrap();
    assert_eq!((restarted.version.owner, restarted.created), (11, false));
    let Err(Refused::Stale { stored }) = register(1, 11, false, "c") else {
        panic!("the old process is stale")
    };
    assert_eq!(stored, restarted.version);
    assert_eq!(register(1, 12, false, "c").unwrap().version.owner, 12);
    let late = register(1, 5, false, "d").unwrap();
    assert_eq!((late.applied, late.version.owner), (false, 12));
}

#[test]
fn create_only_refuses_a_live_instance_but_not_its_own_retry() {
    let world = world();
    let create = |incarnation| {
        let writer = Writer { incarnation: [incarnation; 16], version: 10, first: true };
        let mode = RegisterMode::CreateOnly;
        world.registry.register(&instance("W", "c"), Claim::Writer(writer), mode, &GRPC, world.now)
    };
    assert!(create(1).unwrap().created);
    assert!(!create(1).unwrap().created);
    assert_eq!(create(2), Err(Refused::Exists));
    world.cancel("W", "c");
    assert!(create(2).unwrap().created);
}

#[test]
fn a_cancel_of_an_unknown_key_is_remembered() {
    let world = world();
    assert!(!world.cancel("W", "never"));
    let copy = stamped("never", Status::Up, 99);
    let late =
        world.registry.register(&copy, Claim::PeerStamp, RegisterMode::Upsert, &Origin::Eureka, world.now);
    assert!(!late.unwrap().applied);
    let head = world.registry.head();
    assert!(!world.cancel("W", "never"));
    assert_eq!(world.registry.head(), head, "cancelling again changes nothing");
}

#[test]
fn take_out_of_service_and_put_back() {
    let world = world();
    let clear = |fallback| world.registry.clear_override(key("W", "o"), fallback, &REST, world.now).unwrap();
    world.register(stamped("o", Status::Up, 100));
    world.registry.set_override(key("W", "o"), set(Status::OutOfService), &REST, world.now).unwrap();
    assert_eq!(world.status("W", "o"), Some(Status::OutOfService));
    world.register(Instance { app_group: "G".into(), ..stamped("o", Status::Up, 100) });
    assert_eq!(world.status("W", "o"), Some(Status::OutOfService), "through re-registration");
    assert_eq!(clear(None).status(), Status::Up, "the owner's own status was kept beside it");
    world.registry.set_override(key("W", "o"), set(Status::OutOfService), &REST, world.now).unwrap();
    world.register(stamped("o", Status::Down, 101));
    assert_eq!(world.status("W", "o"), Some(Status::Down), "an owner that is down is believed");
    assert_eq!(clear(Some(Status::Up)).status(), Status::Up);
    let versions: Vec<u64> = world.registry.events().iter().map(|event| event.revision).collect();
    assert!(versions.is_sorted_by(|newer, older| newer > older));
}

#[test]
fn an_override_ends_by_itself() {
    let mut world = world();
    world.register(instance("W", "t"));
    let ttl = Some(Duration::from_secs(5));
    let timed = SetOverride { ttl, ..set(Status::OutOfService) };
    let before = world.registry.set_override(key("W", "t"), timed, &GRPC, world.now).unwrap();
    world.pass(4);
    assert_eq!(world.status("W", "t"), Some(Status::OutOfService));
    world.pass(1);
    let after = world.get("W", "t").unwrap();
    assert_eq!(after.status(), Status::Up);
    assert!(after.version > before.version, "its end is a write of the overlay");
    assert_eq!(world.registry.events()[0].cause, Cause::OverrideEnded);
}

#[test]
fn a_later_override_is_not_ended_by_the_earlier_ones_time() {
    let mut world = world();
    world.register(instance("W", "t"));
    let ttl = Some(Duration::from_secs(2));
    world
        .registry
        .set_override(key("W", "t"), SetOverride { ttl, ..set(Status::Down) }, &GRPC, world.now)
        .unwrap();
    world.registry.set_override(key("W", "t"), set(Status::OutOfService), &GRPC, world.now).unwrap();
    world.pass(5);
    assert_eq!(world.status("W", "t"), Some(Status::OutOfService));
}

#[test]
fn an_override_outlives_expiry_for_an_hour_and_no_cancel() {
    for (wait, kept) in [(3000, true), (4000, false)] {
        let mut world = World::new(Config { tombstone_ttl: Duration::from_hours(2), ..Config::default() });
        let mut short = instance("W", "k");
        short.lease = heureka_model::LeaseTerms::clamped(Duration::from_secs(1), Duration::from_secs(3));
        world.register(short.clone());
        world.registry.set_override(key("W", "k"), set(Status::OutOfService), &GRPC, world.now).unwrap();
        world.pass(5);
        assert_eq!(world.status("W", "k"), None);
        world.pass(wait);
        world.register(short);
        let expected = if kept { Status::OutOfService } else { Status::Up };
        assert_eq!(world.status("W", "k"), Some(expected), "after {wait} s");
        world.registry.set_override(key("W", "k"), set(Status::OutOfService), &GRPC, world.now).unwrap();
        world.cancel("W", "k");
        world.register(instance("W", "k"));
        assert_eq!(world.status("W", "k"), Some(Status::Up), "a cancel ends it");
    }
}

#[test]
fn an_override_concerns_one_application_only() {
    let world = world();
    world.register(instance("X", "same"));
    world.register(instance("Y", "same"));
    world.registry.set_override(key("X", "same"), set(Status::OutOfService), &GRPC, world.now).unwrap();
    assert_eq!(world.status("Y", "same"), Some(Status::Up));
}

#[test]
fn the_owner_may_move_between_up_and_out_of_service_unless_rule_four_is_on() {
    for (rule4, expected) in [(false, Status::OutOfService), (true, Status::Up)] {
        let world = World::new(Config { eureka_rule4: rule4, ..Config::default() });
        world.register(stamped("r", Status::Up, 100));
        world.register(stamped("r", Status::OutOfService, 101));
        assert_eq!(world.status("W", "r"), Some(expected));
    }
}

#[test]
fn metadata_patches_are_writes_of_the_owner() {
    let world = world();
    let first = world.register(instance("W", "m"));
    let patch = |set: &[(&str, &str)], remove: &[&str], replace_all| MetadataPatch {
        set: set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        remove: remove.iter().map(|key| (*key).to_owned()).collect(),
        replace_all,
        if_version: None,
    };
    let update = |patch| world.registry.update_metadata(key("W", "m"), patch, &GRPC, world.now);
    let second = update(patch(&[("a", "1"), ("b", "2")], &[], false)).unwrap();
    assert_eq!(second.version.owner, first.version.owner + 1);
    assert_eq!(update(patch(&[("a", "1")], &[], false)).unwrap().version, second.version, "nothing changed");
    let third = update(patch(&[("c", "3")], &["a"], false)).unwrap();
    assert_eq!(third.instance.metadata.keys().collect::<Vec<_>>(), ["b", "c"]);
    let fourth = update(patch(&[("d", "4")], &[], true)).unwrap();
    assert_eq!(fourth.instance.metadata.keys().collect::<Vec<_>>(), ["d"]);
    let conditional = MetadataPatch { if_version: Some(first.version), ..patch(&[("e", "5")], &[], false) };
    assert_eq!(update(conditional), Err(Refused::VersionMismatch { stored: fourth.version }));
    let large = patch(&[("x", &"v".repeat(300 * 1024))], &[], false);
    let Err(Refused::Invalid(invalid)) = update(large) else { panic!("a value above the limit") };
    assert_eq!(invalid.field, "metadata.x");
    assert_eq!(world.get("W", "m").unwrap().version, fourth.version);
}

#[test]
fn a_reported_status_is_a_write_and_a_repeated_one_is_not() {
    let world = world();
    world.register(instance("W", "s"));
    let report = |status| world.registry.renew(key("W", "s"), Beat::Plain, Some(status), &GRPC, world.now);
    report(Status::Down).unwrap();
    assert_eq!(world.status("W", "s"), Some(Status::Down));
    let head = world.registry.head();
    report(Status::Down).unwrap();
    assert_eq!(world.registry.head(), head);
}

#[test]
fn an_unknown_status_makes_eureka_clients_register_again() {
    let world = world();
    world.register(stamped("u", Status::Unknown, 100));
    assert!(!world.renew("W", "u"));
    assert!(world.registry.renew(key("W", "u"), Beat::Plain, None, &GRPC, world.now).is_ok());
    // Unless they say with the heartbeat what it is.
    assert!(world.registry.renew(key("W", "u"), Beat::Plain, Some(Status::Up), &REST, world.now).is_ok());
    assert!(world.renew("W", "u"));
}

#[test]
fn a_process_that_renews_what_another_left_is_told_to_register() {
    let world = world();
    let claim =
        |process: u8, version| Claim::Writer(Writer { incarnation: [process; 16], version, first: true });
    let beat = |process: u8, version| {
        let writer = Writer { incarnation: [process; 16], version, first: false };
        world.registry.renew(key("W", "w"), Beat::Writer(writer), None, &GRPC, world.now).map(|_| ())
    };
    let register = |process, version| {
        let of = instance("W", "w");
        world
            .registry
            .register(&of, claim(process, version), RegisterMode::Upsert, &GRPC, world.now)
            .unwrap();
    };
    register(2, 20);
    register(1, 10);
    assert_eq!([beat(2, 20), beat(2, 20), beat(1, 21)], [Ok(()), Ok(()), Ok(())], "both are there");
    assert_eq!([beat(2, 20), beat(2, 20)], [Ok(()), Ok(())]);
    assert_eq!(beat(2, 20), Err(Refused::Outdated), "the first was a late copy, and its process is gone");
}

#[test]
fn a_peers_older_renewal_gets_the_stored_record() {
    let world = world();
    world.register(stamped("p", Status::Up, 100));
    let beat = |stamp| {
        world.registry.renew(key("W", "p"), Beat::PeerStamp(Wall(stamp)), None, &Origin::Eureka, world.now)
    };
    let Err(Refused::Conflict(record)) = beat(99) else { panic!("an older stamp conflicts") };
    assert_eq!(record.instance.key.id, "p");
    assert!(beat(100).is_ok());
    assert_eq!(beat(101), Err(Refused::Outdated));
}

/// A peer's copy; tells whether it is the record now.
fn copied(world: &World, copy: &Instance) -> bool {
    let told =
        world.registry.register(copy, Claim::PeerStamp, RegisterMode::Upsert, &Origin::Eureka, world.now);
    told.unwrap().applied
}

#[test]
fn a_peers_late_copy_loses_to_what_the_owner_repeated_since() {
    let world = world();
    let late = |stamp| Instance { app_group: "OLD".into(), ..stamped("late", Status::Down, stamp) };
    world.register(stamped("late", Status::Up, 100));
    world.register(stamped("late", Status::Up, 200));
    for stamp in [99, 100, 101, 199] {
        assert!(!copied(&world, &late(stamp)), "{stamp}");
        assert_eq!(world.status("W", "late"), Some(Status::Up));
    }
    assert!(copied(&world, &late(200)), "as from the original, an equal stamp wins");
    assert_eq!(world.status("W", "late"), Some(Status::Down));
}

#[test]
fn a_peer_that_has_our_version_is_not_newer() {
    let world = world();
    let owner = stamped("echo", Status::Up, 100);
    world.register(&owner);
    let patch = MetadataPatch { set: [("k".into(), "v".into())].into(), ..MetadataPatch::default() };
    let patched = world.registry.update_metadata(key("W", "echo"), patch, &REST, world.now).unwrap();
    let version = patched.version.owner;
    let beat = |stamp| {
        world.registry.renew(key("W", "echo"), Beat::PeerStamp(Wall(stamp)), None, &Origin::Eureka, world.now)
    };
    assert!(beat(100).is_ok() && beat(version).is_ok());
    assert_eq!(beat(version + 1), Err(Refused::Outdated));
    let echo = Instance { last_dirty: Some(Wall(version)), ..patched.instance };
    assert!(copied(&world, &echo));
    let stored = world.get("W", "echo").unwrap();
    assert_eq!(stored.instance.last_dirty, Some(Wall(100)), "the owner's stamp is the owner's");
    assert_eq!(stored.version, patched.version);
    assert!(world.register(owner).applied, "the owner that says it again is no late copy");
}

#[test]
fn a_new_incarnation_outranks_every_stamp_that_was_told() {
    let mut world = world();
    let moved = |id: &str| Instance { host_name: "other".into(), ..stamped(id, Status::Up, 150) };
    for id in ["moved", "believed", "cancelled", "patched"] {
        world.register(stamped(id, Status::Up, 100));
        world.register(stamped(id, Status::Up, 200));
    }
    assert_eq!(world.register(moved("moved")).version.owner, 201);
    for _ in 0..2 {
        let beat = Beat::Stamp(Wall(150));
        world.registry.renew(key("W", "believed"), beat, None, &REST, world.now).unwrap();
    }
    let believed = Instance { app_group: "G".into(), ..stamped("believed", Status::Up, 150) };
    assert_eq!(world.register(believed).version.owner, 201);
    let patch = MetadataPatch { set: [("k".into(), "v".into())].into(), ..MetadataPatch::default() };
    let patched = world.registry.update_metadata(key("W", "patched"), patch, &REST, world.now).unwrap();
    assert_eq!(patched.version.owner, 201);
    world.pass(1);
    world.cancel("W", "cancelled");
    assert!(world.register(moved("cancelled")).version.owner > 200);
    for id in ["moved", "believed", "cancelled", "patched"] {
        let old = Instance { app_group: "OLD".into(), ..stamped(id, Status::Up, 200) };
        assert!(!copied(&world, &old), "{id}");
    }
}

#[test]
fn a_full_registry_keeps_what_it_has() {
    let world = World::new(Config { max_bytes: 20_000, ..Config::default() });
    let mut refused = 0;
    for n in 0..200 {
        let new = instance("F", &n.to_string());
        let result = world.registry.register(&new, Claim::Stamp, RegisterMode::Upsert, &REST, world.now);
        refused += usize::from(result == Err(Refused::Full));
    }
    assert!((1..199).contains(&refused), "{refused}");
    let kept = Instance { app_group: "G".into(), ..instance("F", "0") };
    assert!(world.register(kept).applied, "an instance that is there may change");
}

#[test]
fn the_delta_and_its_counts_are_of_one_moment() {
    let mut world = world();
    let lasting = |id: &str, status, stamp| Instance {
        lease: heureka_model::LeaseTerms::clamped(Duration::from_secs(30), Duration::from_secs(600)),
        ..stamped(id, status, stamp)
    };
    world.register(lasting("a", Status::Up, 1));
    world.register(lasting("b", Status::Down, 1));
    world.register(lasting("c", Status::Up, 1));
    world.cancel("W", "c");
    let told = |world: &World| {
        let delta = world.registry.delta(world.now);
        let changes: Vec<(Action, String)> = delta
            .changes
            .iter()
            .map(|change| (change.action(), change.registration().instance.key.id))
            .collect();
        (delta.counts.hash_code(), changes)
    };
    let (hash, changes) = told(&world);
    assert_eq!(hash, "DOWN_1_UP_1_");
    assert_eq!(
        changes,
        [(Action::Added, "a".into()), (Action::Added, "b".into()), (Action::Deleted, "c".into())]
    );
    world.pass(100);
    world.register(lasting("b", Status::Up, 2));
    world.pass(82);
    let (hash, changes) = told(&world);
    assert_eq!(changes, [(Action::Modified, "b".into())], "the others are older than the window");
    assert_eq!(hash, "UP_2_");
}

#[test]
fn a_deleted_entry_carries_the_whole_record() {
    let world = world();
    let mut full = instance("W", "d");
    full.metadata.insert("k".into(), "v".into());
    world.register(full.clone());
    world.cancel("W", "d");
    let delta = world.registry.delta(world.now);
    assert_eq!(delta.changes[0].registration().instance, full);
    assert!(delta.changes[0].registration().times.evicted.is_some());
}
