//! Changes.

use std::sync::Arc;

use bytes::Bytes;
use heureka_model::{Change, ChangeKind, Registration, RemovalReason};
use prost::Message as _;

use crate::{served, v1};

impl From<Change> for v1::Change {
    fn from(change: Change) -> Self {
        let (kind, reason) = kind(change.kind);
        Self {
            r#type: kind.into(),
            key: Some(change.key.into()),
            version: Some(change.version.into()),
            instance: change.registration.map(|shared| Arc::unwrap_or_clone(shared).into()),
            removal_reason: reason.into(),
        }
    }
}

impl served::Change {
    /// A change as a server tells it; `encode` gives the bytes of its instance, if it has one.
    pub fn new(change: Change, encode: impl FnOnce(&Registration) -> Bytes) -> Self {
        let (kind, reason) = kind(change.kind);
        Self {
            r#type: kind.into(),
            key: Some(change.key.into()),
            version: Some(change.version.into()),
            instance: change.registration.as_deref().map(encode).unwrap_or_default(),
            removal_reason: reason.into(),
        }
    }
}

/// The bytes of an instance, as a [`served`] message holds them.
#[must_use]
pub fn encoded(registration: Registration) -> Bytes {
    v1::Instance::from(registration).encode_to_vec().into()
}

fn kind(kind: ChangeKind) -> (v1::ChangeType, v1::RemovalReason) {
    match kind {
        ChangeKind::Added => (v1::ChangeType::Added, v1::RemovalReason::Unspecified),
        ChangeKind::Modified => (v1::ChangeType::Modified, v1::RemovalReason::Unspecified),
        ChangeKind::Removed(reason) => (v1::ChangeType::Removed, reason.into()),
    }
}

/// Why an instance left a set, as a client reads it; nothing for a reason that a later server may have.
#[must_use]
pub fn removal_reason(number: i32) -> Option<RemovalReason> {
    match v1::RemovalReason::try_from(number) {
        Ok(v1::RemovalReason::Cancelled) => Some(RemovalReason::Cancelled),
        Ok(v1::RemovalReason::Expired) => Some(RemovalReason::Expired),
        Ok(v1::RemovalReason::FilteredOut) => Some(RemovalReason::FilteredOut),
        Ok(v1::RemovalReason::Unspecified) | Err(_) => None,
    }
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
    fn what_is_told_depends_on_the_kind() {
        for (kind, number) in [(ChangeKind::Added, 1), (ChangeKind::Modified, 2)] {
            let wire = v1::Change::from(change(kind));
            assert_eq!((wire.r#type, wire.removal_reason), (number, 0));
            assert_eq!(wire.instance.unwrap().version, wire.version);
        }
        for reason in [RemovalReason::Cancelled, RemovalReason::Expired, RemovalReason::FilteredOut] {
            let wire = v1::Change::from(change(ChangeKind::Removed(reason)));
            assert_eq!((wire.r#type, wire.instance), (3, None));
            assert_eq!(removal_reason(wire.removal_reason), Some(reason));
            assert_eq!(wire.key.unwrap().app, "WEB");
        }
    }

    #[test]
    fn an_instance_that_is_encoded_once_reads_as_one_in_its_place() {
        let kinds = [ChangeKind::Added, ChangeKind::Modified, ChangeKind::Removed(RemovalReason::Expired)];
        for change in kinds.map(change) {
            let contract = v1::Change::from(change.clone());
            let served = served::Change::new(change, |registration| encoded(registration.clone()));
            assert_eq!(served.encode_to_vec(), contract.encode_to_vec());
        }
    }

    #[test]
    fn a_reason_of_a_later_server_is_none() {
        assert_eq!(removal_reason(0), None);
        assert_eq!(removal_reason(3), None);
        assert_eq!(removal_reason(-7), None);
    }
}
