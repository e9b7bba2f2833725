//! The digest by which servers find what differs, against maps that are compared in full.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use heureka_model::{Overlay, Stamp, Status, StatusOverride, Version, Wall};
use proptest::prelude::*;

use super::support::{World, config, instance, key};
use crate::replication::{Identity, Outgoing, Replicator};
use crate::{Adoption, Content, KeyState, Merged, OwnerState, PreservationMode};

const IDS: [&str; 5] = ["a", "b", "c", "d", "e"];

/// A state of a key; its numbers say everything about it, so that equal versions mean equal content.
#[derive(Clone, Copy, Debug)]
struct Told {
    id: usize,
    owner: u64,
    overlay: u64,
}

fn told() -> impl Strategy<Value = Told> {
    (0..IDS.len(), 1..6_u64, 0..3_u64).prop_map(|(id, owner, overlay)| Told { id, owner, overlay })
}

impl Told {
    fn outgoing(self) -> Outgoing {
        let mut of = instance("D", IDS[self.id]);
        of.metadata.insert("version".to_owned(), self.owner.to_string());
        let content = match self.owner % 3 {
            0 => Content::Cancelled,
            1 if self.owner > 3 => Content::Expired,
            _ => Content::Live(Box::new(of.clone())),
        };
        let status = StatusOverride { status: Status::OutOfService, until: None };
        let owner = OwnerState {
            version: self.owner,
            written: Stamp { clock: self.owner, boot: 9 },
            content,
            incarnation: 0,
            dirty: None,
            updated: Wall(0),
            registered: Wall(0),
            service_up: Wall(0),
        };
        let state = KeyState {
            key: of.key,
            owner,
            overlay_stamp: Stamp { clock: self.overlay, boot: if self.overlay > 0 { 9 } else { 0 } },
            overlay: Overlay { status: (self.overlay > 0).then_some(status), drain: None },
        };
        Outgoing { state, age: Duration::ZERO, beaten: true }
    }
}

struct Node {
    world: World,
    replicator: Arc<Replicator>,
}

impl Node {
    fn new(boot: u64) -> Self {
        let world = World::with_boot(config(PreservationMode::Off), boot);
        let identity = Identity { cluster: "c".to_owned(), node: boot.to_string(), ..Identity::default() };
        Self { replicator: Arc::new(Replicator::new(Arc::clone(&world.registry), identity)), world }
    }

    fn hear(&self, told: Told) {
        self.world.registry.merge(told.outgoing(), Adoption::Any, self.world.now).unwrap();
    }

    fn live(&self) -> BTreeMap<&str, Version> {
        let live =
            |id: &&'static str| Some((*id, self.world.registry.get(key("D", id), self.world.now)?.version));
        IDS.iter().filter_map(live).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn digests_are_equal_exactly_when_what_is_live_is(
        common in proptest::collection::vec(told(), 0..8),
        one in proptest::collection::vec(told(), 0..3),
        other in proptest::collection::vec(told(), 0..3),
    ) {
        let nodes = [Node::new(1), Node::new(2)];
        common.iter().for_each(|told| nodes[0].hear(*told));
        common.iter().rev().for_each(|told| nodes[1].hear(*told));
        // Looked at before the rest, so that the digest must follow changes and not only what is there.
        prop_assert_eq!(nodes[0].replicator.root(), nodes[1].replicator.root());
        one.iter().for_each(|told| nodes[0].hear(*told));
        other.iter().for_each(|told| nodes[1].hear(*told));
        let equal = nodes[0].live() == nodes[1].live();
        prop_assert_eq!(nodes[0].replicator.root() == nodes[1].replicator.root(), equal);
    }
}

#[test]
fn two_states_of_one_version_end_alike_on_every_server() {
    let honest = Told { id: 0, owner: 2, overlay: 1 }.outgoing();
    let mut content = honest.clone();
    let Content::Live(instance) = &mut content.state.owner.content else { unreachable!("it is live") };
    instance.host_name = "elsewhere".to_owned();
    let mut overlay = honest.clone();
    overlay.state.overlay.status = Some(StatusOverride { status: Status::Down, until: None });
    for other in [content, overlay] {
        let nodes = [Node::new(1), Node::new(2)];
        let told = [[&honest, &other], [&other, &honest]];
        for (node, outgoings) in nodes.iter().zip(told) {
            for outgoing in outgoings {
                node.world.registry.merge(outgoing.clone(), Adoption::Any, node.world.now).unwrap();
            }
        }
        let states = nodes.each_ref().map(|node| {
            let state = node.world.registry.export(key("D", IDS[0]), node.world.now).unwrap();
            (state.owner.content, state.overlay)
        });
        assert_eq!(states[0], states[1]);
        let head = nodes[0].world.registry.head();
        for outgoing in [&honest, &other] {
            let again = nodes[0].world.registry.merge(outgoing.clone(), Adoption::Any, nodes[0].world.now);
            assert_eq!(again, Ok(Merged::Known));
        }
        assert_eq!(nodes[0].world.registry.head(), head, "what is known is written once");
    }
}
