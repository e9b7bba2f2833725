//! What instances report beside their records, and which of them are overdue: the volatile lane.
//!
//! Kept apart from the log on purpose: nothing here has a version or a revision, is stored, or outlives the server. The
//! lane is compacted as the log is: what is known of an instance stands in it once, at its last news, so whoever reads
//! slowly is told the newest and nothing else, and no reader needs a queue.

mod board;
mod lane;
mod listeners;
mod overdue;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use heureka_model::{KeyRef, Now, Report, Selectors, Wall};
use parking_lot::Mutex;
use tokio::sync::watch;

use self::board::{Board, Turn};
pub(crate) use self::board::{Found, Life};
pub use self::lane::{Gauges, Lane, LaneWish};
use self::listeners::Listeners;
pub(crate) use self::listeners::Listening;
use crate::leases::Heard;
use crate::record::Record;
use crate::{Refused, Registry};

/// One part in so many of the memory for records may go to reports.
const SHARE: u64 = 16;

/// All that is known beside the records.
pub(crate) struct Readings {
    board: Mutex<Board>,
    /// There was a report; while there was none, nobody looks.
    any: AtomicBool,
    listeners: Arc<Listeners>,
    /// Wakes whoever heralds.
    news: watch::Sender<u64>,
    /// How many readers ask who is overdue.
    asking: Arc<AtomicUsize>,
}

/// A reader who asks who is overdue, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Asking(Arc<AtomicUsize>);

impl Default for Readings {
    fn default() -> Self {
        Self {
            board: Mutex::default(),
            any: AtomicBool::new(false),
            listeners: Arc::default(),
            news: watch::Sender::new(0),
            asking: Arc::default(),
        }
    }
}

impl Registry {
    /// Takes a report of a live instance in: it takes the place of the one before. Readers are told of one in
    /// [`Config::report_interval`](crate::Config::report_interval), the newest by then.
    ///
    /// # Errors
    /// [`Refused::NotFound`]; [`Refused::Invalid`] for names and numbers that no report has; [`Refused::Full`] when
    /// reports take as much room as they may.
    pub fn report(&self, key: KeyRef<'_>, report: Report, now: Now) -> Result<(), Refused> {
        let taken = self.take_report(key, Arc::new(report), now.wall, Heard::Owner, now);
        let counted = match &taken {
            Ok(Turn::Now) => &self.counters.reports_accepted,
            Ok(Turn::Later) => &self.counters.reports_capped,
            Err(_) => &self.counters.reports_refused,
        };
        counted.fetch_add(1, Ordering::Relaxed);
        taken.map(|_| ())
    }

    /// Takes in what another server heard that long ago, unless something later is known.
    ///
    /// # Errors
    /// As [`Registry::report`].
    pub(crate) fn report_from_peer(
        &self,
        key: KeyRef<'_>,
        report: Arc<Report>,
        age: Duration,
        now: Now,
    ) -> Result<(), Refused> {
        self.take_report(key, report, now.wall.minus(age), Heard::Peer, now).map(|_| ())
    }

    /// Wakes the readers whom news since the last call concern, and says when there will be more although nobody
    /// reports.
    pub fn herald_readings(&self, now: Now) -> Option<Duration> {
        let mut board = self.readings.board.lock();
        board.tell_due(now.mono);
        let (touched, next) = (board.touched(), board.next_due());
        let seq = board.seq();
        drop(board);
        touched.iter().for_each(|app| self.readings.listeners.hear(app, seq));
        next.map(|due| due.since(now.mono))
    }

    /// Wakes for reports and for what the tick finds overdue.
    #[must_use]
    pub fn readings_news(&self) -> watch::Receiver<u64> {
        self.readings.news.subscribe()
    }

    /// The newest report of a live instance and when it came.
    #[must_use]
    pub fn reported(&self, key: KeyRef<'_>) -> Option<(Arc<Report>, Wall)> {
        if !self.readings.any.load(Ordering::Acquire) {
            return None;
        }
        let slot = self.slot_of(key)?;
        let (_, record) = self.slots.record(slot)?;
        self.reported_by(slot, &record)
    }

    /// Whether an instance of this application reported anything.
    #[must_use]
    pub fn has_reports(&self, namespace: &str, app: &str) -> bool {
        self.readings.any.load(Ordering::Acquire) && self.readings.board.lock().has(namespace, app)
    }

    /// The same as [`Registry::reported`] for what stands in a slot.
    pub(crate) fn reported_by(&self, slot: u32, record: &Record) -> Option<(Arc<Report>, Wall)> {
        if !self.readings.any.load(Ordering::Acquire) || !record.is_live() {
            return None;
        }
        let life = self.life_of(slot, record);
        self.readings.board.lock().report(slot, life)
    }

    /// What tells one life of an instance, and one process that keeps it, from another.
    pub(crate) fn life_of(&self, slot: u32, record: &Record) -> Life {
        let head = record.head();
        let fingerprint = self.slots.lease(slot).fingerprint();
        Life { fingerprint, registered: head.registered, incarnation: head.incarnation }
    }

    /// What is new since `after` of the applications that a selection may touch: at most `max`, in their order, and
    /// where to go on.
    pub(crate) fn news_after(&self, selectors: &Selectors, after: u64, max: usize) -> (Vec<Found>, u64) {
        self.readings.board.lock().after(selectors, after, max)
    }

    /// What is new since `after`, at most `max` of it, and where to go on.
    pub(crate) fn all_news_after(&self, after: u64, max: usize) -> (Vec<Found>, u64) {
        if !self.readings.any.load(Ordering::Acquire) {
            return (Vec::new(), after);
        }
        self.readings.board.lock().all_after(after, max)
    }

    /// What is known of whatever reported last in a slot.
    pub(crate) fn found(&self, slot: u32) -> Option<Found> {
        self.readings.board.lock().found(slot, 0)
    }

    /// Whether there is something new since `after` of the applications that a selection may touch.
    pub(crate) fn has_news_after(&self, selectors: &Selectors, after: u64) -> bool {
        !self.news_after(selectors, after, 1).0.is_empty()
    }

    /// Makes a reader one of those whom news of these applications wake.
    pub(crate) fn listen(&self, selectors: &Selectors) -> Listening {
        Listening::new(&self.readings.listeners, selectors)
    }

    /// For how many instances something is kept, and the bytes it takes.
    #[cfg(test)]
    pub(crate) fn readings_kept(&self) -> (usize, u64) {
        self.readings.board.lock().size()
    }

    /// Whether nobody is woken for readings.
    #[cfg(test)]
    pub(crate) fn nobody_listens(&self) -> bool {
        self.readings.listeners.is_empty()
    }

    fn take_report(
        &self,
        key: KeyRef<'_>,
        report: Arc<Report>,
        at: Wall,
        heard: Heard,
        now: Now,
    ) -> Result<Turn, Refused> {
        report.validate(&self.config.limits)?;
        let slot = self.slot_of(key).ok_or(Refused::NotFound)?;
        let live = self.slots.record(slot).map(|(_, record)| record).filter(Record::is_live);
        let record = live.ok_or(Refused::NotFound)?;
        let life = self.life_of(slot, &record);
        let taken = board::Taken { slot, life, at, heard, report };
        let mut board = self.readings.board.lock();
        let room = self.config.max_bytes / SHARE;
        let turn = board.take(taken, record.app(), room, self.config.report_interval, now.mono)?;
        let seq = board.seq();
        drop(board);
        self.readings.any.store(true, Ordering::Release);
        self.readings.news.send_replace(seq);
        Ok(turn)
    }
}

impl Asking {
    fn new(asking: &Arc<AtomicUsize>) -> Self {
        asking.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(asking))
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
