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
    use heureka_model::{KeyHasher, KeyRef, Stamp, Version, instance_hash};

    use super::*;

    /// Cells of the rows of the table of vectors, without their quotes.
    fn vectors() -> Vec<Vec<&'static str>> {
        let page = include_str!("../../../docs/watch-contract.md");
        let cells = |row: &'static str| row.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        let rows: Vec<Vec<&str>> = page.lines().filter(|line| line.starts_with("| `")).map(cells).collect();
        rows.into_iter().filter(|row| row.len() == 12).collect()
    }

    #[test]
    fn the_published_vectors_hold() {
        let vectors = vectors();
        assert!(vectors.len() >= 10, "{} vectors are left", vectors.len());
        let mut digest = SetDigest::default();
        for row in vectors {
            let [owner, clock, boot, overlay_clock, overlay_boot] =
                [4, 5, 6, 7, 8].map(|column| row[column].parse().unwrap());
            let overlay = Stamp { clock: overlay_clock, boot: overlay_boot };
            let version = Version { owner, written: Stamp { clock, boot }, overlay };
            let key = KeyRef { namespace: row[1], app: row[2], id: row[3] };
            let hash = instance_hash(key, &version);
            assert_eq!(format!("{hash:016x}"), row[9], "{row:?}");
            assert_eq!(KeyHasher::new(key).bucket(64).to_string(), row[10], "{row:?}");
            digest.add(hash, Status::Up);
        }
        let page = include_str!("../../../docs/watch-contract.md");
        assert!(page.contains(&format!("All of them together: `{:016x}`", digest.hash)));
    }

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
