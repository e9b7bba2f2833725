//! A registration body to be varied.

use serde_json::{Value, json};

/// A plain data-centre block.
pub const DATA_CENTER: &str =
    r#""dataCenterInfo":{"@class":"com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo","name":"MyOwn"}"#;

/// A registration as a Eureka client sends it.
#[derive(Clone, Debug)]
pub struct Draft {
    /// Application.
    pub app: String,
    /// Id of the instance.
    pub id: String,
    instance: Value,
}

impl Draft {
    /// An instance on `h1.example`, 10.0.0.1:8080, renewed each 30 s for 90 s, its address that of its application.
    #[must_use]
    pub fn new(app: &str, id: &str, status: &str, dirty: u64) -> Self {
        let instance = json!({
            "instanceId": id, "app": app, "hostName": "h1.example", "ipAddr": "10.0.0.1", "status": status,
            "vipAddress": app, "port": {"$": 8080, "@enabled": "true"}, "securePort": {"$": 8443, "@enabled": "false"},
            "lastDirtyTimestamp": dirty.to_string(),
            "leaseInfo": {"renewalIntervalInSecs": 30, "durationInSecs": 90},
            "dataCenterInfo": {"@class": "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo", "name": "MyOwn"},
        });
        Self { app: app.to_owned(), id: id.to_owned(), instance }
    }

    /// With another value of a member, or a further one.
    #[must_use]
    pub fn with(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.instance[member] = value.into();
        self
    }

    /// With a lease of these seconds, renewed each second.
    #[must_use]
    pub fn lease(self, seconds: u64) -> Self {
        self.with("leaseInfo", json!({"renewalIntervalInSecs": 1, "durationInSecs": seconds}))
    }

    /// The body.
    #[must_use]
    pub fn json(&self) -> String {
        json!({"instance": self.instance}).to_string()
    }
}

/// The smallest body: name, host, address, data centre and these further members, each with a leading comma.
#[must_use]
pub fn minimal(app: &str, id: &str, extra: &str) -> String {
    format!(
        r#"{{"instance":{{"instanceId":"{id}","app":"{app}","hostName":"h1","ipAddr":"10.0.0.1",{DATA_CENTER}{extra}}}}}"#
    )
}
