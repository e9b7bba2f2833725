//! What callers may cost: memory that counts, work that ends.

use std::sync::atomic::Ordering;
use std::time::Duration;

use heureka_model::{InstanceKey, KeyRef, Selector, Selectors};

use super::support::{GRPC, REST, World, instance, key, leased};
use crate::{Claim, Config, MetadataPatch, RegisterMode, SetOverride, Start, Subscription};

fn large(id: &str) -> heureka_model::Instance {
    let mut large = instance("L", id);
    large.metadata.insert("blob".into(), id.repeat(40_000));
    large
}

#[test]
fn a_batch_of_large_instances_ends_at_its_bytes() {
    let world = World::new(Config::default());
    for n in 10..50 {
        world.register(large(&n.to_string()));
    }
    let mut subscription = Subscription::new(&world.registry, Selectors::default(), Start::Full);
    let mut told = 0;
    while told < 40 {
        let batch = subscription.poll(&world.registry, 1000, world.now);
        assert_eq!(batch.changes.len(), 1, "one goes beyond 64 KiB alone");
        told += 1;
    }
    for n in 10..50 {
        world.register(heureka_model::Instance { app_group: "G".into(), ..large(&n.to_string()) });
    }
    let near = subscription.poll(&world.registry, 1000, world.now);
    assert_eq!(near.changes.len(), 1, "near the head too");
}

#[test]
fn a_reader_far_behind_is_told_each_changed_key_once() {
    let world = World::new(Config::default());
    let mut subscription = world.watch(Selectors::default(), Start::Full);
    world.drain(&mut subscription);
    for n in 0..2000 {
        let mut changed = instance("A", &format!("{:02}", n % 10));
        changed.metadata.insert("n".into(), n.to_string());
        world.register(changed);
    }
    let told = world.drain(&mut subscription);
    let mut last: Vec<_> =
        told.iter().map(|change| &change.registration.as_ref().unwrap().instance).collect();
    last.sort_by(|one, other| one.key.id.cmp(&other.key.id));
    let numbers: Vec<_> = last.iter().map(|instance| instance.metadata["n"].as_str()).collect();
    assert_eq!(numbers, (1990..2000).map(|n| n.to_string()).collect::<Vec<_>>());
    assert_eq!(subscription.digest(&world.registry).unwrap().counts.total(), 10);
}

#[test]
fn pages_walk_a_large_application_once_and_in_order() {
    let world = World::new(Config::default());
    for n in 0..250 {
        let mut one = instance(["A", "B"][n % 2], &format!("{:03}", (n * 97) % 250));
        one.metadata.insert("k".into(), (n % 3).to_string());
        world.register(one);
    }
    let label = heureka_model::LabelRequirement::new(
        "k".into(),
        heureka_model::LabelOperator::In(["1".to_owned()].into()),
    );
    let selectors = Selectors::new(vec![Selector { labels: vec![label.unwrap()], ..Selector::default() }]);
    for (selectors, expected) in [(Selectors::default(), 250), (selectors, 83)] {
        let mut keys: Vec<InstanceKey> = Vec::new();
        let mut after = None;
        loop {
            let page = world.registry.page(&selectors, after.as_ref(), 7, world.now);
            assert!(page.instances.len() <= 7);
            keys.extend(page.instances.into_iter().map(|listed| listed.instance.key));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(keys.len(), expected);
        assert!(keys.is_sorted_by(|one, other| one < other));
        assert_eq!(world.registry.weight(&selectors), 250);
    }
}

#[test]
fn an_entry_reads_the_addresses_that_its_registration_has() {
    let world = World::new(Config::default());
    for n in 0..5 {
        let mut one = instance("V", &n.to_string());
        one.vip_address = format!("web,{n}.example:8080");
        one.secure_vip_address = one.host_name.clone();
        world.register(one);
    }
    let entries = world.registry.entries("", "V", world.now);
    assert_eq!(entries.len(), 5);
    for entry in entries {
        let instance = entry.registration().instance;
        assert_eq!(
            (entry.vip_address(), entry.secure_vip_address()),
            (instance.vip_address, instance.secure_vip_address)
        );
        assert_eq!(entry.app(), "V");
    }
}

#[test]
fn cancels_of_unknown_keys_cannot_keep_registrations_out() {
    let mut world = World::new(Config { max_bytes: 400_000, ..Config::default() });
    for n in 0..2000 {
        let app = format!("NEVER-{n}");
        let unknown = KeyRef { namespace: "", app: &app, id: "x" };
        assert!(!world.registry.cancel(unknown, Claim::Next, &REST, world.now).unwrap().existed);
    }
    assert!(world.registry.stats().record_bytes <= 410_000, "what a key costs beside its record counts");
    world.pass(1);
    let first = instance("REAL", "r");
    let registered = world.registry.register(&first, Claim::Stamp, RegisterMode::Upsert, &REST, world.now);
    assert!(registered.is_ok(), "the oldest removals made room");
    assert!(world.registry.counters.removed_bytes.load(Ordering::Relaxed) <= 100_000);
}

#[test]
fn the_memory_of_short_lives_does_not_grow() {
    let mut world = World::new(Config::default());
    let set = SetOverride {
        status: heureka_model::Status::OutOfService,
        ttl: Some(Duration::from_hours(1)),
        drain: None,
    };
    for _ in 0..5 {
        for _ in 0..5_000 {
            world.register(instance("S", "s"));
            world.registry.set_override(key("S", "s"), set, &GRPC, world.now).unwrap();
            world.cancel("S", "s");
        }
        world.pass(1);
        assert!(!world.registry.timers.lock().is_crowded());
    }
    assert_eq!(world.registry.stats().tombstones, 1);
    world.pass(3700);
    assert_eq!(world.registry.stats().tombstones, 0, "the valid appointments were kept");
}

#[test]
fn patches_keep_the_weight_right() {
    let world = World::new(Config::default());
    world.register(leased("P", "p", 30));
    let before = world.registry.stats().record_bytes;
    for n in 0..100 {
        let set = [("blob".to_owned(), "x".repeat(1000 + n))].into();
        let patch = MetadataPatch { set, ..MetadataPatch::default() };
        world.registry.update_metadata(key("P", "p"), patch, &GRPC, world.now).unwrap();
    }
    let grown = world.registry.counters.bytes.load(Ordering::Relaxed);
    assert!(grown < before + 2500, "one record is weighed, not a hundred");
}
