//! Reading of messages whose lists are bounded before they are built.
//!
//! An empty entry of a list takes two bytes on the wire and hundreds in memory, so the size of a message does not
//! bound what it costs. Entries are therefore counted in the bytes, and a message with too many is refused unread.

use std::marker::PhantomData;

use bytes::Buf as _;
use heureka_model::{Invalid, Problem};
use prost::Message;
use prost::encoding::{WireType, decode_key, decode_varint};
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic_prost::ProstDecoder;

use crate::{admin, peer, served, v1};

/// Entries of a list that are built at most: the most that any call takes, `BatchRenew`. Calls that take fewer
/// say so themselves.
pub const MAX_ENTRIES: usize = 10_000;

/// First size of both buffers of a call; they grow with the message. Most messages are shorter, and the usual 8 KiB
/// for each direction of each call and watch cost more than the message itself.
const BUFFER: usize = 512;

/// Encoded bytes after which a stream hands over what it has; as `tonic` has it.
const HANDED_OVER: usize = 32 << 10;

/// A message that may arrive.
pub trait Bounded {
    /// Its lists of messages: entries that take far more memory than bytes.
    const LISTS: &'static [List] = &[];
}

/// A list somewhere in a message.
#[derive(Clone, Copy, Debug)]
pub struct List {
    /// Its name as faults tell it.
    pub field: &'static str,
    /// Numbers of the fields that lead to it, its own last.
    pub path: &'static [u32],
}

/// Protobuf as `tonic_prost` has it, except that a message with a list of more than [`MAX_ENTRIES`] is refused
/// before it is built. The status is `INVALID_ARGUMENT` with an [`Invalid`] as its source, which names the list.
#[derive(Clone, Debug)]
pub struct BoundedCodec<T, U>(PhantomData<(T, U)>);

/// The writing half of a [`BoundedCodec`]: makes room for a message once, where the usual one doubles until it fits.
#[derive(Clone, Debug)]
pub struct FittingEncoder<T>(PhantomData<T>);

/// The reading half of a [`BoundedCodec`].
#[derive(Clone, Debug)]
pub struct BoundedDecoder<U>(ProstDecoder<U>);

impl<T, U> Default for BoundedCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for BoundedCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Bounded + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = FittingEncoder<T>;
    type Decoder = BoundedDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        FittingEncoder(PhantomData)
    }

    fn decoder(&mut self) -> Self::Decoder {
        BoundedDecoder(ProstDecoder::new(BufferSettings::new(BUFFER, HANDED_OVER)))
    }
}

impl<T: Message> Encoder for FittingEncoder<T> {
    type Item = T;
    type Error = Status;

    fn encode(&mut self, message: T, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.reserve(message.encoded_len());
        message.encode(buffer).expect("invariant: there is room for the whole message");
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER, HANDED_OVER)
    }
}

impl<U: Message + Bounded + Default> Decoder for BoundedDecoder<U> {
    type Item = U;
    type Error = Status;

    /// The buffer holds one whole message in one piece.
    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        check(buffer.chunk(), U::LISTS).map_err(refused)?;
        self.0.decode(buffer)
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.0.buffer_settings()
    }
}

fn refused(invalid: Invalid) -> Status {
    let mut status = Status::invalid_argument(invalid.to_string());
    status.set_source(std::sync::Arc::new(invalid));
    status
}

fn check(message: &[u8], lists: &[List]) -> Result<(), Invalid> {
    for list in lists {
        let actual = entries(message, list.path);
        if actual > MAX_ENTRIES {
            return Err(Invalid::new(list.field, Problem::TooLarge { limit: MAX_ENTRIES, actual }));
        }
    }
    Ok(())
}

/// How many entries `message` has at `path`. A message that says the same field several times means their union.
fn entries(message: &[u8], path: &[u32]) -> usize {
    let Some((wanted, rest)) = path.split_first() else { return 1 };
    Fields(message).filter(|(number, _)| number == wanted).map(|(_, body)| entries(body, rest)).sum()
}

/// Numbers and contents of the fields of a message, up to the first place where it is malformed; there the reader
/// proper stops too. The fields of a group count as the message's own, so no group can hide what follows it.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = (u32, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (number, wire_type) = decode_key(&mut self.0).ok()?;
        let length = match wire_type {
            WireType::Varint => decode_varint(&mut self.0).map(|_| 0).ok()?,
            WireType::LengthDelimited => usize::try_from(decode_varint(&mut self.0).ok()?).ok()?,
            WireType::SixtyFourBit => 8,
            WireType::ThirtyTwoBit => 4,
            WireType::StartGroup | WireType::EndGroup => 0,
        };
        let (body, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some((number, body))
    }
}

const REQUESTS: &[List] = &[List { field: "requests", path: &[1] }];

impl Bounded for v1::BatchRegisterRequest {
    const LISTS: &'static [List] = REQUESTS;
}

impl Bounded for served::BatchRegisterRequest {
    const LISTS: &'static [List] = REQUESTS;
}

impl Bounded for v1::BatchRenewRequest {
    const LISTS: &'static [List] = REQUESTS;
}

impl Bounded for served::BatchRenewRequest {
    const LISTS: &'static [List] = REQUESTS;
}

impl Bounded for served::RenewRequest {}

impl Bounded for v1::ListInstancesRequest {
    const LISTS: &'static [List] = &[List { field: "selectors", path: &[1] }];
}

impl Bounded for v1::WatchRequest {
    const LISTS: &'static [List] = &[
        List { field: "spec.selectors", path: &[1, 1] },
        List { field: "spec.known_digests", path: &[1, 4] },
        List { field: "spec.known_digests.digest.status_counts", path: &[1, 4, 3, 4] },
    ];
}

impl Bounded for v1::WatchManyRequest {
    const LISTS: &'static [List] = &[
        List { field: "subscribe.spec.selectors", path: &[2, 2, 1] },
        List { field: "subscribe.spec.known_digests", path: &[2, 2, 4] },
        List { field: "subscribe.spec.known_digests.digest.status_counts", path: &[2, 2, 4, 3, 4] },
    ];
}

impl Bounded for v1::ReportRequest {
    const LISTS: &'static [List] =
        &[List { field: "available", path: &[2] }, List { field: "gauges", path: &[3] }];
}

/// Lists of a frame between servers, seen from the message that holds it.
const FRAME_LISTS: &[List] = &[
    List { field: "frame.hello.capabilities", path: &[1, 1, 5] },
    List { field: "frame.hello.applied", path: &[1, 1, 9] },
    List { field: "frame.hello.covered", path: &[1, 1, 10] },
    List { field: "frame.records.records", path: &[1, 3, 1] },
    List { field: "frame.records.vector", path: &[1, 3, 5] },
    List { field: "frame.renewals.bindings", path: &[1, 4, 1] },
    List { field: "frame.want.keys", path: &[1, 5, 1] },
    List { field: "frame.probe.keys", path: &[1, 6, 1] },
    List { field: "frame.state.connected", path: &[1, 7, 7] },
    List { field: "frame.summary.buckets", path: &[1, 10, 1] },
    List { field: "frame.versions.versions", path: &[1, 14, 1] },
    List { field: "frame.reports.reports", path: &[1, 15, 1] },
];

impl Bounded for peer::v1::ReplicateRequest {
    const LISTS: &'static [List] = FRAME_LISTS;
}

impl Bounded for peer::v1::ReplicateResponse {
    const LISTS: &'static [List] = FRAME_LISTS;
}

macro_rules! without_lists {
    ($($message:ident)*) => { $(impl Bounded for v1::$message {})* };
}

without_lists! {
    RegisterRequest RenewRequest CancelRequest
    SetStatusOverrideRequest ClearStatusOverrideRequest UpdateMetadataRequest
    GetInstanceRequest ListApplicationsRequest
}

// What a server answers is its client's to trust.
without_lists! {
    RegisterResponse BatchRegisterResponse RenewResponse BatchRenewResponse CancelResponse
    SetStatusOverrideResponse ClearStatusOverrideResponse UpdateMetadataResponse
    ReportResponse GetInstanceResponse ListInstancesResponse ListApplicationsResponse WatchResponse
    WatchManyResponse
}

macro_rules! of_operators {
    ($($message:ident)*) => { $(impl Bounded for admin::v1::$message {})* };
}

of_operators! {
    GetServerStatusRequest ListPeersRequest ListWatchersRequest DiffPeerRequest EvictInstanceRequest
    SetSelfPreservationRequest SetPushRequest DrainServerRequest
    GetServerStatusResponse ListPeersResponse ListWatchersResponse DiffPeerResponse EvictInstanceResponse
    SetSelfPreservationResponse SetPushResponse DrainServerResponse
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn requests(count: usize) -> v1::BatchRegisterRequest {
        v1::BatchRegisterRequest { requests: vec![v1::RegisterRequest::default(); count] }
    }

    fn watch(selectors: usize) -> Vec<u8> {
        let selectors = vec![v1::InstanceSelector::default(); selectors];
        let spec = Some(v1::WatchSpec { selectors, max_batch_size: 3, ..v1::WatchSpec::default() });
        v1::WatchRequest { spec, client_name: "c".into() }.encode_to_vec()
    }

    #[track_caller]
    fn assert_bounded<M: Bounded>(least_refused: &[u8], most_taken: &[u8], field: &str) {
        let invalid = check(least_refused, M::LISTS).unwrap_err();
        let problem = Problem::TooLarge { limit: MAX_ENTRIES, actual: MAX_ENTRIES + 1 };
        assert_eq!(invalid, Invalid::new(field, problem));
        assert_eq!(check(most_taken, M::LISTS), Ok(()));
    }

    #[test]
    fn both_buffers_of_a_call_begin_small() {
        let mut codec = BoundedCodec::<v1::WatchResponse, v1::WatchRequest>::default();
        let settings = [codec.encoder().buffer_settings(), codec.decoder().buffer_settings()];
        let small = format!("{:?}", BufferSettings::new(BUFFER, HANDED_OVER));
        assert!(settings.iter().all(|settings| format!("{settings:?}") == small));
    }

    #[test]
    fn each_list_is_bounded_under_its_name() {
        let (more, most) = (MAX_ENTRIES + 1, MAX_ENTRIES);
        let batch = |count| requests(count).encode_to_vec();
        assert_bounded::<served::BatchRegisterRequest>(&batch(more), &batch(most), "requests");
        let batch = |count| {
            v1::BatchRenewRequest { requests: vec![v1::RenewRequest::default(); count] }.encode_to_vec()
        };
        assert_bounded::<served::BatchRenewRequest>(&batch(more), &batch(most), "requests");
        let list = |count| {
            let selectors = vec![v1::InstanceSelector::default(); count];
            v1::ListInstancesRequest { selectors, ..v1::ListInstancesRequest::default() }.encode_to_vec()
        };
        assert_bounded::<v1::ListInstancesRequest>(&list(more), &list(most), "selectors");
        assert_bounded::<v1::WatchRequest>(&watch(more), &watch(most), "spec.selectors");
        let known = |digests: Vec<v1::AppDigest>| {
            let spec = v1::WatchSpec { known_digests: digests, ..v1::WatchSpec::default() };
            v1::WatchRequest { spec: Some(spec), client_name: String::new() }.encode_to_vec()
        };
        let digests = |count| known(vec![v1::AppDigest::default(); count]);
        assert_bounded::<v1::WatchRequest>(&digests(more), &digests(most), "spec.known_digests");
        let counts = |count| {
            let status_counts = vec![v1::StatusCount::default(); count];
            let digest = Some(v1::SetDigest { status_counts, ..v1::SetDigest::default() });
            known(vec![v1::AppDigest { digest, ..v1::AppDigest::default() }])
        };
        let field = "spec.known_digests.digest.status_counts";
        assert_bounded::<v1::WatchRequest>(&counts(more), &counts(most), field);
    }

    #[test]
    fn a_message_in_pieces_is_counted_as_their_union() {
        let pieces = [watch(MAX_ENTRIES), watch(1)].concat();
        assert_eq!(entries(&pieces, &[1, 1]), MAX_ENTRIES + 1);
    }

    #[test]
    fn no_other_field_hides_the_entries_behind_it() {
        let prefixes: [&[u8]; 5] = [
            &[0xa3, 0x06, 0xa4, 0x06],             // a group of its own
            &[0xa0, 0x06, 0xff, 0x01],             // a varint
            &[0xa1, 0x06, 1, 2, 3, 4, 5, 6, 7, 8], // eight bytes
            &[0xa5, 0x06, 1, 2, 3, 4],             // four bytes
            &[0xa2, 0x06, 2, 9, 9],                // a text
        ];
        for prefix in prefixes {
            let message = [prefix, &requests(3).encode_to_vec()].concat();
            assert_eq!(v1::BatchRegisterRequest::decode(message.as_slice()).unwrap().requests.len(), 3);
            assert_eq!(entries(&message, &[1]), 3);
        }
    }

    proptest! {
        #[test]
        fn never_are_more_entries_built_than_were_counted(bytes in vec(prop_oneof![Just(10), any::<u8>()], 0..64)) {
            if let Ok(batch) = v1::BatchRegisterRequest::decode(bytes.as_slice()) {
                prop_assert!(batch.requests.len() <= entries(&bytes, &[1]));
            }
            if let Ok(watch) = v1::WatchRequest::decode(bytes.as_slice()) {
                let selectors = watch.spec.map_or(0, |spec| spec.selectors.len());
                prop_assert!(selectors <= entries(&bytes, &[1, 1]));
            }
        }

        #[test]
        fn well_formed_messages_are_counted_exactly(
            ids in vec(".{0,20}", 0..30),
            metadata in proptest::collection::btree_map(".{0,5}", ".{0,20}", 0..4),
        ) {
            let request = |id: &String| {
                let key = Some(v1::InstanceKey { id: id.clone(), ..v1::InstanceKey::default() });
                let metadata = metadata.clone();
                let instance = Some(v1::Instance { key, metadata, ..v1::Instance::default() });
                v1::RegisterRequest { instance, ..v1::RegisterRequest::default() }
            };
            let batch = v1::BatchRegisterRequest { requests: ids.iter().map(request).collect() };
            prop_assert_eq!(entries(&batch.encode_to_vec(), &[1]), ids.len());
        }
    }
}
