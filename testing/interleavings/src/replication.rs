//! Stands for what watchers know of replication.

/// How far a reader knows the writes of one life of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub(crate) boot: u64,
    pub(crate) clock: u64,
}
