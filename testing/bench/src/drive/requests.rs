//! What is asked of a server: requests, encoded before anything is measured, and what an answer has to hold.

use bytes::Bytes;
use heureka_model::Instance;
use heureka_proto::v1;
use prost::Message as _;

use super::h2::framed;
use crate::instances::{self, PER_APP, Values};

/// Instances of an application that is fetched alone.
const TEN: usize = 10;

/// Registrations of one batch.
const REGISTERED_AT_ONCE: usize = 250;

/// Renewals of one batch.
const RENEWED_AT_ONCE: usize = 1000;

/// Paths of calls.
pub(super) const REGISTER: &str = "/heureka.registry.v1.RegistryService/Register";
pub(super) const RENEW: &str = "/heureka.registry.v1.RegistryService/Renew";
pub(super) const CANCEL: &str = "/heureka.registry.v1.RegistryService/Cancel";
pub(super) const BATCH_REGISTER: &str = "/heureka.registry.v1.RegistryService/BatchRegister";
pub(super) const APPLICATIONS: &str = "/heureka.registry.v1.DiscoveryService/ListApplications";

/// What is asked of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    GrpcRegister,
    GrpcRenew,
    BatchRegister,
    BatchRenew,
    GrpcApp,
    GrpcPage,
    RestRegister,
    RestRenew,
    RestApp { gzip: bool },
    RestAll,
    RestDelta,
}

/// The instances that requests are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Population {
    /// Full batches of them.
    pub(super) instances: usize,
    pub(super) per_app: usize,
    pub(super) values: Values,
}

/// How a call goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    /// Calls of a method on so many connections, so many in flight on each.
    Grpc { path: &'static str, connections: usize, depth: usize },
    /// One request at a time on each of so many connections.
    Rest { connections: usize },
}

impl Operation {
    pub(super) fn wire(self) -> Wire {
        let (path, connections, depth) = match self {
            Self::GrpcRegister => (REGISTER, 16, 16),
            Self::GrpcRenew => (RENEW, 16, 16),
            Self::BatchRegister => (BATCH_REGISTER, 4, 4),
            Self::BatchRenew => ("/heureka.registry.v1.RegistryService/BatchRenew", 4, 4),
            Self::GrpcApp => ("/heureka.registry.v1.DiscoveryService/ListInstances", 16, 16),
            Self::GrpcPage => ("/heureka.registry.v1.DiscoveryService/ListInstances", 4, 4),
            Self::RestAll | Self::RestDelta => return Wire::Rest { connections: 4 },
            Self::RestRegister | Self::RestRenew | Self::RestApp { .. } => {
                return Wire::Rest { connections: 64 };
            }
        };
        Wire::Grpc { path, connections, depth }
    }

    /// What is counted of one call: leases or instances that it writes, otherwise itself.
    pub(super) fn units(self, population: Population) -> usize {
        match self {
            Self::BatchRegister => REGISTERED_AT_ONCE.min(population.instances),
            Self::BatchRenew => RENEWED_AT_ONCE.min(population.instances),
            _ => 1,
        }
    }

    /// What has to be registered before, over which wire: the original's clients are known by the stamp that they
    /// registered with.
    pub(super) fn before(self) -> Option<Self> {
        match self {
            Self::GrpcRegister | Self::BatchRegister | Self::RestRegister => None,
            Self::RestRenew => Some(Self::RestRegister),
            _ => Some(Self::BatchRegister),
        }
    }

    /// Instances of each application.
    pub(super) fn per_app(self) -> usize {
        if matches!(self, Self::GrpcApp | Self::RestApp { .. }) { TEN } else { PER_APP }
    }

    /// Whether the limit answers with what heureka answered.
    pub(super) fn is_read(self) -> bool {
        matches!(
            self,
            Self::GrpcApp | Self::GrpcPage | Self::RestApp { .. } | Self::RestAll | Self::RestDelta
        )
    }

    /// A request of each kind that there is. Those that register do it in each of these versions, one after the other:
    /// two of them say something new of each instance at each turn.
    pub(super) fn requests(self, population: Population, versions: &[usize]) -> Vec<Bytes> {
        let Population { instances, per_app, .. } = population;
        let all = |version| (0..instances).map(move |n| population.instance(n, version));
        let apps = || (0..instances).step_by(per_app).map(|n| instances::app(n, per_app));
        let instances = || versions.iter().copied().flat_map(all);
        match self {
            Self::GrpcRegister => instances().map(|instance| framed(&register(&instance))).collect(),
            Self::GrpcRenew => all(0).map(|instance| framed(&renew(&instance))).collect(),
            Self::BatchRegister => batches(instances(), REGISTERED_AT_ONCE, register)
                .map(|requests| framed(&v1::BatchRegisterRequest { requests }))
                .collect(),
            Self::BatchRenew => batches(all(0), RENEWED_AT_ONCE, renew)
                .map(|requests| framed(&v1::BatchRenewRequest { requests }))
                .collect(),
            Self::GrpcApp => apps().map(|app| framed(&list(Some(app)))).collect(),
            Self::GrpcPage => vec![framed(&list(None))],
            Self::RestRegister => instances().map(|instance| post(&instance)).collect(),
            Self::RestRenew => all(0).map(|instance| put(&instance)).collect(),
            Self::RestApp { gzip } => apps().map(|app| get(&format!("/{app}"), gzip)).collect(),
            Self::RestAll => vec![get("", true)],
            Self::RestDelta => vec![get("/delta", true)],
        }
    }

    /// Whether an answer that arrived says that everything asked was done. Over REST its status says so.
    pub(super) fn is_done(self, answer: &[u8]) -> bool {
        match self {
            Self::BatchRegister => v1::BatchRegisterResponse::decode(answer).is_ok_and(|answer| {
                let results = &answer.results;
                results.len() == REGISTERED_AT_ONCE && results.iter().all(|one| one.response.is_some())
            }),
            Self::BatchRenew => {
                v1::BatchRenewResponse::decode(answer).is_ok_and(|answer| answer.failures.is_empty())
            }
            Self::GrpcApp => lists(answer, TEN),
            Self::GrpcPage => lists(answer, PER_APP),
            Self::RestAll | Self::RestApp { .. } => answer.len() > 1000,
            _ => true,
        }
    }
}

impl Population {
    /// So many of the usual ones.
    pub(super) fn of(instances: usize, per_app: usize) -> Self {
        Self { instances, per_app, values: Values::Shared }
    }

    /// The `n`-th of them, as [`instances::instance`].
    pub(super) fn instance(self, n: usize, version: usize) -> Instance {
        instances::placed(n % self.instances, self.per_app, self.values, version)
    }
}

fn lists(message: &[u8], least: usize) -> bool {
    v1::ListInstancesResponse::decode(message).is_ok_and(|page| page.instances.len() >= least)
}

/// Requests of one entry for each instance, so many entries in each.
fn batches<R>(
    instances: impl Iterator<Item = Instance>,
    size: usize,
    entry: fn(&Instance) -> R,
) -> impl Iterator<Item = Vec<R>> {
    let mut entries = instances.map(move |instance| entry(&instance));
    std::iter::from_fn(move || {
        let batch: Vec<R> = entries.by_ref().take(size).collect();
        (!batch.is_empty()).then_some(batch)
    })
}

/// The native registration of an instance.
pub(super) fn register(instance: &Instance) -> v1::RegisterRequest {
    let port = |port: heureka_model::Port| v1::Port { number: u32::from(port.number), enabled: port.enabled };
    let message = v1::Instance {
        key: Some(key(instance)),
        status: heureka_proto::convert::status_number(Some(instance.status)),
        ip_address: instance.ip_address.clone(),
        host_name: instance.host_name.clone(),
        port: instance.port.map(port),
        secure_port: instance.secure_port.map(port),
        metadata: instance.metadata.clone(),
        vip_address: instance.vip_address.clone(),
        secure_vip_address: instance.secure_vip_address.clone(),
        urls: Some(v1::InstanceUrls {
            home_page: instance.urls.home_page.clone(),
            status_page: instance.urls.status_page.clone(),
            health_check: instance.urls.health_check.clone(),
            secure_health_check: instance.urls.secure_health_check.clone(),
        }),
        // Nothing lapses while something else is measured.
        lease: Some(v1::Lease {
            duration: instance.lease.duration().try_into().ok(),
            ..v1::Lease::default()
        }),
        ..v1::Instance::default()
    };
    v1::RegisterRequest { instance: Some(message), ..v1::RegisterRequest::default() }
}

pub(super) fn renew(instance: &Instance) -> v1::RenewRequest {
    v1::RenewRequest { key: Some(key(instance)), ..v1::RenewRequest::default() }
}

/// The end of it.
pub(super) fn cancel(instance: &Instance) -> v1::CancelRequest {
    v1::CancelRequest { key: Some(key(instance)), ..v1::CancelRequest::default() }
}

fn key(instance: &Instance) -> v1::InstanceKey {
    let key = &instance.key;
    v1::InstanceKey { namespace: key.namespace.clone(), app: key.app.clone(), id: key.id.clone() }
}

/// The first page of an application, or of everything.
fn list(app: Option<String>) -> v1::ListInstancesRequest {
    let selector = |app| v1::InstanceSelector { apps: vec![app], ..v1::InstanceSelector::default() };
    let selectors = app.map(selector).into_iter().collect();
    v1::ListInstancesRequest { selectors, ..v1::ListInstancesRequest::default() }
}

/// The registration of a Eureka client.
pub(super) fn post(instance: &Instance) -> Bytes {
    // Nothing lapses while something else is measured.
    let lease = instance.lease.duration().as_secs();
    let body = serde_json::json!({ "instance": {
        "instanceId": instance.key.id, "app": instance.key.app, "hostName": instance.host_name,
        "ipAddr": instance.ip_address, "status": instance.status.as_str(), "overriddenstatus": "UNKNOWN",
        "port": { "$": 8080, "@enabled": "true" }, "securePort": { "$": 8443, "@enabled": "true" },
        "countryId": 1,
        "dataCenterInfo": { "@class": "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo", "name": "MyOwn" },
        "leaseInfo": { "renewalIntervalInSecs": 30, "durationInSecs": lease },
        "metadata": instance.metadata,
        "homePageUrl": instance.urls.home_page, "statusPageUrl": instance.urls.status_page,
        "healthCheckUrl": instance.urls.health_check,
        "vipAddress": instance.vip_address, "secureVipAddress": instance.secure_vip_address,
        "isCoordinatingDiscoveryServer": "false",
        "lastUpdatedTimestamp": "1800000000000", "lastDirtyTimestamp": "1800000000000",
    }})
    .to_string();
    format!(
        "POST /eureka/apps/{} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        instance.key.app,
        body.len()
    )
    .into()
}

fn put(instance: &Instance) -> Bytes {
    format!(
        "PUT /eureka/apps/{}/{}?status=UP&lastDirtyTimestamp=1800000000000 HTTP/1.1\r\nhost: localhost\r\n\
         content-length: 0\r\n\r\n",
        instance.key.app, instance.key.id
    )
    .into()
}

/// A list in JSON, or a part of it.
pub(super) fn get(path: &str, gzip: bool) -> Bytes {
    let coding = if gzip { "accept-encoding: gzip\r\n" } else { "" };
    format!("GET /eureka/apps{path} HTTP/1.1\r\nhost: localhost\r\naccept: application/json\r\n{coding}\r\n")
        .into()
}
