//! The registry against a model that keeps everything in plain maps and looks at all of it every time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use heureka_model::{
    Action, Instance, InstanceKey, LeaseTerms, Overlay, Selectors, SetDigest, Status, StatusOverride, Wall,
    effective_status,
};
use proptest::prelude::*;

use super::support::{GRPC, REST, START, World, config, instance};
use crate::admission::{self, Admission, Stored};
use crate::record::Life;
use crate::registry::Tuning;
use crate::{
    Beat, Claim, Config, MetadataPatch, PreservationMode, Refused, RegisterMode, Registry, Seeds,
    SetOverride, Writer,
};

const APPS: [&str; 2] = ["A", "B"];
const IDS: [&str; 3] = ["x", "host-y:1", "z"];

#[derive(Clone, Debug)]
enum Op {
    Register { claim: u8, version: u64, group: u8, status: Status, lease: u64, create_only: bool },
    Renew { stamp: Option<u64>, status: Option<Status>, rest: bool },
    Cancel { native: Option<(u8, u64)> },
    Override { status: Status, ttl: Option<u64>, rest: bool },
    Clear { fallback: Option<Status> },
    Label { key: u8, value: u8, remove: bool },
    Pass { seconds: u64 },
}

fn status() -> impl Strategy<Value = Status> {
    prop::sample::select(Status::ALL.to_vec())
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..6_u8, 1..20_u64, 0..3_u8, status(), 1..9_u64, any::<bool>()).prop_map(
            |(claim, version, group, status, lease, create_only)| Op::Register {
                claim, version, group, status, lease, create_only: create_only && claim == 0
            }
        ),
        4 => (prop::option::of(1..20_u64), prop::option::of(status()), any::<bool>())
            .prop_map(|(stamp, status, rest)| Op::Renew { stamp, status, rest }),
        2 => prop::option::of((0..2_u8, 1..20_u64)).prop_map(|native| Op::Cancel { native }),
        2 => (status(), prop::option::of(1..6_u64), any::<bool>())
            .prop_map(|(status, ttl, rest)| Op::Override { status, ttl, rest }),
        1 => prop::option::of(status()).prop_map(|fallback| Op::Clear { fallback }),
        2 => (0..2_u8, 0..3_u8, any::<bool>()).prop_map(|(key, value, remove)| Op::Label { key, value, remove }),
        3 => (1..5_u64).prop_map(|seconds| Op::Pass { seconds }),
    ]
}

/// What the model knows of a key.
#[derive(Clone, Debug)]
struct Known {
    life: Life,
    owner: u64,
    incarnation: u64,
    instance: Instance,
    overlay: Option<(Overlay, Option<u64>)>,
    renewed: u64,
    changed: (u64, Action),
    lower: (u64, u8),
    /// Only the key is remembered.
    bare: bool,
}

struct Model {
    keys: BTreeMap<InstanceKey, Known>,
    second: u64,
    highest: u64,
    changes: u64,
}

impl Known {
    fn status(&self) -> Status {
        effective_status(
            self.instance.status,
            self.overlay.and_then(|(overlay, _)| overlay.status).map(|o| o.status),
        )
    }

    fn latest(&self) -> u64 {
        self.owner.max(self.instance.last_dirty.unwrap_or_default().0)
    }

    fn lapsed(&self, second: u64) -> bool {
        self.life == Life::Live && second > self.renewed + self.instance.lease.duration().as_secs()
    }
}

impl Model {
    fn wall(&self) -> Wall {
        Wall(START.wall.0 + self.second * 1000)
    }

    fn live(&self) -> impl Iterator<Item = (&InstanceKey, &Known)> {
        self.keys.iter().filter(|(_, known)| known.life == Life::Live)
    }

    fn change(&mut self, key: &InstanceKey, edit: impl FnOnce(&mut Known)) {
        self.changes += 1;
        let second = self.second;
        let known = self.keys.get_mut(key).unwrap();
        let was_live = known.life == Life::Live;
        edit(known);
        let action = match (was_live, known.life) {
            (false, Life::Live) => Action::Added,
            (true, Life::Live) => Action::Modified,
            _ => Action::Deleted,
        };
        known.changed = (second, action);
    }

    fn register(&mut self, instance: &Instance, claim: Claim, create_only: bool) -> Result<bool, Refused> {
        let stored = self.keys.get(&instance.key).map(|known| self.stored(known, instance));
        let admission = admission::register(stored.as_ref(), claim, instance.last_dirty, self.wall());
        let live = stored.is_some_and(|stored| stored.life == Life::Live);
        if live && create_only && admission != Admission::Renew {
            return Err(Refused::Exists);
        }
        match admission {
            Admission::Accept { owner } => self.accept(instance, claim, owner),
            Admission::Renew => {
                let second = self.second;
                let known = self.keys.get_mut(&instance.key).unwrap();
                known.renewed = second;
                if claim != Claim::PeerStamp {
                    known.instance.last_dirty = known.instance.last_dirty.max(instance.last_dirty);
                }
            }
            Admission::Late { renew } => {
                let second = self.second;
                if let Some(known) = self.keys.get_mut(&instance.key).filter(|_| renew) {
                    known.renewed = second;
                }
                return Ok(false);
            }
            Admission::Refuse(_) => return Err(Refused::NotFound),
        }
        Ok(true)
    }

    fn accept(&mut self, instance: &Instance, claim: Claim, owner: u64) {
        self.highest = self.highest.max(owner);
        let new = Known {
            life: Life::Cancelled,
            owner,
            incarnation: 0,
            instance: instance.clone(),
            overlay: None,
            renewed: self.second,
            changed: (0, Action::Added),
            lower: (0, 0),
            bare: false,
        };
        self.keys.entry(instance.key.clone()).or_insert(new);
        let second = self.second;
        self.change(&instance.key.clone(), |known| {
            known.life = Life::Live;
            known.bare = false;
            known.owner = owner;
            known.incarnation = match claim {
                Claim::Writer(writer) => admission::fold(writer.incarnation),
                _ => 0,
            };
            known.instance = instance.clone();
            known.renewed = second;
            known.lower = (0, 0);
        });
    }

    fn stored(&self, known: &Known, incoming: &Instance) -> Stored {
        let alike = Instance { last_dirty: known.instance.last_dirty, ..incoming.clone() } == known.instance;
        let stamp = incoming.last_dirty.map_or(0, |stamp| stamp.0);
        Stored {
            life: known.life,
            version: heureka_model::Version { owner: known.owner, ..Default::default() },
            incarnation: known.incarnation,
            dirty: known.instance.last_dirty,
            same_content: alike,
            same_address: true,
            lower_beats: if known.lower.0 == stamp { known.lower.1 } else { 0 },
        }
    }

    fn renew(
        &mut self,
        key: &InstanceKey,
        stamp: Option<u64>,
        status: Option<Status>,
        rest: bool,
    ) -> Result<(), Refused> {
        let second = self.second;
        let known =
            self.keys.get_mut(key).filter(|known| known.life == Life::Live).ok_or(Refused::NotFound)?;
        if rest && status.is_none() && known.instance.status == Status::Unknown {
            return Err(Refused::NotFound);
        }
        known.renewed = second;
        if let Some(stamp) = stamp {
            let dirty = known.instance.last_dirty;
            if Some(Wall(stamp)) > dirty {
                return Err(Refused::Outdated);
            }
            if Some(Wall(stamp)) == dirty {
                known.lower = (0, 0);
            } else if known.lower.0 == stamp {
                known.lower.1 += 1;
            } else {
                known.lower = (stamp, 1);
            }
        }
        if let Some(status) = status.filter(|status| *status != known.instance.status) {
            self.change(key, |known| {
                known.owner = known.latest() + 1;
                known.instance.status = status;
                known.lower = (0, 0);
            });
        }
        Ok(())
    }

    fn cancel(&mut self, key: &InstanceKey, claim: Claim) -> Result<bool, Refused> {
        let stored = self.keys.get(key).map(|known| self.stored(known, &known.instance));
        let owner = admission::cancel(stored.as_ref(), claim, self.highest, self.wall())?;
        let existed = stored.is_some_and(|stored| stored.life == Life::Live);
        let Some(owner) = owner else { return Ok(false) };
        let mut bare = Instance::new(key.clone());
        bare.status = Status::Unknown;
        self.keys.entry(key.clone()).or_insert(Known {
            life: Life::Cancelled,
            owner: 0,
            incarnation: 0,
            instance: bare,
            overlay: None,
            renewed: 0,
            changed: (0, Action::Deleted),
            lower: (0, 0),
            bare: true,
        });
        self.change(key, |known| {
            known.life = Life::Cancelled;
            known.owner = owner;
            known.overlay = None;
            if let Claim::Writer(writer) = claim {
                known.incarnation = admission::fold(writer.incarnation);
            }
        });
        Ok(existed)
    }

    fn set_override(
        &mut self,
        key: &InstanceKey,
        status: Status,
        ttl: Option<u64>,
        rest: bool,
    ) -> Result<(), Refused> {
        let (second, wall) = (self.second, self.wall());
        let known =
            self.keys.get_mut(key).filter(|known| known.life == Life::Live).ok_or(Refused::NotFound)?;
        if rest {
            known.renewed = second;
        }
        let until = ttl.map(|ttl| wall.plus(Duration::from_secs(ttl)));
        let overlay = Overlay { status: Some(StatusOverride { status, until }), drain: None };
        let has = known.overlay.is_some_and(|(overlay, _)| overlay.status.is_some());
        let idle = rest && !has && known.status() == status;
        if idle || known.overlay.is_some_and(|(held, _)| held == overlay) {
            return Ok(());
        }
        self.change(key, |known| {
            known.overlay = Some((overlay, ttl.map(|ttl| second + ttl)));
            known.lower = (0, 0);
        });
        Ok(())
    }

    fn clear_override(&mut self, key: &InstanceKey, fallback: Option<Status>) -> Result<(), Refused> {
        let second = self.second;
        let known =
            self.keys.get_mut(key).filter(|known| known.life == Life::Live).ok_or(Refused::NotFound)?;
        known.renewed = second;
        if known.overlay.is_none_or(|(overlay, _)| overlay == Overlay::default()) {
            return Ok(());
        }
        self.change(key, |known| {
            known.overlay = None;
            known.lower = (0, 0);
            if let Some(status) = fallback.filter(|status| *status != known.instance.status) {
                known.instance.status = status;
                known.owner = known.latest() + 1;
            }
        });
        Ok(())
    }

    fn label(&mut self, key: &InstanceKey, label: &str, value: Option<String>) -> Result<(), Refused> {
        let known = self.keys.get(key).filter(|known| known.life == Life::Live).ok_or(Refused::NotFound)?;
        let mut metadata = known.instance.metadata.clone();
        match value {
            Some(value) => metadata.insert(label.to_owned(), value),
            None => metadata.remove(label),
        };
        if metadata != known.instance.metadata {
            self.change(key, |known| {
                known.instance.metadata = metadata;
                known.owner = known.latest() + 1;
                known.lower = (0, 0);
            });
        }
        Ok(())
    }

    /// One second: what must go goes; of an application that would be emptied one stays, whichever the registry
    /// kept.
    fn pass(&mut self, registry: &Registry, now: heureka_model::Now) {
        self.second += 1;
        let second = self.second;
        for app in APPS {
            let live: Vec<InstanceKey> =
                self.live().filter(|(key, _)| key.app == app).map(|(key, _)| key.clone()).collect();
            let lapsed: Vec<InstanceKey> =
                live.iter().filter(|key| self.keys[*key].lapsed(second)).cloned().collect();
            let kept: Vec<&InstanceKey> =
                lapsed.iter().filter(|key| registry.get(key.as_ref(), now).is_some()).collect();
            let spared = usize::from(lapsed.len() == live.len() && live.len() > 1);
            assert_eq!(kept.len(), spared, "of {} lapsed of {}", lapsed.len(), live.len());
            for key in lapsed.iter().filter(|key| !kept.contains(key)) {
                self.change(key, |known| known.life = Life::Expired);
            }
        }
        for known in self.keys.values_mut().filter(|known| known.life != Life::Live) {
            known.bare |= second >= known.changed.0 + 10;
        }
        let ended =
            |known: &Known| known.overlay.is_some_and(|(_, ends)| ends.is_some_and(|ends| ends <= second));
        let ending: Vec<InstanceKey> =
            self.keys.iter().filter(|(_, known)| ended(known)).map(|(key, _)| key.clone()).collect();
        for key in ending {
            self.change(&key, |known| known.overlay = None);
        }
    }
}

struct Pair {
    world: World,
    model: Model,
}

impl Pair {
    fn new(mask: u64) -> Self {
        let mut world = World::new(Config::default());
        let seeds = Seeds { boot: 1, hash: 7, shuffle: 11 };
        let settings = Config { delta_window: Duration::from_secs(5), ..config(PreservationMode::Off) };
        world.registry =
            Registry::tuned(settings, seeds, Tuning { hash_mask: mask, ..Tuning::default() }, START).into();
        Self { world, model: Model { keys: BTreeMap::new(), second: 0, highest: 0, changes: 0 } }
    }

    fn act(&mut self, key: &InstanceKey, op: &Op) {
        let (registry, now) = (self.world.registry.clone(), self.world.now);
        let model = &mut self.model;
        match op {
            Op::Register { claim, version, group, status, lease, create_only } => {
                let claim = match claim {
                    0 | 1 => Claim::Writer(Writer {
                        incarnation: [*claim; 16],
                        version: *version,
                        first: *group == 0,
                    }),
                    2 | 3 => Claim::Stamp,
                    4 => Claim::Next,
                    _ => Claim::PeerStamp,
                };
                let mut new = instance(&key.app, &key.id);
                new.app_group = format!("G{group}");
                new.status = *status;
                new.lease = LeaseTerms::clamped(Duration::from_secs(1), Duration::from_secs(*lease));
                new.last_dirty = (*group != 1).then_some(Wall(*version));
                let mode = if *create_only { RegisterMode::CreateOnly } else { RegisterMode::Upsert };
                let ours = registry.register(&new, claim, mode, &GRPC, now);
                let theirs = model.register(&new, claim, *create_only);
                assert_eq!(ours.as_ref().ok().map(|ours| ours.applied), theirs.ok(), "{ours:?}");
            }
            Op::Renew { stamp, status, rest } => {
                let beat = stamp.map_or(Beat::Plain, |stamp| Beat::Stamp(Wall(stamp)));
                let origin = if *rest { &REST } else { &GRPC };
                let ours = registry.renew(key.as_ref(), beat, *status, origin, now).map(drop);
                assert_eq!(ours, model.renew(key, *stamp, *status, *rest));
            }
            Op::Cancel { native } => {
                let claim = native.map_or(Claim::Next, |(incarnation, version)| {
                    Claim::Writer(Writer { incarnation: [incarnation; 16], version, first: false })
                });
                let ours =
                    registry.cancel(key.as_ref(), claim, &GRPC, now).map(|cancelled| cancelled.existed);
                assert_eq!(ours.ok(), model.cancel(key, claim).ok());
            }
            Op::Override { status, ttl, rest } => {
                let set = SetOverride { status: *status, ttl: ttl.map(Duration::from_secs), drain: None };
                let origin = if *rest { &REST } else { &GRPC };
                let ours = registry.set_override(key.as_ref(), set, origin, now).map(drop);
                assert_eq!(ours, model.set_override(key, *status, *ttl, *rest));
            }
            Op::Clear { fallback } => {
                let ours = registry.clear_override(key.as_ref(), *fallback, &REST, now).map(drop);
                assert_eq!(ours, model.clear_override(key, *fallback));
            }
            Op::Label { key: label, value, remove } => {
                let label = format!("k{label}");
                let mut patch = MetadataPatch::default();
                match remove {
                    true => patch.remove.push(label.clone()),
                    false => drop(patch.set.insert(label.clone(), value.to_string())),
                }
                let ours = registry.update_metadata(key.as_ref(), patch, &GRPC, now).map(drop);
                assert_eq!(ours, model.label(key, &label, (!remove).then(|| value.to_string())));
            }
            Op::Pass { seconds } => {
                for _ in 0..*seconds {
                    self.world.pass(1);
                    self.model.pass(&registry, self.world.now);
                }
            }
        }
    }

    fn compare(&self) {
        let (registry, now, model) = (&self.world.registry, self.world.now, &self.model);
        assert_eq!(registry.head(), model.changes, "one revision a change, none for renewals");
        let mut digest = SetDigest::default();
        for (key, known) in &model.keys {
            let ours = registry.get(key.as_ref(), now);
            assert_eq!(ours.is_some(), known.life == Life::Live, "{key}");
            let Some(ours) = ours else { continue };
            assert_eq!(ours.instance, known.instance);
            assert_eq!((ours.status(), ours.version.owner), (known.status(), known.owner), "{key}");
            assert_eq!(ours.times.renewed, Wall(START.wall.0 + known.renewed * 1000));
            digest.add(ours.hash(), ours.status());
        }
        let listed = registry.page(&Selectors::default(), None, 100, now);
        let keys: Vec<&InstanceKey> = listed.instances.iter().map(|listed| &listed.instance.key).collect();
        assert_eq!(keys, model.live().map(|(key, _)| key).collect::<Vec<_>>());
        let mut sum = SetDigest::default();
        registry.applications("").iter().for_each(|app| sum.merge(&app.digest));
        assert_eq!(sum, digest, "sums are kept, not recomputed");
        let stats = registry.stats();
        assert_eq!(stats.instances as usize, model.live().count());
        assert_eq!(stats.tombstones as usize, model.keys.len() - model.live().count());
        self.compare_delta(digest);
    }

    fn compare_delta(&self, digest: SetDigest) {
        let model = &self.model;
        let delta = self.world.registry.delta(self.world.now);
        assert_eq!(delta.counts, digest.counts);
        let told: BTreeSet<(String, String, &str)> = delta
            .changes
            .iter()
            .map(|change| (change.action(), change.registration()))
            .map(|(action, change)| {
                let name = match action {
                    Action::Added => "added",
                    Action::Modified => "modified",
                    Action::Deleted => "deleted",
                };
                (change.instance.key.app.clone(), change.instance.key.id.clone(), name)
            })
            .collect();
        assert_eq!(told.len(), delta.changes.len(), "each key once");
        for (key, known) in &model.keys {
            let name = match known.changed.1 {
                Action::Added => "added",
                Action::Modified => "modified",
                Action::Deleted => "deleted",
            };
            let entry = (key.app.clone(), key.id.clone(), name);
            let age = model.second - known.changed.0;
            assert!(known.bare || age > 5 || told.contains(&entry), "{entry:?} of {age} s ago is missing");
            assert!(age <= 6 || !told.contains(&entry), "{entry:?} of {age} s ago is too old");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_registry_does_what_the_model_does(
        mask in prop_oneof![Just(u64::MAX), Just(0), Just(1)],
        steps in prop::collection::vec((0..2_usize, 0..3_usize, op()), 1..60),
    ) {
        let mut pair = Pair::new(mask);
        for (app, id, op) in &steps {
            let key = InstanceKey { namespace: String::new(), app: APPS[*app].into(), id: IDS[*id].into() };
            pair.act(&key, op);
            pair.compare();
        }
    }
}
