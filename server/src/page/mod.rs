//! The status page at `/` and the documents that it reads beside the feed.
//!
//! The page is plain files in the binary: no template, nothing that a registration says is ever part of markup, and a
//! policy that lets a browser run and fetch nothing but what comes from here. All its addresses are relative, so it works
//! below any prefix that a proxy adds.

mod assets;
mod events;
mod instance;
mod status;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::routing::{any, get};
use heureka_model::{Clock, Invalid};
use heureka_registry::Registry;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, LOCATION, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use serde_json::Value;

use crate::app::empty;
use crate::config::ServerConfig;
use crate::grpc::{Identity, Watches};
use crate::life::{Cluster, Life, Preserving};
use crate::persist;
use crate::query::Parameters;

/// What the documents tell of.
pub(crate) struct Deps {
    pub(crate) core: Arc<Registry>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) life: Arc<Life>,
    pub(crate) cluster: Cluster,
    pub(crate) preserving: Arc<Preserving>,
    pub(crate) watches: Arc<Watches>,
    pub(crate) identity: Identity,
    pub(crate) node: ServerConfig,
    pub(crate) store: Option<Arc<persist::Figures>>,
}

/// The routes of the page.
#[derive(Default)]
pub(crate) struct Page {
    /// Its documents, to be put below the server's prefix.
    pub(crate) documents: Router,
    /// The page and its parts, which know the prefix: where it ends in a slash and where not are two things here.
    pub(crate) router: Router,
}

impl Page {
    pub(crate) fn new(deps: Deps) -> Self {
        let router = router(&deps.node.context_path);
        Self { documents: documents(deps), router }
    }
}

fn documents(deps: Deps) -> Router {
    let deps = Arc::new(deps);
    let (one, two, three) = (deps.clone(), deps.clone(), deps);
    Router::new()
        .route("/v1/server", get(async move |asked: Parameters| told(status::document(&one, asked))))
        .route("/v1/events", get(async move |asked: Parameters| told(events::document(&two, asked))))
        .route("/v1/instance", get(async move |asked: Parameters| instance_told(&three, asked)))
}

/// The page, its parts, and the ways to it below `prefix`, which may be empty.
fn router(prefix: &str) -> Router {
    let at = |path: &str| format!("{prefix}{path}");
    let page = |headers: HeaderMap| async move { assets::PAGE.answer(&headers) };
    let mut router = Router::new().route(&at("/"), get(page)).route(&at("/lastn"), get(page));
    for asset in &assets::PARTS {
        let answer = async |headers: HeaderMap| asset.answer(&headers);
        router = router.route(&at(asset.path), get(answer));
    }
    for (path, target) in WAYS {
        let way = async |method: Method, headers: HeaderMap| sent_on(&method, &headers, target);
        router = router.route(&at(path), any(way));
    }
    if let Some((_, last)) = prefix.rsplit_once('/') {
        let target = format!("{last}/");
        let way = async move |method: Method, headers: HeaderMap| sent_on(&method, &headers, &target);
        router = router.route(prefix, any(way));
    }
    router
}

/// Where the originals have their pages, and where ours is from there.
const WAYS: [(&str, &str); 4] = [
    ("/eureka", "./"),
    ("/eureka/", "../"),
    ("/eureka/jsp/status.jsp", "../../"),
    ("/eureka/jsp/lastN.jsp", "../../lastn"),
];

/// Browsers are sent to the page; for everybody else there is nothing, as at every path that is not served.
fn sent_on(method: &Method, headers: &HeaderMap, target: &str) -> Response<Body> {
    let wants_page = |value: &HeaderValue| value.to_str().is_ok_and(|accept| accept.contains("text/html"));
    let reads = matches!(*method, Method::GET | Method::HEAD);
    let target = HeaderValue::from_str(target).ok();
    match target.filter(|_| reads && headers.get(ACCEPT).is_some_and(wants_page)) {
        None => empty(StatusCode::NOT_FOUND),
        Some(target) => {
            let mut answer = empty(StatusCode::FOUND);
            answer.headers_mut().insert(LOCATION, target);
            answer
        }
    }
}

/// A reader is told nothing of instances before the server knows them.
fn instance_told(deps: &Deps, asked: Parameters) -> Response<Body> {
    if deps.life.serves_readers() {
        return told(instance::document(deps, asked));
    }
    let mut answer = empty(StatusCode::SERVICE_UNAVAILABLE);
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("2"));
    answer
}

fn told(document: Result<Value, Invalid>) -> Response<Body> {
    match document {
        Ok(document) => json(&document),
        Err(invalid) => {
            let mut answer = Response::new(Body::from(format!("{invalid}\n")));
            *answer.status_mut() = StatusCode::BAD_REQUEST;
            marked(&mut answer, "text/plain; charset=utf-8");
            answer
        }
    }
}

fn json(document: &Value) -> Response<Body> {
    let mut answer = Response::new(Body::from(document.to_string()));
    marked(&mut answer, "application/json");
    answer
}

/// Not kept, and never taken for anything else.
fn marked(answer: &mut Response<Body>, kind: &'static str) {
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

/// Whether a request is for the page, its parts or its documents.
pub(crate) fn is_page(path: &str) -> bool {
    matches!(path, "" | "/" | "/lastn" | "/v1/server" | "/v1/events" | "/v1/instance")
        || assets::PARTS.iter().any(|asset| asset.path == path)
}
