//! What a renewal does not do.

use heureka_model::{Instance, InstanceKey, Mono, Now, Wall};
use heureka_registry::{Beat, Claim, Config, Origin, RegisterMode, Registry, Seeds, Surface};

const ORIGIN: Origin = Origin::Client { surface: Surface::Grpc, principal: None, address: None };
const NOW: Now = Now { mono: Mono(1000), wall: Wall(1_800_000_000_000) };

fn registry_of(keys: &[InstanceKey]) -> Registry {
    let registry = Registry::new(Config::default(), Seeds { boot: 1, hash: 2, shuffle: 3 }, NOW);
    for key in keys {
        let instance = Instance::new(key.clone());
        let registered = registry.register(&instance, Claim::Next, RegisterMode::Upsert, &ORIGIN, NOW);
        assert!(registered.is_ok_and(|registered| registered.created));
    }
    registry
}

#[test]
fn a_renewal_neither_allocates_nor_enters_the_log() {
    let key = |n: usize| InstanceKey { namespace: String::new(), app: "A".to_owned(), id: n.to_string() };
    let keys: Vec<InstanceKey> = (0..100).map(key).collect();
    let registry = registry_of(&keys);
    let head = registry.head();
    let later = Now { mono: Mono(2000), ..NOW };
    let allocated = allocation_counter::measure(|| {
        for key in &keys {
            registry.renew(key.as_ref(), Beat::Plain, None, &ORIGIN, later).unwrap();
        }
    });
    assert_eq!(allocated.count_total, 0);
    assert_eq!(registry.head(), head);
    assert_eq!(registry.stats().renewals, 100);
}
