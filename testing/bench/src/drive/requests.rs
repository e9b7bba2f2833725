//! Requests, encoded before anything is measured.

use heureka_model::Instance;
use heureka_proto::v1;
use prost::Message as _;

use crate::instances::{self, Values};

/// Instances that are registered and renewed.
pub(super) const INSTANCES: usize = 10_000;

/// What is asked of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    GrpcRegister,
    GrpcRenew,
    RestRegister,
    RestRenew,
}

impl Operation {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::GrpcRegister => "gRPC register, changed",
            Self::GrpcRenew => "gRPC renew",
            Self::RestRegister => "REST JSON register, changed",
            Self::RestRenew => "REST renew",
        }
    }

    /// Path of a gRPC method; nothing over REST.
    pub(super) fn path(self) -> Option<&'static str> {
        match self {
            Self::GrpcRegister => Some("/heureka.registry.v1.RegistryService/Register"),
            Self::GrpcRenew => Some("/heureka.registry.v1.RegistryService/Renew"),
            Self::RestRegister | Self::RestRenew => None,
        }
    }

    /// Requests to send over and over. Those that register say something new of each instance at each turn.
    pub(super) fn requests(self) -> Vec<Vec<u8>> {
        let versions = if matches!(self, Self::GrpcRegister | Self::RestRegister) { 0..2 } else { 0..1 };
        let of = |version| {
            (0..INSTANCES).map(move |n| self.request(&instances::instance(n, Values::Shared, version)))
        };
        versions.flat_map(of).collect()
    }

    fn request(self, instance: &Instance) -> Vec<u8> {
        match self {
            Self::GrpcRegister => register(instance).encode_to_vec(),
            Self::GrpcRenew => {
                let request = v1::RenewRequest { key: Some(key(instance)), ..v1::RenewRequest::default() };
                request.encode_to_vec()
            }
            Self::RestRegister => post(instance),
            Self::RestRenew => put(instance),
        }
    }
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
        ..v1::Instance::default()
    };
    v1::RegisterRequest { instance: Some(message), ..v1::RegisterRequest::default() }
}

fn key(instance: &Instance) -> v1::InstanceKey {
    let key = &instance.key;
    v1::InstanceKey { namespace: key.namespace.clone(), app: key.app.clone(), id: key.id.clone() }
}

fn post(instance: &Instance) -> Vec<u8> {
    let body = serde_json::json!({ "instance": {
        "instanceId": instance.key.id, "app": instance.key.app, "hostName": instance.host_name,
        "ipAddr": instance.ip_address, "status": instance.status.as_str(), "overriddenstatus": "UNKNOWN",
        "port": { "$": 8080, "@enabled": "true" }, "securePort": { "$": 8443, "@enabled": "true" },
        "countryId": 1,
        "dataCenterInfo": { "@class": "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo", "name": "MyOwn" },
        "leaseInfo": { "renewalIntervalInSecs": 30, "durationInSecs": 90 },
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
    .into_bytes()
}

fn put(instance: &Instance) -> Vec<u8> {
    format!(
        "PUT /eureka/apps/{}/{}?status=UP&lastDirtyTimestamp=1800000000000 HTTP/1.1\r\nhost: localhost\r\n\
         content-length: 0\r\n\r\n",
        instance.key.app, instance.key.id
    )
    .into_bytes()
}
