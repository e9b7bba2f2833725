//! Three servers that exchange what they know in any order, doubled and late.

use std::collections::HashMap;
use std::time::Duration;

use heureka_model::{KeyRef, LeaseTerms, Overlay, Status, Version, Wall};
use proptest::prelude::*;

use super::support::{GRPC, REST, World, config, instance, key};
use crate::replication::{Adoption, Outgoing};
use crate::{Claim, Content, KeyState, MetadataPatch, PreservationMode, RegisterMode, SetOverride, Writer};

const IDS: [&str; 3] = ["a", "b", "c"];

#[derive(Clone, Debug)]
enum Op {
    Native { incarnation: u8, version: u64, first: bool },
    Eureka { stamp: u64 },
    Next,
    Cancel,
    Override(Option<u64>),
    Clear(bool),
    Label,
    Status(bool),
    Time(u64),
    Skew(i64),
}

/// What happens next: something at one server, or a message on its way.
#[derive(Clone, Debug)]
enum Step {
    Do { node: usize, id: usize, op: Op },
    Tell { from: usize, id: usize },
    Deliver { message: usize, to: usize, keep: bool },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (0..3_u8, 0..12_u64, any::<bool>()).prop_map(|(incarnation, version, first)| Op::Native {
            incarnation,
            version,
            first
        }),
        (0..12_u64).prop_map(|stamp| Op::Eureka { stamp }),
        Just(Op::Next),
        Just(Op::Cancel),
        proptest::option::of(1..5_u64).prop_map(Op::Override),
        any::<bool>().prop_map(Op::Clear),
        Just(Op::Label),
        any::<bool>().prop_map(Op::Status),
        (1..8_u64).prop_map(Op::Time),
        (-400_000..400_000_i64).prop_map(Op::Skew),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..3_usize, 0..3_usize, op()).prop_map(|(node, id, op)| Step::Do { node, id, op }),
        3 => (0..3_usize, 0..3_usize).prop_map(|(from, id)| Step::Tell { from, id }),
        4 => (any::<usize>(), 0..3_usize, any::<bool>())
            .prop_map(|(message, to, keep)| Step::Deliver { message, to, keep }),
    ]
}

struct Cluster {
    nodes: Vec<World>,
    messages: Vec<KeyState>,
    /// What each version was seen to say, wherever it was seen.
    said: HashMap<(usize, Version), (Content, Overlay)>,
    newest: HashMap<(usize, usize), Version>,
    counter: u64,
}

impl Cluster {
    fn new() -> Self {
        let nodes = (1..=3).map(|boot| World::with_boot(config(PreservationMode::Off), boot)).collect();
        Self { nodes, messages: Vec::new(), said: HashMap::new(), newest: HashMap::new(), counter: 0 }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Do { node, id, op } => self.act(*node, IDS[*id], op),
            Step::Tell { from, id } => {
                let world = &self.nodes[*from];
                self.messages.extend(world.registry.export(key("R", IDS[*id]), world.now));
            }
            Step::Deliver { message, to, keep } if !self.messages.is_empty() => {
                let at = message % self.messages.len();
                let message = self.messages[at].clone();
                if !keep {
                    self.messages.swap_remove(at);
                }
                self.deliver(*to, message);
            }
            Step::Deliver { .. } => {}
        }
        self.monitor();
    }

    fn deliver(&self, to: usize, message: KeyState) {
        let world = &self.nodes[to];
        let incoming = Outgoing { state: message, age: Duration::from_secs(1), beaten: false };
        world.registry.merge(incoming, Adoption::Fresh, world.now).unwrap();
    }

    fn act(&mut self, node: usize, id: &str, op: &Op) {
        self.counter += 1;
        let world = &mut self.nodes[node];
        let mut record = instance("R", id);
        record.app_group = format!("G{}", self.counter % 4);
        record.lease = LeaseTerms::clamped(Duration::from_secs(2), Duration::from_secs(5));
        let registry = &world.registry;
        let now = world.now;
        // A refusal is an answer too: what matters here is what is stored.
        match op {
            Op::Native { incarnation, version, first } => {
                let writer = Writer { incarnation: [*incarnation; 16], version: *version, first: *first };
                let _ = registry.register(&record, Claim::Writer(writer), RegisterMode::Upsert, &GRPC, now);
            }
            Op::Eureka { stamp } => {
                record.last_dirty = Some(Wall(*stamp));
                let _ = registry.register(&record, Claim::Stamp, RegisterMode::Upsert, &REST, now);
            }
            Op::Next => drop(registry.register(&record, Claim::Next, RegisterMode::Upsert, &GRPC, now)),
            Op::Cancel => drop(registry.cancel(key("R", id), Claim::Next, &REST, now)),
            Op::Override(ttl) => {
                let set = SetOverride {
                    status: Status::OutOfService,
                    ttl: ttl.map(Duration::from_secs),
                    drain: None,
                };
                let _ = registry.set_override(key("R", id), set, &GRPC, now);
            }
            Op::Clear(fallback) => {
                let _ = registry.clear_override(key("R", id), fallback.then_some(Status::Down), &GRPC, now);
            }
            Op::Label => {
                let set = [("n".to_owned(), self.counter.to_string())].into();
                let patch = MetadataPatch { set, ..MetadataPatch::default() };
                let _ = registry.update_metadata(key("R", id), patch, &GRPC, now);
            }
            Op::Status(up) => {
                let status = if *up { Status::Up } else { Status::Starting };
                let _ = registry.renew(key("R", id), crate::Beat::Plain, Some(status), &GRPC, now);
            }
            Op::Time(seconds) => world.pass(*seconds),
            Op::Skew(millis) => world.now.wall = Wall(now.wall.0.saturating_add_signed(*millis)),
        }
    }

    /// On every server after every step: no version goes back, and a version says one thing everywhere.
    fn monitor(&mut self) {
        for (node, world) in self.nodes.iter().enumerate() {
            for (id, name) in IDS.iter().enumerate() {
                let Some(state) = world.registry.export(key("R", name), world.now) else { continue };
                let newest = self.newest.entry((node, id)).or_default();
                assert!(state.version() >= *newest, "{name} went back at server {node}");
                *newest = state.version();
                let said = without_times((state.owner.content.clone(), state.overlay));
                let before = self.said.entry((id, state.version())).or_insert_with(|| said.clone());
                assert_eq!(*before, said, "one version, two contents at server {node}");
            }
        }
    }

    /// Everybody tells everybody everything, twice.
    fn settle(&mut self) {
        for _ in 0..2 {
            for from in 0..3 {
                for id in IDS {
                    let world = &self.nodes[from];
                    let state = world.registry.export(KeyRef { namespace: "", app: "R", id }, world.now);
                    for to in (0..3).filter(|to| *to != from) {
                        state.iter().for_each(|state| self.deliver(to, state.clone()));
                    }
                }
            }
            self.monitor();
        }
    }
}

/// The stamp of the owner's clock is no part of what a version says.
fn without_times(mut said: (Content, Overlay)) -> (Content, Overlay) {
    if let Content::Live(instance) = &mut said.0 {
        instance.last_dirty = instance.last_dirty.map(|_| Wall(0));
    }
    said
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(384))]

    #[test]
    fn three_servers_agree_whatever_they_hear_when(steps in prop::collection::vec(step(), 1..80)) {
        let mut cluster = Cluster::new();
        steps.iter().for_each(|step| cluster.step(step));
        cluster.settle();
        for id in IDS {
            let states: Vec<Option<KeyState>> = cluster.nodes.iter()
                .map(|world| world.registry.export(key("R", id), world.now).map(|mut state| {
                    // Times of the lease are no part of what a version says.
                    state.owner.updated = Wall(0);
                    state.owner.service_up = Wall(0);
                    state
                }))
                .collect();
            prop_assert_eq!(&states[0], &states[1]);
            prop_assert_eq!(&states[1], &states[2]);
        }
        prop_assert!(cluster.nodes.iter().all(|world| world.registry.stats().version_collisions == 0));
    }
}
