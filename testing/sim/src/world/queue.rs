//! What happens when: events in the order of their times, and of those at one time in the order they were planned.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Request;
use crate::client::Answer;

/// What happens at a time.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A server's second is over.
    Tick { node: usize, life: u32 },
    /// A server tries to reach another.
    Dial { node: usize, peer: usize, life: u32, turn: u32 },
    /// Frames may have arrived at an end of a stream.
    Deliver { stream: u64, end: usize },
    /// A link wants to be asked.
    Pump { stream: u64, end: usize, due: u64 },
    /// An end hears that the stream is closed.
    Close { stream: u64, end: usize },
    /// A request arrives at a server.
    Arrive { node: usize, request: Box<Request> },
    /// An answer arrives at a client.
    Reply { request: u64, client: usize, answer: Answer },
    /// A client waits no longer.
    GiveUp { request: u64, client: usize },
    /// A client's time has come.
    Wake { client: usize, timer: u32 },
    /// A client does what was planned.
    Act { client: usize, act: usize },
    /// An operator does.
    Operate { operation: usize },
    /// An answer waits no longer for a second server.
    Degrade { node: usize, life: u32, pending: u64 },
    /// A fault begins.
    Begin { fault: usize },
    /// A fault is over.
    End { fault: usize },
    /// One cut of a flapping stream.
    Cut { one: usize, other: usize },
    /// A server notes what it knows.
    Memorize { node: usize },
    /// The monitors look.
    Look,
    /// Servers are compared.
    Compare,
}

/// Events to come.
#[derive(Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Reverse<Due>>,
    sequence: u64,
}

struct Due {
    at: u64,
    sequence: u64,
    event: Event,
}

impl Queue {
    /// Plans an event.
    pub(crate) fn push(&mut self, at: u64, event: Event) {
        let sequence = self.number();
        self.heap.push(Reverse(Due { at, sequence, event }));
    }

    /// The next event and its time.
    pub(crate) fn pop(&mut self) -> Option<(u64, Event)> {
        let Reverse(due) = self.heap.pop()?;
        Some((due.at, due.event))
    }

    /// A number that nothing else has.
    pub(crate) fn number(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.sequence == other.sequence
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}
