//! Frames on their way in.

use std::sync::Arc;

use bytes::Bytes;
use heureka_model::{
    DrainPlan, Instance, InstanceKey, Invalid, Limits, Overlay, Problem, Report, Stamp, StatusOverride, Wall,
};
use heureka_proto::convert::status;
use heureka_proto::peer::v1 as pb;
use heureka_proto::v1;
use heureka_registry::replication::{
    Applied, BUCKETS, Beaten, Binding, Bucket, BucketEntries, Content, DigestEntry, Frame, GROUPS, Hello,
    KeyState, Outgoing, OwnerState, Position, Records, Renewals, Reported, State, Summary, Versions,
};
use pb::frame::Kind;
use prost::Message;

use super::age;

/// Bytes of a name of a server or a cluster, and of an address.
const NAME_MAX: usize = 128;
const ADDRESS_MAX: usize = 300;
/// Abilities that a server may name.
const CAPABILITIES_MAX: usize = 64;
/// Positions that a server may name: far more lives than any cluster has servers.
const POSITIONS_MAX: usize = 1024;
/// Servers that one may name as its neighbours.
const CONNECTED_MAX: usize = 64;

/// A message as far as it could be used.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Decoded {
    /// What it says; nothing when it is of an unknown kind or of no use as a whole.
    pub(crate) frame: Option<Frame>,
    /// Entries left out.
    pub(crate) skipped: u64,
    /// What was wrong with the first of them.
    pub(crate) first: Option<Invalid>,
}

/// Understands a message that follows the first.
pub(crate) fn decode(message: pb::Frame, limits: &Limits) -> Decoded {
    let mut reader = Reader { limits, skipped: 0, first: None };
    let frame = message.kind.and_then(|kind| reader.frame(kind));
    Decoded { frame, skipped: reader.skipped, first: reader.first }
}

/// Understands the first message of a stream.
/// # Errors
/// It is no hello, or a part of it cannot be used.
pub(crate) fn hello(message: pb::Frame) -> Result<Hello, Invalid> {
    let Some(Kind::Hello(sent)) = message.kind else { return Err(Invalid::missing("hello")) };
    name("hello.cluster", &sent.cluster)?;
    name("hello.node", &sent.node)?;
    if sent.boot == 0 {
        return Err(Invalid::missing("hello.boot"));
    }
    let odd = sent.address.len() > ADDRESS_MAX || sent.address.chars().any(is_odd);
    if odd {
        return Err(Invalid::malformed("hello.address", "is no host:port"));
    }
    at_most("hello.capabilities", sent.capabilities.len(), CAPABILITIES_MAX)?;
    at_most("hello.applied", sent.applied.len(), POSITIONS_MAX)?;
    at_most("hello.covered", sent.covered.len(), POSITIONS_MAX)?;
    Ok(Hello {
        cluster: sent.cluster,
        node: sent.node,
        boot: sent.boot,
        protocol: sent.protocol,
        capabilities: sent.capabilities,
        wall: Wall(sent.wall_millis),
        clock: sent.clock,
        address: sent.address,
        applied: sent.applied.into_iter().map(applied).collect(),
        covered: positions(sent.covered),
        ready: sent.ready,
    })
}

/// Reads entries and keeps count of those it left out.
struct Reader<'a> {
    limits: &'a Limits,
    skipped: u64,
    first: Option<Invalid>,
}

impl Reader<'_> {
    fn frame(&mut self, kind: Kind) -> Option<Frame> {
        let frame = match kind {
            // Not read: in this place it ends the stream whatever it says.
            Kind::Hello(_) => Frame::Hello(Hello::default()),
            Kind::Pull(_) => Frame::Pull,
            Kind::Records(sent) => Frame::Records(self.records(sent)?),
            Kind::Renewals(sent) => Frame::Renewals(self.renewals(&sent)),
            Kind::Want(sent) => Frame::Want(self.keys(&sent.keys)),
            Kind::Probe(sent) => Frame::Probe(self.keys(&sent.keys)),
            Kind::State(sent) => Frame::State(self.state(sent)),
            Kind::Groups(sent) => Frame::Groups(self.groups(sent.sums)?),
            Kind::Buckets(sent) => Frame::Buckets(self.buckets(&sent)),
            Kind::Summary(sent) => Frame::Summary(self.summary(&sent)),
            Kind::Inspect(sent) => Frame::Inspect(self.groups(sent.sums)?),
            Kind::Versions(sent) => Frame::Versions(self.versions(&sent)),
            Kind::Reports(sent) => Frame::Reports(self.reports(&sent)),
            Kind::Ack(sent) => Frame::Ack(applied(sent)),
            Kind::Drain(_) => Frame::Drain,
        };
        Some(frame)
    }

    fn records(&mut self, sent: pb::Records) -> Option<Records> {
        if sent.vector.len() > POSITIONS_MAX {
            let problem = Problem::TooLarge { limit: POSITIONS_MAX, actual: sent.vector.len() };
            return self.left_out(Invalid::new("vector", problem));
        }
        let limits = self.limits;
        Some(Records {
            records: self.entries("records", &sent.records, |wire| record(wire, limits)),
            revision: sent.revision,
            covered: sent.covered,
            complete: sent.complete,
            vector: positions(sent.vector),
        })
    }

    fn renewals(&mut self, sent: &pb::Renewals) -> Renewals {
        let limits = self.limits;
        let bindings = self.entries("bindings", &sent.bindings, |wire: pb::Binding| {
            Ok(Binding { handle: wire.handle, key: key(wire.key, limits)? })
        });
        Renewals { bindings, beats: self.beats(sent) }
    }

    /// What does not add up says nothing of what follows it.
    fn beats(&mut self, sent: &pb::Renewals) -> Vec<Beaten> {
        let mut handle = Some(0_u32);
        let pairs = sent.handle_steps.iter().zip(&sent.ages);
        let beats: Vec<_> = pairs
            .map_while(|(step, units)| {
                handle = handle.and_then(|handle| handle.checked_add(*step));
                Some(Beaten { handle: handle?, age: age(*units) })
            })
            .collect();
        self.cut("handle_steps", beats.len(), sent.handle_steps.len().max(sent.ages.len()));
        beats
    }

    fn keys(&mut self, sent: &[Bytes]) -> Vec<InstanceKey> {
        let limits = self.limits;
        self.entries("keys", sent, |wire: v1::InstanceKey| key(Some(wire), limits))
    }

    fn state(&mut self, sent: pb::State) -> State {
        let pb::State { root, ready, protecting, draining, held, live, connected: named } = sent;
        let actual = named.len();
        let connected: Vec<_> =
            named.into_iter().filter(|node| name("", node).is_ok()).take(CONNECTED_MAX).collect();
        self.cut("connected", connected.len(), actual);
        State { root, ready, protecting, draining, held, live, connected }
    }

    fn groups(&mut self, sums: Vec<u64>) -> Option<Vec<u64>> {
        if sums.len() == GROUPS {
            return Some(sums);
        }
        self.left_out(Invalid::malformed("sums", "is not one for each group"))
    }

    fn buckets(&mut self, sent: &pb::Buckets) -> Vec<Bucket> {
        let pairs = sent.numbers.iter().zip(&sent.sums);
        let buckets: Vec<_> = pairs
            .filter_map(|(number, sum)| Some(Bucket { number: bucket_number(*number)?, hash: *sum }))
            .collect();
        self.cut("numbers", buckets.len(), sent.numbers.len().max(sent.sums.len()));
        buckets
    }

    fn summary(&mut self, sent: &pb::Summary) -> Summary {
        Summary { buckets: self.entries("buckets", &sent.buckets, bucket), reply: sent.reply }
    }

    fn versions(&mut self, sent: &pb::Versions) -> Versions {
        let limits = self.limits;
        let versions = self.entries("versions", &sent.versions, |wire: pb::KeyVersion| {
            let version = wire.version.ok_or_else(|| Invalid::missing("version"))?;
            Ok((key(wire.key, limits)?, version.into()))
        });
        let numbers = sent.groups.iter().filter_map(|number| u16::try_from(*number).ok());
        let groups: Vec<_> = numbers.filter(|number| usize::from(*number) < GROUPS).collect();
        self.cut("groups", groups.len(), sent.groups.len());
        Versions { versions, complete: sent.complete, groups }
    }

    fn reports(&mut self, sent: &pb::Reports) -> Vec<Reported> {
        let limits = self.limits;
        self.entries("reports", &sent.reports, |wire: pb::Report| {
            let report = Report { available: wire.available, gauges: wire.gauges };
            report.validate(limits)?;
            Ok(Reported { key: key(wire.key, limits)?, report: Arc::new(report), age: age(wire.age) })
        })
    }

    /// Every entry that can be used.
    fn entries<W: Message + Default, M>(
        &mut self,
        list: &str,
        sent: &[Bytes],
        read: impl Fn(W) -> Result<M, Invalid>,
    ) -> Vec<M> {
        let mut taken = Vec::with_capacity(sent.len());
        for (position, bytes) in sent.iter().enumerate() {
            let wire = W::decode(bytes.clone());
            let wire = wire.map_err(|_| Invalid::malformed("message", "cannot be read"));
            match wire.and_then(&read) {
                Ok(entry) => taken.push(entry),
                Err(invalid) => drop(self.left_out::<()>(invalid.within(&format!("{list}[{position}]")))),
            }
        }
        taken
    }

    fn cut(&mut self, field: &str, taken: usize, sent: usize) {
        let left = (sent - taken) as u64;
        if left > 0 {
            self.left_out::<()>(Invalid::malformed(field, "has entries that cannot be used"));
            self.skipped += left - 1;
        }
    }

    fn left_out<T>(&mut self, invalid: Invalid) -> Option<T> {
        self.skipped += 1;
        self.first.get_or_insert(invalid);
        None
    }
}

pub(crate) fn record(wire: pb::Record, limits: &Limits) -> Result<Outgoing, Invalid> {
    let key = key(wire.key, limits)?;
    let content = wire.content.ok_or_else(|| Invalid::missing("content"))?;
    let (overlay_stamp, overlay) = wire.overlay.map_or(Ok(Default::default()), operators)?;
    let owner = OwnerState {
        version: wire.owner,
        written: Stamp { clock: wire.clock, boot: wire.boot },
        content: self::content(content, &key, limits)?,
        incarnation: wire.incarnation,
        dirty: wire.dirty_millis.map(Wall),
        updated: Wall(wire.updated_millis),
        registered: Wall(wire.registered_millis),
        service_up: Wall(wire.service_up_millis),
    };
    let state = KeyState { key, owner, overlay_stamp, overlay };
    Ok(Outgoing { state, age: age(wire.age), beaten: wire.beaten })
}

fn content(wire: pb::record::Content, key: &InstanceKey, limits: &Limits) -> Result<Content, Invalid> {
    let live = match wire {
        pb::record::Content::Cancelled(_) => return Ok(Content::Cancelled),
        pb::record::Content::Expired(_) => return Ok(Content::Expired),
        pb::record::Content::Live(live) => v1::Instance { key: Some(key.clone().into()), ..live },
    };
    let instance = Instance::try_from(live).map_err(|invalid| invalid.within("live"))?;
    instance.validate(limits).map_err(|invalid| invalid.within("live"))?;
    Ok(Content::Live(Box::new(instance)))
}

fn operators(wire: pb::Overlay) -> Result<(Stamp, Overlay), Invalid> {
    let set = status("overlay.status", wire.status)?;
    let drain = wire.drain.as_ref().map(DrainPlan::try_from).transpose()?;
    let until = wire.until_millis.map(Wall);
    let overlay = Overlay { status: set.map(|status| StatusOverride { status, until }), drain };
    Ok((Stamp { clock: wire.clock, boot: wire.boot }, overlay))
}

fn key(wire: Option<v1::InstanceKey>, limits: &Limits) -> Result<InstanceKey, Invalid> {
    let key = InstanceKey::from(wire.ok_or_else(|| Invalid::missing("key"))?);
    key.as_ref().validate(limits)?;
    Ok(key)
}

fn bucket(wire: pb::BucketEntries) -> Result<BucketEntries, Invalid> {
    let number = bucket_number(wire.number)
        .ok_or_else(|| Invalid::malformed("number", "is no bucket of the digest"))?;
    if wire.keys.len() != wire.entries.len() {
        return Err(Invalid::malformed("entries", "is not one for each key"));
    }
    let pairs = wire.keys.into_iter().zip(wire.entries);
    Ok(BucketEntries { number, entries: pairs.map(|(key, entry)| DigestEntry { key, entry }).collect() })
}

fn bucket_number(number: u32) -> Option<u16> {
    u16::try_from(number).ok().filter(|number| usize::from(*number) < BUCKETS)
}

fn applied(wire: pb::Applied) -> Applied {
    Applied { boot: wire.boot, revision: wire.revision }
}

fn positions(wire: Vec<pb::Position>) -> Vec<Position> {
    wire.into_iter().map(|pb::Position { boot, clock }| Position { boot, clock }).collect()
}

/// As the names in a server's own configuration.
fn name(field: &str, text: &str) -> Result<(), Invalid> {
    if text.is_empty() {
        return Err(Invalid::missing(field));
    }
    if text.chars().any(is_odd) {
        return Err(Invalid::malformed(field, "holds white space or a control character"));
    }
    at_most(field, text.len(), NAME_MAX)
}

fn is_odd(c: char) -> bool {
    c.is_control() || c.is_whitespace()
}

fn at_most(field: &str, actual: usize, limit: usize) -> Result<(), Invalid> {
    if actual > limit {
        return Err(Invalid::new(field, Problem::TooLarge { limit, actual }));
    }
    Ok(())
}
