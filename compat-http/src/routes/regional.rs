//! Lists that also hold the instances of other regions, for callers that ask for some by `regions`. They are encoded for
//! each reader: few ask, and each may ask for others.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use heureka_model::{Action, Now, StatusCounts};
use heureka_registry::{Delta, Entry, Registry};
use http::HeaderValue;
use http::header::CONTENT_ENCODING;
use http::request::Parts;

use super::{Answer, App, content_answer, kind, query};
use crate::cache::{Kind, Scope};
use crate::error::Error;
use crate::negotiate;
use crate::wire;

/// Full lists carry this number, as in the original.
const FULL_VERSION: &str = "1";

/// The registries of the regions that the caller names, sorted by name; names that nobody knows name nothing. Nothing
/// when none is known.
///
/// # Errors
/// `Invalid` when the parameter is not UTF-8.
pub(super) fn asked(app: &App, parts: &Parts) -> Result<Vec<Arc<Registry>>, Error> {
    let query = parts.uri.query().unwrap_or_default();
    let Some(names) = query::first(query, "regions")?.filter(|names| !names.is_empty()) else {
        return Ok(Vec::new());
    };
    let names: BTreeSet<String> = names.split(',').map(|name| name.trim().to_lowercase()).collect();
    Ok(names.iter().filter_map(|name| app.config.regions.get(name)).collect())
}

/// The own instances and those of the regions.
pub(super) async fn list(app: &App, parts: &Parts, scope: Scope, regions: Vec<Arc<Registry>>) -> Answer {
    let (kind, gzip) = (kind(parts), negotiate::accepts_gzip(&parts.headers));
    let now = app.now();
    let mut all = vec![Arc::clone(&app.registry)];
    all.extend(regions);
    let weight = all.iter().map(|registry| registry.stats().instances).sum::<u64>();
    let work = move || {
        let document = match scope {
            Scope::Full => full(&all, kind, now),
            Scope::Delta => delta(&all, kind, now),
        };
        if gzip { deflated(&document) } else { document }
    };
    let content = app.build(usize::try_from(weight).unwrap_or(usize::MAX), work).await?;
    let mut answer = content_answer(app.budget.keep(content)?, kind.format);
    if gzip {
        answer.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    Ok(answer)
}

fn full(all: &[Arc<Registry>], kind: Kind, now: Now) -> Vec<u8> {
    let names: BTreeSet<String> =
        all.iter().flat_map(|registry| registry.applications("")).map(|app| app.name).collect();
    let mut counts = StatusCounts::default();
    let mut members = Vec::new();
    for name in names {
        let entries: Vec<Entry> = all.iter().flat_map(|registry| registry.entries("", &name, now)).collect();
        let told = entries.iter().map(|entry| {
            let registration = entry.registration();
            counts.add(registration.status());
            (None, registration)
        });
        add(&mut members, &name, told, kind);
    }
    document(FULL_VERSION, &counts, &members, kind)
}

fn delta(all: &[Arc<Registry>], kind: Kind, now: Now) -> Vec<u8> {
    let deltas: Vec<Delta> = all.iter().map(|registry| registry.delta(now)).collect();
    let mut counts = StatusCounts::default();
    deltas.iter().for_each(|delta| counts.merge(&delta.counts));
    let mut apps: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
    for change in deltas.iter().flat_map(|delta| &delta.changes) {
        apps.entry(change.app()).or_default().push(change);
    }
    let mut members = Vec::new();
    for (name, mut changes) in apps {
        changes.sort_by_key(|change| change.action() == Action::Deleted);
        let told = changes.iter().map(|change| (Some(change.action()), change.registration()));
        add(&mut members, name, told, kind);
    }
    // Each of the parts only grows, and so does the sum.
    let version: u64 = deltas.iter().map(|delta| delta.revision.saturating_add(delta.since)).sum();
    document(&version.saturating_add(2).to_string(), &counts, &members, kind)
}

fn add(
    members: &mut Vec<u8>,
    name: &str,
    told: impl Iterator<Item = (Option<Action>, heureka_model::Registration)>,
    kind: Kind,
) {
    let mut told = told.peekable();
    if told.peek().is_none() {
        return;
    }
    if !members.is_empty() {
        members.extend_from_slice(wire::separator(kind.format));
    }
    wire::application(members, name, told, kind.format, kind.shape);
}

fn document(version: &str, counts: &StatusCounts, members: &[u8], kind: Kind) -> Vec<u8> {
    let mut out = wire::open_list(version, &counts.hash_code(), kind.format);
    out.extend_from_slice(members);
    out.extend_from_slice(wire::close_list(kind.format));
    out
}

fn deflated(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 4), Compression::fast());
    encoder
        .write_all(plain)
        .and_then(|()| encoder.finish())
        .expect("invariant: memory takes everything that is written to it")
}
