//! Changes: the next message of them.

use heureka_proto::served;

use super::Watcher;
use crate::grpc::seats::count;
use crate::grpc::watch::batch::{Batch, Waiting};

/// Changes taken from the core at a time.
const CHUNK: usize = 64;
/// Reads of the core after which a message goes out as it is: matches may be rare.
const READS: usize = 16;

/// What became of an attempt to collect a message.
pub(super) enum Collected {
    Changes(served::ChangeBatch),
    /// Nothing more to tell at this moment.
    Head,
    /// The share of work is done; there may be more.
    Share,
    /// What was missed cannot be told.
    Lost,
}

impl Watcher {
    /// The next message. Others get their turn after each reading of the core, which costs time whether or not
    /// anything matches.
    pub(super) async fn collect(&mut self) -> Collected {
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
