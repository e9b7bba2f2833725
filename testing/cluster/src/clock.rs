//! The one place that reads the wall clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970, as clients stamp their records.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this file is where time is read")]
pub fn wall_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
