//! Changes.

use std::sync::Arc;

use heureka_model::{Change, ChangeKind, Invalid, Problem, Registration, RemovalReason};

use crate::v1;

impl From<Change> for v1::Change {
    fn from(change: Change) -> Self {
        let (kind, reason) = match change.kind {
            ChangeKind::Added => (v1::ChangeType::Added, v1::RemovalReason::Unspecified),
            ChangeKind::Modified => (v1::ChangeType::Modified, v1::RemovalReason::Unspecified),
            ChangeKind::Removed(reason) => (v1::ChangeType::Removed, reason.into()),
        };
        Self {
            r#type: kind.into(),
            key: Some(change.key.into()),
            version: Some(change.version.into()),
            instance: change.registration.map(|shared| Arc::unwrap_or_clone(shared).into()),
            removal_reason: reason.into(),
        }
    }
}

impl TryFrom<v1::Change> for Change {
    type Error = Invalid;

    /// What a client reads; the revision stays 0, since the wire carries it once per batch.
    fn try_from(wire: v1::Change) -> Result<Self, Invalid> {
        let kind = kind(&wire)?;
        let registration = match kind {
            ChangeKind::Removed(_) => None,
            ChangeKind::Added | ChangeKind::Modified => Some(registration(wire.instance)?),
        };
        Ok(Self {
            kind,
            key: wire.key.ok_or_else(|| Invalid::missing("key"))?.into(),
            version: wire.version.ok_or_else(|| Invalid::missing("version"))?.into(),
            revision: 0,
            registration,
        })
    }
}

fn registration(wire: Option<v1::Instance>) -> Result<Arc<Registration>, Invalid> {
    let wire = wire.ok_or_else(|| Invalid::missing("instance"))?;
    Registration::try_from(wire).map(Arc::new).map_err(|invalid| invalid.within("instance"))
}

fn kind(wire: &v1::Change) -> Result<ChangeKind, Invalid> {
    match v1::ChangeType::try_from(wire.r#type) {
        Ok(v1::ChangeType::Added) => Ok(ChangeKind::Added),
        Ok(v1::ChangeType::Modified) => Ok(ChangeKind::Modified),
        Ok(v1::ChangeType::Removed) => reason(wire.removal_reason).map(ChangeKind::Removed),
        Ok(v1::ChangeType::Unspecified) | Err(_) => Err(unknown_number("type", wire.r#type, 3)),
    }
}

fn reason(number: i32) -> Result<RemovalReason, Invalid> {
    match v1::RemovalReason::try_from(number) {
        Ok(v1::RemovalReason::Cancelled) => Ok(RemovalReason::Cancelled),
        Ok(v1::RemovalReason::Expired) => Ok(RemovalReason::Expired),
        Ok(v1::RemovalReason::FilteredOut) => Ok(RemovalReason::FilteredOut),
        Ok(v1::RemovalReason::Unspecified) | Err(_) => Err(unknown_number("removal_reason", number, 4)),
    }
}

fn unknown_number(field: &str, number: i32, max: i64) -> Invalid {
    Invalid::new(field, Problem::OutOfRange { value: number.into(), min: 1, max })
}

impl From<RemovalReason> for v1::RemovalReason {
    fn from(reason: RemovalReason) -> Self {
        match reason {
            RemovalReason::Cancelled => Self::Cancelled,
            RemovalReason::Expired => Self::Expired,
            RemovalReason::FilteredOut => Self::FilteredOut,
        }
    }
}

#[cfg(test)]
mod tests {
    use heureka_model::{Instance, InstanceKey, LeaseTimes, Overlay, Version};

    use super::*;

    fn change(kind: ChangeKind) -> Change {
        let key = InstanceKey { namespace: String::new(), app: "WEB".into(), id: "n1".into() };
        let version = Version { owner: 3, ..Version::default() };
        let registration = Registration {
            instance: Instance::new(key.clone()),
            overlay: Overlay::default(),
            version,
            times: LeaseTimes::default(),
            revision: 0,
        };
        let removed = matches!(kind, ChangeKind::Removed(_));
        Change { kind, key, version, revision: 0, registration: (!removed).then(|| Arc::new(registration)) }
    }

    #[test]
    fn every_kind_round_trips() {
        for kind in [
            ChangeKind::Added,
            ChangeKind::Modified,
            ChangeKind::Removed(RemovalReason::Cancelled),
            ChangeKind::Removed(RemovalReason::Expired),
            ChangeKind::Removed(RemovalReason::FilteredOut),
        ] {
            assert_eq!(Change::try_from(v1::Change::from(change(kind))), Ok(change(kind)));
        }
    }

    #[test]
    fn each_fault_names_its_field() {
        let added = || v1::Change::from(change(ChangeKind::Added));
        let removed = || v1::Change::from(change(ChangeKind::Removed(RemovalReason::Expired)));
        let broken_port = Some(v1::Port { number: 70_000, enabled: true });
        let broken = v1::Instance { port: broken_port, ..added().instance.unwrap() };
        let table = [
            ("type", v1::Change { r#type: 0, ..added() }),
            ("type", v1::Change { r#type: 9, ..added() }),
            ("removal_reason", v1::Change { removal_reason: 0, ..removed() }),
            ("instance", v1::Change { instance: None, ..added() }),
            ("instance.port.number", v1::Change { instance: Some(broken), ..added() }),
            ("key", v1::Change { key: None, ..added() }),
            ("version", v1::Change { version: None, ..removed() }),
        ];
        for (field, wire) in table {
            assert_eq!(Change::try_from(wire).unwrap_err().field, field);
        }
    }
}
