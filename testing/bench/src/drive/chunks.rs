//! The body of an answer that does not say how long it is: chunks, each behind its length.

use std::io;
use std::mem;

/// How far such a body was read.
#[derive(Debug, PartialEq)]
pub(super) enum Chunks {
    /// In the line before a chunk; its length so far, and whether that is over.
    Length(usize, bool),
    /// In a chunk of which so much is missing.
    Data(usize),
    /// Between a chunk and the line after it.
    Behind,
    /// In a line behind the last chunk; whether anything stands in it.
    Trailer(bool),
    Done,
}

impl Chunks {
    /// Before the first chunk.
    pub(super) const BEGINNING: Self = Self::Length(0, false);

    /// Takes the next part of what arrived and gives away what is of the body; whether that was all of it.
    ///
    /// # Errors
    /// What is no chunk, or follows the last one.
    pub(super) fn take(&mut self, mut part: &[u8], body: &mut impl FnMut(&[u8])) -> io::Result<bool> {
        while let [first, others @ ..] = part {
            part = if let Self::Data(missing) = self {
                let (data, rest) = part.split_at(part.len().min(*missing));
                body(data);
                *self = if data.len() == *missing { Self::Behind } else { Self::Data(*missing - data.len()) };
                rest
            } else {
                *self = mem::replace(self, Self::Done).after(*first)?;
                others
            };
        }
        Ok(*self == Self::Done)
    }

    /// Where it stands after a byte that is none of the body.
    fn after(self, byte: u8) -> io::Result<Self> {
        Ok(match (self, byte) {
            (Self::Length(0, true), b'\n') => Self::Trailer(false),
            (Self::Length(length, true), b'\n') => Self::Data(length),
            (Self::Length(length, true), _) => Self::Length(length, true),
            (Self::Length(length, false), b'\r' | b';') => Self::Length(length, true),
            (Self::Length(length, false), digit) => Self::Length(longer(length, digit)?, false),
            (Self::Behind, b'\r') => Self::Behind,
            (Self::Behind, b'\n') => Self::BEGINNING,
            (Self::Trailer(false), b'\n') => Self::Done,
            (Self::Trailer(_), b'\n') => Self::Trailer(false),
            (Self::Trailer(any), b'\r') => Self::Trailer(any),
            (Self::Trailer(_), _) => Self::Trailer(true),
            (Self::Behind | Self::Data(_) | Self::Done, _) => return Err(malformed()),
        })
    }
}

fn longer(length: usize, digit: u8) -> io::Result<usize> {
    let digit = char::from(digit).to_digit(16).ok_or_else(malformed)?;
    let longer = length.checked_mul(16).and_then(|length| length.checked_add(digit as usize));
    longer.ok_or_else(malformed)
}

fn malformed() -> io::Error {
    io::Error::other("an answer has a malformed chunk")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The body of these bytes when so many arrive at a time; nothing when it is not over.
    fn body_of(bytes: &[u8], at_once: usize) -> io::Result<Option<Vec<u8>>> {
        let (mut chunks, mut body, mut is_over) = (Chunks::BEGINNING, Vec::new(), false);
        for part in bytes.chunks(at_once) {
            is_over = chunks.take(part, &mut |data| body.extend_from_slice(data))?;
        }
        Ok(is_over.then_some(body))
    }

    #[test]
    fn chunks_make_one_body_however_they_arrive() {
        let bytes = b"5\r\nhello\r\n1A;name=value\r\n, this is twenty-six bytes\r\n0\r\nDigest: none\r\n\r\n";
        for at_once in 1..=bytes.len() {
            let body = body_of(bytes, at_once).unwrap().unwrap();
            assert_eq!(body, b"hello, this is twenty-six bytes", "{at_once} at a time");
        }
    }

    #[test]
    fn a_body_that_is_cut_is_not_over() {
        let bytes = b"3\r\nabc\r\n0\r\n\r\n";
        for cut in 0..bytes.len() {
            assert_eq!(body_of(&bytes[..cut], 4).unwrap(), None, "{cut} bytes");
        }
        assert_eq!(body_of(bytes, 4).unwrap().unwrap(), b"abc");
    }

    #[test]
    fn what_is_no_chunk_is_refused() {
        for bytes in ["x\r\n", "-1\r\n", "1\r\nab\r\n", "fffffffffffffffff\r\n", "0\r\n\r\nmore"] {
            assert!(body_of(bytes.as_bytes(), 64).is_err(), "{bytes}");
        }
    }
}
