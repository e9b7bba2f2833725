//! From a request to the registry and back. One handler reads the path itself: four roots, odd slashes and ids
//! with encoded slashes are more than a route table says.

mod apps;
mod caller;
mod instances;
mod overrides;
pub(crate) mod path;
mod query;
mod vips;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use heureka_model::{Clock, KeyRef, Now};
use heureka_registry::Registry;
use http::header::{ALLOW, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};

use crate::body;
use crate::cache::{Cache, Kind, Scope};
use crate::config::Config;
use crate::error::{self, Error};
use crate::negotiate::{self, Format, Shape};
use crate::telemetry::Telemetry;
use caller::{Caller, Trusted};
use path::Resource;

/// What every request needs.
pub(crate) struct App {
    registry: Arc<Registry>,
    clock: Arc<dyn Clock>,
    config: Config,
    trusted: Trusted,
    cache: Arc<Cache>,
    telemetry: Telemetry,
}

type Answer = Result<Response<Body>, Error>;

/// Answers any request.
pub(crate) async fn serve(State(app): State<Arc<App>>, request: Request<Body>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let resource = Resource::parse(parts.uri.path(), &app.config.context_path);
    let outcome = match &resource {
        Ok(resource) => app.answer(resource, &parts, body).await,
        Err(Error::Path(problem)) => Err(Error::Path(problem)),
        Err(_) => Err(Error::NotFound),
    };
    let answer = outcome.unwrap_or_else(|error| error.answer(Format::accepted(&parts.headers)));
    app.telemetry.answered(&resource, answer.status());
    answer
}

impl App {
    pub(crate) fn new(registry: Arc<Registry>, clock: Arc<dyn Clock>, config: Config) -> Self {
        Self {
            trusted: Trusted::new(&config.trusted_peers, &config.trusted_proxies),
            cache: Arc::new(Cache::new(Arc::clone(&registry), Arc::clone(&clock), &config)),
            telemetry: Telemetry::new(),
            registry,
            clock,
            config,
        }
    }

    async fn answer(&self, resource: &Resource<'_>, parts: &Parts, body: Body) -> Answer {
        match parts.method {
            Method::GET | Method::HEAD => self.read(resource, parts).await,
            Method::OPTIONS => Ok(options(resource)),
            Method::POST => match resource {
                Resource::Application(app) => instances::register(self, parts, body, app).await,
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
        match resource {
            Resource::Applications => apps::list(self, parts, Scope::Full).await,
            Resource::Delta => apps::list(self, parts, Scope::Delta).await,
            Resource::Application(app) => apps::one(self, parts, app),
            Resource::Instance(app, id) => instances::one(self, parts, app, id),
            Resource::InstanceById(id) => instances::by_id(self, parts, id),
            Resource::Vip(vip) => vips::plain(self, parts, vip),
            Resource::SecureVip(vip) => vips::secure(self, parts, vip),
            Resource::Status(..) | Resource::Metadata(..) => Err(not_allowed(resource)),
        }
    }

    async fn put(&self, resource: &Resource<'_>, parts: &Parts, body: Body) -> Answer {
        if !matches!(resource, Resource::Instance(..) | Resource::Status(..) | Resource::Metadata(..)) {
            return Err(not_allowed(resource));
        }
        body::discard(body, &self.config).await?;
        match resource {
            Resource::Instance(app, id) => instances::renew(self, parts, app, id),
            Resource::Status(app, id) => overrides::set(self, parts, app, id),
            Resource::Metadata(app, id) => instances::update_metadata(self, parts, app, id),
            other => Err(not_allowed(other)),
        }
    }

    fn now(&self) -> Now {
        self.clock.now()
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
    Kind { format: Format::accepted(&parts.headers), shape: Shape::accepted(&parts.headers) }
}

/// A document as an answer.
fn document(content: Vec<u8>, format: Format) -> Response<Body> {
    let mut answer = Response::new(Body::from(content));
    answer.headers_mut().insert(CONTENT_TYPE, format.content_type());
    answer
}

/// A list out of the cache as an answer.
async fn cached(app: &App, parts: &Parts, scope: Scope) -> Answer {
    let kind = kind(parts);
    let gzip = negotiate::accepts_gzip(&parts.headers);
    let (body, length) = app.cache.body(scope, kind, gzip).await?;
    let mut answer = Response::new(body);
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, kind.format.content_type());
    if gzip {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    if let Some(length) = length {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    Ok(answer)
}
