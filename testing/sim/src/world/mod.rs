//! A cluster and its clients on one clock. One event after the other; nothing else moves.

/// The view of a world beside its monitors, which borrow it apart.
macro_rules! view {
    ($world:expr) => {
        $crate::world::View {
            plan: $world.plan,
            at: $world.at,
            servers: &$world.servers,
            clients: &$world.clients,
            lines: &$world.lines,
        }
    };
}

mod faults;
mod requests;
mod server;
mod streams;
mod view;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use heureka_registry::replication::Frame;

use crate::client::{Answer, Client, Verb};
use crate::monitors::{Findings, Monitors};
use crate::net::{Lines, Stream};
use crate::observe::{By, Fold, Seen, Transition, key};
use crate::plan::{Plan, Shape};
use crate::rng::Rng;
use crate::trace::Trace;

pub(crate) use server::{Health, Server};
pub(crate) use streams::Linked;
pub(crate) use view::View;

/// How often the monitors look at everything.
const LOOK: u64 = 1_000;

/// How often servers are compared after the faults are over.
const COMPARE: u64 = 100;

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

/// A request on its way.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) id: u64,
    pub(crate) client: usize,
    pub(crate) process: u32,
    pub(crate) content: u64,
    pub(crate) sent: u64,
    pub(crate) verb: Verb,
}

/// An answer that waits for a second server.
pub(crate) struct Pending {
    pub(crate) node: usize,
    pub(crate) life: u32,
    pub(crate) revision: u64,
    pub(crate) written: Seen,
    pub(crate) request: Box<Request>,
    pub(crate) answer: Answer,
}

/// A run under way.
pub(crate) struct World<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) at: u64,
    pub(crate) servers: Vec<Server>,
    pub(crate) clients: Vec<Client>,
    pub(crate) streams: BTreeMap<u64, Stream>,
    pub(crate) lines: Lines,
    /// Servers that no client reaches, with how many faults say so.
    unreachable: Vec<u32>,
    silent: u32,
    pending: BTreeMap<u64, Pending>,
    /// Frames of streams, for replay.
    recorded: Vec<(usize, usize, Frame)>,
    pub(crate) monitors: Monitors,
    pub(crate) trace: Trace,
    pub(crate) findings: Findings,
    /// Every key that a frame touched, while it is taken in.
    touched: BTreeSet<usize>,
    fold: Fold,
    queue: BinaryHeap<Reverse<Due>>,
    sequence: u64,
    requests: u64,
    ways: Rng,
    wires: Rng,
    evil: Rng,
    events: u64,
}

struct Due {
    at: u64,
    sequence: u64,
    event: Event,
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Hash of everything that happened.
    pub fingerprint: u64,
    /// Events.
    pub events: u64,
    /// What was found and measured.
    pub findings: Findings,
    /// What is kept for a report.
    pub trace: Trace,
}

/// Runs a plan to its end. Equal plans have equal outcomes.
#[must_use]
pub fn run(plan: &Plan, trace: Trace) -> Outcome {
    let mut world = World::new(plan, trace);
    world.begin();
    while let Some(Reverse(due)) = world.queue.pop() {
        if due.at > plan.shape.end || world.findings.is_enough() {
            break;
        }
        world.at = due.at;
        world.events += 1;
        world.happen(due.event);
    }
    world.finish()
}

impl<'a> World<'a> {
    fn new(plan: &'a Plan, trace: Trace) -> Self {
        let server = |number| Server::new(number, plan.skews[number], &plan.shape, plan.seed);
        Self {
            plan,
            at: 0,
            servers: (0..plan.shape.nodes).map(server).collect(),
            clients: plan.clients.iter().map(|client| Client::new(client, &plan.shape)).collect(),
            streams: BTreeMap::new(),
            lines: Lines::default(),
            unreachable: vec![0; plan.shape.nodes],
            silent: 0,
            pending: BTreeMap::new(),
            recorded: Vec::new(),
            monitors: Monitors::new(plan),
            trace,
            findings: Findings::default(),
            touched: BTreeSet::new(),
            fold: Fold::default(),
            queue: BinaryHeap::new(),
            sequence: 0,
            requests: 0,
            ways: Rng::fork(plan.seed, 10),
            wires: Rng::fork(plan.seed, 11),
            evil: Rng::fork(plan.seed, 12),
            events: 0,
        }
    }

    pub(crate) fn shape(&self) -> &'a Shape {
        &self.plan.shape
    }

    fn begin(&mut self) {
        for node in 0..self.servers.len() {
            self.start_server(node, false);
        }
        for (index, fault) in self.plan.faults.iter().enumerate() {
            self.schedule(fault.at, Event::Begin { fault: index });
            self.schedule_memory(&fault.what, fault.at);
        }
        for (client, planned) in self.plan.clients.iter().enumerate() {
            self.schedule(planned.starts, Event::Wake { client, timer: 0 });
            for (act, planned) in planned.acts.iter().enumerate() {
                self.schedule(planned.at, Event::Act { client, act });
            }
        }
        for (operation, planned) in self.plan.operations.iter().enumerate() {
            self.schedule(planned.at, Event::Operate { operation });
        }
        self.schedule(LOOK, Event::Look);
        self.schedule(self.shape().heal + COMPARE, Event::Compare);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Tick { node, life } => self.tick(node, life),
            Event::Dial { node, peer, life, turn } => self.dial(node, peer, life, turn),
            Event::Deliver { stream, end } => self.deliver(stream, end),
            Event::Pump { stream, end, due } => self.pump_due(stream, end, due),
            Event::Close { stream, end } => self.close_end(stream, end),
            Event::Arrive { node, request } => self.arrive(node, request),
            Event::Reply { request, client, answer } => self.reply(request, client, answer),
            Event::GiveUp { request, client } => self.give_up(request, client),
            Event::Wake { client, timer } => self.wake(client, timer),
            Event::Act { client, act } => self.act(client, act),
            Event::Operate { operation } => self.operate(operation),
            Event::Degrade { node, life, pending } => self.degrade(node, life, pending),
            Event::Begin { fault } => self.begin_fault(fault),
            Event::End { fault } => self.end_fault(fault),
            Event::Cut { one, other } => self.cut(one, other, 0),
            Event::Memorize { node } => self.servers[node].memorize(&self.plan.shape, self.at),
            Event::Look => self.look(),
            Event::Compare => self.compare(),
        }
    }

    pub(crate) fn schedule(&mut self, at: u64, event: Event) {
        self.sequence += 1;
        self.queue.push(Reverse(Due { at: at.max(self.at), sequence: self.sequence, event }));
    }

    /// Starts a life of a server, with what it knew before if it is `warm`.
    fn start_server(&mut self, node: usize, warm: bool) {
        let (at, plan) = (self.at, self.plan);
        self.servers[node].start(&plan.shape, plan.preservation, at);
        self.monitors.started(node);
        if warm {
            self.servers[node].remember(&plan.shape, at);
            self.observe_all(node, By::Start);
        }
        let life = self.servers[node].life;
        let phase = self.servers[node].rng.within(1, 1_000);
        self.schedule(at + phase, Event::Tick { node, life });
        for peer in (0..self.servers.len()).filter(|peer| *peer != node && plan.together(node, *peer)) {
            self.dial_soon(node, peer);
        }
    }

    fn tick(&mut self, node: usize, life: u32) {
        let at = self.at;
        if self.servers[node].life != life || self.servers[node].health == Health::Down {
            return;
        }
        if self.servers[node].health == Health::Paused {
            return self.servers[node].waiting.push(Event::Tick { node, life });
        }
        let Some(core) = self.servers[node].core.clone() else { return };
        self.servers[node].note_tick(at);
        core.replicator.tick(self.servers[node].now(self.shape(), at));
        self.observe_all(node, By::Tick);
        let view = view!(self);
        self.monitors.ticked(&view, node);
        self.become_ready(node);
        self.close_silent(node);
        self.pump_all(node);
        let late =
            if self.servers[node].rng.chance(20) { self.servers[node].rng.within(0, 1_900) } else { 0 };
        self.schedule(at + 1_000 + late, Event::Tick { node, life });
    }

    /// A server is ready once it has learned what others know, or has waited long enough for others.
    fn become_ready(&mut self, node: usize) {
        const PATIENCE: u64 = 5_000;
        let server = &self.servers[node];
        let Some(core) = &server.core else { return };
        let waited = self.at - server.started >= PATIENCE;
        let alone =
            !core.replicator.peers(server.now(self.shape(), self.at)).iter().any(|peer| peer.state.ready);
        if !core.replicator.is_ready() && (core.replicator.is_synced() || (waited && alone)) {
            core.replicator.set_ready(true);
        }
    }

    /// Looks at what became of all keys of a server, if anything changed.
    pub(crate) fn observe_all(&mut self, node: usize, by: By) {
        if self.has_changed(node) {
            for key in 0..self.shape().clients {
                self.observe_key(node, key, by);
            }
            self.note_head(node);
        }
    }

    /// Looks at what became of the keys that were touched, if anything changed.
    pub(crate) fn observe_touched(&mut self, node: usize, by: By) {
        if self.has_changed(node) {
            for key in std::mem::take(&mut self.touched) {
                self.observe_key(node, key, by);
            }
            self.note_head(node);
        }
        self.touched.clear();
    }

    fn has_changed(&self, node: usize) -> bool {
        let server = &self.servers[node];
        server.core.as_ref().is_some_and(|core| core.registry.head() != server.head)
    }

    fn note_head(&mut self, node: usize) {
        let server = &mut self.servers[node];
        server.head = server.core.as_ref().map_or(0, |core| core.registry.head());
    }

    fn observe_key(&mut self, node: usize, number: usize, by: By) {
        let server = &self.servers[node];
        let Some(core) = &server.core else { return };
        let now = server.now(self.shape(), self.at);
        let state = core.registry.export(key(number, self.shape().apps).as_ref(), now);
        let Some(after) = state.as_ref().map(Seen::of) else { return };
        let before = server.seen[number];
        if before == Some(after) {
            return;
        }
        let stood = self.at - server.changed[number];
        self.servers[node].seen[number] = Some(after);
        self.servers[node].changed[number] = self.at;
        let transition = Transition { at: self.at, node, key: number, before, stood, after, by };
        self.fold(&transition);
        self.trace.transition(&transition);
        let view = view!(self);
        self.monitors.transition(&view, &transition, &mut self.findings);
    }

    fn fold(&mut self, transition: &Transition) {
        let Transition { at, node, key, after, .. } = transition;
        let words =
            [*at, *node as u64, *key as u64, after.life as u64, after.owner, after.written.clock, after.said];
        words.into_iter().for_each(|word| self.fold.word(word));
        self.fold.word(after.overlay_stamp.clock);
    }

    fn look(&mut self) {
        let rare = if self.shape().clients > 100 { 10 } else { 1 };
        self.schedule(self.at + rare * LOOK, Event::Look);
        let streams = self.linked();
        let view = view!(self);
        self.monitors.look(&view, &streams, &mut self.findings);
    }

    /// Notes when all servers agree for the first time after the faults.
    fn compare(&mut self) {
        let view = view!(self);
        if view.differing().is_none() {
            self.findings.converged = Some(self.at - self.shape().heal);
        } else {
            self.schedule(self.at + COMPARE, Event::Compare);
        }
    }

    fn finish(mut self) -> Outcome {
        if !self.findings.is_enough() {
            let view = view!(self);
            self.monitors.end(&view, &mut self.findings);
        }
        self.fold.word(self.events);
        Outcome { fingerprint: self.fold.0, events: self.events, findings: self.findings, trace: self.trace }
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
