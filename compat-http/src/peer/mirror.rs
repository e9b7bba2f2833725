//! A shadow: what a server of the original's kind lists, taken in and compared.

use std::collections::{BTreeMap, HashSet};

use heureka_model::{Instance, InstanceKey, KeyRef, Now, Registration, Status, Wall};
use heureka_registry::{Beat, Registry};
use serde::Serialize;

use super::Unreadable;
use super::repair::take;
use crate::intake;
use crate::wire::list_reader::{self, Listed};
use crate::wire::native;

/// Differences that a report names; the rest is counted.
const NAMED_MAX: usize = 100;

/// A copy of another server's registry that is kept up to date without that server knowing, and compared with it.
#[derive(Debug, Default)]
pub struct Mirror {
    /// Keys that the other lists.
    listed: HashSet<InstanceKey>,
    differing: BTreeMap<InstanceKey, Differing>,
    /// Differences met since the start, each counted once while it lasts.
    met: u64,
    hash: String,
}

#[derive(Debug)]
struct Differing {
    what: Vec<String>,
    since: Wall,
}

/// One instance that is not alike on both sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Application.
    pub app: String,
    /// Instance id.
    pub id: String,
    /// What differs: `missing here`, or members with both values.
    pub what: Vec<String>,
    /// When it was first seen, in milliseconds since the epoch.
    pub since_ms: u64,
}

/// How far two servers agree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Instances that the other lists.
    pub listed: usize,
    /// Counts by status as the other tells them.
    pub hash: String,
    /// Instances that differ now.
    pub differing: usize,
    /// Differences met since the start.
    pub met: u64,
    /// The first of those that differ now.
    pub first: Vec<Difference>,
}

impl Mirror {
    /// Takes in a list or, unless `whole`, a delta; then compares what it tells with what readers see here. True when
    /// the whole list must be read: after a delta the two sets are not of one size.
    ///
    /// # Errors
    /// When the document is no list.
    pub fn follow(
        &mut self,
        registry: &Registry,
        document: &[u8],
        whole: bool,
        now: Now,
    ) -> Result<bool, Unreadable> {
        let text = std::str::from_utf8(document).map_err(|_| Unreadable("the text is not UTF-8".into()))?;
        let mut told: Vec<Told> = Vec::new();
        let take_in = |listed: Listed| told.push(Told::taken(registry, listed, now));
        let summary = list_reader::read(text, take_in).map_err(|error| Unreadable::of(&error))?;
        if whole {
            self.drop_unlisted(registry, &told, now);
        }
        for one in &told {
            self.note(registry, one, now);
        }
        self.hash = summary.hash;
        self.renew(registry, now);
        Ok(!whole && self.counts_differ())
    }

    /// Removes whatever the other does not list, for a registry that is a copy and nothing else.
    pub fn drop_others(&self, registry: &Registry, now: Now) {
        for app in registry.applications("") {
            for entry in registry.entries("", &app.name, now) {
                let key = entry.registration().instance.key;
                if !self.listed.contains(&key) {
                    forget(registry, key.as_ref(), now);
                }
            }
        }
    }

    /// How far both agree now.
    #[must_use]
    pub fn report(&self) -> Report {
        let first = self.differing.iter().take(NAMED_MAX).map(|(key, differing)| Difference {
            app: key.app.clone(),
            id: key.id.clone(),
            what: differing.what.clone(),
            since_ms: differing.since.0,
        });
        Report {
            listed: self.listed.len(),
            hash: self.hash.clone(),
            differing: self.differing.len(),
            met: self.met,
            first: first.collect(),
        }
    }

    /// What the other no longer lists is gone.
    fn drop_unlisted(&mut self, registry: &Registry, told: &[Told], now: Now) {
        let listed: HashSet<InstanceKey> = told.iter().map(|one| one.instance.key.clone()).collect();
        for gone in self.listed.difference(&listed) {
            forget(registry, gone.as_ref(), now);
        }
        self.differing.retain(|key, _| listed.contains(key));
        self.listed = listed;
    }

    fn note(&mut self, registry: &Registry, told: &Told, now: Now) {
        let key = &told.instance.key;
        if told.deleted {
            self.listed.remove(key);
        } else {
            self.listed.insert(key.clone());
        }
        let what = told.differences(registry.get(key.as_ref(), now).as_ref());
        if what.is_empty() {
            self.differing.remove(key);
            return;
        }
        if let Some(known) = self.differing.get_mut(key) {
            known.what = what;
            return;
        }
        self.met += 1;
        tracing::warn!(%key, what = what.join("; "), "differs from the server that is shadowed");
        self.differing.insert(key.clone(), Differing { what, since: now.wall });
    }

    /// The other server holds the leases; while it lists an instance, so does this one.
    fn renew(&self, registry: &Registry, now: Now) {
        for key in &self.listed {
            // One that is not here any more is a difference, found at the next list.
            let _ = registry.renew(key.as_ref(), Beat::Plain, None, &intake::PEER, now);
        }
    }

    /// The other's counts as a number of instances.
    fn counts_differ(&self) -> bool {
        let counts = self.hash.split('_').filter_map(|part| part.parse::<usize>().ok());
        counts.sum::<usize>() != self.listed.len()
    }
}

/// An instance that the other told.
struct Told {
    instance: Instance,
    shown: Status,
    override_status: Option<Status>,
    deleted: bool,
}

impl Told {
    /// Takes it in and keeps what it said.
    fn taken(registry: &Registry, listed: Listed, now: Now) -> Self {
        let Listed { parsed, deleted } = listed;
        let mut instance = parsed.instance.clone();
        native::unfold(&mut instance);
        let told =
            Self { shown: instance.status, override_status: parsed.override_status, deleted, instance };
        if deleted {
            forget(registry, told.instance.key.as_ref(), now);
        } else {
            told.end_override(registry, now);
            take(registry, parsed, now);
        }
        told
    }

    /// An override that the other does not have has ended there.
    fn end_override(&self, registry: &Registry, now: Now) {
        let key = self.instance.key.as_ref();
        let held = registry.get(key, now).and_then(|held| held.override_status());
        if held.is_some() && self.override_status.is_none() {
            // Gone meanwhile is as good.
            let _ = registry.clear_override(key, Some(self.shown), &intake::PEER, now);
        }
    }

    fn differences(&self, held: Option<&Registration>) -> Vec<String> {
        let Some(held) = held else {
            return if self.deleted { Vec::new() } else { vec!["missing here".into()] };
        };
        if self.deleted {
            return vec!["still here".into()];
        }
        let (theirs, ours) = (&self.instance, &held.instance);
        let mut what = Vec::new();
        let mut compare = |member: &str, theirs: String, ours: String| {
            if theirs != ours {
                what.push(format!("{member}: there {theirs:.100}, here {ours:.100}"));
            }
        };
        compare("status", self.shown.to_string(), held.status().to_string());
        compare("overriddenStatus", shown(self.override_status), shown(held.override_status()));
        compare("hostName", theirs.host_name.clone(), ours.host_name.clone());
        compare("ipAddr", theirs.ip_address.clone(), ours.ip_address.clone());
        compare("port", format!("{:?}", theirs.port), format!("{:?}", ours.port));
        compare("securePort", format!("{:?}", theirs.secure_port), format!("{:?}", ours.secure_port));
        compare("vipAddress", theirs.vip_address.clone(), ours.vip_address.clone());
        compare("secureVipAddress", theirs.secure_vip_address.clone(), ours.secure_vip_address.clone());
        compare("metadata", format!("{:?}", theirs.metadata), format!("{:?}", ours.metadata));
        compare("urls", format!("{:?}", theirs.urls), format!("{:?}", ours.urls));
        compare("dataCenterInfo", theirs.data_center.name.clone(), ours.data_center.name.clone());
        compare("leaseInfo", format!("{:?}", theirs.lease), format!("{:?}", ours.lease));
        what
    }
}

fn shown(override_: Option<Status>) -> String {
    override_.unwrap_or(Status::Unknown).to_string()
}

/// The other server says that it is gone.
fn forget(registry: &Registry, key: KeyRef<'_>, now: Now) {
    if registry.get(key, now).is_some() {
        // Unknown by now is as good.
        let _ = intake::cancel(registry, key, now);
    }
}
