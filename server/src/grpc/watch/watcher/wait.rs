//! What a watcher waits for: changes and reports, tokens that are due, and the end.

use heureka_model::Mono;
use tokio::time::{Instant, sleep};

use super::Watcher;
use super::beside::heard;

impl Watcher {
    /// Until when changes gather, where the client wants that and the first of them has just come.
    pub(super) fn gathers(&mut self, last: u64) -> Option<Mono> {
        let (now, window) = (self.now.mono, self.spec.window);
        if window.is_zero() || !self.at_head || self.has_told_all(last) {
            return None;
        }
        let due = *self.gather_until.get_or_insert_with(|| now.plus(window));
        if now >= due {
            self.gather_until = None;
        }
        self.gather_until
    }

    pub(super) async fn gather(&mut self, due: Mono) {
        // In a box, so that a watcher that tells at once is no larger for it.
        let mut over = Box::pin(sleep(due.min(self.token_due).since(self.now.mono)));
        tokio::select! {
            () = &mut self.left_alone => self.is_left = true,
            () = &mut over => {}
        }
    }

    /// Something happens, or a token is due. The timer stays where it is from one change to the next.
    pub(super) async fn wait(&mut self) {
        if self.timer.is_elapsed() {
            let due = self.token_wanted.since(self.now.mono);
            self.timer.as_mut().reset(Instant::now() + due);
        }
        let mut beside = self.beside.news();
        tokio::select! {
            biased;
            _ = self.news.changed() => {}
            () = &mut self.left_alone => self.is_left = true,
            () = heard(&mut beside), if beside.is_some() => {}
            () = &mut self.timer => {}
        }
    }
}
