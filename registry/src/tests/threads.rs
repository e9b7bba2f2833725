//! Writers and readers at once. Each test ends after a fixed amount of work.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use heureka_model::{Action, Mono, Now, Report, Status, StatusCounts};
use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::subscriptions::{self, selections};
use super::support::{GRPC, REST, START, World, instance, key};
use super::views::{Client, catch_up, views};
use crate::registry::Tuning;
use crate::{Beat, Claim, Config, Registry, Seeds, SetOverride};

const KEYS: u32 = 60;
const WRITES: u32 = 12_000;

fn world(ring: usize) -> World {
    let mut world = World::new(Config::default());
    let seeds = Seeds { boot: 1, hash: 7, shuffle: 11 };
    world.registry =
        Registry::tuned(Config::default(), seeds, Tuning { ring, ..Tuning::default() }, START).into();
    world
}

fn write(world: &World, random: &mut SmallRng) {
    let app = ["A", "B"][random.random_range(0..2_usize)];
    let id = random.random_range(0..KEYS).to_string();
    match random.random_range(0..8) {
        0 => drop(world.cancel(app, &id)),
        1 | 2 => {
            let status = [Status::Up, Status::OutOfService][random.random_range(0..2_usize)];
            let set = SetOverride { status, ttl: None, drain: None };
            let _ = world.registry.set_override(key(app, &id), set, &GRPC, world.now);
        }
        3 => drop(world.registry.clear_override(key(app, &id), None, &GRPC, world.now)),
        _ => {
            let mut new = instance(app, &id);
            new.status = [Status::Up, Status::Starting][random.random_range(0..2_usize)];
            new.metadata.insert("k".into(), random.random_range(0..3).to_string());
            let _ = world.registry.register(&new, Claim::Next, crate::RegisterMode::Upsert, &GRPC, world.now);
        }
    }
}

/// Two writers until they are through, then `over` is set; beside them `readers`.
fn race(world: &World, readers: &[&(dyn Fn(&AtomicBool) + Sync)]) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2_u64)
            .map(|seed| {
                scope.spawn(move || {
                    let mut random = SmallRng::seed_from_u64(seed);
                    (0..WRITES).for_each(|_| write(world, &mut random));
                })
            })
            .collect();
        for reader in readers {
            scope.spawn(|| reader(&over));
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        over.store(true, Ordering::Release);
    });
}

#[test]
fn views_beside_writers_end_with_what_their_rules_say() {
    let mut world = world(64);
    let clients = views().into_iter().map(|(selectors, choice)| Client::new(&world, &selectors, &choice));
    let clients: Vec<_> = clients.filter(Client::is_free_of_history).map(Mutex::new).collect();
    let reading = |over: &AtomicBool| {
        let mut random = SmallRng::seed_from_u64(9);
        while !over.load(Ordering::Acquire) {
            clients[random.random_range(0..clients.len())].lock().poll(&world, 5);
        }
    };
    let reporting = |over: &AtomicBool| {
        let mut random = SmallRng::seed_from_u64(8);
        while !over.load(Ordering::Acquire) {
            let available = [("slots".to_owned(), random.random_range(0..5))].into();
            let gauges = [("load".to_owned(), random.random_range(0.0..4.0))].into();
            let id = random.random_range(0..KEYS).to_string();
            let _ = world.registry.report(key("A", &id), Report { available, gauges }, world.now);
        }
    };
    race(&world, &[&reading, &reading, &reporting]);
    let clients: Vec<_> = clients.into_iter().map(Mutex::into_inner).collect();
    catch_up(&mut world);
    clients.into_iter().for_each(|mut client| client.settle(&world));
}

#[test]
fn subscribers_beside_writers_end_with_the_set_they_asked_for() {
    for ring in [8192, 32] {
        let world = world(ring);
        let eager = |selection: usize| {
            let world = &world;
            move |over: &AtomicBool| {
                let mut client = subscriptions::Client::new(&world.registry, &selections()[selection]);
                while !over.load(Ordering::Acquire) {
                    client.poll(world, 20);
                }
                client.settle(world);
            }
        };
        let lagging = |over: &AtomicBool| {
            let mut client = subscriptions::Client::new(&world.registry, &selections()[0]);
            while !over.load(Ordering::Acquire) {
                client.poll(&world, 3);
                std::thread::yield_now();
            }
            client.settle(&world);
        };
        race(&world, &[&eager(0), &eager(4), &lagging]);
    }
}

#[test]
fn the_delta_and_its_hash_are_of_one_moment_beside_writers() {
    let world = world(8192);
    let reader = |over: &AtomicBool| {
        let mut view: HashMap<(String, String), Status> = HashMap::new();
        let mut last = 0;
        let mut rounds = 0;
        while !over.load(Ordering::Acquire) || rounds == 0 {
            let delta = world.registry.delta(world.now);
            assert!(delta.revision >= last);
            last = delta.revision;
            rounds += 1;
            for (action, change) in
                delta.changes.iter().map(|change| (change.action(), change.registration()))
            {
                let key = (change.instance.key.app.clone(), change.instance.key.id.clone());
                match action {
                    Action::Deleted => drop(view.remove(&key)),
                    Action::Added | Action::Modified => drop(view.insert(key, change.status())),
                }
            }
            let counts: StatusCounts = view.values().copied().collect();
            assert_eq!(counts, delta.counts, "at {}", delta.revision);
        }
    };
    race(&world, &[&reader]);
}

#[test]
fn lists_beside_writers_hold_each_key_once_and_in_order() {
    let world = world(8192);
    let reader = |over: &AtomicBool| {
        while !over.load(Ordering::Acquire) {
            let page = world.registry.page(&selections()[0], None, 1000, world.now);
            let keys: Vec<_> = page.instances.iter().map(|listed| &listed.instance.key).collect();
            assert!(keys.is_sorted_by(|one, other| one < other));
        }
    };
    race(&world, &[&reader]);
}

#[test]
fn renewals_beside_a_sweep_keep_what_they_renewed() {
    const LEASE_MS: u64 = 3000;
    const STEPS: u64 = 6000;
    let world = world(8192);
    let clock = AtomicU64::new(0);
    let at = |mono| Now { mono: Mono(mono), wall: START.wall };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..STEPS {
                let now = clock.fetch_add(1000, Ordering::SeqCst) + 1000;
                world.registry.tick(at(now));
            }
        });
        for renewer in 0..2_u64 {
            let (world, clock) = (&world, &clock);
            scope.spawn(move || {
                let mut random = SmallRng::seed_from_u64(renewer);
                let id = renewer.to_string();
                loop {
                    let now = clock.load(Ordering::SeqCst);
                    if now >= STEPS * 1000 {
                        return;
                    }
                    if world.registry.renew(key("R", &id), Beat::Plain, None, &REST, at(now)).is_err() {
                        world.register(super::support::leased("R", &id, LEASE_MS / 1000));
                        continue;
                    }
                    let there = world.registry.get(key("R", &id), at(now)).is_some();
                    let later = clock.load(Ordering::SeqCst);
                    assert!(there || later > now + LEASE_MS, "renewed at {now}, gone by {later}");
                    // Until about when the lease runs out, so that the sweep and the next renewal meet.
                    let next = now + LEASE_MS + random.random_range(0..2) * 1000;
                    while clock.load(Ordering::SeqCst) < next.min(STEPS * 1000) {
                        std::hint::spin_loop();
                    }
                }
            });
        }
    });
}

#[test]
fn a_lease_renewed_after_the_sweep_looked_is_not_removed() {
    let mut world = world(8192);
    world.register(super::support::leased("R", "r", 2));
    world.pause(3);
    let slot = world.registry.apps.app("", "R").unwrap().members()[0];
    assert!(world.renew("R", "r"), "it has run out, but nobody removed it yet");
    assert!(!world.registry.expire(slot, world.now));
    world.registry.lease_clock.tick(world.now.mono);
    world.pause(3);
    assert!(world.registry.expire(slot, world.now));
    assert!(!world.renew("R", "r"));
}
