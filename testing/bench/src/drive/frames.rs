//! The frames of HTTP/2, and the messages of gRPC in the bytes of a stream.

/// Largest frame that either side sends; a server may allow more, none allows less.
pub(super) const LARGEST: usize = 16_384;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RESET: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const GO_AWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;

pub(super) const END_STREAM: u8 = 1;
pub(super) const ACK: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;

/// The bit of a stream's number, or of a window, that means nothing.
const UNUSED_BIT: u32 = 1 << 31;

/// Setting of the window that each stream begins with.
const INITIAL_WINDOW: u16 = 4;

/// A frame as received.
#[derive(Debug, PartialEq)]
pub(super) struct Frame<'a> {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    pub(super) payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The first frame of `bytes` and what follows it, when it is there as a whole.
    pub(super) fn next(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (head, rest) = bytes.split_at_checked(9)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & !UNUSED_BIT;
        let (payload, tail) = rest.split_at_checked(length)?;
        Some((Self { kind: head[3], flags: head[4], stream, payload }, tail))
    }

    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// What a `WINDOW_UPDATE` adds.
    pub(super) fn increment(&self) -> i64 {
        self.payload.first_chunk().map_or(0, |bytes| i64::from(u32::from_be_bytes(*bytes) & !UNUSED_BIT))
    }

    /// The window that `SETTINGS` give each stream, when they name one.
    pub(super) fn initial_window(&self) -> Option<i64> {
        let settings = self.payload.as_chunks::<6>().0.iter();
        let named = settings.filter(|setting| u16::from_be_bytes([setting[0], setting[1]]) == INITIAL_WINDOW);
        named.map(|[_, _, value @ ..]| i64::from(u32::from_be_bytes(*value))).next_back()
    }
}

/// Appends the head of a frame.
pub(super) fn head(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    out.extend_from_slice(&(length as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
}

/// Appends `SETTINGS` with these values.
pub(super) fn settings(out: &mut Vec<u8>, values: &[(u16, u32)]) {
    head(out, values.len() * 6, SETTINGS, 0, 0);
    for (setting, value) in values {
        out.extend_from_slice(&setting.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Appends a `WINDOW_UPDATE` of the whole connection.
pub(super) fn widen(out: &mut Vec<u8>, by: u32) {
    head(out, 4, WINDOW_UPDATE, 0, 0);
    out.extend_from_slice(&by.to_be_bytes());
}

/// Appends a header text of fewer than 127 bytes, not compressed.
pub(super) fn text(out: &mut Vec<u8>, text: &str) {
    out.push(text.len() as u8);
    out.extend_from_slice(text.as_bytes());
}

/// Bytes of a message whose beginning is kept: enough for what stands before the field that says what it is.
const KEPT: usize = 128;

/// Finds messages in the bytes of a stream, however they are cut, and keeps only how each begins.
#[derive(Debug)]
pub(super) struct Messages {
    head: [u8; 5],
    beginning: [u8; KEPT],
    /// Bytes of the head and the message that were seen.
    seen: usize,
    /// Length of the message, once its head was seen.
    length: usize,
}

impl Default for Messages {
    fn default() -> Self {
        Self { head: [0; 5], beginning: [0; KEPT], seen: 0, length: 0 }
    }
}

impl Messages {
    /// Takes bytes and tells the beginning of each message that ends in them, and how long it is with its head.
    pub(super) fn feed(&mut self, mut bytes: &[u8], mut told: impl FnMut(&[u8], usize)) {
        while !bytes.is_empty() {
            if self.seen < 5 {
                self.head[self.seen] = bytes[0];
                bytes = &bytes[1..];
                self.seen += 1;
                let [_, length @ ..] = self.head;
                self.length = u32::from_be_bytes(length) as usize;
            } else {
                let (taken, rest) = bytes.split_at(bytes.len().min(self.length + 5 - self.seen));
                self.keep(taken);
                self.seen += taken.len();
                bytes = rest;
            }
            if self.seen >= 5 && self.seen == self.length + 5 {
                told(&self.beginning[..self.length.min(KEPT)], self.seen);
                self.seen = 0;
            }
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = self.beginning.get_mut(self.seen - 5..).unwrap_or_default();
        let kept = room.len().min(bytes.len());
        room[..kept].copy_from_slice(&bytes[..kept]);
    }
}

/// Whether the message that begins so is a `WatchResponse` with changes, and not a mark or the begin of a snapshot:
/// field 1, its length, field 2.
pub(super) fn is_change(beginning: &[u8]) -> bool {
    let Some((0x0a, rest)) = beginning.split_first().map(|(first, rest)| (*first, rest)) else {
        return false;
    };
    let length = rest.iter().take_while(|byte| **byte >= 0x80).count() + 1;
    rest.get(length) == Some(&0x12)
}

/// Subscription and number of the event's field, when the message that begins so is a `WatchManyResponse` with an
/// event: field 1, then field 2, its length, and the field within.
pub(super) fn event_of(beginning: &[u8]) -> Option<(usize, u8)> {
    let (0x08, rest) = beginning.split_first().map(|(first, rest)| (*first, rest))? else { return None };
    let (subscription, rest) = varint(rest)?;
    let (0x12, rest) = rest.split_first().map(|(first, rest)| (*first, rest))? else { return None };
    let (_, rest) = varint(rest)?;
    Some((subscription, rest.first()? >> 3))
}

/// What a field of a message holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field<'a> {
    Number(u64),
    /// A text, bytes or a message, as far as it is there.
    Bytes(&'a [u8]),
}

/// The fields of a message of which perhaps only the beginning is there, with their numbers.
pub(super) fn fields(mut bytes: &[u8]) -> impl Iterator<Item = (usize, Field<'_>)> {
    std::iter::from_fn(move || {
        let (tag, rest) = varint(bytes)?;
        let (field, rest) = match tag & 7 {
            0 => prost::encoding::decode_varint(&mut { rest }).ok().map(|number| {
                let length = rest.iter().take_while(|byte| **byte >= 0x80).count() + 1;
                (Field::Number(number), &rest[length..])
            })?,
            2 => {
                let (length, rest) = varint(rest)?;
                let (value, rest) = rest.split_at(length.min(rest.len()));
                (Field::Bytes(value), rest)
            }
            1 => (Field::Bytes(rest.get(..8)?), &rest[8..]),
            5 => (Field::Bytes(rest.get(..4)?), &rest[4..]),
            _ => return None,
        };
        bytes = rest;
        Some((tag >> 3, field))
    })
}

fn varint(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut bytes = bytes;
    let number = prost::encoding::decode_varint(&mut bytes).ok()?;
    Some((usize::try_from(number).ok()?, bytes))
}

#[cfg(test)]
mod tests {
    use heureka_proto::v1;
    use heureka_proto::v1::watch_event::Event;
    use prost::Message as _;

    use super::*;

    #[test]
    fn a_frame_is_read_as_it_was_written() {
        let mut bytes = Vec::new();
        settings(&mut bytes, &[(2, 0), (INITIAL_WINDOW, 70_000)]);
        head(&mut bytes, 3, DATA, END_STREAM, 7);
        bytes.extend_from_slice(b"abcrest");
        let (first, rest) = Frame::next(&bytes).unwrap();
        assert_eq!((first.kind, first.stream, first.initial_window()), (SETTINGS, 0, Some(70_000)));
        let (second, rest) = Frame::next(rest).unwrap();
        assert_eq!(second, Frame { kind: DATA, flags: END_STREAM, stream: 7, payload: b"abc" });
        assert!(second.has(END_STREAM));
        assert_eq!(rest, b"rest");
    }

    #[test]
    fn a_frame_in_part_is_none() {
        let mut bytes = Vec::new();
        head(&mut bytes, 3, DATA, 0, 1);
        bytes.extend_from_slice(b"abc");
        for length in 0..bytes.len() {
            assert_eq!(Frame::next(&bytes[..length]), None);
        }
    }

    #[test]
    fn a_window_update_says_by_how_much() {
        let mut bytes = Vec::new();
        widen(&mut bytes, 5000);
        let (frame, _) = Frame::next(&bytes).unwrap();
        assert_eq!((frame.kind, frame.increment()), (WINDOW_UPDATE, 5000));
        let short = Frame { kind: WINDOW_UPDATE, flags: 0, stream: 0, payload: &[1, 2] };
        assert_eq!(short.increment(), 0);
    }

    #[test]
    fn settings_without_a_window_leave_it() {
        let mut bytes = Vec::new();
        settings(&mut bytes, &[(3, 100)]);
        assert_eq!(Frame::next(&bytes).unwrap().0.initial_window(), None);
    }

    #[test]
    fn messages_are_found_however_they_are_cut() {
        let long: Vec<u8> = (0..300).map(|n| n as u8).collect();
        let mut bytes = Vec::new();
        for message in [&[][..], &[7], &long] {
            bytes.push(0);
            bytes.extend_from_slice(&(message.len() as u32).to_be_bytes());
            bytes.extend_from_slice(message);
        }
        for size in 1..=bytes.len() {
            let mut messages = Messages::default();
            let mut found = Vec::new();
            for piece in bytes.chunks(size) {
                messages.feed(piece, |beginning, length| found.push((beginning.to_vec(), length)));
            }
            let expected = [(vec![], 5), (vec![7], 6), (long[..KEPT].to_vec(), 305)];
            assert_eq!(found, expected, "in pieces of {size}");
        }
    }

    #[test]
    fn an_event_of_many_names_its_subscription() {
        let of = |subscription_id, event| {
            let event = v1::WatchEvent { event: Some(event) };
            let response = Some(v1::watch_many_response::Response::Event(event));
            let mut bytes = v1::WatchManyResponse { subscription_id, response }.encode_to_vec();
            bytes.truncate(KEPT);
            event_of(&bytes)
        };
        let batch =
            v1::ChangeBatch { changes: vec![v1::Change::default(); 90], revision: 1, commit_time: None };
        assert_eq!(of(7, Event::Changes(batch)), Some((7, 2)));
        assert_eq!(of(1000, Event::SnapshotEnd(v1::SnapshotEnd::default())), Some((1000, 3)));
        let response = Some(v1::watch_many_response::Response::Closed(v1::ItemStatus::default()));
        let closed = v1::WatchManyResponse { subscription_id: 7, response };
        assert_eq!((event_of(&closed.encode_to_vec()), event_of(&[])), (None, None));
    }

    #[test]
    fn fields_are_found_until_a_message_is_cut() {
        let begin = v1::SnapshotBegin { mode: 3, ..v1::SnapshotBegin::default() };
        let header = v1::ResponseHeader { node_id: "n".repeat(40), boot: u64::MAX, ..Default::default() };
        let bytes = v1::SnapshotBegin { header: Some(header.clone()), ..begin }.encode_to_vec();
        let header = header.encode_to_vec();
        let found: Vec<_> = fields(&bytes).collect();
        assert_eq!(found, [(1, Field::Bytes(&header[..])), (2, Field::Number(3))]);
        assert_eq!(fields(&bytes[..9]).collect::<Vec<_>>(), [(1, Field::Bytes(&header[..7]))]);
        assert_eq!(fields(&bytes[..bytes.len() - 1]).count(), 1);
        assert_eq!(fields(&[0x0f, 1]).count(), 0);
    }

    #[test]
    fn only_changes_are_changes() {
        let beginning = |event| {
            let message = v1::WatchResponse { event: Some(v1::WatchEvent { event: Some(event) }) };
            let mut bytes = message.encode_to_vec();
            bytes.truncate(KEPT);
            bytes
        };
        let key = v1::InstanceKey { id: "i".repeat(1000), ..v1::InstanceKey::default() };
        let long = v1::Change { key: Some(key), ..v1::Change::default() };
        for changes in [vec![], vec![v1::Change::default()], vec![long]] {
            let batch = v1::ChangeBatch { changes, revision: 1, commit_time: None };
            assert!(is_change(&beginning(Event::Changes(batch))));
        }
        assert!(!is_change(&beginning(Event::Bookmark(v1::Bookmark {
            revision: 9,
            ..v1::Bookmark::default()
        }))));
        assert!(!is_change(&beginning(Event::SnapshotBegin(v1::SnapshotBegin::default()))));
        assert!(!is_change(&[]));
    }
}
