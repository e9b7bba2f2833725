//! One watcher: which event comes next.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use heureka_model::{Mono, Now, Selectors, SetDigest};
use heureka_proto::convert::wire_duration;
use heureka_proto::served::watch_event::Event;
use heureka_proto::{served, v1};
use heureka_registry::{Start, Subscription};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::batch::{Batch, Waiting};
use super::spec::{Opening, Spec, expired};
use crate::grpc::core::Core;
use crate::grpc::seats::{Watches, count};
use crate::grpc::status::{Fault, Reason};
use crate::grpc::token::Resume;

/// Changes taken from the core at a time.
const CHUNK: usize = 64;
/// Reads of the core after which a message goes out as it is: matches may be rare.
const READS: usize = 16;
/// Spread of the reconnects of all clients of a server that leaves.
const RECONNECT_JITTER: Duration = Duration::from_secs(5);

/// A subscription and how much of it was told.
pub(in crate::grpc) struct Watcher {
    core: Arc<Core>,
    watches: Arc<Watches>,
    spec: Spec,
    subscription: Subscription,
    stage: Stage,
    /// Everything up to here was told.
    told: u64,
    /// Changes that did not fit into the last message.
    left: VecDeque<Waiting>,
    /// The cursor got as far as it could when it was last read.
    at_head: bool,
    /// From here on a token goes out when the client holds everything, so that a digest can go with it.
    token_wanted: Mono,
    /// From here on a token goes out, whatever the client holds.
    token_due: Mono,
    /// Ends a wait when a token is wanted.
    timer: Pin<Box<Sleep>>,
    protecting: bool,
    /// Wakes for changes and for self-preservation.
    heads: watch::Receiver<u64>,
    leaving: CancellationToken,
    /// The same, as something to wait for.
    left_alone: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Last reading of the clock: when the client last took something, while it takes nothing.
    now: Now,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Begin,
    /// Until everything up to this revision was told.
    Initial(u64),
    Live,
    Over,
}

/// What became of an attempt to collect a message.
enum Collected {
    Changes(served::ChangeBatch),
    /// Nothing more to tell at this moment.
    Head,
    /// The share of work is done; there may be more.
    Share,
    /// What was missed cannot be told.
    Lost,
}

type Outcome = Option<Result<Event, Fault>>;

impl Watcher {
    pub(in crate::grpc) fn new(
        core: Arc<Core>,
        spec: Spec,
        leaving: CancellationToken,
        watches: Arc<Watches>,
    ) -> Self {
        let registry = &core.registry;
        let subscription = Subscription::new(registry, spec.selectors.clone(), spec.opening.start);
        count_opening(&watches, spec.opening.mode);
        Self {
            stage: Stage::Begin,
            told: subscription.position(),
            left: VecDeque::new(),
            at_head: false,
            token_wanted: Mono::default(),
            token_due: Mono::default(),
            timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
            protecting: false,
            heads: registry.head_changes(),
            subscription,
            now: core.now(),
            core,
            watches,
            spec,
            left_alone: Box::pin(leaving.clone().cancelled_owned()),
            leaving,
        }
    }

    /// The next event; nothing when the stream is over.
    ///
    /// A client that reads takes one at least once in a bookmark interval, whatever happens. One that was not asked
    /// for during much longer has a client without room.
    pub(super) async fn next(&mut self) -> Outcome {
        if self.is_stalled() && self.stage != Stage::Over {
            return self.stalled();
        }
        while self.stage != Stage::Over {
            if self.leaving.is_cancelled() {
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

    fn begin(&mut self) -> Event {
        let mode = self.spec.opening.mode;
        let revision = self.core.registry.head();
        // A subscription to the future has told its past already.
        let target = if mode == v1::SnapshotMode::None { self.told } else { revision };
        self.stage = Stage::Initial(target);
        self.protecting = self.core.registry.protecting();
        let header = self.core.header(revision, self.now);
        Event::SnapshotBegin(v1::SnapshotBegin { header, mode: mode.into() })
    }

    async fn initial(&mut self, target: u64) -> Outcome {
        if self.left.is_empty() && self.told >= target {
            return self.end().await;
        }
        match self.collect().await {
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
            self.stage = Stage::Initial(u64::MAX);
            tokio::task::yield_now().await;
            return None;
        }
        let once = self.spec.start_mode == v1::StartMode::SnapshotOnly;
        self.stage = if once { Stage::Over } else { Stage::Live };
        let resume_token = self.mark();
        Some(Ok(Event::SnapshotEnd(v1::SnapshotEnd { resume_token, revision: self.told, digest })))
    }

    async fn live(&mut self) -> Outcome {
        if let Some(notice) = self.notice() {
            return Some(Ok(notice));
        }
        let now = self.now.mono;
        if now >= self.token_due {
            return Some(Ok(self.bookmark().await));
        }
        let head = *self.heads.borrow_and_update();
        let collected = if self.has_told_all(head) { Collected::Head } else { self.collect().await };
        match collected {
            Collected::Head if now >= self.token_wanted => self.bookmark_with_digest().await,
            // The cursor may have stopped for a digest before the head: then there is more.
            Collected::Head if self.told < head => None,
            Collected::Head => {
                self.wait().await;
                if self.is_stalled() { self.stalled() } else { None }
            }
            collected => self.collected(collected),
        }
    }

    /// Whether the core would have nothing to add.
    fn has_told_all(&self, head: u64) -> bool {
        self.at_head && self.left.is_empty() && self.told >= head
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
        self.spec.opening = if self.holds_the_set() { Opening::FULL } else { Opening::LIVE };
        let selectors = self.spec.selectors.clone();
        self.subscription = Subscription::new(&self.core.registry, selectors, self.spec.opening.start);
        self.told = self.subscription.position();
        self.left.clear();
        self.at_head = false;
        self.stage = Stage::Begin;
        None
    }

    /// Something happens, or a token is due. The timer stays where it is from one change to the next.
    async fn wait(&mut self) {
        if self.timer.is_elapsed() {
            let due = self.token_wanted.since(self.now.mono);
            self.timer.as_mut().reset(Instant::now() + due);
        }
        tokio::select! {
            biased;
            () = &mut self.left_alone => {}
            _ = self.heads.changed() => {}
            () = &mut self.timer => {}
        }
    }
}

/// Events other than changes.
impl Watcher {
    async fn bookmark_with_digest(&mut self) -> Outcome {
        if self.holds_the_set() && self.digest().await.is_none() {
            return None;
        }
        Some(Ok(self.bookmark().await))
    }

    async fn bookmark(&mut self) -> Event {
        let mut digest = None;
        if self.left.is_empty() {
            self.told = self.subscription.position();
            digest = self.digest().await;
        }
        Event::Bookmark(v1::Bookmark { resume_token: self.mark(), revision: self.told, digest })
    }

    fn notice(&mut self) -> Option<Event> {
        let protecting = self.core.registry.protecting();
        if protecting == std::mem::replace(&mut self.protecting, protecting) {
            return None;
        }
        let (kind, message) = if protecting {
            (v1::NoticeKind::SelfPreservationEntered, "lapsed leases are held back")
        } else {
            (v1::NoticeKind::SelfPreservationExited, "lapsed leases are removed again")
        };
        Some(Event::Notice(v1::Notice { kind: kind.into(), message: message.into() }))
    }

    fn go_away(&mut self) -> Event {
        let resumable = self.stage == Stage::Live || self.spec.opening.mode == v1::SnapshotMode::Resume;
        let resume_token = if resumable { self.token() } else { Bytes::new() };
        self.stage = Stage::Over;
        let (reason, message) = if self.core.drain.is_cancelled() {
            (v1::GoAwayReason::Draining, "the server is leaving")
        } else {
            (v1::GoAwayReason::MaxAge, "the connection reached its age")
        };
        Event::GoAway(v1::GoAway {
            reason: reason.into(),
            reconnect_jitter: Some(wire_duration(RECONNECT_JITTER)),
            resume_token,
            message: message.into(),
        })
    }

    /// The token of this moment; the next ones are due an interval later.
    fn mark(&mut self) -> Bytes {
        let now = self.now.mono;
        self.token_wanted = now.plus(self.spec.interval - self.spec.interval / 10);
        self.token_due = now.plus(self.spec.interval);
        self.timer.as_mut().reset(Instant::now() + self.token_wanted.since(now));
        self.token()
    }

    fn token(&self) -> Bytes {
        let boot = self.core.registry.boot();
        Resume { spec: self.spec.fingerprint, boot, revision: self.told }.encode(self.core.cluster())
    }

    async fn digest(&mut self) -> Option<v1::SetDigest> {
        let selectors = &self.spec.selectors;
        if !self.holds_the_set() {
            return None;
        }
        if selectors.is_by_app() || !self.core.is_long(selectors) {
            return self.subscription.digest(&self.core.registry).map(Into::into);
        }
        // In a box, so that a watcher that waits is no larger for it.
        Box::pin(self.long_digest()).await.map(Into::into)
    }

    /// A digest for which every instance may have to be looked at.
    async fn long_digest(&mut self) -> Option<SetDigest> {
        let registry = self.core.registry.clone();
        let away = Subscription::new(&registry, Selectors::default(), Start::Live);
        let mut subscription = std::mem::replace(&mut self.subscription, away);
        let reading = move || {
            let digest = subscription.digest(&registry);
            (subscription, digest)
        };
        let (subscription, digest) = self.core.aside(reading).await;
        self.subscription = subscription;
        digest
    }

    fn holds_the_set(&self) -> bool {
        self.spec.start_mode != v1::StartMode::LiveOnly
    }
}

/// Changes.
impl Watcher {
    /// The next message. Others get their turn after each reading of the core, which costs time whether or not
    /// anything matches.
    async fn collect(&mut self) -> Collected {
        let mut batch = Batch::new(self.spec.max_batch);
        for _ in 0..READS {
            self.fill(&mut batch);
            let enough = batch.is_full() || self.at_head && !batch.is_empty();
            if enough || !self.left.is_empty() {
                break;
            }
            if !self.refill() {
                return Collected::Lost;
            }
            if self.left.is_empty() && self.at_head {
                break;
            }
            tokio::task::yield_now().await;
        }
        self.fill(&mut batch);
        self.close(batch)
    }

    /// Moves what fits from what is left.
    fn fill(&mut self, batch: &mut Batch) {
        while let Some(change) = self.left.pop_front() {
            let revision = change.revision;
            if let Some(change) = batch.offer(change) {
                self.left.push_front(change);
                return;
            }
            self.told = revision;
        }
    }

    /// Takes the next chunk from the core; false when the cursor is lost.
    fn refill(&mut self) -> bool {
        let registry = &self.core.registry;
        let lost = self.subscription.is_lost(registry);
        let batch = self.subscription.poll(registry, CHUNK, self.now);
        if lost || self.subscription.is_lost(registry) {
            return false;
        }
        self.at_head = batch.at_head;
        let committed = batch.committed;
        self.left.extend(batch.changes.iter().map(|told| Waiting::new(told, committed)));
        true
    }

    fn close(&mut self, batch: Batch) -> Collected {
        if self.left.is_empty() {
            self.told = self.subscription.position();
        }
        if batch.is_empty() {
            return if self.at_head { Collected::Head } else { Collected::Share };
        }
        count(&self.watches.figures().changes, batch.len() as u64);
        Collected::Changes(batch.message())
    }
}

fn count_opening(watches: &Watches, mode: v1::SnapshotMode) {
    let figures = watches.figures();
    let figure = match mode {
        v1::SnapshotMode::Resume => &figures.resumed,
        v1::SnapshotMode::None => &figures.live,
        v1::SnapshotMode::Full | v1::SnapshotMode::Unspecified => &figures.full,
    };
    count(figure, 1);
}
