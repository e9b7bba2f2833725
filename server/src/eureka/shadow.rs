//! Following one server of Netflix's kind without it knowing.

use std::sync::Arc;
use std::time::Duration;

use heureka_compat_http::peer::{DELTA_PATH, LIST_PATH, Mirror};
use heureka_model::{Clock, Now};
use heureka_registry::Registry;

use super::Copied;
use super::health::Health;
use super::http::{Client, Reply};
use crate::drain::Ending;

/// So many deltas are read between two whole lists.
const DELTAS: u32 = 10;

/// Who follows a server.
pub(super) struct Shadow {
    pub(super) core: Arc<Registry>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) client: Client,
    pub(super) health: Health,
    pub(super) copied: Copied,
    pub(super) interval: Duration,
    pub(super) mirror: Mirror,
    /// Deltas until the next whole list.
    pub(super) deltas_left: u32,
}

impl Shadow {
    /// Follows until the server is asked to end.
    pub(super) async fn run(mut self, ending: Ending) {
        loop {
            self.poll().await;
            tokio::select! {
                () = ending.asked() => return,
                () = tokio::time::sleep(self.interval) => {}
            }
        }
    }

    async fn poll(&mut self) {
        let whole = self.deltas_left == 0;
        let mut outcome = self.read(whole).await;
        if matches!(outcome, Ok(true)) {
            outcome = self.read(true).await;
        }
        let now = self.clock.now();
        match outcome {
            Ok(_) => self.health.succeeded(now),
            Err(reason) => self.health.failed(reason, now),
        }
        self.health.compared(self.mirror.report());
        self.health.measured(Default::default(), 0, self.client.sent);
    }

    /// Reads and takes in; true when a delta was not enough.
    async fn read(&mut self, whole: bool) -> Result<bool, String> {
        let read = self.client.get(if whole { LIST_PATH } else { DELTA_PATH }).await;
        let reply = read.map_err(|error| error.to_string())?;
        let missed = self.take(&reply, whole, self.clock.now())?;
        if whole {
            self.deltas_left = DELTAS;
            self.health.copied();
            self.copied.done();
        } else {
            self.deltas_left -= 1;
        }
        Ok(missed)
    }

    fn take(&mut self, reply: &Reply, whole: bool, now: Now) -> Result<bool, String> {
        if reply.status != 200 {
            return Err(format!("its list is a {}", reply.status));
        }
        let followed = self.mirror.follow(&self.core, &reply.body, whole, now);
        followed.map_err(|error| format!("its list cannot be read: {error}"))
    }
}
