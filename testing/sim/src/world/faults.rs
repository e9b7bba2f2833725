//! How faults begin and end.

use heureka_registry::replication::{Applied, Bucket, BucketEntries, DigestEntry, Frame, Summary};

use super::{Event, Health, World};
use crate::plan::{Fault, Hostility};

impl World<'_> {
    /// Makes sure that a server which will start with old knowledge has it.
    pub(super) fn schedule_memory(&mut self, fault: &Fault, at: u64) {
        if let Fault::Crash { node, warm: Some(age), .. } = fault {
            self.schedule(at.saturating_sub(*age), Event::Memorize { node: *node });
        }
    }

    pub(super) fn begin_fault(&mut self, index: usize) {
        let fault = &self.plan.faults[index].what;
        self.trace.note(self.at, || format!("{fault:?}"));
        self.fold.word(index as u64);
        let left = self.shape().heal.saturating_sub(self.at);
        self.schedule(self.at + fault.lasts().min(left), Event::End { fault: index });
        self.disturb(fault);
        match *fault {
            Fault::Partition { .. } => self.each_way(fault, |world, from, to| world.lines.block(from, to)),
            Fault::Cut { one, other, half_open } => self.cut(one, other, half_open.min(left)),
            Fault::Flap { one, other, times } => {
                for time in 0..times.min(left / 1_000) {
                    self.schedule(self.at + time * 1_000, Event::Cut { one, other });
                }
            }
            Fault::Slow { from, to, rate, .. } => self.lines.slow(from, to, Some(rate)),
            Fault::Pause { node, .. } if self.servers[node].is_up() => {
                self.servers[node].health = Health::Paused;
                self.servers[node].paused_by = Some(index);
            }
            Fault::Crash { node, .. } => self.crash(node, index),
            Fault::Restart { node, .. } => self.leave(node, index),
            Fault::Step { node, by } => self.servers[node].skew += by,
            Fault::Unreachable { node, .. } => self.unreachable[node] += 1,
            Fault::Silence { .. } => self.silent += 1,
            Fault::Hostile { from, to, what } => self.harm(from, to, what),
            Fault::Pause { .. } => {}
        }
    }

    pub(super) fn end_fault(&mut self, index: usize) {
        let planned = &self.plan.faults[index];
        let fault = &planned.what;
        self.disturb(fault);
        match *fault {
            Fault::Partition { .. } => self.each_way(fault, |world, from, to| {
                if world.lines.unblock(from, to) {
                    world.release(from, to);
                }
            }),
            Fault::Slow { from, to, .. } => {
                self.lines.slow(from, to, None);
                self.release(from, to);
            }
            Fault::Pause { node, suspended, .. } => self.resume(node, index, suspended, self.at - planned.at),
            Fault::Crash { node, warm, step, .. } => {
                self.servers[node].skew += step;
                self.come_back(node, index, warm.is_some());
            }
            Fault::Restart { node, .. } => self.come_back(node, index, true),
            Fault::Unreachable { node, .. } => self.unreachable[node] -= 1,
            Fault::Silence { .. } => self.silent -= 1,
            Fault::Cut { .. } | Fault::Flap { .. } | Fault::Step { .. } | Fault::Hostile { .. } => {}
        }
    }

    /// Notes which servers a fault touches.
    fn disturb(&mut self, fault: &Fault) {
        let until = self.at + if let Fault::Flap { times, .. } = fault { times * 1_000 } else { 0 };
        let mut touch = |node: usize| {
            let server = &mut self.servers[node];
            server.disturbed = server.disturbed.max(until);
        };
        match *fault {
            Fault::Partition { .. } | Fault::Silence { .. } => (0..self.plan.shape.nodes).for_each(touch),
            Fault::Cut { one, other, .. } | Fault::Flap { one, other, .. } => {
                [one, other].into_iter().for_each(touch);
            }
            Fault::Slow { from, to, .. } | Fault::Hostile { from, to, .. } => {
                [from, to].into_iter().for_each(touch);
            }
            Fault::Pause { node, .. }
            | Fault::Crash { node, .. }
            | Fault::Restart { node, .. }
            | Fault::Step { node, .. }
            | Fault::Unreachable { node, .. } => touch(node),
        }
    }

    fn each_way(&mut self, fault: &Fault, mut act: impl FnMut(&mut Self, usize, usize)) {
        let Fault::Partition { side, one_way, .. } = *fault else { return };
        let on_side = |node: usize| side >> node & 1 == 1;
        for from in 0..self.shape().nodes {
            for to in 0..self.shape().nodes {
                if on_side(from) != on_side(to) && (!one_way || on_side(from)) {
                    act(self, from, to);
                }
            }
        }
    }

    fn resume(&mut self, node: usize, index: usize, suspended: bool, lasted: u64) {
        let server = &mut self.servers[node];
        if server.health != Health::Paused || server.paused_by != Some(index) {
            return;
        }
        server.health = Health::Up;
        if suspended {
            server.suspended += lasted;
        }
        let waiting = std::mem::take(&mut server.waiting);
        for event in waiting {
            // Whatever waits goes first or after, as it happens.
            let soon = self.servers[node].rng.within(0, 3);
            self.schedule(self.at + soon, event);
        }
    }

    /// A server is gone from one moment to the next; its peers learn of it now, or when nothing comes any more.
    fn crash(&mut self, node: usize, index: usize) {
        if self.servers[node].health == Health::Down {
            return;
        }
        self.end_streams(node);
        self.servers[node].stop();
        self.servers[node].paused_by = Some(index);
    }

    fn end_streams(&mut self, node: usize) {
        let noticed = self.evil.chance(700);
        self.servers[node].health = Health::Up;
        for id in self.servers[node].streams.clone() {
            let Some(end) = self.streams.get(&id).and_then(|stream| stream.end_of(node)) else { continue };
            if noticed { self.close(id, end) } else { self.close_end(id, end) }
        }
    }

    /// A server says that it leaves, tells what it has to tell, and leaves.
    fn leave(&mut self, node: usize, index: usize) {
        let Some(core) = self.servers[node].core.clone().filter(|_| self.servers[node].is_up()) else {
            return;
        };
        core.replicator.drain();
        self.pump_all(node);
        self.servers[node].memorize(&self.plan.shape, self.at);
        self.end_streams(node);
        self.servers[node].stop();
        self.servers[node].paused_by = Some(index);
    }

    fn come_back(&mut self, node: usize, index: usize, warm: bool) {
        let server = &self.servers[node];
        if server.health == Health::Down && server.paused_by == Some(index) {
            self.start_server(node, warm);
        }
    }

    fn harm(&mut self, from: usize, to: usize, what: Hostility) {
        let found = self.streams.iter().find(|(_, stream)| stream.is_up() && stream.is_between(from, to));
        let Some(id) = found.map(|(id, _)| *id) else { return };
        let Some(end) = self.streams.get(&id).and_then(|stream| stream.end_of(from)) else { return };
        match what {
            Hostility::Replay => self.replay(id, end, from, to),
            Hostility::FarFuture => {
                self.streams.get_mut(&id).into_iter().for_each(|stream| stream.wires[end].spoiled = true);
            }
            Hostility::Noise => self.noise(id, end),
            Hostility::Reorder | Hostility::Double | Hostility::Truncate => self.mangle(id, end, what),
        }
    }

    fn replay(&mut self, id: u64, end: usize, from: usize, to: usize) {
        let of_pair = |(one, other, _): &&(usize, usize, Frame)| (*one, *other) == (from, to);
        let frames: Vec<Frame> =
            self.recorded.iter().filter(of_pair).map(|(_, _, frame)| frame.clone()).collect();
        for frame in frames {
            self.inject(id, end, frame);
        }
        // Short names of keys are another stream's: whoever could send such frames could do so until it ends.
        let soon = self.at + self.shape().latency + 20;
        self.schedule(soon, Event::Cut { one: from, other: to });
    }

    fn noise(&mut self, id: u64, end: usize) {
        let word = self.evil.next();
        let entry = DigestEntry { key: word, entry: word };
        let bucket = BucketEntries { number: word as u16, entries: vec![entry; 3] };
        let frame = match self.evil.index(7) {
            0 => Frame::Groups(vec![word; word as usize % 70]),
            1 => Frame::Buckets(vec![Bucket { number: word as u16, hash: word }; 3]),
            2 => Frame::Summary(Summary { buckets: vec![bucket], reply: true }),
            3 => Frame::Want(vec![crate::observe::key(word as usize % 50, 2)]),
            4 => Frame::Probe(vec![crate::observe::key(word as usize % 50, 2)]),
            5 => Frame::Ack(Applied { boot: word, revision: u64::MAX }),
            _ => Frame::Pull,
        };
        self.inject(id, end, frame);
    }

    fn inject(&mut self, id: u64, end: usize, frame: Frame) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let arrives = stream.wires[end].send(frame, self.at, 1, None);
        self.schedule(arrives, Event::Deliver { stream: id, end: 1 - end });
    }

    /// Spoils what is on its way. Nothing like it happens on a stream that lives on, so it is cut right after.
    fn mangle(&mut self, id: u64, end: usize, what: Hostility) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let (one, other) = (stream.ends[end].node, stream.ends[1 - end].node);
        let wire = &mut stream.wires[end];
        match what {
            Hostility::Reorder => wire.shuffle(&mut self.evil),
            Hostility::Double => {
                let first = wire.first_mut().cloned();
                if let Some(frame) = first {
                    wire.send(frame, self.at, 1, None);
                }
            }
            _ => wire.first_mut().into_iter().for_each(truncate),
        }
        let soon = self.at + self.shape().latency + 2;
        self.schedule(soon, Event::Deliver { stream: id, end: 1 - end });
        self.schedule(soon + 1, Event::Cut { one, other });
    }
}

/// Takes away the second half of a frame.
fn truncate(frame: &mut Frame) {
    match frame {
        Frame::Records(records) => {
            records.records.truncate(records.records.len() / 2);
            // What says that all is told stood at the end.
            records.revision = 0;
            records.covered = None;
            records.complete = false;
        }
        Frame::Renewals(renewals) => renewals.beats.truncate(renewals.beats.len() / 2),
        Frame::Groups(groups) => groups.truncate(groups.len() / 2),
        Frame::Buckets(buckets) => buckets.truncate(buckets.len() / 2),
        Frame::Summary(summary) => summary.buckets.truncate(summary.buckets.len() / 2),
        Frame::Want(keys) | Frame::Probe(keys) => keys.truncate(keys.len() / 2),
        _ => {}
    }
}
