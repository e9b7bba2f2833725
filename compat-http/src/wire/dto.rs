//! What legacy readers see of an instance: the original's members, types and defaults.
//!
//! The strictest readers reject an unknown member, a number where a text is due and the reverse, a null, and a
//! status that they do not know, and lose the whole answer with it. So nothing here is optional by accident.

use std::time::Duration;

use heureka_model::{Action, DataCenter, Metadata, Port, Registration, Status, Wall};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::draft::PortKind;

/// Mark of an empty map.
pub(crate) const EMPTY_MAP: &str = "java.util.Collections$EmptyMap";
const AMAZON_CLASS: &str = "com.netflix.appinfo.AmazonInfo";
const DEFAULT_CLASS: &str = "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo";
/// What the compact shape keeps of Amazon's metadata.
const COMPACT_AMAZON: [&str; 5] =
    ["instance-id", "public-ipv4", "public-hostname", "local-ipv4", "availability-zone"];

/// An instance in full, members in the original's order.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Full<'a> {
    pub(crate) instance_id: &'a str,
    pub(crate) host_name: &'a str,
    pub(crate) app: &'a str,
    pub(crate) ip_addr: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) sid: &'a str,
    pub(crate) status: Word,
    pub(crate) overridden_status: Word,
    pub(crate) port: PortDto,
    pub(crate) secure_port: PortDto,
    pub(crate) country_id: i32,
    pub(crate) data_center_info: DataCenterDto<'a>,
    pub(crate) lease_info: LeaseDto,
    pub(crate) metadata: MetadataDto<'a>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) app_group_name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) home_page_url: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) status_page_url: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) health_check_url: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) secure_health_check_url: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) vip_address: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) secure_vip_address: &'a str,
    pub(crate) is_coordinating_discovery_server: Word,
    pub(crate) last_updated_timestamp: Quoted,
    pub(crate) last_dirty_timestamp: Quoted,
    pub(crate) action_type: Word,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) asg_name: &'a str,
}

/// An instance in the compact shape.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Compact<'a> {
    pub(crate) instance_id: &'a str,
    pub(crate) app: &'a str,
    pub(crate) ip_addr: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) vip_address: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) secure_vip_address: &'a str,
    pub(crate) data_center_info: DataCenterDto<'a>,
    pub(crate) host_name: &'a str,
    pub(crate) status: Word,
    pub(crate) last_updated_timestamp: u64,
    pub(crate) action_type: Word,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) asg_name: &'a str,
    pub(crate) port: PortDto,
    pub(crate) secure_port: PortDto,
}

/// A word of a closed set.
pub(crate) type Word = &'static str;

/// A number that the wire wants as text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quoted(pub(crate) u64);

/// A port: the number a number, the flag a text.
#[derive(Debug, Serialize)]
pub(crate) struct PortDto {
    #[serde(rename = "$")]
    pub(crate) number: u16,
    #[serde(rename = "@enabled")]
    pub(crate) enabled: Word,
}

/// The data-centre block; metadata for Amazon only, since other readers do not know the member.
#[derive(Debug, Serialize)]
pub(crate) struct DataCenterDto<'a> {
    #[serde(rename = "@class")]
    pub(crate) class: Word,
    pub(crate) name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) metadata: Option<MetadataDto<'a>>,
}

/// A lease: six numbers, whole seconds and milliseconds.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LeaseDto {
    pub(crate) renewal_interval_in_secs: u64,
    pub(crate) duration_in_secs: u64,
    pub(crate) registration_timestamp: u64,
    pub(crate) last_renewal_timestamp: u64,
    pub(crate) eviction_timestamp: u64,
    pub(crate) service_up_timestamp: u64,
}

/// A map of texts; `only` limits it to some keys.
#[derive(Debug)]
pub(crate) struct MetadataDto<'a> {
    map: &'a Metadata,
    only: Option<&'static [&'static str]>,
}

impl<'a> Full<'a> {
    /// What readers see; without `action`, what the last change of the instance was.
    pub(crate) fn of(registration: &'a Registration, action: Option<Action>) -> Self {
        let instance = &registration.instance;
        Self {
            instance_id: &instance.key.id,
            host_name: host_name(registration),
            app: &instance.key.app,
            ip_addr: ip_address(registration),
            sid: if instance.legacy.sid == "unknown" { "" } else { &instance.legacy.sid },
            status: registration.status().as_str(),
            overridden_status: registration.override_status().unwrap_or(Status::Unknown).as_str(),
            port: PortDto::of(instance.port, PortKind::Plain),
            secure_port: PortDto::of(instance.secure_port, PortKind::Secure),
            country_id: instance.legacy.country_id.unwrap_or(1),
            data_center_info: DataCenterDto::of(&instance.data_center, None),
            lease_info: LeaseDto::of(registration),
            metadata: MetadataDto { map: &instance.metadata, only: None },
            app_group_name: &instance.app_group,
            home_page_url: &instance.urls.home_page,
            status_page_url: &instance.urls.status_page,
            health_check_url: &instance.urls.health_check,
            secure_health_check_url: &instance.urls.secure_health_check,
            vip_address: &instance.vip_address,
            secure_vip_address: &instance.secure_vip_address,
            is_coordinating_discovery_server: "false",
            last_updated_timestamp: Quoted(registration.times.updated.0),
            last_dirty_timestamp: Quoted(instance.last_dirty.unwrap_or(registration.times.updated).0),
            action_type: action_type(registration, action),
            asg_name: &instance.legacy.asg_name,
        }
    }
}

impl<'a> Compact<'a> {
    /// What readers of the compact shape see.
    pub(crate) fn of(registration: &'a Registration, action: Option<Action>) -> Self {
        let instance = &registration.instance;
        Self {
            instance_id: &instance.key.id,
            app: &instance.key.app,
            ip_addr: ip_address(registration),
            vip_address: &instance.vip_address,
            secure_vip_address: &instance.secure_vip_address,
            data_center_info: DataCenterDto::of(&instance.data_center, Some(&COMPACT_AMAZON)),
            host_name: host_name(registration),
            status: registration.status().as_str(),
            last_updated_timestamp: registration.times.updated.0,
            action_type: action_type(registration, action),
            asg_name: &instance.legacy.asg_name,
            port: PortDto::of(instance.port, PortKind::Plain),
            secure_port: PortDto::of(instance.secure_port, PortKind::Secure),
        }
    }
}

impl PortDto {
    fn of(port: Option<Port>, kind: PortKind) -> Self {
        let port = port.unwrap_or(kind.default_port());
        Self { number: port.number, enabled: if port.enabled { "true" } else { "false" } }
    }
}

impl<'a> DataCenterDto<'a> {
    /// Java readers know three names and two classes, and fail at any other.
    fn of(block: &'a DataCenter, only: Option<&'static [&'static str]>) -> Self {
        match block.name.as_str() {
            "Amazon" => Self {
                class: AMAZON_CLASS,
                name: "Amazon",
                metadata: Some(MetadataDto { map: &block.metadata, only }),
            },
            "Netflix" => Self { class: DEFAULT_CLASS, name: "Netflix", metadata: None },
            _ => Self { class: DEFAULT_CLASS, name: "MyOwn", metadata: None },
        }
    }
}

impl LeaseDto {
    fn of(registration: &Registration) -> Self {
        let times = &registration.times;
        let terms = registration.instance.lease;
        Self {
            renewal_interval_in_secs: whole_seconds(terms.renewal_interval()),
            duration_in_secs: whole_seconds(terms.duration()),
            registration_timestamp: times.registered.0,
            last_renewal_timestamp: times.renewed.0,
            eviction_timestamp: times.evicted.unwrap_or(Wall(0)).0,
            service_up_timestamp: times.service_up.unwrap_or(Wall(0)).0,
        }
    }
}

impl<'a> MetadataDto<'a> {
    /// Entries in key order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let only = self.only;
        let all = self.map.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        all.filter(move |(key, _)| only.is_none_or(|keys| keys.contains(key)))
    }
}

impl Serialize for MetadataDto<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let mut empty = true;
        for (key, value) in self.entries() {
            map.serialize_entry(key, value)?;
            empty = false;
        }
        if empty {
            map.serialize_entry("@class", EMPTY_MAP)?;
        }
        map.end()
    }
}

impl Serialize for Quoted {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// Readers drop an instance without a host name or address, so each stands in for the other.
fn host_name(registration: &Registration) -> &str {
    let instance = &registration.instance;
    first_told(&[&instance.host_name, &instance.ip_address, &instance.key.id])
}

fn ip_address(registration: &Registration) -> &str {
    let instance = &registration.instance;
    first_told(&[&instance.ip_address, &instance.host_name, &instance.key.id])
}

fn first_told<'a>(texts: &[&'a String]) -> &'a str {
    texts.iter().find(|text| !text.is_empty()).map_or("", |text| text.as_str())
}

fn action_type(registration: &Registration, action: Option<Action>) -> Word {
    let times = &registration.times;
    let last = if times.updated == times.registered { Action::Added } else { Action::Modified };
    match action.unwrap_or(last) {
        Action::Added => "ADDED",
        Action::Modified => "MODIFIED",
        Action::Deleted => "DELETED",
    }
}

/// A started second counts, so that nobody renews too late.
fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}
