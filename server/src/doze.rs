//! Asking something only when it has changed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// Keeps away from something those who ask although it did not wake them.
///
/// A task has many reasons to run, and asks all it waits for each time. What costs more than a look at a flag, or lies
/// far away in memory, is asked through this.
pub(crate) struct Doze {
    sleeper: Arc<Sleeper>,
    waker: Waker,
}

struct Sleeper {
    is_awake: AtomicBool,
    reader: AtomicWaker,
}

impl Doze {
    /// Awake, so that it is asked once.
    pub(crate) fn new() -> Self {
        let sleeper = Arc::new(Sleeper { is_awake: AtomicBool::new(true), reader: AtomicWaker::new() });
        Self { waker: sleeper.clone().into(), sleeper }
    }

    /// What it waits for has changed by other hands.
    pub(crate) fn rouse(&self) {
        self.sleeper.is_awake.store(true, Ordering::SeqCst);
    }

    /// Asks, if it was awoken since it was asked last, or answered then.
    pub(crate) fn poll<T>(
        &self,
        context: &Context<'_>,
        ask: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.sleeper.reader.register(context.waker());
        if !self.sleeper.is_awake.swap(false, Ordering::SeqCst) {
            return Poll::Pending;
        }
        let answer = ask(&mut Context::from_waker(&self.waker));
        if answer.is_ready() {
            self.sleeper.is_awake.store(true, Ordering::SeqCst);
        }
        answer
    }
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_awake.store(true, Ordering::SeqCst);
        self.reader.wake();
    }
}
