//! How messages become bytes: prost, with buffers of the size that our messages have.

use std::marker::PhantomData;

use prost::Message;
use tonic::codec::{BufferSettings, Codec};
use tonic_prost::{ProstDecoder, ProstEncoder};

/// First size of both buffers of a call; they grow with the message. Most messages are shorter, and the usual
/// 8 KiB for each direction of each call and watch cost more than the message itself.
const BUFFER: usize = 512;
/// Encoded bytes after which a stream hands over what it has, tonic's own.
const HANDED_OVER: usize = 32 << 10;

/// The codec of all stubs.
pub(crate) struct SmallBuffers<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for SmallBuffers<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for SmallBuffers<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = ProstDecoder<U>;

    fn encoder(&mut self) -> ProstEncoder<T> {
        ProstEncoder::new(BufferSettings::new(BUFFER, HANDED_OVER))
    }

    fn decoder(&mut self) -> ProstDecoder<U> {
        ProstDecoder::new(BufferSettings::new(BUFFER, HANDED_OVER))
    }
}
