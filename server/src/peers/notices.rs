//! Log lines about peers, each kind at most once a minute: what is wrong stays wrong until somebody mends it.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

const EVERY: Duration = Duration::from_mins(1);
/// Kinds remembered; with more, all are told anew.
const KINDS: usize = 256;

/// When each kind of line was last written.
#[derive(Default)]
pub(crate) struct Notices(Mutex<BTreeMap<String, Instant>>);

impl Notices {
    /// Writes a line, unless one of its kind was written within the last minute.
    pub(crate) fn once(&self, kind: &str, write: impl FnOnce()) {
        let now = Instant::now();
        let mut last = self.0.lock();
        if last.get(kind).is_some_and(|last| now.duration_since(*last) < EVERY) {
            return;
        }
        if last.len() >= KINDS {
            last.clear();
        }
        last.insert(kind.to_owned(), now);
        drop(last);
        write();
    }

    /// The next line of a kind is written whenever it comes: what it told of is over.
    pub(crate) fn over(&self, kind: &str) -> bool {
        self.0.lock().remove(kind).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_line_of_a_kind_is_written_once_a_minute() {
        let notices = Notices::default();
        let count = |kind: &str| {
            let mut written = 0;
            notices.once(kind, || written += 1);
            written
        };
        assert_eq!((count("a"), count("a"), count("b")), (1, 0, 1));
        tokio::time::advance(EVERY).await;
        assert_eq!(count("a"), 1);
        assert!(notices.over("a") && !notices.over("a"));
        assert_eq!(count("a"), 1);
    }
}
