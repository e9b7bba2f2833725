//! Frames between servers: from the replicator to messages and back.
//!
//! Going out, nothing can fail; a frame that would grow beyond [`FRAME_BYTES`] goes as several messages, each of
//! which can be taken in by itself. Coming in, everything is checked; an entry that cannot be used is left out and
//! counted, for one bad entry must not hold back its neighbours.

mod decode;
mod encode;

use std::time::Duration;

pub(crate) use decode::{decode, hello, record as record_of};
pub(crate) use encode::{encode, record as wire_record};

/// Size of a message that is sent, unless a single record is larger.
pub(crate) const FRAME_BYTES: usize = 256 << 10;

/// Size of a message that is taken.
pub(crate) const MESSAGE_MAX: usize = 1 << 20;

/// Unit of ages.
const AGE_UNIT: Duration = Duration::from_millis(100);

/// An age in units, rounded up: evidence that is passed on must not grow younger on its way.
fn units(age: Duration) -> u32 {
    u32::try_from(age.as_millis().div_ceil(AGE_UNIT.as_millis())).unwrap_or(u32::MAX)
}

fn age(units: u32) -> Duration {
    AGE_UNIT * units
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use heureka_model::{
        DrainPlan, Instance, InstanceKey, Limits, Overlay, Port, Report, Stamp, Status, StatusOverride,
        Version, Wall,
    };
    use heureka_proto::peer::v1 as pb;
    use heureka_registry::replication::{
        Applied, Beaten, Binding, Bucket, BucketEntries, Content, DigestEntry, Frame, GROUPS, Hello,
        KeyState, Outgoing, OwnerState, Position, Records, Renewals, Reported, State, Summary, Versions,
    };
    use proptest::prelude::*;
    use prost::Message as _;

    use super::decode::Decoded;
    use super::*;

    fn key(id: &str) -> InstanceKey {
        InstanceKey { namespace: "n".into(), app: "WEB".into(), id: id.into() }
    }

    fn record(id: &str, content: Content) -> Outgoing {
        let owner = OwnerState {
            version: 7,
            written: Stamp { clock: 8, boot: 9 },
            content,
            incarnation: 10,
            dirty: Some(Wall(11)),
            updated: Wall(12),
            registered: Wall(13),
            service_up: Wall(14),
        };
        let overlay = Overlay {
            status: Some(StatusOverride { status: Status::OutOfService, until: Some(Wall(15)) }),
            drain: Some(DrainPlan { start: Some(Wall(16)), deadline: Some(Wall(17)) }),
        };
        let overlay_stamp = Stamp { clock: 18, boot: 19 };
        let state = KeyState { key: key(id), owner, overlay_stamp, overlay };
        Outgoing { state, age: Duration::from_millis(2100), beaten: true }
    }

    fn live(id: &str, text: usize) -> Outgoing {
        let mut instance = Instance::new(key(id));
        instance.port = Some(Port { number: 80, enabled: true });
        instance.status = Status::Starting;
        for part in 0..text.div_ceil(200_000) {
            instance.metadata.insert(part.to_string(), "v".repeat(text.min(200_000)));
        }
        record(id, Content::Live(Box::new(instance)))
    }

    fn frames() -> Vec<Frame> {
        let position = Position { boot: 1, clock: 2 };
        let applied = Applied { boot: 3, revision: 4 };
        let records = vec![live("a", 10), record("b", Content::Cancelled), record("c", Content::Expired)];
        let entry = DigestEntry { key: 5, entry: 6 };
        vec![
            Frame::Hello(Hello {
                cluster: "c".into(),
                node: "n".into(),
                boot: 1,
                protocol: 1,
                capabilities: vec!["x".into()],
                wall: Wall(5),
                clock: 6,
                address: "10.0.0.1:8761".into(),
                applied: vec![applied],
                covered: vec![position],
                ready: true,
            }),
            Frame::Pull,
            Frame::Records(Records {
                records,
                revision: 3,
                covered: Some(4),
                complete: true,
                vector: vec![position],
            }),
            Frame::Renewals(Renewals {
                bindings: vec![Binding { handle: 1, key: key("a") }],
                beats: vec![
                    Beaten { handle: 1, age: Duration::ZERO },
                    Beaten { handle: 900, age: Duration::from_millis(300) },
                ],
            }),
            Frame::Want(vec![key("a"), key("b")]),
            Frame::Probe(vec![key("c")]),
            Frame::State(State {
                root: Some(1),
                ready: true,
                protecting: true,
                draining: true,
                held: 2,
                live: 3,
                connected: vec!["n2".into(), "n3".into()],
            }),
            Frame::Groups((0..GROUPS as u64).collect()),
            Frame::Buckets(vec![Bucket { number: 4095, hash: 1 }, Bucket { number: 0, hash: 2 }]),
            Frame::Summary(Summary {
                buckets: vec![BucketEntries { number: 7, entries: vec![entry, entry] }],
                reply: true,
            }),
            Frame::Inspect((0..GROUPS as u64).collect()),
            Frame::Versions(Versions {
                versions: vec![(key("a"), Version { owner: 1, ..Version::default() })],
                complete: true,
                groups: vec![0, 63],
            }),
            Frame::Reports(vec![Reported {
                key: key("a"),
                report: Arc::new(Report {
                    available: [("slots".to_owned(), 3)].into(),
                    gauges: [("load".to_owned(), 0.5)].into(),
                }),
                age: Duration::from_millis(200),
            }]),
            Frame::Ack(applied),
            Frame::Drain,
        ]
    }

    fn arrived(message: &pb::Frame) -> Decoded {
        let bytes = message.encode_to_vec();
        decode(pb::Frame::decode(bytes.as_slice()).unwrap(), &Limits::default())
    }

    #[test]
    fn every_frame_survives_the_wire() {
        for frame in frames().into_iter().skip(1) {
            let sent = encode(frame.clone());
            assert_eq!(sent.len(), 1);
            assert_eq!(arrived(&sent[0]), Decoded { frame: Some(frame), skipped: 0, first: None });
        }
    }

    #[test]
    fn a_hello_survives_the_wire() {
        let Frame::Hello(greeting) = frames().swap_remove(0) else { panic!() };
        let sent = encode(Frame::Hello(greeting.clone()));
        assert_eq!(hello(sent[0].clone()), Ok(greeting));
    }

    #[test]
    fn evidence_never_grows_younger() {
        for (millis, expected) in [(0, 0), (1, 1), (100, 1), (101, 2), (12_345, 124)] {
            assert_eq!(units(Duration::from_millis(millis)), expected);
        }
        assert_eq!(units(Duration::MAX), u32::MAX);
    }

    #[test]
    fn a_beat_costs_about_three_bytes() {
        let beats = (0..512).map(|n| Beaten { handle: n * 30, age: Duration::from_millis(400) }).collect();
        let sent = encode(Frame::Renewals(Renewals { bindings: Vec::new(), beats }));
        assert!(sent[0].encoded_len() <= 3 * 512, "{}", sent[0].encoded_len());
    }

    #[test]
    fn large_frames_go_in_pieces_whose_last_moves_the_position() {
        let records: Vec<_> = (0..9).map(|n| live(&n.to_string(), 100_000)).collect();
        let whole = Records { records, revision: 9, covered: Some(1), complete: true, vector: Vec::new() };
        let sent = encode(Frame::Records(whole.clone()));
        assert!(sent.len() > 3 && sent.iter().all(|message| message.encoded_len() <= FRAME_BYTES));
        let mut together = Records::default();
        for message in &sent {
            assert_eq!((together.revision, together.complete, together.covered), (0, false, None));
            let Some(Frame::Records(piece)) = arrived(message).frame else { panic!() };
            together.records.extend(piece.records);
            together = Records { records: together.records, ..piece };
        }
        assert_eq!(together, whole);
    }

    #[test]
    fn a_record_beyond_the_size_of_a_frame_goes_alone() {
        let records = vec![live("a", 10), live("b", 400_000), live("c", 10)];
        let sent = encode(Frame::Records(Records { records, ..Records::default() }));
        assert_eq!(sent.len(), 3);
        assert!(sent[1].encoded_len() > FRAME_BYTES && sent[1].encoded_len() < MESSAGE_MAX);
    }

    #[test]
    fn long_lists_of_keys_go_in_pieces() {
        let long = |n: usize| InstanceKey { app: "A".repeat(256), id: format!("{n:0512}"), ..key("") };
        let keys: Vec<_> = (0..512).map(long).collect();
        let sent = encode(Frame::Want(keys.clone()));
        assert!(sent.len() == 2 && sent.iter().all(|message| message.encoded_len() <= FRAME_BYTES));
        let all = sent.iter().flat_map(|message| match arrived(message).frame {
            Some(Frame::Want(keys)) => keys,
            other => panic!("{other:?}"),
        });
        assert_eq!(all.collect::<Vec<_>>(), keys);
        let bindings: Vec<_> =
            (0..512).map(|n| Binding { handle: n as u32, key: long(n as usize) }).collect();
        let beats: Vec<_> = (0..512).map(|handle| Beaten { handle, age: Duration::ZERO }).collect();
        let sent = encode(Frame::Renewals(Renewals { bindings, beats: beats.clone() }));
        assert!(sent.iter().all(|message| message.encoded_len() <= FRAME_BYTES));
        let Some(Frame::Renewals(last)) = arrived(&sent[sent.len() - 1]).frame else { panic!() };
        assert_eq!(last.beats, beats, "after all names");
    }

    #[test]
    fn a_bad_entry_is_left_out_and_its_neighbours_are_taken() {
        let control = Outgoing { state: KeyState { key: key("a\nb"), ..live("x", 1).state }, ..live("x", 1) };
        let mut oversized = live("y", 1);
        if let Content::Live(instance) = &mut oversized.state.owner.content {
            instance.host_name = "h".repeat(1000);
        }
        let nothing = pb::Record { key: Some(key("z").into()), ..pb::Record::default() };
        let sent = encode(Frame::Records(Records {
            records: vec![live("a", 1), control, oversized, live("b", 1)],
            revision: 5,
            ..Records::default()
        }));
        let Some(pb::frame::Kind::Records(mut message)) = sent[0].kind.clone() else { panic!() };
        message.records.insert(1, vec![0xff; 3].into());
        message.records.insert(1, nothing.encode_to_vec().into());
        let sent = pb::Frame { kind: Some(pb::frame::Kind::Records(message)) };
        let decoded = arrived(&sent);
        let Some(Frame::Records(taken)) = decoded.frame else { panic!() };
        assert_eq!((taken.records, taken.revision), (vec![live("a", 1), live("b", 1)], 5));
        assert_eq!(decoded.skipped, 4);
        assert_eq!(decoded.first.unwrap().field, "records[1].content");
    }

    #[test]
    fn lists_that_do_not_match_are_cut_and_counted() {
        let renewals =
            pb::Renewals { bindings: Vec::new(), handle_steps: vec![1, u32::MAX, 1], ages: vec![0; 3] };
        let decoded = arrived(&pb::Frame { kind: Some(pb::frame::Kind::Renewals(renewals)) });
        let Some(Frame::Renewals(taken)) = decoded.frame else { panic!() };
        assert_eq!((taken.beats.len(), decoded.skipped), (1, 2));
        let groups = pb::Groups { sums: vec![0; 63] };
        let decoded = arrived(&pb::Frame { kind: Some(pb::frame::Kind::Groups(groups)) });
        assert_eq!((decoded.frame, decoded.skipped), (None, 1));
        let buckets = pb::Buckets { numbers: vec![1, 4096, 2], sums: vec![5, 5] };
        let decoded = arrived(&pb::Frame { kind: Some(pb::frame::Kind::Buckets(buckets)) });
        assert_eq!(decoded.frame, Some(Frame::Buckets(vec![Bucket { number: 1, hash: 5 }])));
        assert_eq!(decoded.skipped, 2);
    }

    #[test]
    fn unknown_kinds_of_frames_are_nothing() {
        let decoded = decode(pb::Frame::decode([0x9a, 0x06, 1, 1].as_slice()).unwrap(), &Limits::default());
        assert_eq!(decoded, Decoded::default());
    }

    #[test]
    fn a_hello_without_names_or_with_odd_ones_is_refused() {
        let good = pb::Hello { cluster: "c".into(), node: "n".into(), boot: 1, ..pb::Hello::default() };
        let frame = |hello| pb::Frame { kind: Some(pb::frame::Kind::Hello(hello)) };
        assert!(hello(frame(good.clone())).is_ok());
        let table = [
            ("hello.cluster", pb::Hello { cluster: String::new(), ..good.clone() }),
            ("hello.node", pb::Hello { node: "a b".into(), ..good.clone() }),
            ("hello.node", pb::Hello { node: "n".repeat(129), ..good.clone() }),
            ("hello.boot", pb::Hello { boot: 0, ..good.clone() }),
            ("hello.address", pb::Hello { address: "a\nb:1".into(), ..good.clone() }),
            ("hello.capabilities", pb::Hello { capabilities: vec![String::new(); 65], ..good.clone() }),
            ("hello.applied", pb::Hello { applied: vec![pb::Applied::default(); 2000], ..good }),
        ];
        for (field, odd) in table {
            assert_eq!(hello(frame(odd)).unwrap_err().field, field);
        }
        assert_eq!(hello(pb::Frame { kind: None }).unwrap_err().field, "hello");
    }

    proptest! {
        #[test]
        fn damaged_frames_never_panic(which in 0..15_usize, at in any::<prop::sample::Index>(), flip in 1..=255_u8) {
            let sent = encode(frames().swap_remove(which));
            let mut bytes = sent[0].encode_to_vec();
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            if let Ok(message) = pb::Frame::decode(bytes.as_slice()) {
                let decoded = decode(message, &Limits::default());
                prop_assert_eq!(decoded.skipped > 0, decoded.first.is_some());
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(message) = pb::Frame::decode(bytes.as_slice()) {
                decode(message, &Limits::default());
            }
        }
    }
}
