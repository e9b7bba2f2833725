//! Request bodies: bounded as sent and after decompression.

use std::io::Read;

use axum::body::Body;
use bytes::Bytes;
use flate2::bufread::GzDecoder;
use http::HeaderMap;
use http_body::Body as _;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::config::Config;
use crate::error::Error;
use crate::negotiate;

/// What a gzip stream begins with. Some clients announce one and send plain text.
const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];

/// The whole body, decompressed.
///
/// # Errors
/// `TooLarge`, `ContentEncoding`, or `Body` when it breaks off or is no gzip.
pub(crate) async fn read(headers: &HeaderMap, body: Body, config: &Config) -> Result<Bytes, Error> {
    read_within(headers, body, (config.body_wire_max, config.body_decoded_max)).await
}

/// The same within other limits: bytes as sent, and decompressed.
///
/// # Errors
/// `TooLarge`, `ContentEncoding`, or `Body` when it breaks off or is no gzip.
pub(crate) async fn read_within(
    headers: &HeaderMap,
    body: Body,
    (wire, decoded): (usize, usize),
) -> Result<Bytes, Error> {
    let gzipped = negotiate::is_gzipped(headers)?;
    let sent = collect(body, wire).await?;
    if gzipped && sent.starts_with(GZIP_MAGIC) {
        return gunzip(&sent, decoded).map(Bytes::from);
    }
    Ok(sent)
}

/// Reads a body that means nothing and drops it: heartbeats of some clients carry `{}`.
///
/// # Errors
/// `TooLarge`, or `Body` when it breaks off.
pub(crate) async fn discard(body: Body, config: &Config) -> Result<(), Error> {
    if body.is_end_stream() {
        return Ok(());
    }
    collect(body, config.body_wire_max).await.map(drop)
}

async fn collect(body: Body, limit: usize) -> Result<Bytes, Error> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > limit {
        return Err(Error::TooLarge { limit });
    }
    match Limited::new(body, limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Error::TooLarge { limit }),
        Err(_) => Err(Error::Body("it breaks off".into())),
    }
}

/// One member and no more: what follows it is not looked at.
fn gunzip(sent: &[u8], limit: usize) -> Result<Vec<u8>, Error> {
    let mut decoded = Vec::with_capacity(sent.len().saturating_mul(4).min(limit));
    let bound = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    GzDecoder::new(sent)
        .take(bound)
        .read_to_end(&mut decoded)
        .map_err(|_| Error::Body("the gzip stream is broken".into()))?;
    if decoded.len() > limit { Err(Error::TooLarge { limit }) } else { Ok(decoded) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;
    use std::io::Write;

    fn gzip(plain: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_bomb_is_refused_without_being_unpacked() {
        let bomb = gzip(&vec![b' '; 64 << 20]);
        assert!(bomb.len() < 100_000);
        assert!(matches!(gunzip(&bomb, 1 << 20), Err(Error::TooLarge { limit }) if limit == 1 << 20));
    }

    #[test]
    fn exactly_the_limit_is_taken() {
        assert_eq!(gunzip(&gzip(&[7; 1000]), 1000).unwrap().len(), 1000);
        assert!(gunzip(&gzip(&[7; 1001]), 1000).is_err());
    }

    #[test]
    fn a_second_member_is_not_looked_at() {
        let two = [gzip(b"one"), gzip(b"two")].concat();
        assert_eq!(gunzip(&two, 100).unwrap(), b"one");
    }

    proptest! {
        #[test]
        fn no_input_makes_the_decoder_fail(mut sent in prop::collection::vec(any::<u8>(), 0..200), flip in 0_usize..60) {
            let _ = gunzip(&sent, 100);
            let whole = gzip(&sent);
            sent = whole;
            let at = flip % sent.len();
            sent[at] ^= 0x55;
            let _ = gunzip(&sent, 100);
            sent.truncate(at);
            let _ = gunzip(&sent, 100);
        }
    }
}
