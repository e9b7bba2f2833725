//! What a watcher waits for: changes and reports, tokens that are due, and the end.

use std::future::{Future as _, poll_fn};
use std::task::{Context, Poll};

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
        self.seldom.rouse();
    }

    /// Something happens, or a token is due. The timer stays where it is from one change to the next.
    pub(super) async fn wait(&mut self) {
        if self.timer.is_elapsed() {
            self.set_timer();
        }
        let mut beside = self.beside.news();
        let (timer, left_alone, is_left) = (&mut self.timer, &mut self.left_alone, &mut self.is_left);
        let mut seldom = |context: &mut Context<'_>| {
            *is_left |= left_alone.as_mut().poll(context).is_ready();
            if *is_left { Poll::Ready(()) } else { timer.as_mut().poll(context) }
        };
        tokio::select! {
            biased;
            () = poll_fn(|context| self.seldom.poll(context, &mut seldom)) => {}
            _ = self.news.changed() => {}
            () = heard(&mut beside), if beside.is_some() => {}
        }
    }

    pub(super) fn set_timer(&mut self) {
        let due = self.token_wanted.since(self.now.mono);
        self.timer.as_mut().reset(Instant::now() + due);
        self.seldom.rouse();
    }
}
