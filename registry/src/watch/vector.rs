//! Which writes a vector covers.

use heureka_model::Stamp;

use crate::record::Record;
use crate::replication::Position;

/// Whether a vector, sorted by boot, covers a write. What was never written is covered by all.
pub(crate) fn covers(vector: &[Position], stamp: Stamp) -> bool {
    if stamp.clock == 0 {
        return true;
    }
    let known = vector.binary_search_by_key(&stamp.boot, |position| position.boot);
    known.is_ok_and(|at| vector[at].clock >= stamp.clock)
}

/// Whether a vector covers both registers of a record.
pub(super) fn covers_record(vector: &[Position], record: &Record) -> bool {
    let version = record.version();
    covers(vector, version.written) && covers(vector, version.overlay)
}
