//! One stream to one other server: what came and what goes, as a state machine without a socket or a clock.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use heureka_model::{InstanceKey, Mono, Now};

use super::inlet::Inlet;
use super::inspection::Inspection;
use super::replicator::Replicator;
use super::sender::Sender;
use super::{Applied, BUCKETS, FRAME_KEYS, Fault, Frame, GROUPS, Hello, State, Summary};

/// Time between two statements of how this server is.
const STATE_EVERY: Duration = Duration::from_secs(1);

/// Statements in a row whose digest differs from ours before it is looked into: one may be late.
const DIFFERING: u8 = 2;

/// Entries of buckets per frame.
const SUMMARY_ENTRIES: usize = 8192;

/// A stream on which both sides have greeted. Dropping it says that the stream has ended.
pub struct Link {
    shared: Arc<Replicator>,
    id: u64,
    node: String,
    inlet: Inlet,
    sender: Sender,
    inspection: Inspection,
    state_due: Mono,
    told: u64,
    drained: bool,
    /// The peer's digest differed so many times in a row.
    differing: u8,
    /// Pauses of this server before the stream began.
    paused: Duration,
}

impl Link {
    pub(super) fn new(shared: Arc<Replicator>, id: u64, hello: &Hello, now: Now) -> Self {
        shared.registry.greet(hello.boot, &hello.covered, now);
        let boot = shared.registry.boot();
        let applied = hello.applied.iter().find(|applied| applied.boot == boot);
        let sender = Sender::new(applied.map_or(0, |applied| applied.revision), &shared.registry, now);
        let inlet = Inlet::new(hello.boot);
        let paused = shared.registry.paused(now);
        let mut link = Self {
            shared,
            id,
            node: hello.node.clone(),
            inlet,
            sender,
            inspection: Inspection::default(),
            state_due: now.mono,
            told: 0,
            drained: false,
            differing: 0,
            paused,
        };
        link.consider_pull(hello.ready);
        link
    }

    /// Name of the server at the other end.
    #[must_use]
    pub fn peer(&self) -> &str {
        &self.node
    }

    /// Whether another stream to the same server has taken this one's place.
    #[must_use]
    pub fn is_replaced(&self) -> bool {
        self.shared.table().entry(self.id, &self.node).is_none()
    }

    /// Versions kept of an answer to an operator's question.
    #[cfg(test)]
    pub(crate) fn answer_kept(&self) -> usize {
        self.inspection.kept()
    }

    /// Takes in a frame.
    ///
    /// # Errors
    /// A frame that no server sends, or one that came while this server stood still: its signs of life count from
    /// when it was sent, and nobody knows when that was. The stream is to be closed, and another tells everything
    /// anew. What is wrong with a single item of a frame is counted, and the rest of the frame holds.
    pub fn receive(&mut self, frame: Frame, now: Now) -> Result<(), Fault> {
        if self.shared.registry.paused(now) != self.paused {
            return Err(Fault::StoodStill);
        }
        check(&frame)?;
        if let Some(entry) = self.shared.table().entry(self.id, &self.node) {
            entry.heard = now.mono;
        }
        match frame {
            Frame::Hello(_) => return Err(Fault::SecondHello),
            Frame::Pull => self.sender.pull(&self.shared.registry),
            Frame::Records(records) => {
                let complete = records.complete;
                self.inlet.records(&self.shared, self.trusts(), records, now);
                if complete {
                    self.shared.table().pulled(self.id);
                }
            }
            Frame::Renewals(renewals) => self.inlet.renewals(&self.shared, &renewals, now),
            Frame::Want(keys) => self.want(&keys),
            Frame::Probe(keys) => self.sender.answer_probe(&self.shared.registry, &keys, now),
            Frame::State(state) => self.state(state),
            Frame::Groups(groups) => self.groups(&groups),
            Frame::Buckets(buckets) => {
                let digest = self.shared.digest();
                let chosen = digest.unlike(&buckets);
                let entries = digest.entries(&chosen);
                drop(digest);
                self.summarise(entries, true);
            }
            Frame::Summary(summary) => self.summary(&summary),
            Frame::Inspect(groups) => self.inspection.asked(&groups, &self.shared),
            Frame::Versions(versions) => self.inspection.told(versions, &self.shared),
            Frame::Reports(reports) => self.inlet.reports(&self.shared, reports, now),
            Frame::Ack(applied) => self.acknowledged(applied, now),
            Frame::Drain => self.peer_state(|state| state.draining = true),
        }
        Ok(())
    }

    /// The next frame to send, if there is one now. To be asked only when the stream can take one, and until it
    /// gives nothing: after each frame received, each head of the log, and when [`Self::due`] has passed.
    pub fn next(&mut self, now: Now) -> Option<Frame> {
        if let Some(reply) = self.inlet.reply() {
            return Some(reply);
        }
        if !self.drained && self.shared.is_draining() {
            self.drained = true;
            return Some(Frame::Drain);
        }
        if let Some(probe) = self.probe() {
            return Some(probe);
        }
        if now.mono >= self.state_due || self.told != self.shared.news() {
            self.state_due = now.mono.plus(STATE_EVERY);
            self.told = self.shared.news();
            self.sender.tell_position();
            return Some(Frame::State(self.shared.state()));
        }
        if let Some(inspect) = self.inspect() {
            return Some(inspect);
        }
        let frame = self.sender.next(&self.shared.registry, now);
        self.note_sent(now);
        frame
    }

    /// Time after which [`Self::next`] may have something although nothing else happened.
    #[must_use]
    pub fn due(&self, now: Now) -> Duration {
        self.state_due.min(self.sender.due()).since(now.mono)
    }

    fn trusts(&self) -> bool {
        let mut table = self.shared.table();
        let holding = table.entry(self.id, &self.node).is_some_and(|entry| entry.state.protecting);
        drop(table);
        holding || !self.shared.is_ready() || self.shared.registry.protecting()
    }

    fn state(&mut self, state: State) {
        self.consider_pull(state.ready);
        self.sender.relay(self.misses_somebody(&state));
        let theirs = state.root.filter(|_| state.ready && self.shared.is_ready());
        self.peer_state(|known| *known = state);
        if let (Some(theirs), Some(ours)) = (theirs, self.shared.root()) {
            self.compare(theirs, ours);
        }
    }

    /// Looks into digests that differ for longer than a change may be on its way.
    fn compare(&mut self, theirs: u64, ours: u64) {
        self.differing = if theirs == ours { 0 } else { self.differing.saturating_add(1) };
        // One side begins; the other is told what it lacks in the course of it.
        if self.differing >= DIFFERING && self.shared.registry.boot() < self.inlet.boot() {
            self.differing = 0;
            self.shared.counters.repairs.fetch_add(1, Ordering::Relaxed);
            self.inlet.answer(Frame::Groups(self.shared.digest().groups()));
        }
    }

    /// Whether this server has a stream to one that the peer has none to.
    fn misses_somebody(&self, state: &State) -> bool {
        let own = &self.shared.identity().node;
        let table = self.shared.table();
        table.links.keys().any(|node| *node != self.node && node != own && !state.connected.contains(node))
    }

    fn consider_pull(&mut self, peer_ready: bool) {
        if self.shared.should_pull(self.id, peer_ready) {
            self.inlet.answer(Frame::Pull);
        }
    }

    fn groups(&mut self, groups: &[u64]) {
        let buckets = self.shared.digest().buckets_unlike(groups);
        if !buckets.is_empty() {
            self.inlet.answer(Frame::Buckets(buckets));
        }
    }

    fn summary(&mut self, summary: &Summary) {
        let digest = self.shared.digest();
        let unlike = digest.unlike_in(&summary.buckets);
        let own = summary.reply.then(|| digest.entries(&super::digest::Chosen::of(&summary.buckets)));
        drop(digest);
        self.shared.counters.repaired.fetch_add(unlike.len() as u64, Ordering::Relaxed);
        unlike.into_iter().for_each(|slot| self.sender.want(slot));
        self.summarise(own.unwrap_or_default(), false);
    }

    /// Tells what stands in buckets, in as many frames as it takes.
    fn summarise(&mut self, buckets: Vec<super::BucketEntries>, reply: bool) {
        let mut summary = Summary { buckets: Vec::new(), reply };
        let mut entries = 0;
        for bucket in buckets {
            if entries > 0 && entries + bucket.entries.len() > SUMMARY_ENTRIES {
                let full = std::mem::replace(&mut summary, Summary { buckets: Vec::new(), reply });
                self.inlet.answer(Frame::Summary(full));
                entries = 0;
            }
            entries += bucket.entries.len();
            summary.buckets.push(bucket);
        }
        if !summary.buckets.is_empty() {
            self.inlet.answer(Frame::Summary(summary));
        }
    }

    fn want(&mut self, keys: &[InstanceKey]) {
        let registry = &self.shared.registry;
        keys.iter().filter_map(|key| registry.slot_of(key.as_ref())).for_each(|slot| self.sender.want(slot));
    }

    fn inspect(&mut self) -> Option<Frame> {
        if let Some(answer) = self.inspection.next() {
            return Some(answer);
        }
        if self.inspection.is_asking() {
            return None;
        }
        let asker = self.shared.table().entry(self.id, &self.node)?.asker.take()?;
        Some(self.inspection.ask(asker, &self.shared))
    }

    fn probe(&self) -> Option<Frame> {
        let mut table = self.shared.table();
        let probes = &mut table.entry(self.id, &self.node)?.probes;
        let keys: Vec<_> = probes.drain(..probes.len().min(FRAME_KEYS)).collect();
        drop(table);
        self.shared.counters.probed.fetch_add(keys.len() as u64, Ordering::Relaxed);
        (!keys.is_empty()).then_some(Frame::Probe(keys))
    }

    fn acknowledged(&self, applied: Applied, now: Now) {
        if applied.boot != self.shared.registry.boot() || applied.revision > self.shared.registry.head() {
            return;
        }
        if let Some(entry) = self.shared.table().entry(self.id, &self.node) {
            entry.acked = applied.revision.max(entry.acked);
            if entry.acked >= entry.sent {
                entry.level = now.mono;
            }
        }
        self.shared.registry.acks().acknowledge(applied.revision);
    }

    fn note_sent(&self, now: Now) {
        let position = self.sender.position();
        if let Some(entry) = self.shared.table().entry(self.id, &self.node) {
            if entry.acked >= entry.sent {
                entry.level = now.mono;
            }
            entry.sent = position;
        }
    }

    fn peer_state(&self, change: impl FnOnce(&mut State)) {
        if let Some(entry) = self.shared.table().entry(self.id, &self.node) {
            change(&mut entry.state);
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.shared.left(self.id, &self.node);
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("peer", &self.node).field("id", &self.id).finish_non_exhaustive()
    }
}

/// Refuses what no server sends.
fn check(frame: &Frame) -> Result<(), Fault> {
    let (field, count, limit) = match frame {
        Frame::Records(records) => ("records", records.records.len(), FRAME_KEYS),
        Frame::Renewals(renewals) => {
            ("renewals", renewals.beats.len().max(renewals.bindings.len()), FRAME_KEYS)
        }
        Frame::Want(keys) => ("want", keys.len(), FRAME_KEYS),
        Frame::Reports(reports) => ("reports", reports.len(), FRAME_KEYS),
        Frame::Probe(keys) => ("probe", keys.len(), FRAME_KEYS),
        Frame::Groups(groups) | Frame::Inspect(groups) => ("groups", groups.len(), GROUPS),
        Frame::Versions(versions) => {
            ("versions", versions.versions.len().max(versions.groups.len()), FRAME_KEYS)
        }
        Frame::Buckets(buckets) => ("buckets", buckets.len(), BUCKETS),
        Frame::Summary(summary) => ("summary", summary.buckets.len(), BUCKETS),
        Frame::Hello(_) | Frame::Pull | Frame::State(_) | Frame::Ack(_) | Frame::Drain => return Ok(()),
    };
    if count > limit { Err(Fault::TooLong { field, count, limit }) } else { Ok(()) }
}
