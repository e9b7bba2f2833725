//! An instance as its owner states it.

use heureka_model::{
    Capacity, DataCenter, Instance, InstanceKey, Invalid, LeaseTerms, Legacy, Locality, NamedPort, Port,
    Problem, Status, Urls,
};

use super::status::{status, status_number};
use super::time::{timestamp, wall};
use crate::v1;

impl TryFrom<v1::Instance> for Instance {
    type Error = Invalid;

    /// The owner's statement; output-only fields are ignored.
    fn try_from(wire: v1::Instance) -> Result<Self, Invalid> {
        let lease = wire.lease.as_ref().map(LeaseTerms::try_from).transpose()?;
        let last_dirty =
            wire.last_dirty_time.as_ref().map(|time| wall("last_dirty_time", time)).transpose()?;
        Ok(Self {
            key: InstanceKey::from(wire.key.ok_or_else(|| Invalid::missing("key"))?),
            status: status("status", wire.status)?.unwrap_or(Status::Up),
            ip_address: wire.ip_address,
            host_name: wire.host_name,
            port: wire.port.map(|port| classic_port("port.number", port)).transpose()?,
            secure_port: wire.secure_port.map(|port| classic_port("secure_port.number", port)).transpose()?,
            ports: named_ports(wire.ports)?,
            locality: wire.locality.map(Locality::from).unwrap_or_default(),
            capacity: wire.capacity.map(Capacity::from).unwrap_or_default(),
            metadata: wire.metadata,
            vip_address: wire.vip_address,
            secure_vip_address: wire.secure_vip_address,
            app_group: wire.app_group,
            urls: wire.urls.map(Urls::from).unwrap_or_default(),
            data_center: wire.data_center.map(DataCenter::from).unwrap_or_default(),
            lease: lease.unwrap_or_default(),
            legacy: wire.legacy.map(Legacy::from).unwrap_or_default(),
            last_dirty,
        })
    }
}

impl From<Instance> for v1::Instance {
    /// The owner's statement as it is sent to Register: output-only fields stay unset.
    fn from(instance: Instance) -> Self {
        Self {
            key: Some(instance.key.into()),
            status: status_number(Some(instance.status)),
            ip_address: instance.ip_address,
            host_name: instance.host_name,
            port: instance.port.map(Into::into),
            secure_port: instance.secure_port.map(Into::into),
            ports: instance.ports.into_iter().map(Into::into).collect(),
            locality: present(instance.locality),
            capacity: present(instance.capacity),
            metadata: instance.metadata,
            vip_address: instance.vip_address,
            secure_vip_address: instance.secure_vip_address,
            app_group: instance.app_group,
            urls: present(instance.urls),
            data_center: present(instance.data_center),
            lease: Some(instance.lease.into()),
            legacy: present(instance.legacy),
            last_dirty_time: instance.last_dirty.map(timestamp),
            ..Self::default()
        }
    }
}

/// A message that says nothing is left out.
fn present<M: Default + PartialEq, W: From<M>>(message: M) -> Option<W> {
    (message != M::default()).then(|| message.into())
}

fn classic_port(field: &str, port: v1::Port) -> Result<Port, Invalid> {
    Ok(Port { number: port_number(field, port.number)?, enabled: port.enabled })
}

fn named_ports(ports: Vec<v1::NamedPort>) -> Result<Vec<NamedPort>, Invalid> {
    let named = |(position, port): (usize, v1::NamedPort)| {
        let number = port_number(&format!("ports[{position}].number"), port.number)?;
        Ok(NamedPort { name: port.name, number, protocol: port.protocol })
    };
    ports.into_iter().enumerate().map(named).collect()
}

fn port_number(field: &str, number: u32) -> Result<u16, Invalid> {
    u16::try_from(number).map_err(|_| {
        Invalid::new(field, Problem::OutOfRange { value: number.into(), min: 0, max: u16::MAX.into() })
    })
}

impl From<Port> for v1::Port {
    fn from(port: Port) -> Self {
        Self { number: port.number.into(), enabled: port.enabled }
    }
}

impl From<NamedPort> for v1::NamedPort {
    fn from(port: NamedPort) -> Self {
        Self { name: port.name, number: port.number.into(), protocol: port.protocol }
    }
}

impl From<v1::Locality> for Locality {
    fn from(wire: v1::Locality) -> Self {
        Self { region: wire.region, zone: wire.zone, sub_zone: wire.sub_zone }
    }
}

impl From<Locality> for v1::Locality {
    fn from(locality: Locality) -> Self {
        Self { region: locality.region, zone: locality.zone, sub_zone: locality.sub_zone }
    }
}

impl From<v1::Capacity> for Capacity {
    fn from(wire: v1::Capacity) -> Self {
        Self { weight: wire.weight, total: wire.total }
    }
}

impl From<Capacity> for v1::Capacity {
    fn from(capacity: Capacity) -> Self {
        Self { weight: capacity.weight, total: capacity.total, available: Default::default() }
    }
}

impl From<v1::InstanceUrls> for Urls {
    fn from(wire: v1::InstanceUrls) -> Self {
        Self {
            home_page: wire.home_page,
            status_page: wire.status_page,
            health_check: wire.health_check,
            secure_health_check: wire.secure_health_check,
        }
    }
}

impl From<Urls> for v1::InstanceUrls {
    fn from(urls: Urls) -> Self {
        Self {
            home_page: urls.home_page,
            status_page: urls.status_page,
            health_check: urls.health_check,
            secure_health_check: urls.secure_health_check,
        }
    }
}

impl From<v1::DataCenter> for DataCenter {
    fn from(wire: v1::DataCenter) -> Self {
        Self { name: wire.name, class_name: wire.class_name, metadata: wire.metadata }
    }
}

impl From<DataCenter> for v1::DataCenter {
    fn from(center: DataCenter) -> Self {
        Self { name: center.name, class_name: center.class_name, metadata: center.metadata }
    }
}

impl From<v1::LegacyAttributes> for Legacy {
    fn from(wire: v1::LegacyAttributes) -> Self {
        Self {
            sid: wire.sid,
            country_id: wire.country_id,
            asg_name: wire.asg_name,
            is_coordinating_discovery_server: wire.is_coordinating_discovery_server,
            implicit_id: wire.implicit_id,
        }
    }
}

impl From<Legacy> for v1::LegacyAttributes {
    fn from(legacy: Legacy) -> Self {
        Self {
            sid: legacy.sid,
            country_id: legacy.country_id,
            asg_name: legacy.asg_name,
            is_coordinating_discovery_server: legacy.is_coordinating_discovery_server,
            implicit_id: legacy.implicit_id,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire() -> v1::Instance {
        let key = v1::InstanceKey { namespace: String::new(), app: "web".into(), id: "n1".into() };
        v1::Instance { key: Some(key), ..v1::Instance::default() }
    }

    #[test]
    fn a_bare_key_is_an_up_instance_with_eurekas_lease() {
        let instance = Instance::try_from(wire()).unwrap();
        let key = InstanceKey { namespace: String::new(), app: "WEB".into(), id: "n1".into() };
        assert_eq!(instance, Instance::new(key));
    }

    #[test]
    fn each_fault_names_its_field() {
        let port = |number| Some(v1::Port { number, enabled: true });
        let named = |number| v1::NamedPort { name: "grpc".into(), number, protocol: String::new() };
        let before_epoch = prost_types::Timestamp { seconds: -1, nanos: 0 };
        let negative = prost_types::Duration { seconds: -1, nanos: 0 };
        let lease = v1::Lease { duration: Some(negative), ..v1::Lease::default() };
        let table = [
            ("key", v1::Instance { key: None, ..wire() }),
            ("status", v1::Instance { status: 6, ..wire() }),
            ("port.number", v1::Instance { port: port(65_536), ..wire() }),
            ("secure_port.number", v1::Instance { secure_port: port(u32::MAX), ..wire() }),
            ("ports[1].number", v1::Instance { ports: vec![named(1), named(70_000)], ..wire() }),
            ("lease.duration", v1::Instance { lease: Some(lease), ..wire() }),
            ("last_dirty_time", v1::Instance { last_dirty_time: Some(before_epoch), ..wire() }),
        ];
        for (field, broken) in table {
            assert_eq!(Instance::try_from(broken).unwrap_err().field, field);
        }
    }

    #[test]
    fn output_only_fields_are_ignored_whatever_they_hold() {
        let odd = v1::Instance {
            version: Some(v1::Version { owner: 7, ..v1::Version::default() }),
            reported_status: 99,
            status_override: -1,
            drain: Some(v1::DrainPlan::default()),
            last_updated_time: Some(prost_types::Timestamp { seconds: -5, nanos: -5 }),
            ..wire()
        };
        assert_eq!(Instance::try_from(odd), Instance::try_from(wire()));
    }
}
