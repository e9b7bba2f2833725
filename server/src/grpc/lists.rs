//! Pages of instances and of applications.

use bytes::Bytes;
use heureka_model::{InstanceKey, Invalid, Now, Problem, Registration, Selectors, canonical_app};
use heureka_proto::convert::selectors;
use heureka_proto::listed::{ListedInstances, entry_len, push_entry};
use heureka_proto::v1;
use heureka_registry::{AppSummary, Registry};
use prost::Message as _;

use super::core::Core;
use super::status::{Fault, Reason};
use super::token::{Names, Page, Resume, Unusable, fingerprint};

const DEFAULT_PAGE: usize = 500;
const MAX_PAGE: usize = 5000;
/// Size at which a page ends; clients refuse messages of more than 4 MiB by default.
const MAX_MESSAGE: usize = 1 << 20;
/// Tag and length of an entry of a repeated field.
pub(super) const ENTRY_OVERHEAD: usize = 5;

/// Selectors and what tokens remember of them.
pub(super) struct Set {
    pub(super) selectors: Selectors,
    pub(super) fingerprint: u64,
}

/// Reads selectors that stand as `selectors` in the request.
pub(super) fn set(mut wire: Vec<v1::InstanceSelector>) -> Result<Set, Invalid> {
    let mut bytes = Vec::new();
    for selector in &mut wire {
        selector.apps.iter_mut().for_each(|app| *app = canonical_app(app).into_owned());
        selector.encode_length_delimited(&mut bytes).expect("invariant: a vector grows as needed");
    }
    Ok(Set { fingerprint: fingerprint(&bytes), selectors: selectors(wire)? })
}

/// One page of instances.
pub(super) async fn instances(
    core: &Core,
    request: v1::ListInstancesRequest,
    now: Now,
) -> Result<ListedInstances, Fault> {
    let size = page_size(request.page_size)?;
    let set = set(request.selectors).map_err(|invalid| Fault::invalid(Reason::InvalidSelector, invalid))?;
    let from = (!request.page_token.is_empty()).then(|| page_token(core, &request.page_token, &set));
    let from = from.transpose()?;
    // Before anything is read: the list says no less.
    let vector = core.registry.standing().vector;
    let page = match set.selectors.whole_app().filter(|_| from.is_none()) {
        Some(app) => application(core, app, &set.selectors, size, now).await,
        None => read(core, &set.selectors, from.as_ref().map(|from| &from.after), size, now).await,
    };
    let boot = core.registry.boot();
    let first = || Resume { spec: set.fingerprint, boot, revision: page.revision, vector };
    let resume = from.map_or_else(first, |from| continued(from.resume, boot));
    let rest = v1::ListInstancesResponse {
        header: core.header(page.revision, now),
        instances: Vec::new(),
        resume_token: if page.next.is_none() { resume.encode(core.cluster()) } else { Bytes::new() },
        next_page_token: page
            .next
            .map(|after| Page { resume, after }.encode(core.cluster()))
            .unwrap_or_default(),
    };
    Ok(ListedInstances { rest, entries: page.entries.bytes })
}

/// Where a watch goes on after a list that this server did not begin: nowhere, since its parts are of two moments.
fn continued(resume: Resume, boot: u64) -> Resume {
    if resume.boot == boot { resume } else { Resume { boot: 0, vector: Vec::new(), ..resume } }
}

/// Instances as they stand in a page.
#[derive(Clone, Debug)]
pub(super) struct Entries {
    bytes: Bytes,
    count: usize,
}

/// A page of instances, encoded.
struct Encoded {
    entries: Entries,
    /// The last key, when there is more.
    next: Option<InstanceKey>,
    /// The list is no older than this.
    revision: u64,
}

/// The first page of one application, which many read: encoded once as long as it is also the last.
async fn application(
    core: &Core,
    (namespace, name): (&str, &str),
    selectors: &Selectors,
    size: usize,
    now: Now,
) -> Encoded {
    // Both before the instances are read: the list says no less.
    let revision = core.registry.head();
    // Reports are no changes: what is kept would not tell them.
    if core.registry.has_reports(namespace, name) {
        return read(core, selectors, None, size, now).await;
    }
    let (kept, key) = (&core.applications, (namespace.to_owned(), name.to_owned()));
    if let Some(entries) = kept.current(&key, now.mono).filter(|kept| kept.count <= size) {
        return Encoded { entries, next: None, revision };
    }
    let mark = core.registry.app_mark(namespace, name);
    let page = read(core, selectors, None, size, now).await;
    if let Some(mark) = mark.filter(|_| page.next.is_none() && page.entries.count > 0) {
        kept.keep(key, mark, page.entries.clone(), page.entries.bytes.len(), now.mono);
    }
    page
}

async fn read(
    core: &Core,
    selectors: &Selectors,
    after: Option<&InstanceKey>,
    size: usize,
    now: Now,
) -> Encoded {
    if !core.is_long(selectors) {
        return cut(&core.registry, core.registry.page(selectors, after, size, now), now);
    }
    let (registry, selectors, after) = (core.registry.clone(), selectors.clone(), after.cloned());
    core.aside(move || cut(&registry, registry.page(&selectors, after.as_ref(), size, now), now)).await
}

/// An instance as it stands in an answer of this moment.
pub(super) fn answered(registry: &Registry, registration: Registration, now: Now) -> v1::Instance {
    let suspect = registration.is_overdue(now.wall);
    let reported = registry.reported(registration.instance.key.as_ref());
    let mut instance = v1::Instance { suspect, ..registration.into() };
    if let Some((report, _)) = reported.filter(|(report, _)| !report.available.is_empty()) {
        instance.capacity.get_or_insert_default().available = report.available.clone();
    }
    instance
}

/// The longest beginning of a page that fits into one message, and the key after which the next one goes on.
fn cut(registry: &Registry, page: heureka_registry::Page, now: Now) -> Encoded {
    let (mut bytes, mut count) = (Vec::new(), 0);
    let mut next = page.next;
    let mut last = None;
    for registration in page.instances {
        let key = registration.instance.key.clone();
        let instance = answered(registry, registration, now);
        if bytes.len() + entry_len(&instance) > MAX_MESSAGE && last.is_some() {
            next = last;
            break;
        }
        push_entry(&instance, &mut bytes);
        count += 1;
        last = Some(key);
    }
    Encoded { entries: Entries { bytes: bytes.into(), count }, next, revision: page.revision }
}

fn page_token(core: &Core, token: &str, set: &Set) -> Result<Page, Fault> {
    let page = Page::decode(token, core.cluster()).map_err(unusable)?;
    if page.resume.spec != set.fingerprint {
        return Err(foreign_request("was issued for other selectors"));
    }
    Ok(page)
}

/// One page of applications.
pub(super) fn applications(
    core: &Core,
    request: &v1::ListApplicationsRequest,
    now: Now,
) -> Result<v1::ListApplicationsResponse, Fault> {
    let size = page_size(request.page_size)?;
    let prefix = canonical_app(&request.name_prefix);
    let spec = fingerprint(&[request.namespace.as_bytes(), b"\0", prefix.as_bytes()].concat());
    let after = (!request.page_token.is_empty()).then(|| names_token(core, &request.page_token, spec));
    let after = after.transpose()?;
    let revision = core.registry.head();
    let mut rest = core.registry.applications(&request.namespace);
    rest.retain(|app| {
        app.name.starts_with(prefix.as_ref()) && after.as_ref().is_none_or(|after| app.name > *after)
    });
    let more = rest.len() > size;
    rest.truncate(size);
    let last = rest.last().filter(|_| more);
    let next = last.map(|last| Names { spec, after: last.name.clone() }.encode(core.cluster()));
    let digest = |app: AppSummary| app_digest(&request.namespace, app);
    Ok(v1::ListApplicationsResponse {
        header: core.header(revision, now),
        applications: rest.into_iter().map(digest).collect(),
        next_page_token: next.unwrap_or_default(),
    })
}

fn app_digest(namespace: &str, app: AppSummary) -> v1::AppDigest {
    let (namespace, digest) = (namespace.to_owned(), Some(app.digest.into()));
    v1::AppDigest { namespace, app: app.name, digest, ..v1::AppDigest::default() }
}

fn names_token(core: &Core, token: &str, spec: u64) -> Result<String, Fault> {
    let names = Names::decode(token, core.cluster()).map_err(unusable)?;
    if names.spec != spec {
        return Err(foreign_request("was issued for another namespace or prefix"));
    }
    Ok(names.after)
}

fn unusable(unusable: Unusable) -> Fault {
    foreign_request(match unusable {
        Unusable::Forged => "is damaged or of another cluster",
        Unusable::Unknown => "is of a format that this server does not know; list again from the start",
    })
}

fn foreign_request(problem: &'static str) -> Fault {
    Fault::invalid(Reason::InvalidPageToken, Invalid::malformed("page_token", problem))
}

fn page_size(sent: i32) -> Result<usize, Fault> {
    bounded_size("page_size", sent, DEFAULT_PAGE, MAX_PAGE).map_err(Fault::request)
}

/// A size for which 0 reads as a default and everything above a cap as the cap.
pub(super) fn bounded_size(field: &str, sent: i32, default: usize, max: usize) -> Result<usize, Invalid> {
    match usize::try_from(sent) {
        Ok(0) => Ok(default),
        Ok(size) => Ok(size.min(max)),
        Err(_) => {
            let max = i64::from(i32::MAX);
            Err(Invalid::new(field, Problem::OutOfRange { value: sent.into(), min: 0, max }))
        }
    }
}
