//! Armeria: ignores what it does not know and insists on what it does.

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
    status: String,
    port: Port,
    secure_port: Port,
    lease_info: Lease,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "that a member decodes is what is tested")]
struct Port {
    #[serde(rename = "$")]
    number: u16,
    #[serde(rename = "@enabled")]
    enabled: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "that a member decodes is what is tested")]
struct Lease {
    renewal_interval_in_secs: u32,
    duration_in_secs: u32,
    registration_timestamp: u64,
    last_renewal_timestamp: u64,
    eviction_timestamp: u64,
    service_up_timestamp: u64,
}

pub(super) fn read(text: &str) -> Result<Seen, String> {
    let root: Root = decoded(text)?;
    let apps = root.applications.application.into_iter();
    let of_app = |app: Application| {
        app.instance.into_iter().map(|one| (app.name.clone(), one.instance_id)).collect::<Vec<_>>()
    };
    Ok(apps.flat_map(of_app).collect())
}
