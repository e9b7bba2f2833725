//! How servers reach each other.

use heureka_model::Stamp;
use heureka_registry::replication::Frame;

use super::{Event, Health, World};
use crate::net::Stream;
use crate::observe::{By, number};
use crate::world::server::name;

/// A stream on which nothing came for so long is closed, as the keep-alive of a connection does it.
const DEAF: u64 = 8_000;

/// A year in milliseconds, and some.
const YEARS: u64 = 40_000_000_000;

/// Waits between dials double from the first to the last.
const BACK_OFF: (u64, u64) = (100, 5_000);

/// Frames kept to be told again.
const RECORDED: usize = 64;

/// Two servers with a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Linked {
    pub(crate) nodes: [usize; 2],
    /// Since when both sides have it.
    pub(crate) since: u64,
}

impl World<'_> {
    /// Streams on which both sides have joined.
    pub(crate) fn linked(&self) -> Vec<Linked> {
        let linked = |stream: &Stream| Linked {
            nodes: [stream.ends[0].node, stream.ends[1].node],
            since: stream.ends[0].since.max(stream.ends[1].since),
        };
        self.streams.values().filter(|stream| stream.is_up()).map(linked).collect()
    }

    /// Plans the next attempt of a server to reach another.
    pub(super) fn dial_soon(&mut self, node: usize, peer: usize) {
        let server = &mut self.servers[node];
        server.dials[peer] += 1;
        let longest = (BACK_OFF.0 << server.failures[peer].min(6)).min(BACK_OFF.1);
        let wait = server.rng.within(longest / 2, longest);
        let dial = Event::Dial { node, peer, life: server.life, turn: server.dials[peer] };
        self.schedule(self.at + wait, dial);
    }

    pub(super) fn dial(&mut self, node: usize, peer: usize, life: u32, turn: u32) {
        let server = &mut self.servers[node];
        if server.life != life || server.health == Health::Down || server.dials[peer] != turn {
            return;
        }
        if server.health == Health::Paused {
            return server.waiting.push(Event::Dial { node, peer, life, turn });
        }
        if self.is_connected(node, peer) {
            return;
        }
        if self.is_reachable(node, peer) {
            self.connect(node, peer);
        }
        self.servers[node].failures[peer] += 1;
        self.dial_soon(node, peer);
    }

    /// Whether a server has joined a stream to another.
    fn is_connected(&self, node: usize, peer: usize) -> bool {
        self.streams.values().any(|stream| {
            let joined = stream.end_of(node).is_some_and(|end| stream.ends[end].link.is_some());
            joined && stream.is_between(node, peer)
        })
    }

    fn is_reachable(&self, node: usize, peer: usize) -> bool {
        let blocked = self.lines.is_blocked(node, peer) || self.lines.is_blocked(peer, node);
        !blocked && self.servers[peer].is_up()
    }

    fn connect(&mut self, node: usize, peer: usize) {
        self.sequence += 1;
        let id = self.sequence;
        self.streams.insert(id, Stream::new(node, peer, self.at));
        for (end, server) in [node, peer].into_iter().enumerate() {
            self.servers[server].streams.push(id);
            let now = self.servers[server].now(self.shape(), self.at);
            let hello = self.servers[server].core.as_ref().map(|core| core.replicator.hello(now));
            if let Some(hello) = hello {
                self.send(id, end, Frame::Hello(hello));
            }
        }
    }

    fn send(&mut self, id: u64, end: usize, frame: Frame) {
        let latency = self.wires.within(1, self.shape().latency);
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let (from, to) = (stream.ends[end].node, stream.ends[1 - end].node);
        self.trace.frame(self.at, from, to, &frame);
        let rate = self.lines.rate(from, to);
        let frame = if stream.wires[end].spoiled { spoil(frame, self.at) } else { frame };
        stream.wires[end].spoiled &= !matches!(frame, Frame::Records(_));
        let arrives = stream.wires[end].send(frame, self.at, latency, rate);
        self.schedule(arrives, Event::Deliver { stream: id, end: 1 - end });
    }

    /// Takes in what has arrived at an end.
    pub(super) fn deliver(&mut self, id: u64, end: usize) {
        loop {
            let Some(stream) = self.streams.get_mut(&id) else { return };
            let (node, from) = (stream.ends[end].node, stream.ends[1 - end].node);
            if !stream.ends[end].open || self.lines.is_blocked(from, node) {
                return;
            }
            if self.servers[node].health == Health::Paused {
                return self.servers[node].waiting.push(Event::Deliver { stream: id, end });
            }
            let Some(frame) = stream.wires[1 - end].arrived(self.at) else { break };
            stream.ends[end].heard = self.at;
            self.fold.word(self.at ^ id << 32 ^ end as u64);
            self.record(from, node, &frame);
            if !self.receive(id, end, frame) {
                return self.close(id, end);
            }
        }
        self.pump(id, end);
        self.confirm(id, end);
        // There is room on the wire again.
        self.pump(id, 1 - end);
    }

    fn record(&mut self, from: usize, to: usize, frame: &Frame) {
        if self.plan.temper.is_rough() && !matches!(frame, Frame::State(_) | Frame::Hello(_)) {
            if self.recorded.len() == RECORDED {
                let place = self.evil.index(RECORDED);
                self.recorded.swap_remove(place);
            }
            self.recorded.push((from, to, frame.clone()));
        }
    }

    /// Hands a frame to the server; false when the stream must end.
    fn receive(&mut self, id: u64, end: usize, frame: Frame) -> bool {
        let Some(stream) = self.streams.get_mut(&id) else { return false };
        let (node, from) = (stream.ends[end].node, stream.ends[1 - end].node);
        let now = self.servers[node].now(&self.plan.shape, self.at);
        let Some(link) = &mut stream.ends[end].link else {
            return self.greet(id, end, frame);
        };
        self.touched.extend(keys(&frame).filter_map(|key| number(key.as_ref(), self.plan.shape.apps)));
        let received = link.receive(frame, now);
        self.observe_touched(node, By::Peer(from));
        received.is_ok()
    }

    /// The first frame of a stream.
    fn greet(&mut self, id: u64, end: usize, frame: Frame) -> bool {
        let Frame::Hello(hello) = frame else { return false };
        let Some(stream) = self.streams.get_mut(&id) else { return false };
        let (node, from) = (stream.ends[end].node, stream.ends[1 - end].node);
        let now = self.servers[node].now(&self.plan.shape, self.at);
        let Some(core) = &self.servers[node].core else { return false };
        match core.replicator.join(&hello, &name(from), end == 0, now) {
            Ok(link) => {
                stream.ends[end].link = Some(link);
                stream.ends[end].since = self.at;
                self.servers[node].failures[from] = 0;
                self.pump_all(node);
                true
            }
            Err(declined) => {
                self.trace.note(self.at, || format!("n{node} declines n{from}: {declined:?}"));
                false
            }
        }
    }

    /// Asks all links of a server what they have to say.
    pub(crate) fn pump_all(&mut self, node: usize) {
        for id in self.servers[node].streams.clone() {
            if let Some(end) = self.streams.get(&id).and_then(|stream| stream.end_of(node)) {
                self.pump(id, end);
            }
        }
    }

    pub(super) fn pump_due(&mut self, id: u64, end: usize, due: u64) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if stream.ends[end].due != due {
            return;
        }
        stream.ends[end].due = u64::MAX;
        let node = stream.ends[end].node;
        if self.servers[node].health == Health::Paused {
            return self.servers[node].waiting.push(Event::Pump { stream: id, end, due: u64::MAX });
        }
        self.pump(id, end);
    }

    fn pump(&mut self, id: u64, end: usize) {
        let Some(node) = self.streams.get(&id).map(|stream| stream.ends[end].node) else { return };
        if !self.servers[node].is_up() {
            return;
        }
        let now = self.servers[node].now(self.shape(), self.at);
        loop {
            let Some(stream) = self.streams.get_mut(&id) else { return };
            let room = stream.wires[end].has_room();
            let Some(link) = stream.ends[end].link.as_mut() else { return };
            if link.is_replaced() {
                return self.close(id, end);
            }
            if !room {
                return;
            }
            let Some(frame) = link.next(now) else { break };
            self.send(id, end, frame);
        }
        self.ask_again(id, end);
    }

    fn ask_again(&mut self, id: u64, end: usize) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let node = stream.ends[end].node;
        let now = self.servers[node].now(&self.plan.shape, self.at);
        let Some(link) = &stream.ends[end].link else { return };
        let due = self.at + (link.due(now).as_millis() as u64).max(1);
        if due < stream.ends[end].due || stream.ends[end].due <= self.at {
            stream.ends[end].due = due;
            self.schedule(due, Event::Pump { stream: id, end, due });
        }
    }

    /// A server ends its side of a stream; the other side learns of it.
    pub(super) fn close(&mut self, id: u64, end: usize) {
        self.close_end(id, end);
        let Some(stream) = self.streams.get(&id) else { return };
        let (node, other) = (stream.ends[end].node, stream.ends[1 - end].node);
        if !self.lines.is_blocked(node, other) {
            let latency = self.wires.within(1, self.shape().latency);
            self.schedule(self.at + latency, Event::Close { stream: id, end: 1 - end });
        }
    }

    pub(super) fn close_end(&mut self, id: u64, end: usize) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let (node, peer) = (stream.ends[end].node, stream.ends[1 - end].node);
        if !stream.ends[end].open {
            return;
        }
        if self.servers[node].health == Health::Paused {
            return self.servers[node].waiting.push(Event::Close { stream: id, end });
        }
        stream.ends[end].open = false;
        stream.ends[end].link = None;
        self.servers[node].streams.retain(|held| *held != id);
        if stream.is_dead() {
            self.streams.remove(&id);
        }
        if self.servers[node].health == Health::Up {
            self.dial_soon(node, peer);
        }
    }

    /// Closes streams on which nothing came for too long.
    pub(super) fn close_silent(&mut self, node: usize) {
        for id in self.servers[node].streams.clone() {
            let Some(stream) = self.streams.get(&id) else { continue };
            let Some(end) = stream.end_of(node) else { continue };
            if self.at - stream.ends[end].heard > DEAF {
                self.close(id, end);
            }
        }
    }

    /// Cuts the streams of two servers; `other` does not notice for a while.
    pub(super) fn cut(&mut self, one: usize, other: usize, half_open: u64) {
        let cut: Vec<(u64, usize)> = self
            .streams
            .iter()
            .filter(|(_, stream)| stream.is_between(one, other))
            .filter_map(|(id, stream)| Some((*id, stream.ends.iter().position(|end| end.node == one)?)))
            .collect();
        for (id, end) in cut {
            self.close_end(id, end);
            self.schedule(self.at + half_open, Event::Close { stream: id, end: 1 - end });
        }
    }

    /// Lets through what was held up from one server to another.
    pub(super) fn release(&mut self, from: usize, to: usize) {
        let held: Vec<(u64, usize)> = self
            .streams
            .iter()
            .filter(|(_, stream)| stream.is_between(from, to))
            .filter_map(|(id, stream)| Some((*id, stream.ends.iter().position(|end| end.node == to)?)))
            .collect();
        for (id, end) in held {
            let latency = self.wires.within(1, self.shape().latency);
            if let Some(stream) = self.streams.get_mut(&id).filter(|_| self.lines.is_clear(from, to)) {
                stream.wires[1 - end].hurry(self.at, latency);
            }
            self.schedule(self.at + latency, Event::Deliver { stream: id, end });
        }
    }
}

/// Puts a record among those of a frame that no clock can have written.
fn spoil(frame: Frame, at: u64) -> Frame {
    let Frame::Records(mut records) = frame else { return frame };
    if let Some(mut bad) = records.records.first().cloned() {
        bad.state.key.id.push('x');
        bad.state.owner.written = Stamp { clock: (crate::WALL + at + YEARS) << 16, boot: at | 1 };
        records.records.insert(0, bad);
    }
    Frame::Records(records)
}

/// Keys that a frame tells of.
fn keys(frame: &Frame) -> impl Iterator<Item = &heureka_model::InstanceKey> {
    let records = match frame {
        Frame::Records(records) => records.records.as_slice(),
        _ => &[],
    };
    records.iter().map(|record| &record.state.key)
}
