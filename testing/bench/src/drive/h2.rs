//! HTTP/2 for load: frames by hand, header fields never decoded, windows wide open. A client library would cost
//! more than the server it measures.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use bytes::{BufMut as _, Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::frames::{self, Frame};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// What the protocol gives each window at first.
const FIRST_WINDOW: u32 = 65_535;
const WIDE: u32 = (1 << 31) - 1;
/// Bytes taken after which the connection's window is opened again.
const REFILL: u32 = 1 << 28;

/// The four fields that the first call left in the server's table, its path first.
const REPEATED: [u8; 4] = [0xc1, 0xc0, 0xbf, 0xbe];

/// A connection for calls of one method.
pub(super) struct Connection {
    socket: TcpStream,
    path: String,
    received: Vec<u8>,
    sending: Vec<u8>,
    next: u32,
    taken: u32,
    /// Messages that are not sent as a whole, oldest first.
    held: VecDeque<Held>,
    /// What the server takes of all streams together.
    window: i64,
    /// What the server takes of each stream that begins.
    first_window: i64,
}

/// A message on its way.
struct Held {
    stream: u32,
    rest: Bytes,
    window: i64,
    /// Whether nothing follows on its stream.
    is_last: bool,
}

/// What a server does to a stream.
pub(super) enum Event<'a> {
    /// The answer begins.
    Begun,
    Data(&'a [u8]),
    /// The answer is complete, or there is none.
    Ended,
    Reset,
}

/// A message as it stands in the bytes of a stream.
pub(crate) fn framed(message: &impl prost::Message) -> Bytes {
    let length = message.encoded_len();
    let mut out = BytesMut::with_capacity(length + 5);
    out.put_u8(0);
    out.put_u32(length as u32);
    message.encode(&mut out).expect("invariant: the buffer grows as needed");
    out.freeze()
}

impl Connection {
    /// `room` is for what is read at a time.
    pub(super) async fn open(address: SocketAddr, path: &str, room: usize) -> io::Result<Self> {
        let mut connection = Self::narrow(address, path, room, WIDE).await?;
        frames::widen(&mut connection.sending, WIDE - FIRST_WINDOW);
        Ok(connection)
    }

    /// The same where the server may send so much on each stream, and no more than the protocol gives on all of them,
    /// until this side takes something.
    pub(super) async fn narrow(
        address: SocketAddr,
        path: &str,
        room: usize,
        window: u32,
    ) -> io::Result<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        let mut sending = PREFACE.to_vec();
        frames::settings(&mut sending, &[(4, window), (2, 0)]);
        Ok(Self {
            socket,
            path: path.to_owned(),
            received: Vec::with_capacity(room),
            sending,
            next: 1,
            taken: 0,
            held: VecDeque::new(),
            window: FIRST_WINDOW.into(),
            first_window: FIRST_WINDOW.into(),
        })
    }

    /// Queues a call with a message that [`framed`] made; the stream it runs on.
    pub(super) fn call(&mut self, message: &Bytes) -> u32 {
        self.begin(message, true)
    }

    /// The same of a call to which more could be said.
    pub(super) fn call_on(&mut self, message: &Bytes) -> u32 {
        self.begin(message, false)
    }

    /// Queues a call of another method; not the first on its connection.
    pub(super) fn call_at(&mut self, path: &str, message: &Bytes) -> u32 {
        let mut fields = vec![0x83, 0x86, 0x04];
        frames::text(&mut fields, path);
        fields.extend_from_slice(&REPEATED[1..]);
        self.begin_with(&fields, message, true)
    }

    /// Queues a further message on a stream that more can be said on.
    pub(super) fn say(&mut self, stream: u32, message: &Bytes) {
        self.held.push_back(Held {
            stream,
            rest: message.clone(),
            window: self.first_window,
            is_last: false,
        });
        self.push();
    }

    fn begin(&mut self, message: &Bytes, is_last: bool) -> u32 {
        let fields = self.fields(self.next == 1);
        self.begin_with(&fields, message, is_last)
    }

    fn begin_with(&mut self, fields: &[u8], message: &Bytes, is_last: bool) -> u32 {
        let stream = self.next;
        self.next += 2;
        frames::head(&mut self.sending, fields.len(), frames::HEADERS, frames::END_HEADERS, stream);
        self.sending.extend_from_slice(fields);
        self.held.push_back(Held { stream, rest: message.clone(), window: self.first_window, is_last });
        self.push();
        stream
    }

    /// Sends what is queued, then reads once and tells what became of each stream.
    pub(super) async fn turn(&mut self, mut told: impl FnMut(u32, Event<'_>)) -> io::Result<()> {
        self.flush().await?;
        if self.socket.read_buf(&mut self.received).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let received = std::mem::take(&mut self.received);
        let mut rest = received.as_slice();
        while let Some((frame, tail)) = Frame::next(rest) {
            self.take(&frame, &mut told)?;
            rest = tail;
        }
        let used = received.len() - rest.len();
        self.received = received;
        self.received.drain(..used);
        if self.taken > REFILL {
            frames::widen(&mut self.sending, self.taken);
            self.taken = 0;
        }
        Ok(())
    }

    /// Sends what is queued.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        if !self.sending.is_empty() {
            self.socket.write_all(&self.sending).await?;
            self.sending.clear();
        }
        Ok(())
    }

    /// Waits until the server says something, at first its settings: it has taken the connection from the system's queue,
    /// which drops what is more than it holds.
    pub(super) async fn greeted(&self) -> io::Result<()> {
        self.socket.readable().await
    }

    fn take(&mut self, frame: &Frame<'_>, told: &mut impl FnMut(u32, Event<'_>)) -> io::Result<()> {
        let is_last = frame.has(frames::END_STREAM);
        match frame.kind {
            frames::DATA => {
                self.taken += frame.payload.len() as u32;
                told(frame.stream, Event::Data(frame.payload));
                if is_last {
                    told(frame.stream, Event::Ended);
                }
            }
            frames::HEADERS => told(frame.stream, if is_last { Event::Ended } else { Event::Begun }),
            frames::RESET => told(frame.stream, Event::Reset),
            frames::SETTINGS if !frame.has(frames::ACK) => self.settle(frame),
            frames::PING if !frame.has(frames::ACK) => {
                frames::head(&mut self.sending, 8, frames::PING, frames::ACK, 0);
                self.sending.extend_from_slice(frame.payload);
            }
            frames::GO_AWAY => return Err(io::Error::other("the server ended the connection")),
            frames::WINDOW_UPDATE => self.widen(frame.stream, frame.increment()),
            _ => {}
        }
        Ok(())
    }

    fn settle(&mut self, settings: &Frame<'_>) {
        frames::head(&mut self.sending, 0, frames::SETTINGS, frames::ACK, 0);
        if let Some(window) = settings.initial_window() {
            self.held.iter_mut().for_each(|held| held.window += window - self.first_window);
            self.first_window = window;
            self.push();
        }
    }

    fn widen(&mut self, stream: u32, by: i64) {
        if stream == 0 {
            self.window += by;
        } else if let Some(held) = self.held.iter_mut().find(|held| held.stream == stream) {
            held.window += by;
        }
        self.push();
    }

    /// Queues of the held messages what the windows let through.
    fn push(&mut self) {
        let (sending, window) = (&mut self.sending, &mut self.window);
        self.held.retain_mut(|held| !held.is_sent(sending, window));
    }

    /// Header fields; those of later calls refer to what the first left in the server's table.
    fn fields(&self, first: bool) -> Vec<u8> {
        let mut fields = vec![0x83, 0x86];
        if !first {
            fields.extend_from_slice(&REPEATED);
            return fields;
        }
        for (name, value) in [(0x44, self.path.as_str()), (0x41, "localhost"), (0x5f, "application/grpc")] {
            fields.push(name);
            frames::text(&mut fields, value);
        }
        fields.push(0x40);
        frames::text(&mut fields, "te");
        frames::text(&mut fields, "trailers");
        fields
    }
}

impl Held {
    /// Queues what the windows let through; whether that was the rest.
    fn is_sent(&mut self, sending: &mut Vec<u8>, window: &mut i64) -> bool {
        while !self.rest.is_empty() {
            let open = usize::try_from(self.window.min(*window)).unwrap_or(0);
            let length = self.rest.len().min(open).min(frames::LARGEST);
            if length == 0 {
                return false;
            }
            let piece = self.rest.split_to(length);
            let ends = self.is_last && self.rest.is_empty();
            let flags = if ends { frames::END_STREAM } else { 0 };
            frames::head(sending, length, frames::DATA, flags, self.stream);
            sending.extend_from_slice(&piece);
            self.window -= length as i64;
            *window -= length as i64;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(length: usize, window: i64) -> Held {
        Held { stream: 1, rest: vec![7; length].into(), window, is_last: true }
    }

    fn lengths(mut sent: &[u8]) -> Vec<(usize, bool)> {
        let mut lengths = Vec::new();
        while let Some((frame, rest)) = Frame::next(sent) {
            lengths.push((frame.payload.len(), frame.has(frames::END_STREAM)));
            sent = rest;
        }
        lengths
    }

    #[test]
    fn a_message_goes_out_in_frames_that_any_server_takes() {
        let (mut sent, mut window) = (Vec::new(), 100_000);
        assert!(held(40_000, 100_000).is_sent(&mut sent, &mut window));
        assert_eq!(lengths(&sent), [(16_384, false), (16_384, false), (7232, true)]);
        assert_eq!(window, 60_000);
    }

    #[test]
    fn no_window_is_overrun() {
        for (own, shared) in [(10, 1000), (1000, 10)] {
            let (mut sent, mut window) = (Vec::new(), shared);
            let mut held = held(30, own);
            assert!(!held.is_sent(&mut sent, &mut window));
            assert_eq!(lengths(&sent), [(10, false)]);
            (held.window, window) = (100, 100);
            assert!(held.is_sent(&mut sent, &mut window));
            assert_eq!(lengths(&sent), [(10, false), (20, true)]);
        }
    }
}
