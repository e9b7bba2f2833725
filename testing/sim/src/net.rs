//! Streams between servers: in order, late, held up, cut. Frames travel as values; the bytes are another test's.

use std::collections::{BTreeMap, VecDeque};

use heureka_registry::replication::{Frame, Link};

use crate::rng::Rng;

/// Bytes that a sender may have on its way before it must wait.
const WINDOW: usize = 256 * 1024;

/// Frames likewise.
const FRAMES: usize = 16;

/// A stream of two servers.
pub(crate) struct Stream {
    /// Its ends: who dialed, who accepted.
    pub(crate) ends: [End; 2],
    /// What travels from each end to the other.
    pub(crate) wires: [Wire; 2],
}

/// One server's side of a stream.
pub(crate) struct End {
    pub(crate) node: usize,
    pub(crate) open: bool,
    /// Since the other's greeting.
    pub(crate) link: Option<Link>,
    /// When the other was heard last.
    pub(crate) heard: u64,
    /// When it was joined.
    pub(crate) since: u64,
    /// When the link wants to be asked again.
    pub(crate) due: u64,
}

/// One direction.
#[derive(Default)]
pub(crate) struct Wire {
    frames: VecDeque<Travelling>,
    bytes: usize,
    /// The last frame arrives then, and none after it before.
    last: u64,
    /// The next frame with records gets one among them that no clock can have written.
    pub(crate) spoiled: bool,
    /// When the line is free again, of one that takes only so many bytes a second.
    free: u64,
}

struct Travelling {
    arrives: u64,
    size: usize,
    frame: Frame,
}

/// What holds frames up, by direction.
#[derive(Default)]
pub(crate) struct Lines {
    /// How many faults block a direction.
    blocked: BTreeMap<(usize, usize), u32>,
    /// Bytes a second of slow ones.
    slow: BTreeMap<(usize, usize), u64>,
}

impl Stream {
    pub(crate) fn new(dialer: usize, acceptor: usize, at: u64) -> Self {
        let end = |node| End { node, open: true, link: None, heard: at, since: u64::MAX, due: u64::MAX };
        Self { ends: [end(dialer), end(acceptor)], wires: [Wire::default(), Wire::default()] }
    }

    /// The end that `node` holds.
    pub(crate) fn end_of(&self, node: usize) -> Option<usize> {
        self.ends.iter().position(|end| end.open && end.node == node)
    }

    /// Whether both sides have joined and neither has left.
    pub(crate) fn is_up(&self) -> bool {
        self.ends.iter().all(|end| end.open && end.link.is_some())
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.ends.iter().all(|end| !end.open)
    }

    pub(crate) fn is_between(&self, one: usize, other: usize) -> bool {
        let nodes = [self.ends[0].node, self.ends[1].node];
        nodes == [one, other] || nodes == [other, one]
    }
}

impl Wire {
    pub(crate) fn has_room(&self) -> bool {
        self.bytes < WINDOW && self.frames.len() < FRAMES
    }

    /// Sends a frame; tells when it arrives.
    pub(crate) fn send(&mut self, frame: Frame, at: u64, latency: u64, rate: Option<u64>) -> u64 {
        let size = size(&frame);
        let sent = match rate {
            Some(rate) => {
                self.free = self.free.max(at) + size as u64 * 1_000 / rate.max(1);
                self.free
            }
            None => at,
        };
        self.last = self.last.max(sent + latency);
        self.bytes += size;
        self.frames.push_back(Travelling { arrives: self.last, size, frame });
        self.last
    }

    /// The line is as fast as any again: what waits on it arrives soon.
    pub(crate) fn hurry(&mut self, at: u64, latency: u64) {
        self.free = at;
        self.last = self.last.min(at + latency);
        self.frames.iter_mut().for_each(|frame| frame.arrives = frame.arrives.min(at + latency));
    }

    /// The next frame that has arrived.
    pub(crate) fn arrived(&mut self, at: u64) -> Option<Frame> {
        self.frames.front().filter(|first| first.arrives <= at)?;
        let first = self.frames.pop_front()?;
        self.bytes -= first.size;
        Some(first.frame)
    }

    /// Puts the frames on their way in another order.
    pub(crate) fn shuffle(&mut self, rng: &mut Rng) {
        for index in (1..self.frames.len()).rev() {
            let other = rng.index(index + 1);
            if let Some(one) = self.frames.get(index).map(|one| one.frame.clone())
                && let Some(two) = self.frames.get_mut(other)
            {
                let moved = std::mem::replace(&mut two.frame, one);
                self.frames[index].frame = moved;
            }
        }
    }

    /// The first frame on its way.
    pub(crate) fn first_mut(&mut self) -> Option<&mut Frame> {
        self.frames.front_mut().map(|first| &mut first.frame)
    }
}

impl Lines {
    pub(crate) fn block(&mut self, from: usize, to: usize) {
        *self.blocked.entry((from, to)).or_default() += 1;
    }

    /// Ends one fault of a direction; true when it is free again.
    pub(crate) fn unblock(&mut self, from: usize, to: usize) -> bool {
        let Some(count) = self.blocked.get_mut(&(from, to)) else { return true };
        *count -= 1;
        if *count == 0 {
            self.blocked.remove(&(from, to));
            return true;
        }
        false
    }

    pub(crate) fn is_blocked(&self, from: usize, to: usize) -> bool {
        self.blocked.contains_key(&(from, to))
    }

    pub(crate) fn slow(&mut self, from: usize, to: usize, rate: Option<u64>) {
        match rate {
            Some(rate) => drop(self.slow.insert((from, to), rate)),
            None => drop(self.slow.remove(&(from, to))),
        }
    }

    pub(crate) fn rate(&self, from: usize, to: usize) -> Option<u64> {
        self.slow.get(&(from, to)).copied()
    }

    /// Whether nothing holds frames up from one server to another.
    pub(crate) fn is_clear(&self, from: usize, to: usize) -> bool {
        !self.is_blocked(from, to) && self.rate(from, to).is_none()
    }
}

/// About as many bytes as the frame takes on the wire.
fn size(frame: &Frame) -> usize {
    match frame {
        Frame::Hello(_) => 200,
        Frame::Records(records) => 24 + 220 * records.records.len(),
        Frame::Renewals(renewals) => 8 + 3 * renewals.beats.len() + 24 * renewals.bindings.len(),
        Frame::Want(keys) | Frame::Probe(keys) => 8 + 24 * keys.len(),
        Frame::Reports(reports) => 8 + 48 * reports.len(),
        Frame::State(_) => 48,
        Frame::Groups(groups) | Frame::Inspect(groups) => 8 * groups.len(),
        Frame::Buckets(buckets) => 10 * buckets.len(),
        Frame::Summary(summary) => summary.buckets.iter().map(|bucket| 8 + 16 * bucket.entries.len()).sum(),
        Frame::Pull | Frame::Ack(_) | Frame::Drain | Frame::Versions(_) => 16,
    }
}
