//! This server as a peer of servers of the original's kind.
//!
//! Nothing here opens a connection or reads a clock: [`Outbox`] says what to send and takes the answers, [`repair()`] finds
//! what a list shows to be missed, [`Mirror`] follows a server and says where both differ. Whoever has the network carries both.

mod answers;
mod draft;
mod items;
mod mirror;
mod outbox;
mod repair;

pub use mirror::{Difference, Mirror, Report};
pub use outbox::{Batch, Outbox, OutboxStats, Outcome};
pub use repair::{Copied, copy, repair};

use std::io::Read as _;

use flate2::bufread::GzDecoder;

/// Path of batches, below the address of a server.
pub const BATCH_PATH: &str = "peerreplication/batch/";
/// Path of the whole list.
pub const LIST_PATH: &str = "apps/";
/// Path of what changed of it lately.
pub const DELTA_PATH: &str = "apps/delta";

/// A document of a server of the original's kind that could not be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(String);

impl Unreadable {
    fn of(error: &crate::error::Error) -> Self {
        Self(error.to_string())
    }
}

/// A document that was sent with gzip.
///
/// # Errors
/// When it is no gzip, or longer than `limit` bytes.
pub fn inflate(sent: &[u8], limit: usize) -> Result<Vec<u8>, Unreadable> {
    let bound = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    let mut document = Vec::new();
    let read = GzDecoder::new(sent).take(bound).read_to_end(&mut document);
    read.map_err(|_| Unreadable("the gzip stream is broken".into()))?;
    if document.len() > limit {
        return Err(Unreadable(format!("more than the limit of {limit} bytes")));
    }
    Ok(document)
}
