//! Events other than changes: tokens with their digests, notices, the goodbye.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use heureka_model::{Selectors, SetDigest};
use heureka_proto::convert::wire_duration;
use heureka_proto::served::watch_event::Event;
use heureka_proto::v1;
use heureka_registry::seeded::{Bug, planted};
use heureka_registry::{Start, Subscription, TakesLong};

use super::{Outcome, Stage, Watcher};
use crate::grpc::core::Core;
use crate::grpc::token::Resume;

/// Spread of the reconnects of all clients of a server that leaves.
const RECONNECT_JITTER: Duration = Duration::from_secs(5);

impl Watcher {
    pub(super) async fn bookmark_with_digest(&mut self) -> Outcome {
        self.told = self.subscription.pass(&self.core.registry);
        if self.holds_the_set() && self.digest().await.is_none() {
            // The cursor goes on to where it is known.
            self.at_head = false;
            tokio::task::yield_now().await;
            return None;
        }
        Some(Ok(self.bookmark().await))
    }

    pub(super) async fn bookmark(&mut self) -> Event {
        let mut digest = None;
        if self.left.is_empty() {
            self.told = self.subscription.pass(&self.core.registry);
            digest = self.digest().await;
        }
        if planted(Bug::MarksAhead) {
            self.told = self.core.registry.head();
        }
        Event::Bookmark(v1::Bookmark { resume_token: self.mark(), revision: self.told, digest })
    }

    pub(super) fn notice(&mut self) -> Option<Event> {
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

    pub(super) fn go_away(&mut self) -> Event {
        let resumable = self.stage == Stage::Live || self.spec.opening.mode == v1::SnapshotMode::Resume;
        let resume_token = if resumable { self.level().token() } else { Bytes::new() };
        self.stage = Stage::Over;
        Event::GoAway(go_away(&self.core, resume_token))
    }

    /// The token of this moment; the next ones are due an interval later.
    pub(super) fn mark(&mut self) -> Bytes {
        let now = self.now.mono;
        self.token_wanted = now.plus(self.spec.interval - self.spec.interval / 10);
        self.token_due = now.plus(self.spec.interval);
        self.set_timer();
        self.level().token()
    }

    /// Brings what is known of others' writes to what was told. At no moment does it say more: what is ahead waits
    /// until everything up to there was told.
    fn level(&mut self) -> &Self {
        for _ in 0..2 {
            let ahead = self.ahead.get_or_insert_with(|| self.core.registry.standing());
            if ahead.revision > self.told {
                break;
            }
            self.vector = std::mem::take(&mut ahead.vector);
            self.ahead = None;
        }
        self
    }

    pub(super) fn token(&self) -> Bytes {
        let boot = self.core.registry.boot();
        let (spec, vector) = (self.spec.fingerprint, self.vector.clone());
        Resume { spec, boot, revision: self.told, vector }.encode(self.core.cluster())
    }

    pub(super) async fn digest(&mut self) -> Option<v1::SetDigest> {
        let selectors = &self.spec.selectors;
        if !self.holds_the_set() {
            return None;
        }
        let digest = match self.subscription.digest_at_hand(&self.core.registry) {
            Ok(digest) => digest,
            Err(TakesLong) if !self.core.is_long(selectors) => self.subscription.digest(&self.core.registry),
            // In a box, so that a watcher that waits is no larger for it.
            Err(TakesLong) => Box::pin(self.long_digest()).await,
        };
        let digest = v1::SetDigest::from(digest?);
        self.sitter.instances.store(digest.instance_count.unsigned_abs(), Ordering::Relaxed);
        Some(digest)
    }

    /// A digest for which every instance may have to be looked at.
    async fn long_digest(&mut self) -> Option<SetDigest> {
        let registry = self.core.registry.clone();
        let away = Subscription::new(&registry, Selectors::default(), Start::Live).into();
        let mut subscription = std::mem::replace(&mut self.subscription, away);
        let reading = move || {
            let digest = subscription.digest(&registry);
            (subscription, digest)
        };
        let (subscription, digest) = self.core.aside(reading).await;
        self.subscription = subscription;
        digest
    }

    pub(super) fn holds_the_set(&self) -> bool {
        self.spec.start_mode != v1::StartMode::LiveOnly
    }
}

/// The goodbye of a stream whose server or connection is about to end.
pub(in crate::grpc::watch) fn go_away(core: &Core, resume_token: Bytes) -> v1::GoAway {
    let (reason, message) = if core.drain.is_cancelled() {
        (v1::GoAwayReason::Draining, "the server is leaving")
    } else {
        (v1::GoAwayReason::MaxAge, "the connection reached its age")
    };
    v1::GoAway {
        reason: reason.into(),
        reconnect_jitter: Some(wire_duration(RECONNECT_JITTER)),
        resume_token,
        message: message.into(),
    }
}
