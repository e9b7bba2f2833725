//! HTTP/1.1 for load: one request at a time on a connection that stays.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::chunks::Chunks;

/// What is read at a time.
const ROOM: usize = 64 << 10;

/// Time between two looks at a server that starts, and how often it is looked at.
const LOOK: (Duration, usize) = (Duration::from_millis(20), 3000);

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
    /// Bytes of the body, unless it comes in chunks.
    pub(super) length: usize,
    pub(super) is_chunked: bool,
}

/// What is missing of a body.
enum Missing {
    Bytes(usize),
    Chunks(Chunks),
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
    /// A connection that breaks, an answer that is not as long as it says.
    pub(super) async fn call(&mut self, request: &[u8], mut body: impl FnMut(&[u8])) -> io::Result<Head> {
        self.socket.write_all(request).await?;
        self.received.clear();
        let (head, end) = loop {
            self.read().await?;
            if let Some(end) = end_of_head(&self.received) {
                break (Head::parse(&self.received[..end])?, end);
            }
        };
        let mut missing = Missing::of(&head);
        let mut from = end;
        while !missing.take(&self.received[from..], &mut body)? {
            self.received.clear();
            from = 0;
            self.read().await?;
        }
        Ok(head)
    }

    async fn read(&mut self) -> io::Result<()> {
        if self.socket.read_buf(&mut self.received).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }
}

/// The body of an answer that is a success.
///
/// # Errors
/// A connection that breaks.
pub(super) async fn get(address: SocketAddr, path: &str) -> io::Result<Option<String>> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let mut body = Vec::new();
    let mut connection = Connection::open(address).await?;
    let head = connection.call(request.as_bytes(), |part| body.extend_from_slice(part)).await?;
    Ok(head.is_success.then(|| String::from_utf8_lossy(&body).into_owned()))
}

/// Waits until there is a success to be had at a path.
///
/// # Errors
/// A connection that breaks, a server that never answers so.
pub(super) async fn ready(address: SocketAddr, path: &str) -> io::Result<()> {
    for _ in 0..LOOK.1 {
        if get(address, path).await?.is_some() {
            return Ok(());
        }
        sleep(LOOK.0).await;
    }
    Err(io::Error::other("it is never ready"))
}

impl Missing {
    fn of(head: &Head) -> Self {
        if head.is_chunked { Self::Chunks(Chunks::BEGINNING) } else { Self::Bytes(head.length) }
    }

    /// Takes the next part of what arrived; whether that was the last.
    fn take(&mut self, part: &[u8], body: &mut impl FnMut(&[u8])) -> io::Result<bool> {
        match self {
            Self::Chunks(chunks) => chunks.take(part, body),
            Self::Bytes(missing) => {
                *missing =
                    missing.checked_sub(part.len()).ok_or_else(|| malformed("is longer than it says"))?;
                body(part);
                Ok(*missing == 0)
            }
        }
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
            self.is_chunked = value.eq_ignore_ascii_case("chunked");
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
    fn an_answer_may_come_in_chunks() {
        let head = Head::parse(b"HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
        assert!(head.is_success && head.is_chunked);
        assert!(!Missing::of(&head).take(b"3\r\nabc\r\n", &mut |_| {}).unwrap());
    }

    #[test]
    fn a_length_that_is_no_number_is_refused() {
        assert!(Head::parse(b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n").is_err());
    }

    #[test]
    fn a_body_longer_than_it_says_is_refused() {
        let head = Head { length: 3, ..Head::default() };
        assert!(Missing::of(&head).take(b"abc", &mut |_| {}).unwrap());
        assert!(Missing::of(&head).take(b"abcd", &mut |_| {}).is_err());
    }
}
