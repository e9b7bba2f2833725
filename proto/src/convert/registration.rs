//! An instance as the registry delivers it.

use heureka_model::{DrainPlan, Instance, Invalid, Overlay, Registration, StatusOverride, Version};

use super::lease::{lease, lease_times};
use super::status::{status, status_number};
use super::time::{timestamp, wall};
use crate::v1;

impl From<Registration> for v1::Instance {
    fn from(registration: Registration) -> Self {
        let effective = registration.status();
        let override_ = registration.override_status();
        let Registration { instance, overlay, version, times, revision: _ } = registration;
        let reported = instance.status;
        Self {
            lease: Some(lease(instance.lease, &times)),
            status: status_number(Some(effective)),
            version: Some(version.into()),
            reported_status: status_number(Some(reported)),
            status_override: status_number(override_),
            drain: overlay.drain.map(Into::into),
            last_updated_time: Some(timestamp(times.updated)),
            ..instance.into()
        }
    }
}

impl TryFrom<v1::Instance> for Registration {
    type Error = Invalid;

    /// What a client reads. The revision stays 0, since the wire does not carry it, and an override has no end.
    fn try_from(wire: v1::Instance) -> Result<Self, Invalid> {
        let status_override = status("status_override", wire.status_override)?;
        let overlay = Overlay {
            status: status_override.map(|status| StatusOverride { status, until: None }),
            drain: wire.drain.as_ref().map(DrainPlan::try_from).transpose()?,
        };
        let reported = status("reported_status", wire.reported_status)?;
        let version = Version::from(wire.version.unwrap_or_default());
        let times = lease_times(&wire)?;
        let mut instance = Instance::try_from(wire)?;
        instance.status = reported.unwrap_or(instance.status);
        Ok(Self { instance, overlay, version, times, revision: 0 })
    }
}

impl From<DrainPlan> for v1::DrainPlan {
    fn from(plan: DrainPlan) -> Self {
        Self { start_time: plan.start.map(timestamp), deadline: plan.deadline.map(timestamp) }
    }
}

impl TryFrom<&v1::DrainPlan> for DrainPlan {
    type Error = Invalid;

    fn try_from(wire: &v1::DrainPlan) -> Result<Self, Invalid> {
        let start = wire.start_time.as_ref().map(|time| wall("drain.start_time", time)).transpose()?;
        let deadline = wire.deadline.as_ref().map(|time| wall("drain.deadline", time)).transpose()?;
        if let (Some(start), Some(deadline)) = (start, deadline)
            && deadline < start
        {
            return Err(Invalid::malformed("drain.deadline", "lies before drain.start_time"));
        }
        Ok(Self { start, deadline })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use heureka_model::{
        Capacity, DataCenter, InstanceKey, LeaseTerms, LeaseTimes, Legacy, Locality, Metadata, NamedPort,
        Port, Stamp, Status, Urls, Wall, canonical_app,
    };
    use proptest::collection::{btree_map, vec};
    use proptest::option;
    use proptest::prelude::*;
    use prost::Message;

    use super::*;

    fn text() -> impl Strategy<Value = String> {
        "[ -~äé]{0,12}"
    }

    fn status() -> impl Strategy<Value = Status> {
        (0..Status::ALL.len()).prop_map(|index| Status::ALL[index])
    }

    fn time() -> impl Strategy<Value = Wall> {
        (0..253_402_300_799_999_u64).prop_map(Wall)
    }

    fn key() -> impl Strategy<Value = InstanceKey> {
        (text(), text(), text()).prop_map(|(namespace, app, id)| InstanceKey {
            namespace,
            app: canonical_app(&app).into_owned(),
            id,
        })
    }

    fn metadata() -> impl Strategy<Value = Metadata> {
        btree_map(text(), text(), 0..4)
    }

    fn port() -> impl Strategy<Value = Option<Port>> {
        option::of((any::<u16>(), any::<bool>()).prop_map(|(number, enabled)| Port { number, enabled }))
    }

    fn named_port() -> impl Strategy<Value = NamedPort> {
        (text(), any::<u16>(), text()).prop_map(|(name, number, protocol)| NamedPort {
            name,
            number,
            protocol,
        })
    }

    fn legacy() -> impl Strategy<Value = Legacy> {
        let parts = (text(), option::of(any::<i32>()), text(), option::of(any::<bool>()), any::<bool>());
        parts.prop_map(|(sid, country_id, asg_name, is_coordinating_discovery_server, implicit_id)| Legacy {
            sid,
            country_id,
            asg_name,
            is_coordinating_discovery_server,
            implicit_id,
        })
    }

    fn lease_terms() -> impl Strategy<Value = LeaseTerms> {
        (0..100_000_000_u64, 0..100_000_000_u64).prop_map(|(renewal, duration)| {
            LeaseTerms::clamped(Duration::from_millis(renewal), Duration::from_millis(duration))
        })
    }

    prop_compose! {
        fn instance()(
            key in key(),
            status in status(),
            [ip_address, host_name, vip_address, secure_vip_address, app_group] in [text(), text(), text(), text(), text()],
            (port, secure_port) in (port(), port()),
            ports in vec(named_port(), 0..3),
            [region, zone, sub_zone] in [text(), text(), text()],
            (weight, total) in (option::of(any::<u32>()), btree_map(text(), any::<i64>(), 0..3)),
            (metadata, center) in (metadata(), metadata()),
            [home_page, status_page, health_check, secure_health_check] in [text(), text(), text(), text()],
            [name, class_name] in [text(), text()],
            (lease, legacy, last_dirty) in (lease_terms(), legacy(), option::of(time())),
        ) -> Instance {
            Instance {
                key, status, ip_address, host_name, port, secure_port, ports,
                locality: Locality { region, zone, sub_zone },
                capacity: Capacity { weight, total },
                metadata, vip_address, secure_vip_address, app_group,
                urls: Urls { home_page, status_page, health_check, secure_health_check },
                data_center: DataCenter { name, class_name, metadata: center },
                lease, legacy, last_dirty,
            }
        }
    }

    prop_compose! {
        fn registration()(
            instance in instance(),
            override_ in option::of(status()),
            drain in option::of((option::of(0..1000_u64), option::of(1000..2000_u64))),
            [owner, clock, boot, overlay_clock, overlay_boot] in any::<[u64; 5]>(),
            (registered, renewed, service_up, updated) in (time(), time(), option::of(time()), time()),
        ) -> Registration {
            Registration {
                instance,
                overlay: Overlay {
                    status: override_.map(|status| StatusOverride { status, until: None }),
                    drain: drain.map(|(start, deadline)| DrainPlan {
                        start: start.map(Wall),
                        deadline: deadline.map(Wall),
                    }),
                },
                version: Version {
                    owner,
                    written: Stamp { clock, boot },
                    overlay: Stamp { clock: overlay_clock, boot: overlay_boot },
                },
                times: LeaseTimes { registered, renewed, service_up, evicted: None, updated },
                revision: 0,
            }
        }
    }

    proptest! {
        #[test]
        fn an_instance_survives_the_wire(instance in instance()) {
            let bytes = v1::Instance::from(instance.clone()).encode_to_vec();
            let wire = v1::Instance::decode(bytes.as_slice()).unwrap();
            prop_assert_eq!(Instance::try_from(wire), Ok(instance));
        }

        #[test]
        fn a_registration_survives_the_wire(registration in registration()) {
            let bytes = v1::Instance::from(registration.clone()).encode_to_vec();
            let wire = v1::Instance::decode(bytes.as_slice()).unwrap();
            prop_assert_eq!(wire.status, status_number(Some(registration.status())));
            prop_assert_eq!(Registration::try_from(wire), Ok(registration));
        }

        #[test]
        fn equal_instances_have_equal_bytes(instance in instance()) {
            let encode = || v1::Instance::from(instance.clone()).encode_to_vec();
            prop_assert_eq!(encode(), encode());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..256)) {
            if let Ok(wire) = v1::Instance::decode(bytes.as_slice()) {
                let _: Result<Instance, Invalid> = wire.clone().try_into();
                let _: Result<Registration, Invalid> = wire.try_into();
            }
        }

        #[test]
        fn damaged_instances_never_panic(instance in instance(), at in any::<prop::sample::Index>(), flip in 1..=255_u8) {
            let mut bytes = v1::Instance::from(instance).encode_to_vec();
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            if let Ok(wire) = v1::Instance::decode(bytes.as_slice()) {
                let _: Result<Registration, Invalid> = wire.try_into();
            }
        }
    }

    #[test]
    fn a_drain_plan_does_not_end_before_it_starts() {
        let plan = DrainPlan { start: Some(Wall(2000)), deadline: Some(Wall(1000)) };
        assert_eq!(DrainPlan::try_from(&v1::DrainPlan::from(plan)).unwrap_err().field, "drain.deadline");
    }
}
