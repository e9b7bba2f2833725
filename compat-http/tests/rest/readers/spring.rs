//! Spring Cloud: a general mapper that refuses what it does not know and loses the whole answer with it.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Seen, decoded};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Root {
    applications: Applications,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "that a member decodes is what is tested")]
struct Applications {
    #[serde(rename = "versions__delta")]
    version: Scalar,
    #[serde(rename = "apps__hashcode")]
    hash: String,
    application: Vec<Application>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Application {
    name: String,
    instance: Vec<Instance>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[expect(dead_code, reason = "that a member decodes is what is tested")]
struct Instance {
    instance_id: String,
    host_name: String,
    app: String,
    ip_addr: String,
    sid: Option<String>,
    status: Status,
    overridden_status: Option<Status>,
    port: Port,
    secure_port: Port,
    country_id: Option<Scalar>,
    data_center_info: DataCenter,
    lease_info: Lease,
    metadata: BTreeMap<String, Scalar>,
    app_group_name: Option<String>,
    home_page_url: Option<String>,
    status_page_url: Option<String>,
    health_check_url: Option<String>,
    secure_health_check_url: Option<String>,
    vip_address: Option<String>,
    secure_vip_address: Option<String>,
    is_coordinating_discovery_server: Option<Scalar>,
    last_updated_timestamp: Scalar,
    last_dirty_timestamp: Scalar,
    action_type: Option<Action>,
    asg_name: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum Status {
    Down,
    OutOfService,
    Starting,
    Unknown,
    Up,
}

#[derive(Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum Action {
    Added,
    Modified,
    Deleted,
}

/// What is no object and no list.
#[derive(Deserialize)]
#[serde(untagged)]
#[expect(dead_code, reason = "that a member decodes is what is tested")]
enum Scalar {
    Flag(bool),
    Number(i64),
    Text(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "that a member decodes is what is tested")]
struct Port {
    #[serde(rename = "$")]
    number: Scalar,
    #[serde(rename = "@enabled")]
    enabled: Scalar,
}

/// The class decides which members there may be.
#[derive(Deserialize)]
#[serde(tag = "@class", deny_unknown_fields)]
#[expect(dead_code, reason = "that a member decodes is what is tested")]
enum DataCenter {
    #[serde(rename = "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo")]
    Own { name: String },
    #[serde(rename = "com.netflix.appinfo.AmazonInfo")]
    Amazon { name: String, metadata: BTreeMap<String, String> },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[expect(dead_code, reason = "that a member decodes is what is tested")]
struct Lease {
    renewal_interval_in_secs: Scalar,
    duration_in_secs: Scalar,
    registration_timestamp: Scalar,
    last_renewal_timestamp: Scalar,
    eviction_timestamp: Scalar,
    service_up_timestamp: Scalar,
}

pub(super) fn read(text: &str) -> Result<Seen, String> {
    let root: Root = decoded(text)?;
    let mut seen = Seen::new();
    for app in root.applications.application {
        for one in app.instance {
            if one.app != app.name || app.name != app.name.to_uppercase() {
                return Err(format!("{} filed under {}", one.app, app.name));
            }
            seen.insert((one.app, one.instance_id));
        }
    }
    Ok(seen)
}
