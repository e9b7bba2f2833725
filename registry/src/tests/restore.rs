//! A server that starts again with what it stored.

use std::time::Duration;

use heureka_model::{Now, Status};

use super::support::{REST, START, World, config, instance, key, leased};
use crate::replication::Scope;
use crate::{Adoption, Content, KeyState, Merged, PreservationMode, SetOverride};

/// What a server knows, as it would store it.
fn stored(world: &World) -> Vec<KeyState> {
    let changes = world.registry.changes(0, Scope::All, world.now);
    assert!(changes.at_head);
    changes.records.into_iter().map(|(_, outgoing)| outgoing.state).collect()
}

/// The same server after a restart some seconds later.
fn restarted(before: &World, seconds: u64) -> World {
    let mut world = World::with_boot(config(PreservationMode::Off), 2);
    world.now = Now { wall: before.now.wall.plus(Duration::from_secs(seconds)), ..START };
    for state in stored(before) {
        assert_eq!(world.registry.restore(state, world.now), Ok(Merged::Taken));
    }
    world
}

#[test]
fn a_restart_brings_back_instances_removals_and_overrides() {
    let before = World::new(config(PreservationMode::Off));
    before.register(instance("A", "1"));
    before.register(instance("A", "2"));
    before.register(instance("A", "3"));
    assert!(before.cancel("A", "2"));
    let set = SetOverride { status: Status::OutOfService, ttl: None, drain: None };
    before.registry.set_override(key("A", "3"), set, &REST, before.now).unwrap();
    let after = restarted(&before, 60);
    for id in ["1", "2", "3"] {
        let version = |world: &World| world.registry.export(key("A", id), world.now).unwrap().version();
        assert_eq!(version(&after), version(&before), "{id}");
        assert_eq!(after.status("A", id), before.status("A", id), "{id}");
    }
    assert_eq!(after.status("A", "3"), Some(Status::OutOfService));
    assert!(after.registry.clock() >= before.registry.clock());
}

#[test]
fn an_override_outlives_the_expiry_and_the_restart() {
    let mut before = World::new(config(PreservationMode::Off));
    before.register(leased("A", "1", 6));
    let set = SetOverride { status: Status::OutOfService, ttl: None, drain: None };
    before.registry.set_override(key("A", "1"), set, &REST, before.now).unwrap();
    before.pass(10);
    assert_eq!(before.status("A", "1"), None);
    let after = restarted(&before, 1);
    after.register(leased("A", "1", 6));
    assert_eq!(after.status("A", "1"), Some(Status::OutOfService));
}

#[test]
fn a_restored_instance_has_a_whole_lease_and_then_goes() {
    let before = World::new(config(PreservationMode::Off));
    before.register(leased("A", "1", 6));
    before.register(leased("A", "2", 6));
    let mut after = restarted(&before, 100);
    after.pass(6);
    assert!(after.renew("A", "2"));
    after.pass(2);
    assert_eq!((after.status("A", "1"), after.status("A", "2")), (None, Some(Status::Up)));
}

#[test]
fn a_restored_lease_is_no_sign_of_life() {
    let mut before = World::new(config(PreservationMode::Off));
    before.register(leased("A", "1", 6));
    let mut peer = World::with_boot(config(PreservationMode::Off), 9);
    let changes = before.registry.changes(0, Scope::All, before.now);
    peer.registry.merge(changes.records[0].1.clone(), Adoption::Any, peer.now).unwrap();
    let after = restarted(&before, 1);
    assert!(after.registry.sightings(Default::default(), Scope::All, after.now).0.is_empty());
    peer.pass(10);
    let removed = peer.registry.changes(0, Scope::All, peer.now).records.remove(0).1;
    assert_eq!(removed.state.owner.content, Content::Expired);
    assert_eq!(after.registry.merge(removed, Adoption::Any, after.now), Ok(Merged::Taken));
    assert_eq!(after.status("A", "1"), None, "the peer, which ran, knows better");
    before.pass(1);
}

#[test]
fn what_came_since_the_start_is_newer() {
    let before = World::new(config(PreservationMode::Off));
    before.register(instance("A", "1"));
    let rows = stored(&before);
    let mut after = World::with_boot(config(PreservationMode::Off), 2);
    after.now.wall = before.now.wall.plus(Duration::from_secs(60));
    after.register(instance("A", "1"));
    let version = after.get("A", "1").unwrap().version;
    assert_eq!(after.registry.restore(rows[0].clone(), after.now), Ok(Merged::Known));
    assert_eq!(after.get("A", "1").unwrap().version, version);
}

#[test]
fn a_clock_that_cannot_be_right_is_left_out() {
    let before = World::new(config(PreservationMode::Off));
    before.register(instance("A", "1"));
    let mut rows = stored(&before);
    let year_and_more = before.now.wall.plus(Duration::from_hours(366 * 24)).0 << 16;
    rows[0].owner.written.clock = year_and_more;
    let after = World::with_boot(config(PreservationMode::Off), 2);
    assert_eq!(after.registry.restore(rows[0].clone(), after.now), Ok(Merged::Lapsed));
    assert_eq!(after.status("A", "1"), None);
    after.registry.restore_clock(year_and_more, after.now);
    assert!(after.registry.clock() < year_and_more);
    after.registry.restore_clock(before.now.wall.0 << 16, after.now);
    assert!(after.registry.clock() >= before.now.wall.0 << 16);
}
