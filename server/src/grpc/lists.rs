//! Pages of instances and of applications.

use bytes::Bytes;
use heureka_model::{InstanceKey, Invalid, Now, Problem, Selectors, canonical_app};
use heureka_proto::convert::selectors;
use heureka_proto::v1;
use heureka_registry::AppSummary;
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
) -> Result<v1::ListInstancesResponse, Fault> {
    let size = page_size(request.page_size)?;
    let set = set(request.selectors).map_err(|invalid| Fault::invalid(Reason::InvalidSelector, invalid))?;
    let page = (!request.page_token.is_empty()).then(|| page_token(core, &request.page_token, &set));
    let page = page.transpose()?;
    let (resume, after) = page.map_or((None, None), |page| (Some(page.resume), Some(page.after)));
    let page = read(core, set.selectors, after, size, now).await;
    let revision = page.revision;
    let first = || Resume { spec: set.fingerprint, boot: core.registry.boot(), revision };
    let resume = resume.unwrap_or_else(first);
    let (instances, next) = cut(page);
    Ok(v1::ListInstancesResponse {
        header: core.header(revision, now),
        instances,
        resume_token: if next.is_none() { resume.encode(core.cluster()) } else { Bytes::new() },
        next_page_token: next.map(|after| Page { resume, after }.encode(core.cluster())).unwrap_or_default(),
    })
}

async fn read(
    core: &Core,
    selectors: Selectors,
    after: Option<InstanceKey>,
    size: usize,
    now: Now,
) -> heureka_registry::Page {
    let registry = core.registry.clone();
    let long = core.is_long(&selectors);
    let page = move || registry.page(&selectors, after.as_ref(), size, now);
    if long { core.aside(page).await } else { page() }
}

/// The longest beginning of a page that fits into one message, and the key after which the next one goes on.
fn cut(page: heureka_registry::Page) -> (Vec<v1::Instance>, Option<InstanceKey>) {
    let mut instances: Vec<v1::Instance> = Vec::with_capacity(page.instances.len());
    let mut bytes = 0;
    let mut last = None;
    for registration in page.instances {
        let key = registration.instance.key.clone();
        let instance = v1::Instance::from(registration);
        bytes += instance.encoded_len() + ENTRY_OVERHEAD;
        if bytes > MAX_MESSAGE && last.is_some() {
            return (instances, last);
        }
        last = Some(key);
        instances.push(instance);
    }
    (instances, page.next)
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
    v1::AppDigest { namespace: namespace.to_owned(), app: app.name, digest: Some(app.digest.into()) }
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
