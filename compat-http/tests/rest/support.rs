//! A whole surface in this process: router, registry, and clocks that a test moves.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use heureka_compat_http::{Config, RemoteAddr, router};
use heureka_model::{Clock, KeyRef, Mono, Now, Registration, Wall};
use heureka_registry::{Preservation, PreservationMode, Registry, Seeds};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;

/// Wall clock at which every test begins.
pub(crate) const START: u64 = 1_796_004_000_000;

/// Two clocks that stand still until they are moved.
pub(crate) struct ManualClock(AtomicU64);

impl Clock for ManualClock {
    fn now(&self) -> Now {
        let passed = self.0.load(Ordering::SeqCst);
        Now { mono: Mono(passed), wall: Wall(START + passed) }
    }
}

/// The surface under test.
pub(crate) struct Server {
    router: Router,
    pub(crate) registry: Arc<Registry>,
    pub(crate) clock: Arc<ManualClock>,
    remote: SocketAddr,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Server {
    pub(crate) fn new() -> Self {
        Self::with(Config::default(), heureka_registry::Config::default())
    }

    /// A server that believes 127.0.0.1, from where all requests come.
    pub(crate) fn trusting() -> Self {
        let trusted_peers = vec!["127.0.0.1".parse().unwrap()];
        Self::with(Config { trusted_peers, ..Config::default() }, heureka_registry::Config::default())
    }

    /// A server that removes every lapsed lease at once.
    pub(crate) fn unprotected() -> Self {
        let preservation = Preservation { mode: PreservationMode::Off, ..Preservation::default() };
        Self::with(
            Config::default(),
            heureka_registry::Config { preservation, ..heureka_registry::Config::default() },
        )
    }

    pub(crate) fn with(config: Config, core: heureka_registry::Config) -> Self {
        Self::seeded(config, core, Seeds { boot: 1, hash: 2, shuffle: 3 })
    }

    pub(crate) fn seeded(config: Config, core: heureka_registry::Config, seeds: Seeds) -> Self {
        let clock = Arc::new(ManualClock(AtomicU64::new(0)));
        let registry = Arc::new(Registry::new(core, seeds, clock.now()));
        let router = router(Arc::clone(&registry), Arc::clone(&clock) as Arc<dyn Clock>, config);
        Self { router, registry, clock, remote: "127.0.0.1:40000".parse().unwrap() }
    }

    pub(crate) fn router(&self) -> Router {
        self.router.clone()
    }

    /// Lets time pass, a second at a time, as the server's own task would.
    pub(crate) fn pass(&self, duration: Duration) {
        let mut left = u64::try_from(duration.as_millis()).unwrap();
        while left > 0 {
            let step = left.min(1000);
            self.clock.0.fetch_add(step, Ordering::SeqCst);
            self.registry.tick(self.clock.now());
            left -= step;
        }
    }

    pub(crate) fn now(&self) -> Now {
        self.clock.now()
    }

    /// The wall clock, in milliseconds.
    pub(crate) fn clock_wall(&self) -> u64 {
        self.clock.now().wall.0
    }

    /// Moves the clocks by one millisecond without a tick.
    pub(crate) fn step(&self) {
        self.clock.0.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Answer {
        let mut request = Request::builder().method(Method::from_bytes(method.as_bytes()).unwrap()).uri(path);
        for (name, value) in headers {
            request = request.header(*name, http::HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        let mut request = request.body(body.into()).unwrap();
        request.extensions_mut().insert(RemoteAddr(self.remote));
        let answer = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = answer.into_parts();
        let body = body.collect().await.unwrap().to_bytes().to_vec();
        Answer { status: parts.status, headers: parts.headers, body }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", &format!("/eureka/apps{path}"), &[("accept", "application/json")], Body::empty())
            .await
    }

    pub(crate) async fn get_xml(&self, path: &str) -> Answer {
        self.send("GET", &format!("/eureka/apps{path}"), &[], Body::empty()).await
    }

    pub(crate) async fn json(&self, path: &str) -> Value {
        self.get(path).await.json()
    }

    /// The `instance` of a single read.
    pub(crate) async fn instance(&self, app: &str, id: &str) -> Value {
        self.json(&format!("/{app}/{id}")).await["instance"].take()
    }

    /// Status as readers see it; empty when the instance is not there.
    pub(crate) async fn status(&self, app: &str, id: &str) -> String {
        let answer = self.get(&format!("/{app}/{id}")).await;
        if answer.status != StatusCode::OK {
            return String::new();
        }
        answer.json()["instance"]["status"].as_str().unwrap().to_owned()
    }

    /// Ids and actions of one application in the delta, in its order.
    pub(crate) async fn delta_actions(&self, app: &str) -> Vec<(String, String)> {
        let delta = self.json("/delta").await;
        let apps = delta["applications"]["application"].as_array().unwrap();
        let Some(found) = apps.iter().find(|entry| entry["name"] == app) else { return Vec::new() };
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let instances = found["instance"].as_array().unwrap();
        instances.iter().map(|one| (text(&one["instanceId"]), text(&one["actionType"]))).collect()
    }

    pub(crate) async fn post(&self, app: &str, body: &str) -> Answer {
        let headers = [("content-type", "application/json")];
        self.send("POST", &format!("/eureka/apps/{app}"), &headers, body.to_owned()).await
    }

    pub(crate) async fn post_xml(&self, app: &str, body: &str) -> Answer {
        let headers = [("content-type", "application/xml")];
        self.send("POST", &format!("/eureka/apps/{app}"), &headers, body.to_owned()).await
    }

    /// Registers and expects 204.
    pub(crate) async fn register(&self, instance: &Draft) {
        let answer = self.post(&instance.app, &instance.json()).await;
        assert_eq!(answer.status, StatusCode::NO_CONTENT, "{}", answer.text());
    }

    pub(crate) async fn beat(&self, app: &str, id: &str, query: &str) -> Answer {
        self.send("PUT", &format!("/eureka/apps/{app}/{id}{query}"), &[], Body::empty()).await
    }

    pub(crate) async fn put(&self, path: &str) -> Answer {
        self.send("PUT", &format!("/eureka/apps{path}"), &[], Body::empty()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", &format!("/eureka/apps{path}"), &[], Body::empty()).await
    }

    /// What the core holds, without any wire.
    pub(crate) fn stored(&self, app: &str, id: &str) -> Option<Registration> {
        self.registry.get(KeyRef { namespace: "", app, id }, self.clock.now())
    }
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// Expects this code and nothing else: no body, no type.
    pub(crate) fn assert_quiet(&self, status: u16) {
        assert_eq!(self.status.as_u16(), status, "{self:?}");
        assert!(self.body.is_empty(), "{self:?}");
        assert_eq!(self.header("content-type"), None, "{self:?}");
        assert_eq!(self.header("content-encoding"), None, "{self:?}");
    }
}

/// A registration body to be varied.
pub(crate) struct Draft {
    pub(crate) app: String,
    pub(crate) id: String,
    pub(crate) status: &'static str,
    pub(crate) dirty: u64,
    pub(crate) host: &'static str,
    pub(crate) duration: u64,
    /// Further members, each with a leading comma.
    pub(crate) extra: String,
}

/// A plain data-centre block.
pub(crate) const DATA_CENTER: &str =
    r#""dataCenterInfo":{"@class":"com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo","name":"MyOwn"}"#;

impl Draft {
    pub(crate) fn new(app: &str, id: &str, status: &'static str, dirty: u64) -> Self {
        Self {
            app: app.to_owned(),
            id: id.to_owned(),
            status,
            dirty,
            host: "h1.example",
            duration: 90,
            extra: String::new(),
        }
    }

    pub(crate) fn extra(mut self, members: &str) -> Self {
        self.extra = members.to_owned();
        self
    }

    pub(crate) fn host(mut self, host: &'static str) -> Self {
        self.host = host;
        self
    }

    pub(crate) fn duration(mut self, seconds: u64) -> Self {
        self.duration = seconds;
        self
    }

    pub(crate) fn json(&self) -> String {
        let Self { app, id, status, dirty, host, duration, extra } = self;
        let id = Value::from(id.as_str());
        format!(
            r#"{{"instance":{{"instanceId":{id},"app":"{app}","hostName":"{host}","ipAddr":"10.0.0.1",
            "status":"{status}","vipAddress":"{app}","port":{{"$":8080,"@enabled":"true"}},
            "securePort":{{"$":8443,"@enabled":"false"}},"lastDirtyTimestamp":"{dirty}",
            "leaseInfo":{{"renewalIntervalInSecs":1,"durationInSecs":{duration}}},{DATA_CENTER}{extra}}}}}"#
        )
    }
}
