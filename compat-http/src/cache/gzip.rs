//! Gzip from parts: each is deflated on its own and ends on a byte, so parts can be put together in any order
//! behind one header, before one trailer, as one member. Many decoders read no second one.

use bytes::Bytes;
use flate2::{Compress, Compression, Crc, FlushCompress};

/// Magic, deflate, no flags, no time, no hint, unknown system.
pub(crate) const HEADER: &[u8] = &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
/// The last block: one that ends at once.
const LAST_BLOCK: [u8; 2] = [0x03, 0x00];
/// Bytes behind the last part: that block, a checksum and a length.
const TRAILER: usize = LAST_BLOCK.len() + 8;

/// A deflated part and the checksum of its plain text.
#[derive(Debug)]
pub(crate) struct Deflated {
    /// Whole blocks, none of them the last.
    pub(crate) bytes: Bytes,
    crc: Crc,
}

/// Checksum over the parts put together so far.
#[derive(Debug, Default)]
pub(crate) struct Sum(Crc);

/// The parts as one member.
pub(crate) fn member<'a>(parts: impl Iterator<Item = &'a Deflated> + Clone) -> Bytes {
    let length: usize = parts.clone().map(|part| part.bytes.len()).sum();
    let mut member = Vec::with_capacity(HEADER.len() + length + TRAILER);
    member.extend_from_slice(HEADER);
    let mut sum = Sum::default();
    for part in parts {
        member.extend_from_slice(&part.bytes);
        sum.add(part);
    }
    member.extend_from_slice(&sum.trailer());
    member.into()
}

impl Deflated {
    /// Deflates a part.
    pub(crate) fn of(plain: &[u8]) -> Self {
        let mut crc = Crc::new();
        crc.update(plain);
        Self { bytes: deflate(plain).into(), crc }
    }
}

impl Sum {
    /// Counts the next part.
    pub(crate) fn add(&mut self, part: &Deflated) {
        self.0.combine(&part.crc);
    }

    /// What follows the last part.
    pub(crate) fn trailer(&self) -> Bytes {
        let mut trailer = Vec::with_capacity(TRAILER);
        trailer.extend_from_slice(&LAST_BLOCK);
        trailer.extend_from_slice(&self.0.sum().to_le_bytes());
        trailer.extend_from_slice(&self.0.amount().to_le_bytes());
        trailer.into()
    }
}

/// Blocks that refer to nothing before them and end on a byte.
fn deflate(plain: &[u8]) -> Vec<u8> {
    let mut compress = Compress::new(Compression::default(), false);
    let mut out = Vec::with_capacity(plain.len() / 8 + 64);
    let mut consumed = 0;
    loop {
        let before = compress.total_in();
        compress
            .compress_vec(&plain[consumed..], &mut out, FlushCompress::Full)
            .expect("invariant: deflating knows no invalid input");
        consumed += usize::try_from(compress.total_in() - before).unwrap_or(plain.len());
        if consumed == plain.len() && out.len() < out.capacity() {
            return out;
        }
        out.reserve(out.capacity());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use proptest::prelude::*;
    use std::io::Read;

    fn gunzipped(gzip: &[u8]) -> (Vec<u8>, usize) {
        let mut plain = Vec::new();
        let mut decoder = GzDecoder::new(gzip);
        decoder.read_to_end(&mut plain).unwrap();
        (plain, decoder.into_inner().len())
    }

    proptest! {
        #[test]
        fn parts_make_one_member_whatever_they_hold(
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 0..8),
            repeat in 1_usize..60,
        ) {
            let parts: Vec<_> = parts.into_iter().map(|part| part.repeat(repeat)).collect();
            let deflated: Vec<_> = parts.iter().map(|part| Deflated::of(part)).collect();
            let (plain, left) = gunzipped(&member(deflated.iter()));
            prop_assert_eq!(plain, parts.concat());
            prop_assert_eq!(left, 0);
        }
    }
}
