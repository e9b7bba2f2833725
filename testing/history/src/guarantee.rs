//! What a watcher may rely on, and how it is told that it could not.

use std::fmt;

use heureka_model::{InstanceKey, Version};

/// A guarantee of `docs/watch-contract.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Guarantee {
    /// Events come in the order of the contract, revisions never decrease from batch to batch, and changes of one
    /// key arrive in the order of their versions.
    Ordered,
    /// No key stands twice in a batch, and no version of a key is told twice in one part of a stream.
    Unique,
    /// When a mark covers an acknowledged write, the newest state of its key was told, unless it moved on since.
    Reliable,
    /// A change is told whole and alone: key, version and the content that belongs to that version together, all
    /// of one revision in one message. Equal versions mean equal content.
    Atomic,
    /// A batch holds at most as many changes as asked for and 64 KiB, a larger change alone.
    Bounded,
    /// A token leads to exactly what was missed, or openly to a whole set, never to silence.
    Resumable,
    /// A mark comes after everything up to its revision.
    Bookmarkable,
    /// Nothing outside the selectors is told.
    Filtered,
    /// A server never tells an older version of a key than it told before, on whatever stream.
    Monotone,
    /// What a client shows never goes back to an older version of a key, nor to one that was removed, whichever server
    /// it moves to.
    Steady,
    /// What was told adds up to the digests of the server, to its list at rest, and to what the client holds.
    ViewEquality,
}

/// A guarantee that a recording breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Which.
    pub guarantee: Guarantee,
    /// Watcher that could not rely on it.
    pub watcher: String,
    /// Line of the recording, from 1.
    pub line: usize,
    /// Key concerned, when there is one.
    pub key: Option<InstanceKey>,
    /// What the contract leads to expect.
    pub expected: String,
    /// What the recording shows.
    pub seen: String,
}

impl Guarantee {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Ordered,
        Self::Unique,
        Self::Reliable,
        Self::Atomic,
        Self::Bounded,
        Self::Resumable,
        Self::Bookmarkable,
        Self::Filtered,
        Self::Monotone,
        Self::Steady,
        Self::ViewEquality,
    ];

    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ordered => "ordered",
            Self::Unique => "unique",
            Self::Reliable => "reliable",
            Self::Atomic => "atomic",
            Self::Bounded => "bounded",
            Self::Resumable => "resumable",
            Self::Bookmarkable => "bookmarkable",
            Self::Filtered => "filtered",
            Self::Monotone => "monotone",
            Self::Steady => "steady",
            Self::ViewEquality => "view equality",
        }
    }
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: not {}", self.line, self.guarantee)?;
        if !self.watcher.is_empty() {
            write!(f, ", watcher {}", self.watcher)?;
        }
        if let Some(key) = &self.key {
            write!(f, ", {key}")?;
        }
        write!(f, ": expected {}, saw {}", self.expected, self.seen)
    }
}

/// The five parts of a version in their order.
pub(crate) fn shown(version: &Version) -> String {
    let [owner, clock, boot, overlay_clock, overlay_boot] = version.parts();
    format!("version {owner}.{clock}.{boot:x}.{overlay_clock}.{overlay_boot:x}")
}
