use heureka_model::{Instance, Metadata, RemovalReason, Status};

use super::support::{GRPC, REST, World, config, instance, key, leased};
use crate::{Cause, Event, EventKind, MetadataPatch, Next, Origin, PreservationMode, Removals, SetOverride};

fn world() -> World {
    World::new(config(PreservationMode::Off))
}

fn kinds(events: &[Event]) -> Vec<(EventKind, Cause)> {
    events.iter().map(|event| (event.kind, event.cause)).collect()
}

#[test]
fn a_key_tells_what_happened_to_it_newest_first() {
    let mut world = world();
    world.register(leased("WEB", "a", 3));
    world.register(leased("WEB", "other", 90));
    world.register(Instance { app_group: "G".into(), ..leased("WEB", "a", 3) });
    let down = SetOverride { status: Status::OutOfService, ttl: None, drain: None };
    world.registry.set_override(key("WEB", "a"), down, &GRPC, world.now).unwrap();
    world.pass(5);
    let events = world.registry.events_of(key("WEB", "a"));
    let told = [
        (EventKind::Removal, Cause::Expired),
        (EventKind::Change, Cause::OverrideSet),
        (EventKind::Registration, Cause::Updated),
        (EventKind::Registration, Cause::Registered),
    ];
    assert_eq!(kinds(&events), told);
    let [gone, overridden, ..] = &events[..] else { panic!("four were told") };
    assert_eq!((gone.removal, &gone.origin), (Some(RemovalReason::Expired), &Origin::System));
    assert_eq!((overridden.status, &overridden.origin), (Status::OutOfService, &GRPC));
    assert_eq!(overridden.removal, None);
    assert!(events.is_sorted_by(|newer, older| newer.revision > older.revision));
    assert!(world.registry.events_of(key("WEB", "nobody")).is_empty());
}

#[test]
fn a_thousand_of_each_kind_are_remembered_and_a_busy_kind_displaces_no_other() {
    let world = world();
    world.register(instance("WEB", "first"));
    assert!(!world.cancel("WEB", "never-there"));
    for n in 0..1500_u64 {
        let set = Metadata::from([("n".to_owned(), n.to_string())]);
        let patch = MetadataPatch { set, remove: Vec::new(), replace_all: false, if_version: None };
        world.registry.update_metadata(key("WEB", "first"), patch, &REST, world.now).unwrap();
    }
    let events = world.registry.events();
    let count = |kind| events.iter().filter(|event| event.kind == kind).count();
    assert_eq!(count(EventKind::Change), 1000);
    assert_eq!(count(EventKind::Registration), 1);
    assert_eq!(count(EventKind::Removal), 1, "a cancel of what was never there is told as well");
    for n in 0..1200 {
        world.register(instance("MANY", &n.to_string()));
    }
    let events = world.registry.events();
    let came: Vec<_> = events.iter().filter(|event| event.kind == EventKind::Registration).collect();
    assert_eq!((came.len(), came[0].key.id.as_str(), came[999].key.id.as_str()), (1000, "1199", "200"));
}

#[test]
fn who_names_a_revision_is_told_what_came_after_it() {
    let world = world();
    world.register(instance("WEB", "a"));
    let seen = world.registry.head();
    assert!(world.registry.events_after(seen).is_empty());
    world.register(instance("WEB", "b"));
    world.cancel("WEB", "a");
    let ids: Vec<_> = world.registry.events_after(seen).into_iter().map(|event| event.key.id).collect();
    assert_eq!(ids, ["a", "b"]);
}

#[test]
fn what_self_preservation_does_next_is_told_with_its_numbers() {
    let mut world = World::new(config(PreservationMode::Budget));
    for n in 0..20 {
        world.register(leased("WEB", &n.to_string(), 30));
        assert!(world.renew("WEB", &n.to_string()));
    }
    world.pass(1);
    let quiet = world.registry.outlook();
    assert_eq!((quiet.live, quiet.held, quiet.budget, quiet.next), (20, 0, 3, Next::AtOnce));
    assert_eq!((quiet.held_for, quiet.removed), (None, 0));
    assert!((quiet.expected_per_minute - 120.0).abs() < 1e-9);
    world.pass(30);
    let held = world.registry.outlook();
    assert_eq!((held.live, held.held), (20, 20));
    assert!(held.held_for.is_some() && matches!(held.next, Next::AfterHold(_)), "{held:?}");
    world.registry.set_removals(Removals::Frozen);
    assert_eq!((world.registry.outlook().mode, world.registry.outlook().next), (None, Next::Never));
    world.registry.set_removals(Removals::As(PreservationMode::Off));
    world.pass(1);
    let off = world.registry.outlook();
    assert_eq!(
        (off.mode, off.live, off.removed),
        (Some(PreservationMode::Off), 1, 19),
        "one stays for a tick"
    );
}
