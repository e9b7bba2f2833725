//! Frames on their way out.

use std::sync::Arc;

use bytes::Bytes;
use heureka_model::{InstanceKey, Overlay, Report, Stamp, Version};
use heureka_proto::convert::status_number;
use heureka_proto::peer::v1 as pb;
use heureka_proto::v1;
use heureka_registry::replication::{
    Applied, Beaten, Binding, Bucket, BucketEntries, Content, Frame, Hello, KeyState, Outgoing, Position,
    Records, Renewals, Reported, State, Summary, Versions,
};
use pb::frame::Kind;
use prost::Message;

use super::{FRAME_BYTES, units};

/// Room for what a message holds beside its list.
const REST: usize = 16 << 10;
/// Tag and length of an entry.
const ENTRY: usize = 5;

/// The messages of a frame, in their order.
pub(crate) fn encode(frame: Frame) -> Vec<pb::Frame> {
    let kinds = match frame {
        Frame::Records(sent) => records(sent),
        Frame::Renewals(sent) => renewals(sent),
        Frame::Want(sent) => keys(sent, |keys| Kind::Want(pb::Want { keys })),
        Frame::Probe(sent) => keys(sent, |keys| Kind::Probe(pb::Probe { keys })),
        Frame::Summary(sent) => summary(sent),
        Frame::Versions(sent) => versions(sent),
        Frame::Reports(sent) => {
            pieces(sent.into_iter().map(report), |reports| Kind::Reports(pb::Reports { reports }))
        }
        other => vec![single(other)],
    };
    kinds.into_iter().map(|kind| pb::Frame { kind: Some(kind) }).collect()
}

/// Frames that are never long.
fn single(frame: Frame) -> Kind {
    match frame {
        Frame::Hello(sent) => Kind::Hello(hello(sent)),
        Frame::Pull => Kind::Pull(pb::Pull {}),
        Frame::State(sent) => Kind::State(state(sent)),
        Frame::Groups(sums) => Kind::Groups(pb::Groups { sums }),
        Frame::Inspect(sums) => Kind::Inspect(pb::Groups { sums }),
        Frame::Buckets(sent) => Kind::Buckets(buckets(&sent)),
        Frame::Ack(sent) => Kind::Ack(applied(sent)),
        Frame::Drain => Kind::Drain(pb::Drain {}),
        Frame::Records(_)
        | Frame::Renewals(_)
        | Frame::Want(_)
        | Frame::Probe(_)
        | Frame::Summary(_)
        | Frame::Reports(_)
        | Frame::Versions(_) => unreachable!("invariant: these go in pieces"),
    }
}

fn hello(sent: Hello) -> pb::Hello {
    pb::Hello {
        cluster: sent.cluster,
        node: sent.node,
        boot: sent.boot,
        protocol: sent.protocol,
        capabilities: sent.capabilities,
        wall_millis: sent.wall.0,
        clock: sent.clock,
        address: sent.address,
        applied: sent.applied.into_iter().map(applied).collect(),
        covered: positions(sent.covered),
        ready: sent.ready,
    }
}

/// Of the pieces only the last moves the receiver's position: it holds once all are taken in.
fn records(sent: Records) -> Vec<Kind> {
    let mut kinds = pieces(sent.records.into_iter().map(record), |records| {
        Kind::Records(pb::Records { records, ..pb::Records::default() })
    });
    if let Some(Kind::Records(last)) = kinds.last_mut() {
        last.revision = sent.revision;
        last.covered = sent.covered;
        last.complete = sent.complete;
        last.vector = positions(sent.vector);
    }
    kinds
}

pub(crate) fn record(sent: Outgoing) -> pb::Record {
    let Outgoing { state: KeyState { key, owner, overlay_stamp, overlay }, age, beaten } = sent;
    pb::Record {
        key: Some(key.into()),
        owner: owner.version,
        clock: owner.written.clock,
        boot: owner.written.boot,
        incarnation: owner.incarnation,
        dirty_millis: owner.dirty.map(|wall| wall.0),
        updated_millis: owner.updated.0,
        registered_millis: owner.registered.0,
        service_up_millis: owner.service_up.0,
        content: Some(content(owner.content)),
        overlay: (overlay_stamp != Stamp::default()).then(|| operators(overlay_stamp, overlay)),
        age: units(age),
        beaten,
    }
}

fn report(sent: Reported) -> pb::Report {
    let Report { available, gauges } = Arc::unwrap_or_clone(sent.report);
    pb::Report { key: Some(sent.key.into()), available, gauges, age: units(sent.age) }
}

fn content(sent: Content) -> pb::record::Content {
    match sent {
        Content::Live(instance) => {
            pb::record::Content::Live(v1::Instance { key: None, ..(*instance).into() })
        }
        Content::Cancelled => pb::record::Content::Cancelled(pb::Cancelled {}),
        Content::Expired => pb::record::Content::Expired(pb::Expired {}),
    }
}

fn operators(stamp: Stamp, overlay: Overlay) -> pb::Overlay {
    pb::Overlay {
        clock: stamp.clock,
        boot: stamp.boot,
        status: status_number(overlay.status.map(|set| set.status)),
        until_millis: overlay.status.and_then(|set| set.until).map(|wall| wall.0),
        drain: overlay.drain.map(Into::into),
    }
}

/// Names before the beats that use them.
fn renewals(sent: Renewals) -> Vec<Kind> {
    let binding = |Binding { handle, key }| pb::Binding { handle, key: Some(key.into()) };
    let mut kinds = pieces(sent.bindings.into_iter().map(binding), |bindings| {
        Kind::Renewals(pb::Renewals { bindings, ..pb::Renewals::default() })
    });
    if let Some(Kind::Renewals(last)) = kinds.last_mut() {
        last.handle_steps = steps(&sent.beats);
        last.ages = sent.beats.iter().map(|beat| units(beat.age)).collect();
    }
    kinds
}

fn steps(beats: &[Beaten]) -> Vec<u32> {
    let mut before = 0;
    let step = |beat: &Beaten| beat.handle.wrapping_sub(std::mem::replace(&mut before, beat.handle));
    beats.iter().map(step).collect()
}

fn keys(sent: Vec<InstanceKey>, kind: impl Fn(Vec<Bytes>) -> Kind) -> Vec<Kind> {
    pieces(sent.into_iter().map(v1::InstanceKey::from), kind)
}

fn state(sent: State) -> pb::State {
    let State { root, ready, protecting, draining, held, live, connected } = sent;
    pb::State { root, ready, protecting, draining, held, live, connected }
}

fn buckets(sent: &[Bucket]) -> pb::Buckets {
    pb::Buckets {
        numbers: sent.iter().map(|bucket| bucket.number.into()).collect(),
        sums: sent.iter().map(|bucket| bucket.hash).collect(),
    }
}

fn summary(sent: Summary) -> Vec<Kind> {
    let bucket = |BucketEntries { number, entries }| pb::BucketEntries {
        number: u32::from(number),
        keys: entries.iter().map(|entry| entry.key).collect(),
        entries: entries.iter().map(|entry| entry.entry).collect(),
    };
    pieces(sent.buckets.into_iter().map(bucket), |buckets| {
        Kind::Summary(pb::Summary { buckets, reply: sent.reply })
    })
}

/// Of the pieces only the last says that all are told.
fn versions(sent: Versions) -> Vec<Kind> {
    let entry = |(key, version): (InstanceKey, Version)| pb::KeyVersion {
        key: Some(key.into()),
        version: Some(version.into()),
    };
    let mut kinds = pieces(sent.versions.into_iter().map(entry), |versions| {
        Kind::Versions(pb::Versions { versions, ..pb::Versions::default() })
    });
    if let Some(Kind::Versions(last)) = kinds.last_mut() {
        last.complete = sent.complete;
        last.groups = sent.groups.into_iter().map(u32::from).collect();
    }
    kinds
}

/// At least one piece, none larger than a frame unless it has a single entry.
fn pieces<M: Message>(entries: impl Iterator<Item = M>, kind: impl Fn(Vec<Bytes>) -> Kind) -> Vec<Kind> {
    let mut kinds = Vec::new();
    let (mut piece, mut size) = (Vec::new(), 0);
    for entry in entries {
        let entry = Bytes::from(entry.encode_to_vec());
        if !piece.is_empty() && size + entry.len() + ENTRY > FRAME_BYTES - REST {
            kinds.push(kind(std::mem::take(&mut piece)));
            size = 0;
        }
        size += entry.len() + ENTRY;
        piece.push(entry);
    }
    kinds.push(kind(piece));
    kinds
}

fn positions(sent: Vec<Position>) -> Vec<pb::Position> {
    sent.into_iter().map(|Position { boot, clock }| pb::Position { boot, clock }).collect()
}

fn applied(sent: Applied) -> pb::Applied {
    pb::Applied { boot: sent.boot, revision: sent.revision }
}
