//! Fingerprints of sets.

use heureka_model::{SetDigest, Status};

use super::status::status_number;
use crate::v1;

/// The only function there is: wrapping sum of FNV-1a and splitmix64 over key and version.
const ALGORITHM: u32 = 1;

impl From<SetDigest> for v1::SetDigest {
    fn from(digest: SetDigest) -> Self {
        let count = |status: Status| v1::StatusCount {
            status: status_number(Some(status)),
            count: digest.counts.get(status).into(),
        };
        Self {
            algorithm: ALGORITHM,
            instance_count: digest.counts.total().into(),
            hash: digest.hash,
            status_counts: Status::ALL.into_iter().map(count).filter(|entry| entry.count > 0).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_statuses_that_occur_are_counted() {
        let mut digest = SetDigest::default();
        digest.add(5, Status::Up);
        digest.add(6, Status::Up);
        let wire = v1::SetDigest::from(digest);
        assert_eq!((wire.hash, wire.instance_count), (11, 2));
        assert_eq!(wire.status_counts, [v1::StatusCount { status: 1, count: 2 }]);
    }
}
