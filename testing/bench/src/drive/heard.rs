//! What all watchers together have heard.

use std::cell::{Cell, RefCell};
use std::io;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::watch::Latencies;

/// Longest wait for all watchers.
const PATIENCE: Duration = Duration::from_secs(60);

/// The tally of an audience.
pub(super) struct Heard {
    pub(super) watchers: usize,
    /// Which change is out.
    round: Cell<usize>,
    /// Watchers that have not answered, or have not heard of the change.
    missing: Cell<usize>,
    begun: Cell<Instant>,
    /// Until the last watcher had a change.
    last: RefCell<Latencies>,
    /// Until each had it.
    all: RefCell<Latencies>,
    /// Bytes of frames with data.
    wire: Cell<usize>,
    /// Bytes of messages that are changes, with their heads.
    changes: Cell<usize>,
    fault: RefCell<Option<io::Error>>,
    settled: Notify,
}

/// What was heard for a while.
pub(super) struct Tally {
    pub(super) last: Latencies,
    pub(super) all: Latencies,
    pub(super) wire: usize,
    pub(super) changes: usize,
}

impl Heard {
    pub(super) fn of(watchers: usize) -> Self {
        Self {
            watchers,
            round: Cell::default(),
            missing: Cell::new(watchers),
            begun: Cell::new(Latencies::begin()),
            last: RefCell::default(),
            all: RefCell::default(),
            wire: Cell::default(),
            changes: Cell::default(),
            fault: RefCell::default(),
            settled: Notify::new(),
        }
    }

    /// A change goes out.
    pub(super) fn begin(&self) {
        self.round.set(self.round.get() + 1);
        self.missing.set(self.watchers);
        self.begun.set(Latencies::begin());
    }

    /// Which change is out.
    pub(super) fn round(&self) -> usize {
        self.round.get()
    }

    /// Waits until no watcher is missing.
    pub(super) async fn settled(&self) -> io::Result<()> {
        let settled = async {
            while self.missing.get() > 0 && self.fault.borrow().is_none() {
                self.settled.notified().await;
            }
        };
        if tokio::time::timeout(PATIENCE, settled).await.is_err() {
            return Err(io::Error::other(format!("{} watchers were told nothing", self.missing.get())));
        }
        self.fault.take().map_or(Ok(()), Err)
    }

    /// What was heard since the last call.
    pub(super) fn take(&self) -> Tally {
        Tally {
            last: self.last.take().sorted(),
            all: self.all.take().sorted(),
            wire: self.wire.take(),
            changes: self.changes.take(),
        }
    }

    /// A watcher is among those that are told.
    pub(super) fn opened(&self) {
        self.missing.set(self.missing.get().saturating_sub(1));
        self.settle();
    }

    /// So many watchers have the change that is out.
    pub(super) fn told(&self, watchers: usize) {
        if watchers == 0 {
            return;
        }
        self.all.borrow_mut().end_of(watchers, self.begun.get());
        self.missing.set(self.missing.get() - watchers);
        if self.missing.get() == 0 {
            self.last.borrow_mut().end(self.begun.get());
        }
        self.settle();
    }

    /// A frame with so many bytes of data came.
    pub(super) fn frame(&self, bytes: usize) {
        const HEAD: usize = 9;
        self.wire.set(self.wire.get() + HEAD + bytes);
    }

    /// A message of so many bytes was changes.
    pub(super) fn change(&self, bytes: usize) {
        self.changes.set(self.changes.get() + bytes);
    }

    pub(super) fn fail(&self, error: io::Error) {
        self.fault.borrow_mut().get_or_insert(error);
        self.settled.notify_one();
    }

    fn settle(&self) {
        if self.missing.get() == 0 {
            self.settled.notify_one();
        }
    }
}
