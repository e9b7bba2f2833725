//! HTTP/2 for load: frames by hand, header fields never decoded, windows wide open. A client library would cost
//! more than the server it measures.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const WIDE: u32 = (1 << 31) - 1;
/// Bytes taken after which the connection's window is opened again.
const REFILL: u32 = 1 << 28;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GO_AWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// A connection for calls of one method.
pub(super) struct Connection {
    socket: TcpStream,
    path: String,
    received: Vec<u8>,
    sending: Vec<u8>,
    next: u32,
    taken: u32,
    /// Calls that have their message and wait for the trailers.
    answered: Vec<u32>,
}

impl Connection {
    pub(super) async fn open(address: SocketAddr, path: &str) -> io::Result<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        let mut sending = PREFACE.to_vec();
        frame(&mut sending, 12, SETTINGS, 0, 0);
        for (setting, value) in [(4_u16, WIDE), (2, 0)] {
            sending.extend_from_slice(&setting.to_be_bytes());
            sending.extend_from_slice(&value.to_be_bytes());
        }
        frame(&mut sending, 4, WINDOW_UPDATE, 0, 0);
        sending.extend_from_slice(&(WIDE - 65_535).to_be_bytes());
        let received = Vec::with_capacity(1 << 16);
        Ok(Self { socket, path: path.to_owned(), received, sending, next: 1, taken: 0, answered: Vec::new() })
    }

    /// Queues a call; the stream it runs on.
    pub(super) fn call(&mut self, message: &[u8]) -> u32 {
        let stream = self.next;
        self.next += 2;
        let fields = self.fields(stream == 1);
        frame(&mut self.sending, fields.len(), HEADERS, END_HEADERS, stream);
        self.sending.extend_from_slice(&fields);
        frame(&mut self.sending, message.len() + 5, DATA, END_STREAM, stream);
        self.sending.push(0);
        self.sending.extend_from_slice(&(message.len() as u32).to_be_bytes());
        self.sending.extend_from_slice(message);
        stream
    }

    /// Sends what is queued, then reads once and tells of each call that ended whether it had a
    /// message; an error has none.
    pub(super) async fn turn(&mut self, mut ended: impl FnMut(u32, bool)) -> io::Result<()> {
        if !self.sending.is_empty() {
            self.socket.write_all(&self.sending).await?;
            self.sending.clear();
        }
        if self.socket.read_buf(&mut self.received).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let received = std::mem::take(&mut self.received);
        let mut rest = received.as_slice();
        while let Some((frame, tail)) = Frame::next(rest) {
            self.take(&frame, &mut ended)?;
            rest = tail;
        }
        let used = received.len() - rest.len();
        self.received = received;
        self.received.drain(..used);
        self.refill();
        Ok(())
    }

    fn take(&mut self, received: &Frame<'_>, ended: &mut impl FnMut(u32, bool)) -> io::Result<()> {
        let Frame { kind, flags, stream, payload } = *received;
        match kind {
            DATA => {
                self.taken += payload.len() as u32;
                self.answered.push(stream);
            }
            HEADERS if flags & END_STREAM != 0 => ended(stream, self.is_answered(stream)),
            RESET => ended(stream, false),
            SETTINGS if flags & ACK == 0 => frame(&mut self.sending, 0, SETTINGS, ACK, 0),
            PING if flags & ACK == 0 => {
                frame(&mut self.sending, 8, PING, ACK, 0);
                self.sending.extend_from_slice(payload);
            }
            GO_AWAY => return Err(io::Error::other("the server ended the connection")),
            _ => {}
        }
        Ok(())
    }

    fn is_answered(&mut self, stream: u32) -> bool {
        let place = self.answered.iter().position(|answered| *answered == stream);
        place.map(|place| self.answered.swap_remove(place)).is_some()
    }

    fn refill(&mut self) {
        if self.taken > REFILL {
            frame(&mut self.sending, 4, WINDOW_UPDATE, 0, 0);
            self.sending.extend_from_slice(&self.taken.to_be_bytes());
            self.taken = 0;
        }
    }

    /// Header fields; those of later calls refer to what the first left in the server's table.
    fn fields(&self, first: bool) -> Vec<u8> {
        let mut fields = vec![0x83, 0x86];
        if !first {
            fields.extend_from_slice(&[0xc1, 0xc0, 0xbf, 0xbe]);
            return fields;
        }
        for (name, value) in [(0x44, self.path.as_str()), (0x41, "localhost"), (0x5f, "application/grpc")] {
            fields.push(name);
            text(&mut fields, value);
        }
        fields.push(0x40);
        text(&mut fields, "te");
        text(&mut fields, "trailers");
        fields
    }
}

/// A frame as received.
struct Frame<'a> {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The first frame of `bytes` and what follows it, when it is there as a whole.
    fn next(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (head, rest) = bytes.split_at_checked(9)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & WIDE;
        let (payload, tail) = rest.split_at_checked(length)?;
        Some((Self { kind: head[3], flags: head[4], stream, payload }, tail))
    }
}

fn frame(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    out.extend_from_slice(&(length as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
}

/// A text of fewer than 127 bytes, not compressed.
fn text(out: &mut Vec<u8>, text: &str) {
    out.push(text.len() as u8);
    out.extend_from_slice(text.as_bytes());
}
