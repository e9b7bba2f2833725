//! Steeltoe 4: numbers are never quoted, metadata are texts, words of an enumeration are exact, and an instance with
//! a blank name, host or address is dropped.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Seen, decoded};

#[derive(Deserialize)]
struct Root {
    applications: Applications,
}

#[derive(Deserialize)]
struct Applications {
    application: Vec<Application>,
}

#[derive(Deserialize)]
struct Application {
    name: String,
    instance: Vec<Instance>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "that a member decodes is what is tested")]
struct Instance {
    instance_id: String,
    host_name: String,
    app: String,
    ip_addr: String,
    status: Status,
    overridden_status: Status,
    port: Port,
    secure_port: Port,
    country_id: i32,
    lease_info: Lease,
    metadata: BTreeMap<String, String>,
    last_updated_timestamp: String,
    last_dirty_timestamp: String,
    action_type: Action,
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

#[derive(Deserialize)]
#[expect(dead_code, reason = "that a member decodes is what is tested")]
struct Port {
    #[serde(rename = "$")]
    number: i32,
    #[serde(rename = "@enabled")]
    enabled: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "that a member decodes is what is tested")]
struct Lease {
    renewal_interval_in_secs: i32,
    duration_in_secs: i32,
    registration_timestamp: i64,
    last_renewal_timestamp: i64,
    eviction_timestamp: i64,
    service_up_timestamp: i64,
}

pub(crate) fn read(text: &str) -> Result<Seen, String> {
    let root: Root = decoded(text)?;
    let mut seen = Seen::new();
    for app in root.applications.application {
        for one in app.instance {
            if [&one.instance_id, &one.host_name, &one.app, &one.ip_addr]
                .iter()
                .any(|text| text.trim().is_empty())
            {
                return Err(format!("an instance of {} would be dropped", app.name));
            }
            seen.insert((app.name.clone(), one.instance_id));
        }
    }
    Ok(seen)
}
