//! What was seen, step by step.

use std::collections::HashSet;

use bytes::Bytes;
use heureka_model::{InstanceKey, Version};
use heureka_proto::v1;
use prost::Message as _;

use crate::Unreadable;
use crate::line;
use crate::wrote::Wrote;

/// One thing that a recording program saw or did.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A Watch call was made. A watcher has one stream at a time: opening another gives up the one before.
    Open {
        /// Server that was called, for people.
        server: String,
        /// What was asked for.
        spec: Box<v1::WatchSpec>,
    },
    /// Bytes of a `WatchResponse` as they arrived.
    Message(Bytes),
    /// The call ended.
    Closed {
        /// Name of the canonical code, in upper case; CANCELLED when the client let go.
        code: String,
    },
    /// A write that the recording program made and saw acknowledged.
    Wrote(Wrote),
    /// From here on the program keeps this key alive no longer, or others write it too: nothing is expected of what
    /// was written before.
    Forgot(InstanceKey),
    /// A page of a list, taken before a watch from its token.
    Listed(Box<Page>),
    /// A page of a list taken while nothing changed, until this watcher hears its next mark.
    Rested(Box<Page>),
    /// The client's own set changed.
    Shows {
        /// Instance.
        key: InstanceKey,
        /// What it holds, or held when a server told that it is gone.
        version: Version,
        /// The instance is there.
        live: bool,
    },
    /// What the client holds by its own account, told right after it took a mark in.
    Held {
        /// Instances.
        count: u64,
        /// Hash of the set.
        hash: u64,
    },
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// What was asked for.
    pub request: v1::ListInstancesRequest,
    /// The answer.
    pub response: v1::ListInstancesResponse,
}

/// One line of a recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Name of the watcher that saw it: a client that takes what it holds from one stream to the next. Empty when
    /// there is only one, and for writes.
    pub watcher: String,
    /// What happened.
    pub what: What,
}

/// What one program, or several in one process, saw of one registry.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    steps: Vec<Step>,
    open: HashSet<String>,
}

/// How much there was to judge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Watch calls.
    pub streams: usize,
    /// Messages of theirs.
    pub messages: usize,
    /// Changes in them.
    pub changes: usize,
    /// Digests of the server that were compared.
    pub digests: usize,
    /// Acknowledged writes.
    pub writes: usize,
}

impl Recording {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads lines as the crate's documentation describes them.
    ///
    /// # Errors
    /// [`Unreadable`] with the number of the line.
    pub fn parse(text: &str) -> Result<Self, Unreadable> {
        let mut recording = Self::new();
        for (index, text) in text.lines().enumerate() {
            let step = line::parse(text).map_err(|fault| fault.at(index + 1))?;
            recording.push(step)?;
        }
        Ok(recording)
    }

    /// The lines that [`Self::parse`] reads.
    #[must_use]
    pub fn to_lines(&self) -> String {
        self.steps.iter().map(|step| line::write(step) + "\n").collect()
    }

    /// Takes a step in.
    ///
    /// # Errors
    /// [`Unreadable`] when something arrives on a stream that was never opened or has ended: then the recording
    /// program is at fault and nothing can be judged.
    pub fn push(&mut self, step: Step) -> Result<(), Unreadable> {
        let known = match &step.what {
            What::Open { .. } => {
                self.open.insert(step.watcher.clone());
                true
            }
            What::Message(_) => self.open.contains(&step.watcher),
            What::Closed { .. } => self.open.remove(&step.watcher),
            _ => true,
        };
        if !known {
            let problem = format!("watcher {:?} has no open stream", step.watcher);
            return Err(Unreadable::new(problem).at(self.steps.len() + 1));
        }
        self.steps.push(step);
        Ok(())
    }

    /// The steps; the first is line 1.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Whether nothing was said that could be judged: no change, and no mark to judge anything by.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.steps.iter().any(|step| matches!(&step.what, What::Message(message) if says_something(message)))
    }
}

/// Whether a message is a change or a mark. One that cannot be read is for the judge to name.
fn says_something(message: &Bytes) -> bool {
    use v1::watch_event::Event;
    let Ok(read) = v1::WatchResponse::decode(message.clone()) else { return true };
    let event = read.event.and_then(|event| event.event);
    matches!(event, Some(Event::Changes(_) | Event::SnapshotEnd(_) | Event::Bookmark(_)))
}
