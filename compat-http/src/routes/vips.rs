//! `vips/{vip}` and `svips/{vip}`: an unknown address is an empty list, since Java clients take a 404 here for a
//! failed server.

use std::collections::BTreeSet;
use std::sync::Arc;

use heureka_model::{Now, Registration, StatusCounts};
use heureka_registry::{Entry, Registry};
use http::request::Parts;

use super::{Answer, App, kind, regional};
use crate::cache::Kind;
use crate::wire;

/// Clients never apply a delta to this list.
const VERSION: &str = "-1";

/// Reads one of an instance's two address lists.
type Addresses = fn(&Entry) -> String;

/// The instances whose `vipAddress` holds this name.
pub(super) async fn plain(app: &App, parts: &Parts, vip: &str) -> Answer {
    list(app, parts, vip, Entry::vip_address).await
}

/// The instances whose `secureVipAddress` holds this name.
pub(super) async fn secure(app: &App, parts: &Parts, vip: &str) -> Answer {
    list(app, parts, vip, Entry::secure_vip_address).await
}

async fn list(app: &App, parts: &Parts, vip: &str, addresses: Addresses) -> Answer {
    let kind = kind(parts);
    let vip = vip.trim().to_owned();
    let regions = regional::asked(app, parts)?;
    // Taken before the instances are read. Those of other regions have numbers of their own.
    let tag = regions.is_empty().then(|| app.tag(app.registry.head(), kind));
    if let Some(tag) = &tag {
        tag.refuse_held(parts)?;
    }
    let mut all = vec![Arc::clone(&app.registry)];
    all.extend(regions);
    let now = app.now();
    let work = move || encode(&all, |entry| holds(&addresses(entry), &vip), kind, now);
    let content = app.build(app.weight(None), work).await?;
    let mut answer = app.document(content, kind.format)?;
    if let Some(tag) = &tag {
        tag.mark(&mut answer);
    }
    Ok(answer)
}

/// Case counts. Blanks around a name of the list count for nothing, and nothing between two commas is no name.
fn holds(list: &str, vip: &str) -> bool {
    !vip.is_empty() && list.split(',').any(|entry| entry.trim() == vip)
}

/// Only what matches is read in full, one instance after the other.
fn encode(all: &[Arc<Registry>], matches: impl Fn(&Entry) -> bool, kind: Kind, now: Now) -> Vec<u8> {
    let Kind { format, shape } = kind;
    let mut counts = StatusCounts::default();
    let mut members = Vec::new();
    let names: BTreeSet<String> =
        all.iter().flat_map(|registry| registry.applications("")).map(|app| app.name).collect();
    for name in names {
        let mut found: Vec<Entry> =
            all.iter().flat_map(|registry| registry.entries("", &name, now)).collect();
        found.retain(&matches);
        if found.is_empty() {
            continue;
        }
        if !members.is_empty() {
            members.extend_from_slice(wire::separator(format));
        }
        let counted = |registration: &Registration| counts.add(registration.status());
        let instances = found.iter().map(Entry::registration).inspect(counted);
        wire::application(&mut members, &name, instances.map(|one| (None, one)), format, shape);
    }
    let mut out = wire::open_list(VERSION, &counts.hash_code(), format);
    out.extend_from_slice(&members);
    out.extend_from_slice(wire::close_list(format));
    out
}
