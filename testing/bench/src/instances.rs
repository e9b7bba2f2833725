//! Instances as Spring clients register them.

use std::fmt::Write as _;
use std::time::Duration;

use heureka_model::{
    DataCenter, Instance, InstanceKey, KeyRef, LeaseTerms, Metadata, Mono, Now, Port, Status, Urls, Wall,
};
use heureka_registry::{Claim, Config, Origin, RegisterMode, Registry, Seeds, Surface};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

/// Instances of one application, where nothing else is said.
pub(crate) const PER_APP: usize = 100;

/// The wire that the writes come by.
pub(crate) const ORIGIN: Origin = Origin::Client { surface: Surface::Grpc, principal: None, address: None };

/// The moment at which everything happens, unless a measurement moves on.
pub(crate) const START: Now = Now { mono: Mono(1_000_000), wall: Wall(1_800_000_000_000) };

/// How far the instances of an application resemble each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    /// Eight of ten metadata values are equal across the application.
    Shared,
    /// All ten values are of 24 bytes and different in every instance.
    Unique,
    /// Words that are equal in every instance, but for the last, which tells its version.
    Words,
}

/// The `n`-th instance in its `version`-th form; neighbouring versions differ in status and one metadata value.
pub(crate) fn instance(n: usize, values: Values, version: usize) -> Instance {
    placed(n, PER_APP, values, version)
}

/// The same where an application has so many instances.
pub(crate) fn placed(n: usize, per_app: usize, values: Values, version: usize) -> Instance {
    let host = format!("node-{n:08}.eu.example.net.io");
    let urls = Urls {
        home_page: format!("http://{host}:8080/"),
        status_page: format!("http://{host}:8080/actuator/info"),
        health_check: format!("http://{host}:8080/actuator/health"),
        secure_health_check: format!("https://{host}:8443/actuator/health"),
    };
    let app = app(n, per_app);
    Instance {
        status: if version.is_multiple_of(2) { Status::Up } else { Status::OutOfService },
        ip_address: format!("10.{}.{}.{}", n >> 16 & 255, n >> 8 & 255, n & 255),
        port: Some(Port { number: 8080, enabled: true }),
        secure_port: Some(Port { number: 8443, enabled: true }),
        metadata: metadata(n, per_app, values, version),
        vip_address: app.to_lowercase(),
        secure_vip_address: app.to_lowercase(),
        urls,
        data_center: DataCenter { name: "MyOwn".to_owned(), ..DataCenter::default() },
        lease: LeaseTerms::clamped(Duration::from_secs(30), Duration::from_hours(24)),
        last_dirty: Some(Wall(START.wall.0 + version as u64)),
        key: InstanceKey {
            namespace: String::new(),
            app,
            id: format!("{host}:service-{:05}:8080", n / per_app),
        },
        ..Instance { host_name: host, ..Instance::new(InstanceKey::default()) }
    }
}

/// A registry of nothing.
pub(crate) fn empty() -> Registry {
    Registry::new(Config::default(), Seeds { boot: 1, hash: 0x9e37_79b9_7f4a_7c15, shuffle: 3 }, START)
}

/// Registers as a Eureka client does; the instances of this program are never refused.
pub(crate) fn register(registry: &Registry, instance: &Instance) {
    let registered = registry.register(instance, Claim::Stamp, RegisterMode::Upsert, &ORIGIN, START);
    assert!(registered.is_ok_and(|registered| registered.applied), "the bench's own instances are accepted");
}

/// The numbers below `count` in random order, the same at each run.
pub(crate) fn shuffled(count: usize) -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..count).collect();
    numbers.shuffle(&mut random());
    numbers
}

/// Random numbers, the same at each run.
pub(crate) fn random() -> SmallRng {
    SmallRng::seed_from_u64(42)
}

/// Keys in random order, side by side in memory as a request's key is in its buffer.
pub(crate) struct Keys {
    text: String,
    ends: Vec<(u32, u32)>,
}

impl Keys {
    /// Keys of the instances with these numbers.
    pub(crate) fn of(numbers: impl IntoIterator<Item = usize>) -> Self {
        let mut keys = Self { text: String::new(), ends: Vec::new() };
        for number in numbers {
            keys.push(number);
        }
        keys
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = KeyRef<'_>> {
        (0..self.len()).map(|position| self.at(position))
    }

    /// The key at a position.
    pub(crate) fn at(&self, position: usize) -> KeyRef<'_> {
        let start = if position == 0 { 0 } else { self.ends[position - 1].1 as usize };
        let (app, id) = self.ends[position];
        KeyRef {
            namespace: "",
            app: &self.text[start..app as usize],
            id: &self.text[app as usize..id as usize],
        }
    }

    fn push(&mut self, n: usize) {
        self.text.push_str(&app(n, PER_APP));
        let app = self.text.len() as u32;
        let _ = write!(self.text, "node-{n:08}.eu.example.net.io:service-{:05}:8080", n / PER_APP);
        self.ends.push((app, self.text.len() as u32));
    }
}

/// The application of the `n`-th instance.
pub(crate) fn app(n: usize, per_app: usize) -> String {
    format!("SERVICE-{:05}", n / per_app)
}

fn metadata(n: usize, per_app: usize, values: Values, version: usize) -> Metadata {
    let shared = if values == Values::Shared { 8 } else { 0 };
    let value = |position: usize| {
        let version = if position == 9 { version } else { 0 };
        let owner = if position < shared { n / per_app } else { n };
        let mut random = SmallRng::seed_from_u64((owner * 16 + position) as u64 ^ (version as u64) << 40);
        format!("{:012x}{:012x}", random.next_u64() >> 16, random.next_u64() >> 16)
    };
    let word = |position: usize| match position {
        9 => format!("value-9-of-version-{version}"),
        _ => format!("value-{position}-of-the-instance"),
    };
    let told = |position| if values == Values::Words { word(position) } else { value(position) };
    (0..10).map(|position| (format!("meta-key-{position}"), told(position))).collect()
}
