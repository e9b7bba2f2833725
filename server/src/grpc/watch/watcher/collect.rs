//! Changes: the next message of them.

use bytes::Bytes;
use heureka_registry::Frame;

use super::{Stage, Watcher};
use crate::grpc::watch::batch::{self, Batch, Waiting};

/// Reads of the core after which a message goes out as it is: matches may be rare.
const READS: usize = 16;

/// What became of an attempt to collect a message.
pub(super) enum Collected {
    Changes(Bytes),
    /// Nothing more to tell at this moment.
    Head,
    /// The share of work is done; there may be more.
    Share,
    /// What was missed cannot be told.
    Lost,
}

/// What became of a reading of the core.
enum Read {
    /// A message that all readers of it share.
    Whole(Bytes),
    /// What was read is left to be told.
    Parts,
    Lost,
}

impl Watcher {
    /// The next message. Others get their turn after each reading of the core, which costs time whether or not
    /// anything matches.
    pub(super) async fn collect(&mut self) -> Collected {
        let core = self.core.clone();
        // Whoever reads a set or is far behind waits for a turn: what happens now comes first.
        let _turn = if self.at_head { None } else { Some(core.turns.take().await) };
        let mut batch = Batch::new(self.spec.max_batch);
        for _ in 0..READS {
            self.fill(&mut batch);
            let enough = batch.is_full() || self.at_head && !batch.is_empty();
            if enough || !self.left.is_empty() {
                break;
            }
            match self.read(batch.is_empty()) {
                Read::Whole(message) => return Collected::Changes(message),
                Read::Parts => {}
                Read::Lost => return Collected::Lost,
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

    /// Takes the next changes from the core, as a message when they are to be one.
    fn read(&mut self, is_begin: bool) -> Read {
        let registry = &self.core.registry;
        let lost = self.subscription.is_lost(registry);
        let read = self.subscription.poll(registry, self.spec.max_batch, self.now);
        if lost || self.subscription.is_lost(registry) {
            return Read::Lost;
        }
        self.at_head = read.at_head;
        if self.stage == Stage::Live {
            self.beside.told(&self.core, &read.frame);
        }
        let whole = is_begin && (read.at_head || read.frame.is_large());
        match whole.then(|| read.frame.encoded(batch::whole)).flatten() {
            Some(message) => self.whole(&read.frame, message),
            None => {
                self.left.extend(read.changes.iter().map(|told| Waiting::new(told, read.committed)));
                Read::Parts
            }
        }
    }

    fn whole(&mut self, frame: &Frame, message: Bytes) -> Read {
        self.told = self.subscription.position();
        self.handed = frame.changes.len();
        Read::Whole(message)
    }

    fn close(&mut self, batch: Batch) -> Collected {
        if self.left.is_empty() {
            self.told = self.subscription.position();
        }
        if batch.is_empty() {
            return if self.at_head { Collected::Head } else { Collected::Share };
        }
        self.handed = batch.len();
        Collected::Changes(batch.message())
    }
}
