//! From a request to the registry and back. One handler reads the path itself: four roots, odd slashes and ids
//! with encoded slashes are more than a route table says.

mod apps;
mod caller;
mod instances;
mod overrides;
pub(crate) mod path;
mod query;
mod regional;
mod replicated;
mod server;
mod vips;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use bytes::Bytes;
use heureka_model::{Clock, KeyRef, Now, Registration, Selector, Selectors};
use heureka_registry::{AppCache, Registry};
use http::header::{ALLOW, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use tokio::sync::Semaphore;

use crate::body;
use crate::budget::Budget;
use crate::cache::{Cache, Kind, Scope};
use crate::config::{Config, Gate};
use crate::error::{self, Error};
use crate::negotiate::{self, Format, Shape};
use crate::tag::Tag;
use crate::telemetry::Telemetry;
use crate::wire;
pub use caller::FORWARDING;
use caller::{Caller, Trusted};
use path::{Resource, Version};

/// Instances that a request looks at on the thread that serves others as well.
const INLINE_MAX: usize = 2048;
/// What may be built and unsent even where nothing is to be kept.
const UNSENT_MIN: usize = 16 << 20;
/// Large documents that are built at the same time: each is as large as its application.
const BUILDERS: usize = 4;
/// Batches of peers that are read at the same time. A server of the original's kind sends up to 20 at once.
const BATCHES: usize = 32;

/// What every request needs.
pub(crate) struct App {
    registry: Arc<Registry>,
    clock: Arc<dyn Clock>,
    config: Config,
    gate: Gate,
    trusted: Trusted,
    cache: Arc<Cache>,
    /// Documents of single applications.
    applications: AppCache<(String, Kind), Bytes>,
    budget: Arc<Budget>,
    /// Turns to build a large document.
    turns: Arc<Semaphore>,
    /// Batches of peers that may be read at the same time.
    batches: Arc<Semaphore>,
    telemetry: Telemetry,
}

type Answer = Result<Response<Body>, Error>;

/// Answers any request.
pub(crate) async fn serve(State(app): State<Arc<App>>, request: Request<Body>) -> Response<Body> {
    let (mut parts, body) = request.into_parts();
    let uri = parts.uri.clone();
    let resource = Resource::parse(uri.path(), &app.config.context_path).map(|(resource, version)| {
        if version != Version::V2 {
            parts.extensions.insert(version);
        }
        resource
    });
    let outcome = match &resource {
        Ok(resource) => app.answered(resource, &parts, body).await,
        Err(Error::Path(problem)) => Err(Error::Path(problem)),
        Err(_) => Err(Error::NotFound),
    };
    let answer = outcome.unwrap_or_else(|error| refusal(error, &parts));
    app.telemetry.answered(&resource, answer.status());
    answer
}

impl App {
    pub(crate) fn new(registry: Arc<Registry>, clock: Arc<dyn Clock>, config: Config, gate: Gate) -> Self {
        let budget = Budget::new(config.cache_max_bytes.max(UNSENT_MIN));
        let cache = Cache::new(Arc::clone(&registry), Arc::clone(&clock), &config, Arc::clone(&budget));
        Self {
            trusted: Trusted::new(&config),
            cache: Arc::new(cache),
            applications: AppCache::new(config.applications_max_bytes()),
            budget,
            turns: Arc::new(Semaphore::new(BUILDERS)),
            batches: Arc::new(Semaphore::new(BATCHES)),
            telemetry: Telemetry::new(),
            registry,
            clock,
            config,
            gate,
        }
    }

    /// The answer to a request; what it wrote is on two servers when there are two.
    async fn answered(self: &Arc<Self>, resource: &Resource<'_>, parts: &Parts, body: Body) -> Answer {
        let answer = self.answer(resource, parts, body).await?;
        if resource.is_written_by(&parts.method) {
            self.settle().await;
        }
        Ok(answer)
    }

    /// Waits until another server has what was written here, if one can be reached, and not for long.
    async fn settle(&self) {
        let acks = self.registry.acks();
        if !acks.reachable() {
            return;
        }
        let reached = tokio::time::timeout(self.config.ack_wait, acks.reached(self.registry.entered())).await;
        if reached != Ok(true) {
            self.telemetry.ack_missed();
        }
    }

    async fn answer(self: &Arc<Self>, resource: &Resource<'_>, parts: &Parts, body: Body) -> Answer {
        match parts.method {
            Method::GET | Method::HEAD => self.read(resource, parts).await,
            Method::OPTIONS => Ok(options(resource)),
            Method::POST => match resource {
                Resource::Application(app) => instances::register(self, parts, body, app).await,
                Resource::Batch => replicated::batch(self, parts, body).await,
                other => Err(not_allowed(other)),
            },
            Method::PUT => self.put(resource, parts, body).await,
            Method::DELETE => match resource {
                Resource::Instance(app, id) => instances::cancel(self, parts, app, id),
                Resource::Status(app, id) => overrides::clear(self, parts, app, id),
                other => Err(not_allowed(other)),
            },
            _ => Err(not_allowed(resource)),
        }
    }

    async fn read(&self, resource: &Resource<'_>, parts: &Parts) -> Answer {
        if !self.gate.is_open() && resource.tells_instances() {
            return Err(Error::Syncing(self.config.syncing_status));
        }
        match resource {
            Resource::Applications => apps::list(self, parts, Scope::Full).await,
            Resource::Delta => apps::list(self, parts, Scope::Delta).await,
            Resource::Application(app) => apps::one(self, parts, app).await,
            Resource::Instance(app, id) => instances::one(self, parts, app, id),
            Resource::InstanceById(id) => instances::by_id(self, parts, id),
            Resource::Vip(vip) => vips::plain(self, parts, vip).await,
            Resource::SecureVip(vip) => vips::secure(self, parts, vip).await,
            Resource::ServerStatus => server::status(self, parts),
            Resource::StatusOverrides => server::overrides(self).await,
            Resource::Status(..) | Resource::Metadata(..) | Resource::Batch | Resource::ScalingGroup => {
                Err(not_allowed(resource))
            }
        }
    }

    async fn put(&self, resource: &Resource<'_>, parts: &Parts, body: Body) -> Answer {
        if !resource.is_put() {
            return Err(not_allowed(resource));
        }
        body::discard(body, &self.config).await?;
        match resource {
            Resource::Instance(app, id) => instances::renew(self, parts, app, id),
            Resource::Status(app, id) => overrides::set(self, parts, app, id),
            Resource::Metadata(app, id) => instances::update_metadata(self, parts, app, id),
            Resource::ScalingGroup => Err(Error::NoScalingGroups),
            other => Err(not_allowed(other)),
        }
    }

    fn now(&self) -> Now {
        self.clock.now()
    }

    /// Live instances of an application, or of all.
    fn weight(&self, app: Option<&str>) -> usize {
        let apps = app.map(str::to_owned).into_iter().collect();
        self.registry.weight(&Selectors::new(vec![Selector { apps, ..Selector::default() }]))
    }

    /// A document of so many instances, or one for which so many are looked at.
    async fn build(
        &self,
        instances: usize,
        work: impl FnOnce() -> Vec<u8> + Send + 'static,
    ) -> Result<Vec<u8>, Error> {
        if instances <= INLINE_MAX {
            return Ok(work());
        }
        let turn = Arc::clone(&self.turns).acquire_owned().await.map_err(|_| Error::Unavailable)?;
        self.budget.check()?;
        let work = move || {
            // Not given back when the caller goes away, but when the work is done.
            let _turn = turn;
            work()
        };
        tokio::task::spawn_blocking(work).await.map_err(|_| Error::Unavailable)
    }

    /// A document as an answer.
    fn document(&self, content: Vec<u8>, format: Format) -> Answer {
        Ok(content_answer(self.budget.keep(content)?, format))
    }

    /// What stands for a document that says what is so at this number.
    fn tag(&self, number: u64, kind: Kind) -> Tag {
        Tag::new(self.registry.boot(), number, kind)
    }

    /// Who calls; a claim to be a peer that is not believed is counted.
    fn caller(&self, parts: &Parts) -> Caller {
        let caller = Caller::of(parts, &self.trusted);
        if caller.claim_ignored {
            self.telemetry.claim_ignored();
        }
        caller
    }
}

fn content_answer(content: impl Into<Body>, format: Format) -> Response<Body> {
    let mut answer = Response::new(content.into());
    answer.headers_mut().insert(CONTENT_TYPE, format.content_type());
    answer
}

/// A refusal as an answer, with the record that goes with it.
fn refusal(error: Error, parts: &Parts) -> Response<Body> {
    let Some((content, format)) = error.record().map(|stored| instance_of(stored, parts)) else {
        return error.answer();
    };
    let mut answer = content_answer(content, format);
    *answer.status_mut() = StatusCode::CONFLICT;
    answer
}

/// An unknown instance is told before a bad value is.
fn not_found_first(app: &App, key: KeyRef<'_>, error: Error) -> Error {
    if app.registry.get(key, app.now()).is_none() { Error::NotFound } else { error }
}

/// The key that a path names. `app` is in its stored form.
fn key<'a>(app: &'a str, id: &'a str) -> KeyRef<'a> {
    KeyRef { namespace: "", app, id }
}

fn not_allowed(resource: &Resource<'_>) -> Error {
    Error::MethodNotAllowed(resource.allowed())
}

fn options(resource: &Resource<'_>) -> Response<Body> {
    let mut answer = error::empty(StatusCode::OK);
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(resource.allowed()));
    answer
}

/// Form of a list that the caller asks for.
fn kind(parts: &Parts) -> Kind {
    let format = Format::accepted(&parts.headers);
    Kind { format, shape: Shape::accepted(&parts.headers, format, version(parts)) }
}

/// Version of the surface that the path names.
fn version(parts: &Parts) -> Version {
    parts.extensions.get().copied().unwrap_or(Version::V2)
}

/// One instance in the form that the caller asks for.
fn instance_of(registration: &Registration, parts: &Parts) -> (Vec<u8>, Format) {
    let format = Format::accepted(&parts.headers);
    (wire::instance_document(registration, format, Shape::whole(format, version(parts))), format)
}

/// A list out of the cache as an answer, unless the caller holds what it says.
async fn cached(app: &App, parts: &Parts, scope: Scope) -> Answer {
    let kind = kind(parts);
    let gzip = negotiate::accepts_gzip(&parts.headers);
    // Whoever holds the newest list costs no list.
    if scope == Scope::Full {
        app.tag(app.registry.head(), kind).refuse_held(parts)?;
    }
    let list = app.cache.list(scope, kind, gzip).await?;
    let tag = app.tag(list.number, kind);
    tag.refuse_held(parts)?;
    let mut answer = content_answer(list.body, kind.format);
    let headers = answer.headers_mut();
    if gzip {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    if let Some(length) = list.length {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    tag.mark(&mut answer);
    Ok(answer)
}
