//! An instance as its owner describes it.

use std::collections::BTreeMap;

use crate::{InstanceKey, Invalid, LeaseTerms, Limits, Problem, Status, Wall};

/// Free-form labels, in key order so that equal maps have one encoding.
pub type Metadata = BTreeMap<String, String>;

/// One running copy of an application, as its owner states it. Empty texts mean absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Identity.
    pub key: InstanceKey,
    /// Status that the owner reports.
    pub status: Status,
    /// IPv4 or IPv6 literal.
    pub ip_address: String,
    /// Host name.
    pub host_name: String,
    /// Plain port, when the owner named one.
    pub port: Option<Port>,
    /// TLS port, when the owner named one.
    pub secure_port: Option<Port>,
    /// Additional ports.
    pub ports: Vec<NamedPort>,
    /// Where it runs.
    pub locality: Locality,
    /// Weight and totals.
    pub capacity: Capacity,
    /// Labels.
    pub metadata: Metadata,
    /// Comma-separated virtual addresses.
    pub vip_address: String,
    /// Comma-separated virtual addresses served over TLS.
    pub secure_vip_address: String,
    /// Application group.
    pub app_group: String,
    /// Informational URLs.
    pub urls: Urls,
    /// Data centre of the legacy model.
    pub data_center: DataCenter,
    /// Lease the owner wants.
    pub lease: LeaseTerms,
    /// Members that only the Eureka surface knows.
    pub legacy: Legacy,
    /// Last change at the owner, by its clock.
    pub last_dirty: Option<Wall>,
}

/// One of the two classic ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Port {
    /// Port number.
    pub number: u16,
    /// Whether the port serves.
    pub enabled: bool,
}

/// An additional port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NamedPort {
    /// Name, unique in the instance.
    pub name: String,
    /// Port number.
    pub number: u16,
    /// Application protocol, for example `grpc`.
    pub protocol: String,
}

/// Where an instance runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Locality {
    /// Region.
    pub region: String,
    /// Zone inside the region.
    pub zone: String,
    /// Rack, cell or host group inside the zone.
    pub sub_zone: String,
}

/// What an instance can take.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Capacity {
    /// Relative weight; absent reads as 100, 0 asks for no traffic.
    pub weight: Option<u32>,
    /// Named totals.
    pub total: BTreeMap<String, i64>,
}

/// Informational URLs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Urls {
    /// Home page.
    pub home_page: String,
    /// Status page.
    pub status_page: String,
    /// Health check over the plain port.
    pub health_check: String,
    /// Health check over the secure port.
    pub secure_health_check: String,
}

/// Data centre block of the legacy model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DataCenter {
    /// `MyOwn`, `Amazon`, `Netflix` or any other text.
    pub name: String,
    /// Class discriminator as received.
    pub class_name: String,
    /// Provider metadata.
    pub metadata: Metadata,
}

/// Members without a native meaning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Legacy {
    /// Member `sid`; empty reads as `na`.
    pub sid: String,
    /// Member `countryId`; absent reads as 1.
    pub country_id: Option<i32>,
    /// Member `asgName`.
    pub asg_name: String,
    /// Member `isCoordinatingDiscoveryServer`.
    pub is_coordinating_discovery_server: Option<bool>,
    /// The owner sent no id; it was derived from other members.
    pub implicit_id: bool,
}

impl Instance {
    /// An instance with nothing but its key: UP, Eureka's lease, everything else absent.
    #[must_use]
    pub fn new(key: InstanceKey) -> Self {
        Self {
            key,
            status: Status::Up,
            ip_address: String::new(),
            host_name: String::new(),
            port: None,
            secure_port: None,
            ports: Vec::new(),
            locality: Locality::default(),
            capacity: Capacity::default(),
            metadata: Metadata::new(),
            vip_address: String::new(),
            secure_vip_address: String::new(),
            app_group: String::new(),
            urls: Urls::default(),
            data_center: DataCenter::default(),
            lease: LeaseTerms::default(),
            legacy: Legacy::default(),
            last_dirty: None,
        }
    }

    /// Checks names, sizes and ports.
    ///
    /// # Errors
    /// The first field at fault, named as in the native contract.
    pub fn validate(&self, limits: &Limits) -> Result<(), Invalid> {
        self.validate_names(limits)?;
        self.validate_texts(limits)?;
        self.validate_ports(limits)?;
        validate_map("metadata", &self.metadata, limits)?;
        validate_map("data_center.metadata", &self.data_center.metadata, limits)?;
        self.validate_capacity(limits)?;
        at_most("instance", self.text_size(), limits.instance)
    }

    fn validate_names(&self, limits: &Limits) -> Result<(), Invalid> {
        self.key.as_ref().validate(limits)?;
        name("host_name", &self.host_name, limits.host)?;
        name("ip_address", &self.ip_address, limits.host)?;
        name("app_group", &self.app_group, limits.name)?;
        name("vip_address", &self.vip_address, limits.vip)?;
        name("secure_vip_address", &self.secure_vip_address, limits.vip)?;
        name("locality.region", &self.locality.region, limits.host)?;
        name("locality.zone", &self.locality.zone, limits.host)?;
        name("locality.sub_zone", &self.locality.sub_zone, limits.host)
    }

    fn validate_texts(&self, limits: &Limits) -> Result<(), Invalid> {
        let urls = &self.urls;
        at_most("urls.home_page", urls.home_page.len(), limits.url)?;
        at_most("urls.status_page", urls.status_page.len(), limits.url)?;
        at_most("urls.health_check", urls.health_check.len(), limits.url)?;
        at_most("urls.secure_health_check", urls.secure_health_check.len(), limits.url)?;
        at_most("data_center.name", self.data_center.name.len(), limits.name)?;
        at_most("data_center.class_name", self.data_center.class_name.len(), limits.name)?;
        at_most("legacy.sid", self.legacy.sid.len(), limits.name)?;
        at_most("legacy.asg_name", self.legacy.asg_name.len(), limits.name)
    }

    fn validate_ports(&self, limits: &Limits) -> Result<(), Invalid> {
        at_most("ports", self.ports.len(), limits.metadata_entries)?;
        for (position, port) in self.ports.iter().enumerate() {
            let field = |part: &str| format!("ports[{position}].{part}");
            required(&field("name"), &port.name, limits.name)?;
            name(&field("protocol"), &port.protocol, limits.name)?;
            if port.number == 0 {
                return Err(Invalid::new(
                    field("number"),
                    Problem::OutOfRange { value: 0, min: 1, max: i64::from(u16::MAX) },
                ));
            }
            if self.ports[..position].iter().any(|earlier| earlier.name == port.name) {
                return Err(Invalid::malformed(field("name"), "names another port of this instance"));
            }
        }
        Ok(())
    }

    fn validate_capacity(&self, limits: &Limits) -> Result<(), Invalid> {
        at_most("capacity.total", self.capacity.total.len(), limits.metadata_entries)?;
        for key in self.capacity.total.keys() {
            required("capacity.total", key, limits.metadata_key)?;
        }
        Ok(())
    }

    /// Bytes of all texts.
    #[must_use]
    pub fn text_size(&self) -> usize {
        let map = |map: &Metadata| map.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
        let named = |port: &NamedPort| port.name.len() + port.protocol.len();
        let texts = [
            &self.key.namespace,
            &self.key.app,
            &self.key.id,
            &self.ip_address,
            &self.host_name,
            &self.locality.region,
            &self.locality.zone,
            &self.locality.sub_zone,
            &self.vip_address,
            &self.secure_vip_address,
            &self.app_group,
            &self.urls.home_page,
            &self.urls.status_page,
            &self.urls.health_check,
            &self.urls.secure_health_check,
            &self.data_center.name,
            &self.data_center.class_name,
            &self.legacy.sid,
            &self.legacy.asg_name,
        ];
        texts.iter().map(|text| text.len()).sum::<usize>()
            + map(&self.metadata)
            + map(&self.data_center.metadata)
            + self.ports.iter().map(named).sum::<usize>()
            + self.capacity.total.keys().map(String::len).sum::<usize>()
    }
}

pub(crate) fn required(field: &str, text: &str, limit: usize) -> Result<(), Invalid> {
    if text.is_empty() {
        return Err(Invalid::missing(field));
    }
    name(field, text, limit)
}

/// Names stand in paths, logs and headers, so they hold no control characters. Other texts are kept verbatim.
pub(crate) fn name(field: &str, text: &str, limit: usize) -> Result<(), Invalid> {
    if text.chars().any(char::is_control) {
        return Err(Invalid::new(field, Problem::ControlCharacter));
    }
    at_most(field, text.len(), limit)
}

fn at_most(field: &str, actual: usize, limit: usize) -> Result<(), Invalid> {
    if actual > limit {
        return Err(Invalid::new(field, Problem::TooLarge { limit, actual }));
    }
    Ok(())
}

fn validate_map(field: &str, map: &Metadata, limits: &Limits) -> Result<(), Invalid> {
    at_most(field, map.len(), limits.metadata_entries)?;
    for (key, value) in map {
        let named = |invalid: Invalid| Invalid { field: format!("{field}.{}", shown(key)), ..invalid };
        at_most("", key.len(), limits.metadata_key).map_err(named)?;
        at_most("", value.len(), limits.metadata_value).map_err(named)?;
    }
    Ok(())
}

/// A key as a message may show it.
fn shown(key: &str) -> String {
    key.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance() -> Instance {
        Instance::new(InstanceKey { namespace: String::new(), app: "BILLING".into(), id: "n1".into() })
    }

    #[test]
    fn each_fault_names_its_field() {
        let mut cases: Vec<(&str, Instance)> = Vec::new();
        let mut case = |field, change: fn(&mut Instance)| {
            let mut broken = instance();
            change(&mut broken);
            cases.push((field, broken));
        };
        case("key.app", |i| i.key.app.clear());
        case("key.id", |i| i.key.id = "x".repeat(513));
        case("key.id", |i| i.key.id = "a\nb".into());
        case("host_name", |i| i.host_name = "h".repeat(256));
        case("vip_address", |i| i.vip_address = "\0".into());
        case("urls.home_page", |i| i.urls.home_page = "u".repeat(2049));
        case("metadata.big", |i| drop(i.metadata.insert("big".into(), "v".repeat(256 * 1024 + 1))));
        case("metadata", |i| i.metadata = (0..1025).map(|n| (n.to_string(), String::new())).collect());
        case("instance", |i| {
            i.metadata = (0..3).map(|n| (n.to_string(), "v".repeat(200 * 1024))).collect();
        });
        case("ports[0].number", |i| {
            i.ports.push(NamedPort { name: "grpc".into(), number: 0, protocol: "grpc".into() });
        });
        case("ports[1].name", |i| {
            i.ports = vec![NamedPort { name: "grpc".into(), number: 1, protocol: String::new() }; 2];
        });
        for (field, broken) in cases {
            assert_eq!(broken.validate(&Limits::default()).unwrap_err().field, field);
        }
        assert_eq!(instance().validate(&Limits::default()), Ok(()));
    }

    #[test]
    fn values_are_kept_verbatim_whatever_they_hold() {
        let mut odd = instance();
        odd.metadata.insert("tab\tkey".into(), "line\nbreak \0".into());
        assert_eq!(odd.validate(&Limits::default()), Ok(()));
    }
}
