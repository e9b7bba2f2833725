//! HTTP/1.1 for load: one request at a time on a connection that stays.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A connection.
pub(super) struct Connection {
    socket: TcpStream,
    received: Vec<u8>,
}

impl Connection {
    pub(super) async fn open(address: SocketAddr) -> io::Result<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        Ok(Self { socket, received: Vec::with_capacity(4096) })
    }

    /// Sends a whole request and takes the whole answer; whether it was a success.
    pub(super) async fn call(&mut self, request: &[u8]) -> io::Result<bool> {
        self.socket.write_all(request).await?;
        self.received.clear();
        loop {
            if self.socket.read_buf(&mut self.received).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if is_whole(&self.received) {
                return Ok(self.received.starts_with(b"HTTP/1.1 2"));
            }
        }
    }
}

/// Whether an answer is complete. Those of the bench's requests say how long they are or have no body.
fn is_whole(received: &[u8]) -> bool {
    let Some(end) = received.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { return false };
    received.len() >= end + 4 + length(&received[..end])
}

fn length(head: &[u8]) -> usize {
    let head = String::from_utf8_lossy(head);
    let field = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    };
    head.lines().find_map(field).unwrap_or(0)
}
