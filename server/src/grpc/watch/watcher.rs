//! One watcher: which event comes next.

mod begin;
mod beside;
mod collect;
mod marks;
mod wait;

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use heureka_model::{Mono, Now};
use heureka_proto::served::watch_event::Event;
use heureka_proto::v1;
use heureka_registry::replication::{Position, Standing};
use heureka_registry::seeded::{Bug, planted};
use heureka_registry::{Place, Reader, Registry, Start, Subscription};
use tokio::sync::watch;
use tokio::time::{Sleep, sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use self::begin::count_opening;
use self::beside::Beside;
use self::collect::Collected;
pub(super) use self::marks::go_away;
use super::batch::Waiting;
use super::opening::{Opening, expired};
use super::spec::Spec;
use crate::doze::Doze;
use crate::grpc::core::Core;
use crate::grpc::seats::{Sitter, Watches, count};
use crate::grpc::status::{Fault, Reason};

/// A subscription and how much of it was told.
pub(in crate::grpc) struct Watcher {
    core: Arc<Core>,
    watches: Arc<Watches>,
    sitter: Arc<Sitter>,
    spec: Spec,
    subscription: Reader,
    beside: Beside,
    stage: Stage,
    /// Everything up to here was told.
    told: u64,
    /// Writes that are part of what was told.
    vector: Vec<Position>,
    /// The same for a later moment, until everything up to there was told.
    ahead: Option<Standing>,
    /// How many changes the last event holds.
    handed: usize,
    /// Changes that did not fit into the last message.
    left: VecDeque<Waiting>,
    /// The cursor got as far as it could when it was last read.
    at_head: bool,
    /// Until here changes gather, since one waits to be told.
    gather_until: Option<Mono>,
    /// From here on a token goes out when the client holds everything, so that a digest can go with it.
    token_wanted: Mono,
    /// From here on a token goes out, whatever the client holds.
    token_due: Mono,
    /// Ends a wait when a token is wanted.
    timer: Pin<Box<Sleep>>,
    protecting: bool,
    /// Wakes for changes that may concern the subscription, and for self-preservation.
    news: watch::Receiver<u64>,
    leaving: CancellationToken,
    /// The same, as something to wait for.
    left_alone: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Before the timer and the end, which are far away and seldom have news.
    seldom: Doze,
    /// The server or the connection is about to end.
    is_left: bool,
    /// Last reading of the clock: when the client last took something, while it takes nothing.
    now: Now,
}

/// What a client was told that is up to date.
pub(super) struct Rest {
    place: Place,
    /// It knows that lapsed leases are held back.
    protecting: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Begin,
    /// Until everything up to this revision was told, or further until a digest is known.
    Initial(Option<u64>),
    Live,
    Over,
}

type Outcome = Option<Result<Event, Fault>>;

impl Watcher {
    pub(in crate::grpc) fn new(
        core: Arc<Core>,
        mut spec: Spec,
        leaving: CancellationToken,
        watches: Arc<Watches>,
        sitter: Arc<Sitter>,
    ) -> Self {
        let registry = &core.registry;
        // Taken out, since the watcher lives long and what begins its stream may be large.
        let start = std::mem::replace(&mut spec.opening.start, Start::Live);
        let vector = std::mem::take(&mut spec.opening.vector);
        let subscription: Reader = match spec.view.take() {
            Some(view) => view.into(),
            None => Subscription::new(registry, spec.selectors.clone(), start).into(),
        };
        let beside = Beside::new(&core, &subscription, spec.readings.take(), &spec.selectors);
        count_opening(&watches, spec.opening.mode);
        Self {
            stage: Stage::Begin,
            told: subscription.position(),
            vector,
            ahead: None,
            handed: 0,
            left: VecDeque::new(),
            at_head: false,
            gather_until: None,
            token_wanted: Mono::default(),
            token_due: Mono::default(),
            timer: Box::pin(sleep(Duration::ZERO)),
            protecting: false,
            news: subscription.changes(),
            subscription,
            beside,
            now: core.now(),
            core,
            watches,
            sitter,
            spec,
            left_alone: Box::pin(leaving.clone().cancelled_owned()),
            leaving,
            seldom: Doze::new(),
            is_left: false,
        }
    }

    /// The next event; nothing when the stream is over.
    ///
    /// A client that reads takes one at least once in a bookmark interval, whatever happens. One that was not asked
    /// for during much longer has a client without room.
    pub(super) async fn next(&mut self) -> Outcome {
        self.handed = 0;
        // Whoever waits hears of it, and asking takes a lock that all of a connection share.
        self.is_left |= !self.at_head && self.leaving.is_cancelled();
        while self.stage != Stage::Over {
            self.sitter.told.store(self.told, Ordering::Relaxed);
            if self.is_stalled() {
                return self.stalled();
            }
            if self.is_left {
                return Some(Ok(self.go_away()));
            }
            let event = match self.stage {
                Stage::Begin => Some(Ok(self.begin())),
                Stage::Initial(target) => self.initial(target).await,
                Stage::Live => self.live().await,
                Stage::Over => None,
            };
            if event.is_some() {
                return event;
            }
        }
        None
    }

    /// Revision up to which everything was told.
    pub(super) fn told(&self) -> u64 {
        self.told
    }

    /// How many changes the last event holds.
    pub(super) fn handed(&self) -> u64 {
        self.handed as u64
    }

    /// Where the client stands once it read the last event, if it was told everything by then.
    pub(super) fn rest(&self) -> Option<Rest> {
        let is_level = self.stage == Stage::Live && self.left.is_empty() && !self.beside.tells();
        let place = self.subscription.place().filter(|_| is_level)?;
        Some(Rest { place, protecting: self.protecting })
    }

    /// Reads the clock; whether the reading before is too long ago.
    fn is_stalled(&mut self) -> bool {
        let last = std::mem::replace(&mut self.now, self.core.now());
        self.now.mono.since(last.mono) > self.core.limits.stall
    }

    fn stalled(&mut self) -> Outcome {
        self.stage = Stage::Over;
        count(&self.watches.figures().stalled, 1);
        Some(Err(Fault::new(Reason::Stalled, "the client took nothing for too long")))
    }

    async fn initial(&mut self, target: Option<u64>) -> Outcome {
        if self.left.is_empty() && target.is_some_and(|target| self.told >= target) {
            return self.end().await;
        }
        if planted(Bug::EndsEarly) && (1..self.core.registry.head()).contains(&self.told) {
            self.stage = Stage::Live;
            let (resume_token, revision) = (self.mark(), self.core.registry.head());
            return Some(Ok(Event::SnapshotEnd(v1::SnapshotEnd { resume_token, revision, digest: None })));
        }
        match self.collect().await {
            // It got as far as all who were woken; what was there at its begin goes further.
            Collected::Head if target.is_some_and(|target| self.told < target) => None,
            Collected::Head => self.end().await,
            collected => self.collected(collected),
        }
    }

    /// Ends the initial part. A digest that is not known yet will be at a revision at which the cursor stops, so
    /// the part goes on until then.
    async fn end(&mut self) -> Outcome {
        self.told = self.subscription.position();
        let digest = self.digest().await;
        if digest.is_none() && self.holds_the_set() {
            self.stage = Stage::Initial(None);
            tokio::task::yield_now().await;
            return None;
        }
        let once = self.spec.start_mode == v1::StartMode::SnapshotOnly;
        self.stage = if once { Stage::Over } else { Stage::Live };
        // What came since is news.
        self.at_head = true;
        let resume_token = self.mark();
        Some(Ok(Event::SnapshotEnd(v1::SnapshotEnd { resume_token, revision: self.told, digest })))
    }

    async fn live(&mut self) -> Outcome {
        if let Some(notice) = self.notice() {
            return Some(Ok(notice));
        }
        let now = self.now.mono;
        if self.core.push.is_paused(now) {
            return self.paused().await;
        }
        if now >= self.token_due {
            return Some(Ok(self.bookmark().await));
        }
        self.beside.heed();
        if self.left.is_empty()
            && let Some(readings) = self.beside.between(&self.core, &self.subscription)
        {
            return Some(Ok(readings));
        }
        let last = *self.news.borrow_and_update();
        if let Some(due) = self.gathers(last) {
            self.gather(due).await;
            return None;
        }
        let collected = if self.has_told_all(last) { Collected::Head } else { self.collect().await };
        match collected {
            Collected::Head if now >= self.token_wanted => self.bookmark_with_digest().await,
            // The cursor may have stopped for a digest before the head: then there is more.
            Collected::Head if self.told < last => None,
            Collected::Head if self.beside.is_pending() => self.readings().await,
            Collected::Head => {
                self.wait().await;
                None
            }
            collected => self.collected(collected),
        }
    }

    async fn readings(&mut self) -> Outcome {
        let readings = self.beside.next(&self.core, &self.subscription).map(Ok);
        if readings.is_none() {
            tokio::task::yield_now().await;
        }
        readings
    }

    /// While changes are held back there are tokens for what was told before.
    async fn paused(&mut self) -> Outcome {
        if self.now.mono >= self.token_wanted {
            let resume_token = self.mark();
            return Some(Ok(Event::Bookmark(v1::Bookmark {
                resume_token,
                revision: self.told,
                digest: None,
            })));
        }
        // What wakes it now is told later.
        self.news.mark_unchanged();
        self.beside.heed();
        self.at_head = false;
        self.wait().await;
        None
    }

    /// Whether the core would have nothing to add.
    fn has_told_all(&self, last: u64) -> bool {
        self.at_head && self.left.is_empty() && self.told >= last && !self.beside.is_undecided()
    }

    fn collected(&mut self, collected: Collected) -> Outcome {
        match collected {
            Collected::Changes(batch) => Some(Ok(Event::Changes(batch))),
            Collected::Head | Collected::Share => None,
            Collected::Lost => self.restart(),
        }
    }

    /// Brings the client up to date as a whole, unless it asked never to be.
    fn restart(&mut self) -> Outcome {
        count(&self.watches.figures().restarted, 1);
        if self.spec.start_mode == v1::StartMode::ResumeOnly {
            self.stage = Stage::Over;
            return Some(Err(expired()));
        }
        self.spec.opening = if self.holds_the_set() { Opening::full() } else { Opening::live() };
        let selectors = self.spec.selectors.clone();
        let start = self.spec.opening.start.clone();
        match &mut self.subscription {
            Reader::View(view) => view.begin_again(),
            Reader::Log(subscription) => {
                *subscription = Subscription::new(&self.core.registry, selectors, start);
            }
        }
        self.beside.begin_again();
        self.told = self.subscription.position();
        self.vector.clear();
        self.left.clear();
        self.at_head = false;
        self.stage = Stage::Begin;
        None
    }
}

impl Rest {
    /// Whether another client was told the same.
    pub(super) fn is_level(&self, other: &Self, registry: &Registry) -> bool {
        self.protecting == other.protecting && self.place.is_level(&other.place, registry)
    }
}
