//! `vips/{vip}` and `svips/{vip}`: an unknown address is an empty list, since Java clients take a 404 here for a
//! failed server.

use std::collections::BTreeMap;

use heureka_model::{Registration, Selector, Selectors, StatusCounts};
use http::request::Parts;

use super::{Answer, App, document, kind};
use crate::cache::Kind;
use crate::wire;

/// Instances taken from the registry at a time.
const PAGE: usize = 1024;
/// Clients never apply a delta to this list.
const VERSION: &str = "-1";

/// The instances whose `vipAddress` holds this name.
pub(super) fn plain(app: &App, parts: &Parts, vip: &str) -> Answer {
    let selector = Selector { vip_addresses: [vip.to_owned()].into_iter().collect(), ..Selector::default() };
    list(app, parts, selector, |found| holds(&found.instance.vip_address, vip))
}

/// The instances whose `secureVipAddress` holds this name.
pub(super) fn secure(app: &App, parts: &Parts, vip: &str) -> Answer {
    let selector =
        Selector { secure_vip_addresses: [vip.to_owned()].into_iter().collect(), ..Selector::default() };
    list(app, parts, selector, |found| holds(&found.instance.secure_vip_address, vip))
}

/// Selectors ignore case, this surface does not. Blanks around a name of the list count for nothing.
fn holds(list: &str, vip: &str) -> bool {
    list.split(',').any(|entry| entry.trim() == vip.trim())
}

fn list(app: &App, parts: &Parts, selector: Selector, holds: impl Fn(&Registration) -> bool) -> Answer {
    let kind = kind(parts);
    let mut found = matching(app, selector);
    found.retain(holds);
    Ok(document(encode(&found, kind), kind.format))
}

fn matching(app: &App, selector: Selector) -> Vec<Registration> {
    let selectors = Selectors::new(vec![selector]);
    let now = app.now();
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let page = app.registry.page(&selectors, after.as_ref(), PAGE, now);
        found.extend(page.instances);
        match page.next {
            Some(next) => after = Some(next),
            None => return found,
        }
    }
}

fn encode(found: &[Registration], kind: Kind) -> Vec<u8> {
    let Kind { format, shape } = kind;
    let counts: StatusCounts = found.iter().collect();
    let mut apps: BTreeMap<&str, Vec<&Registration>> = BTreeMap::new();
    for registration in found {
        apps.entry(&registration.instance.key.app).or_default().push(registration);
    }
    let mut out = wire::open_list(VERSION, &counts.hash_code(), format);
    for (position, (name, instances)) in apps.into_iter().enumerate() {
        if position > 0 {
            out.extend_from_slice(wire::separator(format));
        }
        let instances = instances.into_iter().map(|instance| (None, instance));
        wire::application(&mut out, name, instances, format, shape);
    }
    out.extend_from_slice(wire::close_list(format));
    out
}
