//! A registry on a manual clock.

use std::borrow::Borrow;
use std::sync::Arc;
use std::time::Duration;

use heureka_model::{
    Change, Instance, InstanceKey, KeyRef, LeaseTerms, Mono, Now, Port, Registration, Selectors, Status, Wall,
};

use crate::{
    Beat, Claim, Config, Origin, Preservation, PreservationMode, RegisterMode, Registered, Registry, Seeds,
    Start, Subscription, Surface,
};

pub(super) const REST: Origin = Origin::Client { surface: Surface::Rest, principal: None, address: None };
pub(super) const GRPC: Origin = Origin::Client { surface: Surface::Grpc, principal: None, address: None };
pub(super) const START: Now = Now { mono: Mono(0), wall: Wall(1_800_000_000_000) };

/// A registry and its time.
pub(super) struct World {
    pub(super) registry: Arc<Registry>,
    pub(super) now: Now,
}

pub(super) fn config(mode: PreservationMode) -> Config {
    Config { preservation: Preservation { mode, ..Preservation::default() }, ..Config::default() }
}

impl World {
    pub(super) fn new(config: Config) -> Self {
        Self::with_boot(config, 1)
    }

    pub(super) fn with_boot(config: Config, boot: u64) -> Self {
        let seeds = Seeds { boot, hash: 7, shuffle: 11 };
        Self { registry: Arc::new(Registry::new(config, seeds, START)), now: START }
    }

    /// Time passes as for a server that ticks every second.
    pub(super) fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now.mono.0 += 1000;
            self.now.wall.0 += 1000;
            self.registry.tick(self.now);
        }
    }

    /// Time passes while the server stands still.
    pub(super) fn pause(&mut self, seconds: u64) {
        self.now.mono.0 += seconds * 1000;
        self.now.wall.0 += seconds * 1000;
    }

    pub(super) fn register(&self, instance: impl Borrow<Instance>) -> Registered {
        self.registry
            .register(instance.borrow(), Claim::Stamp, RegisterMode::Upsert, &REST, self.now)
            .unwrap()
    }

    pub(super) fn renew(&self, app: &str, id: &str) -> bool {
        self.registry.renew(key(app, id), Beat::Plain, None, &REST, self.now).is_ok()
    }

    pub(super) fn cancel(&self, app: &str, id: &str) -> bool {
        self.registry.cancel(key(app, id), Claim::Next, &REST, self.now).unwrap().existed
    }

    pub(super) fn get(&self, app: &str, id: &str) -> Option<Registration> {
        self.registry.get(key(app, id), self.now)
    }

    pub(super) fn status(&self, app: &str, id: &str) -> Option<Status> {
        self.get(app, id).map(|registration| registration.status())
    }

    pub(super) fn watch(&self, selectors: Selectors, start: Start) -> Subscription {
        Subscription::new(&self.registry, selectors, start)
    }

    /// Everything that a subscription has to tell now.
    pub(super) fn drain(&self, subscription: &mut Subscription) -> Vec<Change> {
        let mut changes = Vec::new();
        loop {
            let batch = subscription.poll(&self.registry, 100, self.now);
            changes.extend(batch.changes.iter().map(|told| Change::clone(told)));
            if batch.at_head {
                return changes;
            }
        }
    }
}

pub(super) fn key<'a>(app: &'a str, id: &'a str) -> KeyRef<'a> {
    KeyRef { namespace: "", app, id }
}

pub(super) fn instance(app: &str, id: &str) -> Instance {
    let key = InstanceKey { namespace: String::new(), app: app.to_owned(), id: id.to_owned() };
    Instance {
        host_name: format!("{id}.example"),
        ip_address: "10.0.0.1".to_owned(),
        port: Some(Port { number: 8080, enabled: true }),
        last_dirty: Some(Wall(100)),
        ..Instance::new(key)
    }
}

/// With a lease of so many seconds and a third of it as interval.
pub(super) fn leased(app: &str, id: &str, seconds: u64) -> Instance {
    let duration = Duration::from_secs(seconds);
    Instance { lease: LeaseTerms::clamped(duration / 3, duration), ..instance(app, id) }
}
