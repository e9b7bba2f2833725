//! A snapshot while it is told.

use std::collections::{HashMap, HashSet};

use heureka_model::{InstanceKey, KeyHasher};
use heureka_proto::v1;

use crate::set::Set;

/// A snapshot that is not complete.
#[derive(Debug, Default)]
pub(super) struct Building {
    pub(super) set: Set,
    /// Applications that it tells; nothing when it is all of them, whole.
    pub(super) apps: Option<HashMap<(String, String), Extent>>,
}

/// How much of an application a snapshot tells.
#[derive(Debug)]
pub(super) enum Extent {
    Whole,
    /// These of so many buckets.
    Buckets(usize, HashSet<u32>),
}

impl Building {
    /// Nothing for a part that tells changes only.
    pub(super) fn of(begin: &v1::SnapshotBegin) -> Option<Self> {
        match begin.mode() {
            v1::SnapshotMode::Full => Some(Self::default()),
            v1::SnapshotMode::Diff => Some(Self { set: Set::default(), apps: Some(told(begin)) }),
            _ => None,
        }
    }

    /// Whether the key is gone if it is not told.
    pub(super) fn covers(&self, key: &InstanceKey) -> bool {
        self.apps.as_ref().is_none_or(|apps| {
            let extent = apps.get(&(key.namespace.clone(), key.app.clone()));
            extent.is_some_and(|extent| extent.covers(key))
        })
    }
}

impl Extent {
    fn covers(&self, key: &InstanceKey) -> bool {
        match self {
            Self::Whole => true,
            Self::Buckets(count, told) => {
                told.contains(&(KeyHasher::new(key.as_ref()).bucket(*count) as u32))
            }
        }
    }
}

fn told(begin: &v1::SnapshotBegin) -> HashMap<(String, String), Extent> {
    let whole = |app: &v1::AppDigest| ((app.namespace.clone(), app.app.clone()), Extent::Whole);
    let part = |app: &v1::AppBuckets| {
        // A number that is none of buckets is a fault of the server; the whole is safe, the digest tells the rest.
        let count = app.bucket_count as usize;
        let told = Extent::Buckets(count, app.buckets.iter().copied().collect());
        let extent = if count.is_power_of_two() { told } else { Extent::Whole };
        ((app.namespace.clone(), app.app.clone()), extent)
    };
    begin.apps.iter().map(whole).chain(begin.parts.iter().map(part)).collect()
}
