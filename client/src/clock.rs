//! The one place of the client that reads time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use heureka_model::Wall;

/// The wall clock; before 1970 it reads as 1970. It only helps to order this process's writes among those of its
/// earlier lives, so it may be wrong.
#[expect(clippy::disallowed_methods, reason = "a client has no caller that would pass time down")]
pub(crate) fn wall() -> Wall {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Wall::default().plus(since)
}
