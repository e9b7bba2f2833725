//! Changes.

use std::sync::Arc;

use heureka_model::{Change, ChangeKind, RemovalReason};

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
    use heureka_model::{Instance, InstanceKey, LeaseTimes, Overlay, Registration, Version};

    use prost::Message as _;

    use super::*;
    use crate::served;

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
    fn changes_that_are_encoded_already_read_as_changes_in_their_place() {
        let kinds = [ChangeKind::Added, ChangeKind::Removed(RemovalReason::Expired)];
        let changes = kinds.map(|kind| v1::Change::from(change(kind))).to_vec();
        let encoded = changes.iter().map(|change| change.encode_to_vec().into()).collect();
        let contract = v1::ChangeBatch { changes, revision: 7, commit_time: None };
        let served = served::ChangeBatch { changes: encoded, revision: 7, commit_time: None };
        assert_eq!(served.encode_to_vec(), contract.encode_to_vec());
    }

    #[test]
    fn a_reason_of_a_later_server_is_none() {
        assert_eq!(removal_reason(0), None);
        assert_eq!(removal_reason(3), None);
        assert_eq!(removal_reason(-7), None);
    }
}
