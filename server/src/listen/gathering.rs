//! What a connection writes, gathered while it speaks.
//!
//! The protocol library writes each message of some size by itself and wants it sent at once. A change that a hundred
//! streams of a connection are told would be a hundred calls of the system and as many packets. Here it waits for the
//! rest of what the connection has to say at this moment.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BytesMut};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that wait at most; it also bounds what a client that does not read costs here.
const MOST: usize = 32 << 10;

/// A socket that sends when it is told to, or when enough has gathered.
pub(super) struct Gathering<S>(Arc<Mutex<Gathered<S>>>);

struct Gathered<S> {
    socket: S,
    waiting: BytesMut,
    /// Sending failed; whoever reads is told.
    broken: Option<io::Error>,
}

impl<S: AsyncWrite + Unpin> Gathering<S> {
    pub(super) fn new(socket: S) -> Self {
        Self(Arc::new(Mutex::new(Gathered { socket, waiting: BytesMut::new(), broken: None })))
    }

    /// Sends what gathered, as far as the socket takes it. False when that failed: the next read tells why.
    pub(super) fn send(&self, context: &mut Context<'_>) -> bool {
        let mut gathered = self.0.lock();
        if let Poll::Ready(Err(error)) = gathered.poll_send(context) {
            gathered.broken = Some(error);
        }
        gathered.broken.is_none()
    }
}

impl<S: AsyncWrite + Unpin> Gathered<S> {
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.waiting.is_empty() {
            let sent = ready!(Pin::new(&mut self.socket).poll_write(context, &self.waiting))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.waiting.advance(sent);
        }
        // Given back, since most connections rest most of the time.
        self.waiting = BytesMut::new();
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_gather(&mut self, context: &mut Context<'_>, parts: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let size = parts.iter().map(|part| part.len()).sum();
        if self.waiting.len() + size > MOST {
            ready!(self.poll_send(context))?;
        }
        if size >= MOST {
            return Pin::new(&mut self.socket).poll_write_vectored(context, parts);
        }
        parts.iter().for_each(|part| self.waiting.extend_from_slice(part));
        Poll::Ready(Ok(size))
    }
}

impl<S> Clone for Gathering<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gathering<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut gathered = self.0.lock();
        match gathered.broken.take() {
            Some(error) => Poll::Ready(Err(error)),
            None => Pin::new(&mut gathered.socket).poll_read(context, room),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gathering<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.lock().poll_gather(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.lock().poll_gather(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Leaves it to [`Gathering::send`].
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut gathered = self.0.lock();
        ready!(gathered.poll_send(context))?;
        Pin::new(&mut gathered.socket).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    fn send<S: AsyncWrite + Unpin>(gathering: &Gathering<S>) -> bool {
        gathering.send(&mut Context::from_waker(std::task::Waker::noop()))
    }

    #[tokio::test]
    async fn what_is_written_waits_until_it_is_to_be_sent() {
        let (near, mut far) = duplex(100);
        let mut gathering = Gathering::new(near);
        for part in [b"one ".as_slice(), b"two ", b"three"] {
            gathering.write_all(part).await.unwrap();
            gathering.flush().await.unwrap();
        }
        assert!(futures_util::FutureExt::now_or_never(far.read_u8()).is_none());
        assert!(send(&gathering));
        let mut read = [0; 13];
        far.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"one two three");
    }

    #[tokio::test]
    async fn no_more_than_the_most_waits_for_a_client_that_does_not_read() {
        let (near, _far) = duplex(100);
        let mut gathering = Gathering::new(near);
        let mut taken = 0;
        while let Some(written) = futures_util::FutureExt::now_or_never(gathering.write(&[7; 1000])) {
            taken += written.unwrap();
            assert!(send(&gathering), "a socket that is full is not broken");
        }
        assert!((MOST - 1000..=MOST + 100).contains(&taken), "{taken}");
    }

    #[tokio::test]
    async fn all_of_it_arrives_in_order_whatever_its_size() {
        let (near, mut far) = duplex(5000);
        let mut gathering = Gathering::new(near);
        let sizes = [1, 40_000, 10, 32_768, 32_767, 3, 100_000];
        let sent: Vec<u8> = (0..sizes.iter().sum::<usize>()).map(|place| (place % 251) as u8).collect();
        let expected = sent.clone();
        let writer = async move {
            let mut left = &sent[..];
            for size in sizes {
                let (part, rest) = left.split_at(size);
                gathering.write_all(part).await.unwrap();
                left = rest;
            }
            gathering.shutdown().await.unwrap();
        };
        let mut read = Vec::new();
        let (_, ended) = tokio::join!(writer, far.read_to_end(&mut read));
        ended.unwrap();
        assert!(read == expected);
    }

    #[tokio::test]
    async fn who_reads_is_told_that_sending_failed() {
        let (near, far) = duplex(100);
        let mut gathering = Gathering::new(near);
        gathering.write_all(b"lost").await.unwrap();
        drop(far);
        assert!(!send(&gathering));
        assert_eq!(gathering.read_u8().await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
