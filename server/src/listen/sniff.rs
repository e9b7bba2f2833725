//! Telling HTTP/1.1 from HTTP/2 by the first bytes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};

use crate::metrics::Protocol;

/// What an HTTP/2 client with prior knowledge says first.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection whose first bytes were read and are read again.
pub(super) struct Prefixed<S> {
    prefix: Bytes,
    socket: S,
}

/// Reads until the protocol is certain. Nothing when the client ends before that.
/// The caller limits the time.
/// # Errors
/// Those of the socket.
pub(super) async fn sniff<S: AsyncRead + Unpin>(
    mut socket: S,
) -> io::Result<Option<(Protocol, Prefixed<S>)>> {
    let mut first = [0; PREFACE.len()];
    let mut filled = 0;
    loop {
        let read = socket.read(&mut first[filled..]).await?;
        filled += read;
        let said = &first[..filled];
        let protocol = match PREFACE.strip_prefix(said) {
            Some([]) => Protocol::H2,
            Some(_) if read == 0 => return Ok(None),
            Some(_) => continue,
            None => Protocol::H1,
        };
        let prefix = Bytes::copy_from_slice(said);
        return Ok(Some((protocol, Prefixed { prefix, socket })));
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Prefixed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.prefix.is_empty() {
            return Pin::new(&mut self.socket).poll_read(cx, buf);
        }
        let length = self.prefix.len().min(buf.remaining());
        buf.put_slice(&self.prefix[..length]);
        self.prefix.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Prefixed<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.socket).poll_write_vectored(cx, bufs))?;
        Poll::Ready(Ok(written))
    }

    /// Without this, answers shared between connections would be copied for each.
    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn sniffed(sent: &[u8]) -> Option<(Protocol, Vec<u8>)> {
        let (protocol, mut socket) = sniff(sent).await.unwrap()?;
        let mut read = Vec::new();
        socket.read_to_end(&mut read).await.unwrap();
        Some((protocol, read))
    }

    #[tokio::test]
    async fn a_preface_means_h2_and_is_read_again() {
        let sent = [PREFACE, b"rest"].concat();
        assert_eq!(sniffed(&sent).await, Some((Protocol::H2, sent)));
    }

    #[tokio::test]
    async fn anything_else_means_h1_as_soon_as_it_differs() {
        for sent in ["GET / HTTP/1.1\r\n\r\n", "P", "PUT / HTTP/1.1", "PRI * HTTP/2.1\r\n\r\n", "\0"] {
            let expected = if PREFACE.starts_with(sent.as_bytes()) { None } else { Some(Protocol::H1) };
            let found = sniffed(sent.as_bytes()).await;
            assert_eq!(found.as_ref().map(|found| found.0), expected, "{sent:?}");
            if let Some((_, read)) = found {
                assert_eq!(read, sent.as_bytes());
            }
        }
    }

    #[tokio::test]
    async fn silence_is_no_protocol() {
        assert_eq!(sniffed(b"").await, None);
    }
}
