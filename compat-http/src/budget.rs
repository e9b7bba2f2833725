//! Bytes that are held for single readers and not sent yet. Lists are shared out of the cache; other documents are
//! built for whoever asks, and a client that asks and does not read would pile them up.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use crate::error::Error;

/// Answers below this size cost less than the connection that waits for them.
const SMALL: usize = 64 << 10;

/// Bounds what is held. One reader is always served, so that a document larger than the bound can be read.
#[derive(Debug)]
pub(crate) struct Budget {
    max: usize,
    held: AtomicUsize,
}

/// Bytes that count until this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    budget: Arc<Budget>,
    bytes: usize,
}

/// A document that counts for as long as the connection holds any part of it.
struct Content {
    bytes: Vec<u8>,
    _held: Held,
}

impl Budget {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, held: AtomicUsize::new(0) })
    }

    /// Whether anything more may be held.
    ///
    /// # Errors
    /// `Busy` when the budget is spent.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.has_room(self.held.load(Ordering::Relaxed)) { Ok(()) } else { Err(Error::Busy) }
    }

    /// Counts so many bytes as held.
    ///
    /// # Errors
    /// `Busy` when the budget is spent.
    pub(crate) fn hold(self: &Arc<Self>, bytes: usize) -> Result<Held, Error> {
        let more = |held: usize| self.has_room(held).then(|| held.saturating_add(bytes));
        let counted = self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        counted.map_err(|_| Error::Busy)?;
        Ok(Held { budget: Arc::clone(self), bytes })
    }

    /// The document, counted until it is sent.
    ///
    /// # Errors
    /// `Busy` when the budget is spent and the document not small.
    pub(crate) fn keep(self: &Arc<Self>, bytes: Vec<u8>) -> Result<Bytes, Error> {
        if bytes.len() < SMALL {
            return Ok(bytes.into());
        }
        let held = self.hold(bytes.len())?;
        Ok(Bytes::from_owner(Content { bytes, _held: held }))
    }

    fn has_room(&self, held: usize) -> bool {
        held == 0 || held < self.max
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl AsRef<[u8]> for Content {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_count_until_their_last_part_is_gone() {
        let budget = Budget::new(200_000);
        let mut one = budget.keep(vec![b'1'; 100_000]).unwrap();
        let part = one.split_to(10);
        let two = budget.keep(vec![b'2'; 150_000]).unwrap();
        assert!(budget.check().is_err());
        assert!(matches!(budget.keep(vec![b'3'; SMALL]), Err(Error::Busy)));
        drop(one);
        assert!(budget.check().is_err());
        drop(part);
        assert!(budget.check().is_ok());
        drop(two);
        assert_eq!(budget.held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn small_documents_are_never_refused() {
        let budget = Budget::new(0);
        let large = budget.keep(vec![0; SMALL]).unwrap();
        assert!(budget.keep(vec![0; SMALL - 1]).is_ok() && budget.keep(vec![0; SMALL]).is_err());
        drop(large);
        assert!(budget.keep(vec![0; SMALL]).is_ok());
    }
}
