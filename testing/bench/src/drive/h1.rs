//! HTTP/1.1 for load: one request at a time on a connection that stays.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// What is read at a time.
const ROOM: usize = 64 << 10;

/// A connection.
pub(super) struct Connection {
    socket: TcpStream,
    received: Vec<u8>,
}

/// The head of an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Head {
    pub(super) is_success: bool,
    pub(super) content_type: String,
    pub(super) content_encoding: String,
    /// Bytes of the body. The bench asks for nothing whose length a server does not know beforehand.
    pub(super) length: usize,
}

impl Connection {
    pub(super) async fn open(address: SocketAddr) -> io::Result<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        Ok(Self { socket, received: Vec::with_capacity(ROOM) })
    }

    /// Sends a whole request and takes the whole answer.
    ///
    /// # Errors
    /// A connection that breaks, an answer that does not say how long it is.
    pub(super) async fn call(&mut self, request: &[u8], mut body: impl FnMut(&[u8])) -> io::Result<Head> {
        self.socket.write_all(request).await?;
        self.received.clear();
        let (head, end) = loop {
            self.read().await?;
            if let Some(end) = end_of_head(&self.received) {
                break (Head::parse(&self.received[..end])?, end);
            }
        };
        let mut missing = head.length;
        let mut from = end;
        loop {
            let part = &self.received[from..];
            missing = missing.checked_sub(part.len()).ok_or_else(|| malformed("is longer than it says"))?;
            body(part);
            if missing == 0 {
                return Ok(head);
            }
            self.received.clear();
            from = 0;
            self.read().await?;
        }
    }

    async fn read(&mut self) -> io::Result<()> {
        if self.socket.read_buf(&mut self.received).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }
}

impl Head {
    fn parse(bytes: &[u8]) -> io::Result<Self> {
        let text = std::str::from_utf8(bytes).map_err(|_| malformed("has a head that is no text"))?;
        let mut lines = text.lines();
        let status = lines.next().unwrap_or_default();
        let mut head = Self { is_success: status.starts_with("HTTP/1.1 2"), ..Self::default() };
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            head.take(name, value.trim())?;
        }
        Ok(head)
    }

    fn take(&mut self, name: &str, value: &str) -> io::Result<()> {
        if name.eq_ignore_ascii_case("content-length") {
            self.length = value.parse().map_err(|_| malformed("has a content-length that is no number"))?;
        } else if name.eq_ignore_ascii_case("content-type") {
            value.clone_into(&mut self.content_type);
        } else if name.eq_ignore_ascii_case("content-encoding") {
            value.clone_into(&mut self.content_encoding);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(malformed("does not say how long it is"));
        }
        Ok(())
    }
}

fn end_of_head(received: &[u8]) -> Option<usize> {
    received.windows(4).position(|bytes| bytes == b"\r\n\r\n").map(|place| place + 4)
}

fn malformed(problem: &str) -> io::Error {
    io::Error::other(format!("an answer {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_tells_what_the_body_is() {
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\ncontent-encoding: gzip\r\n\
                      CONTENT-LENGTH: 12\r\n\r\nbody";
        let end = end_of_head(bytes).unwrap();
        assert_eq!(&bytes[end..], b"body");
        let head = Head::parse(&bytes[..end]).unwrap();
        assert_eq!((head.is_success, head.length), (true, 12));
        assert_eq!(
            (head.content_type.as_str(), head.content_encoding.as_str()),
            ("application/json", "gzip")
        );
    }

    #[test]
    fn an_answer_without_a_length_has_no_body() {
        assert_eq!(Head::parse(b"HTTP/1.1 404 Not Found\r\n\r\n").unwrap(), Head::default());
    }

    #[test]
    fn an_answer_of_unknown_length_is_refused() {
        for line in ["transfer-encoding: chunked", "content-length: many"] {
            assert!(Head::parse(format!("HTTP/1.1 200 OK\r\n{line}\r\n\r\n").as_bytes()).is_err());
        }
    }
}
