//! A snapshot while it is told.

use std::collections::HashSet;

use heureka_model::InstanceKey;
use heureka_proto::v1;

use crate::set::Set;

/// A snapshot that is not complete.
#[derive(Debug, Default)]
pub(super) struct Building {
    pub(super) set: Set,
    /// Applications that it tells whole; nothing when it is all of them.
    pub(super) apps: Option<HashSet<(String, String)>>,
}

impl Building {
    /// Nothing for a part that tells changes only.
    pub(super) fn of(begin: &v1::SnapshotBegin) -> Option<Self> {
        let name = |app: &v1::AppDigest| (app.namespace.clone(), app.app.clone());
        match begin.mode() {
            v1::SnapshotMode::Full => Some(Self::default()),
            v1::SnapshotMode::Diff => {
                Some(Self { set: Set::default(), apps: Some(begin.apps.iter().map(name).collect()) })
            }
            _ => None,
        }
    }

    /// Whether the key is gone if it is not told.
    pub(super) fn covers(&self, key: &InstanceKey) -> bool {
        let is_named = |apps: &HashSet<_>| apps.contains(&(key.namespace.clone(), key.app.clone()));
        self.apps.as_ref().is_none_or(is_named)
    }
}
