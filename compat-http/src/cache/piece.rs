//! Encoded parts of an answer and the bodies made of them.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::vec;

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};

use super::gzip::{self, Deflated};

/// One part of a document, deflated when the first reader asks for that.
#[derive(Debug)]
pub(crate) struct Piece {
    plain: Bytes,
    deflated: OnceLock<Deflated>,
}

/// A document in pieces, which it shares with the documents before and after it.
#[derive(Debug)]
pub(crate) struct Document {
    pieces: Vec<Arc<Piece>>,
    /// The pieces as one member of gzip, put together when the first reader asks for that.
    gzip: OnceLock<Bytes>,
}

impl Piece {
    pub(crate) fn new(plain: impl Into<Bytes>) -> Arc<Self> {
        Arc::new(Self { plain: plain.into(), deflated: OnceLock::new() })
    }

    /// The part as it is.
    pub(crate) fn plain(&self) -> &Bytes {
        &self.plain
    }

    fn deflated(&self) -> &Deflated {
        self.deflated.get_or_init(|| Deflated::of(&self.plain))
    }

    /// Bytes held.
    fn size(&self) -> usize {
        self.plain.len() + self.deflated.get().map_or(0, |deflated| deflated.bytes.len())
    }
}

impl Document {
    pub(crate) fn new(pieces: Vec<Arc<Piece>>) -> Self {
        Self { pieces, gzip: OnceLock::new() }
    }

    /// Bytes held.
    pub(crate) fn size(&self) -> usize {
        let pieces: usize = self.pieces.iter().map(|piece| piece.size()).sum();
        pieces + self.gzip.get().map_or(0, Bytes::len)
    }

    /// Whether a gzip body needs no more work.
    pub(crate) fn is_deflated(&self) -> bool {
        self.gzip.get().is_some()
    }

    /// Everything as one member of gzip. The first call deflates what is new.
    pub(crate) fn gzip(&self) -> &Bytes {
        self.gzip.get_or_init(|| gzip::member(self.pieces.iter().map(|piece| piece.deflated())))
    }

    /// A body of the whole document, and its length.
    pub(crate) fn body(&self, gzip: bool) -> (Body, u64) {
        let parts: Vec<Bytes> = if gzip {
            vec![self.gzip().clone()]
        } else {
            self.pieces.iter().map(|piece| piece.plain.clone()).collect()
        };
        let length = parts.iter().map(|part| part.len() as u64).sum();
        (Body::new(Joined { parts: parts.into_iter(), left: length }), length)
    }
}

/// A body of known parts.
struct Joined {
    parts: vec::IntoIter<Bytes>,
    left: u64,
}

impl http_body::Body for Joined {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let part = self.parts.next();
        self.left -= part.as_ref().map_or(0, |part| part.len() as u64);
        Poll::Ready(part.map(|part| Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
