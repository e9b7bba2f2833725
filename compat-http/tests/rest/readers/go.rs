//! The readers in Go: xuanbo's, which wants every type as the original prints it, and fargo with the Istio adapter,
//! which want flags as texts and numbers as numbers. Go finds members without regard to case.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use super::{Seen, decoded};

#[derive(Deserialize)]
struct Root<L> {
    applications: L,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "that a member decodes is what is tested")]
struct XuanboList {
    #[serde(rename = "versions__delta")]
    version: String,
    #[serde(rename = "apps__hashcode")]
    hash: String,
    application: Vec<App<XuanboInstance>>,
}

#[derive(Deserialize)]
struct App<I> {
    name: String,
    instance: Vec<I>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "that a member decodes is what is tested")]
struct XuanboInstance {
    instance_id: String,
    host_name: String,
    app: String,
    ip_addr: String,
    status: String,
    port: XuanboPort,
    secure_port: XuanboPort,
    country_id: i64,
    lease_info: Lease,
    metadata: BTreeMap<String, String>,
    is_coordinating_discovery_server: String,
    last_updated_timestamp: String,
    last_dirty_timestamp: String,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "that a member decodes is what is tested")]
struct XuanboPort {
    #[serde(rename = "$")]
    number: i64,
    #[serde(rename = "@enabled")]
    enabled: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "that a member decodes is what is tested")]
struct Lease {
    renewal_interval_in_secs: i64,
    duration_in_secs: i64,
    registration_timestamp: i64,
    last_renewal_timestamp: i64,
    eviction_timestamp: i64,
    service_up_timestamp: i64,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "that a member decodes is what is tested")]
struct FargoList {
    #[serde(rename = "versions__delta")]
    version: TextOrNumber,
    #[serde(rename = "apps__hashcode")]
    hash: String,
    application: Vec<App<FargoInstance>>,
}

/// The one leniency.
#[derive(Deserialize)]
#[serde(untagged)]
#[expect(dead_code, reason = "that a member decodes is what is tested")]
enum TextOrNumber {
    Text(String),
    Number(i64),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "that a member decodes is what is tested")]
struct FargoInstance {
    instance_id: String,
    host_name: String,
    app: String,
    ip_addr: String,
    status: String,
    overridden_status: String,
    port: FargoPort,
    secure_port: FargoPort,
    country_id: i64,
    lease_info: Lease,
    metadata: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "that a member decodes is what is tested")]
struct FargoPort {
    #[serde(rename = "$")]
    number: u16,
    #[serde(rename = "@enabled")]
    enabled: QuotedFlag,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum QuotedFlag {
    True,
    False,
}

pub(crate) fn read_as_xuanbo(text: &str) -> Result<Seen, String> {
    without_twins(&decoded(text)?)?;
    let root: Root<XuanboList> = decoded(text)?;
    Ok(seen(root.applications.application, |one| one.instance_id))
}

pub(crate) fn read_as_fargo(text: &str) -> Result<Seen, String> {
    without_twins(&decoded(text)?)?;
    let root: Root<FargoList> = decoded(text)?;
    Ok(seen(root.applications.application, |one| one.instance_id))
}

fn seen<I>(apps: Vec<App<I>>, id: impl Fn(I) -> String) -> Seen {
    let of_app =
        |app: App<I>| app.instance.into_iter().map(|one| (app.name.clone(), id(one))).collect::<Vec<_>>();
    apps.into_iter().flat_map(of_app).collect()
}

/// No two members that differ in case only, but in metadata, which is read as a map.
fn without_twins(value: &Value) -> Result<(), String> {
    match value {
        Value::Array(items) => items.iter().try_for_each(without_twins),
        Value::Object(members) => {
            let names: BTreeSet<String> = members.keys().map(|name| name.to_lowercase()).collect();
            if names.len() != members.len() {
                return Err(format!("members that differ in case only: {:?}", members.keys()));
            }
            members
                .iter()
                .filter(|(name, _)| *name != "metadata")
                .try_for_each(|(_, value)| without_twins(value))
        }
        _ => Ok(()),
    }
}
