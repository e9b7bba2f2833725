//! Requests of clients and operators: their way, what servers answer, what clients make of it.

use std::time::Duration;

use heureka_model::{Instance, KeyRef};
use heureka_registry::{
    Beat, Claim, MetadataPatch, Origin, Refused, RegisterMode, Registry, SetOverride, Surface,
};

use super::{Event, Health, Pending, Request, World};
use crate::client::{Answer, Next, Verb};
use crate::monitors::Served;
use crate::observe::{By, key};
use crate::plan::{Act, Kind, Operator};

/// Longest time that an answer waits for a second server.
const DEGRADED: u64 = 50;

/// A native request is not carried out later than this: its deadline is over.
const DEADLINE: u64 = 5_000;

/// How late a request may be.
const LATEST: u64 = 40_000;

impl World<'_> {
    pub(super) fn act(&mut self, client: usize, act: usize) {
        let what = self.plan.clients[client].acts[act].what;
        if self.clients[client].act(what, self.at) {
            self.trace.note(self.at, || format!("c{client} {what:?}"));
            self.ask(client);
        } else if what == Act::Crash {
            self.monitors.crashed(client, self.at);
        }
    }

    pub(super) fn wake(&mut self, client: usize, timer: u32) {
        if timer == 0 {
            self.clients[client].start(0, false, self.at);
        } else if timer != self.clients[client].timer {
            return;
        }
        self.ask(client);
    }

    /// A client sends the request that its phase asks for.
    fn ask(&mut self, client: usize) {
        let state = &mut self.clients[client];
        let Some(verb) = state.verb() else { return };
        self.requests += 1;
        state.timer += 1;
        state.awaiting = Some(self.requests);
        let (process, content, node) = (state.process, state.content, state.server);
        let request = Box::new(Request { id: self.requests, client, process, content, sent: self.at, verb });
        self.schedule(self.at + self.shape().patience(), Event::GiveUp { request: request.id, client });
        self.dispatch(node, request);
    }

    /// Sends a request on its way: maybe lost, late or twice.
    fn dispatch(&mut self, node: usize, request: Box<Request>) {
        let (lost, doubled, late) = (self.shape().lost, self.shape().doubled, self.shape().late);
        if self.at < self.shape().heal && self.ways.chance(doubled) {
            self.arrive_late(node, request.clone());
        }
        if self.at < self.shape().heal && (self.ways.chance(lost) || self.silent > 0) {
            return;
        }
        if self.at < self.shape().heal && self.ways.chance(late) {
            return self.arrive_late(node, request);
        }
        let latency = self.ways.within(1, self.shape().latency);
        self.schedule(self.at + latency, Event::Arrive { node, request });
    }

    fn arrive_late(&mut self, node: usize, request: Box<Request>) {
        let native = self.clients[request.client].kind == Kind::Native;
        let latest = if native { DEADLINE } else { LATEST };
        let arrives = self.at + self.ways.within(1, latest);
        // After the faults it is quiet.
        if arrives < self.shape().heal {
            self.schedule(arrives, Event::Arrive { node, request });
        }
    }

    pub(super) fn arrive(&mut self, node: usize, request: Box<Request>) {
        match self.servers[node].health {
            Health::Paused => self.servers[node].waiting.push(Event::Arrive { node, request }),
            Health::Down => self.answer(&request, Answer::Unavailable),
            Health::Up if self.unreachable[node] > 0 || self.silent > 0 => {}
            // A server looks at the deadline of a request before it carries it out.
            Health::Up if self.is_overdue(&request) => {}
            Health::Up => self.serve(node, request),
        }
    }

    fn is_overdue(&self, request: &Request) -> bool {
        self.clients[request.client].kind == Kind::Native && self.at > request.sent + DEADLINE
    }

    fn serve(&mut self, node: usize, request: Box<Request>) {
        let Some(core) = self.servers[node].core.clone() else { return };
        let number = request.client;
        let before = self.servers[node].seen[number];
        let now = self.servers[node].now(self.shape(), self.at);
        let name = key(number, self.shape().apps);
        let origin = origin(self.clients[number].kind);
        let answer = match &request.verb {
            Verb::Register(instance, claim) => register(&core.registry, instance, *claim, &origin, now),
            Verb::Renew(beat) => renew(&core.registry, name.as_ref(), *beat, &origin, now),
            Verb::Cancel(claim) => cancel(&core.registry, name.as_ref(), *claim, &origin, now),
        };
        self.touched.insert(number);
        self.observe_touched(node, By::Client);
        let served = Served { node, key: number, before, request: &request, answer };
        let view = view!(self);
        self.monitors.served(&view, &served, &mut self.findings);
        self.trace.served(self.at, &served);
        self.fold.word(self.at << 8 ^ number as u64);
        self.settle(node, request, answer);
        self.pump_all(node);
    }

    /// Answers at once, or when a second server has the write.
    fn settle(&mut self, node: usize, request: Box<Request>, answer: Answer) {
        let Some(core) = self.servers[node].core.clone() else { return };
        let written = self.servers[node].seen[request.client];
        let acks = core.registry.acks();
        let Some(written) = written.filter(|_| answer.is_write() && acks.reachable()) else {
            return self.answer(&request, answer);
        };
        self.sequence += 1;
        let (life, revision) = (self.servers[node].life, core.registry.head());
        let pending = Pending { node, life, revision, written, request, answer };
        self.pending.insert(self.sequence, pending);
        let degrade = Event::Degrade { node, life, pending: self.sequence };
        self.schedule(self.at + DEGRADED, degrade);
    }

    /// Answers what waited for a second server, as far as that has it.
    pub(super) fn confirm(&mut self, id: u64, end: usize) {
        if self.pending.is_empty() {
            return;
        }
        let Some(node) = self.streams.get(&id).map(|stream| stream.ends[end].node) else { return };
        let Some(core) = self.servers[node].core.clone() else { return };
        let reached = core.registry.acks().highest();
        let life = self.servers[node].life;
        let confirmed =
            |pending: &Pending| pending.node == node && pending.life == life && pending.revision <= reached;
        let ready: Vec<u64> =
            self.pending.iter().filter(|(_, pending)| confirmed(pending)).map(|(id, _)| *id).collect();
        for id in ready {
            let Some(pending) = self.pending.remove(&id) else { continue };
            let view = view!(self);
            self.monitors.confirmed(&view, &pending, &mut self.findings);
            self.answer(&pending.request, pending.answer);
        }
    }

    pub(super) fn degrade(&mut self, node: usize, life: u32, pending: u64) {
        if self.servers[node].life != life || self.servers[node].health == Health::Down {
            self.pending.remove(&pending);
            return;
        }
        if self.servers[node].health == Health::Paused {
            return self.servers[node].waiting.push(Event::Degrade { node, life, pending });
        }
        if let Some(pending) = self.pending.remove(&pending) {
            self.answer(&pending.request, pending.answer);
        }
    }

    fn answer(&mut self, request: &Request, answer: Answer) {
        let latency = self.ways.within(1, self.shape().latency);
        let reply = Event::Reply { request: request.id, client: request.client, answer };
        self.schedule(self.at + latency, reply);
    }

    pub(super) fn reply(&mut self, request: u64, client: usize, answer: Answer) {
        let state = &mut self.clients[client];
        if state.awaiting != Some(request) {
            return;
        }
        state.awaiting = None;
        let phase = state.phase;
        let next = state.hear(answer, self.at);
        self.monitors.heard(client, phase, &self.clients[client], answer, self.at);
        self.follow(client, next);
    }

    pub(super) fn give_up(&mut self, request: u64, client: usize) {
        let state = &mut self.clients[client];
        if state.awaiting == Some(request) {
            state.awaiting = None;
            let next = state.hear(Answer::Unavailable, self.at);
            self.follow(client, next);
        }
    }

    fn follow(&mut self, client: usize, next: Next) {
        let state = &mut self.clients[client];
        state.timer += 1;
        let timer = state.timer;
        let wait = match next {
            Next::Rest => return,
            Next::Renew => self.plan.shape.interval,
            Next::Again => 1,
            Next::Turn => {
                state.server = (state.server + 1) % self.plan.shape.nodes;
                state.pause()
            }
            Next::Start(step) => {
                state.start(step, false, self.at);
                1
            }
        };
        self.schedule(self.at + wait, Event::Wake { client, timer });
    }

    pub(super) fn operate(&mut self, operation: usize) {
        let planned = self.plan.operations[operation].what;
        let (node, number) = (planned.node, planned.key);
        let Some(core) = self.servers[node].core.clone().filter(|_| self.servers[node].is_up()) else {
            return;
        };
        let now = self.servers[node].now(self.shape(), self.at);
        let name = key(number, self.shape().apps);
        let done = match planned.what {
            Operator::Set { status, ttl } => {
                let set = SetOverride { status, ttl: ttl.map(Duration::from_millis), drain: None };
                self.monitors.ordered(number, status);
                core.registry.set_override(name.as_ref(), set, &Origin::Operator, now)
            }
            Operator::Clear => core.registry.clear_override(name.as_ref(), None, &Origin::Operator, now),
            Operator::Label => {
                let mut patch = MetadataPatch::default();
                patch.set.insert("label".to_owned(), operation.to_string());
                core.registry.update_metadata(name.as_ref(), patch, &origin(Kind::Native), now)
            }
        };
        self.trace.note(self.at, || format!("n{node} {planned:?}: {}", done.is_ok()));
        // The operation may have touched what it should not.
        self.observe_all(node, By::Operator);
        self.pump_all(node);
    }
}

impl Answer {
    /// Whether it tells of something that must not be lost.
    fn is_write(self) -> bool {
        matches!(self, Self::Registered { .. } | Self::Cancelled { .. })
    }
}

fn origin(kind: Kind) -> Origin {
    let surface = match kind {
        Kind::Native => Surface::Grpc,
        Kind::Eureka => Surface::Rest,
    };
    Origin::Client { surface, principal: None, address: None }
}

fn register(
    registry: &Registry,
    instance: &Instance,
    claim: Claim,
    origin: &Origin,
    now: heureka_model::Now,
) -> Answer {
    let registered = registry.register(instance, claim, RegisterMode::Upsert, origin, now);
    registered.map_or_else(Answer::from, |registered| Answer::Registered {
        applied: registered.applied,
        version: registered.version.owner,
    })
}

fn renew(
    registry: &Registry,
    key: KeyRef<'_>,
    beat: Beat,
    origin: &Origin,
    now: heureka_model::Now,
) -> Answer {
    registry.renew(key, beat, None, origin, now).map_or_else(Answer::from, |_| Answer::Renewed)
}

fn cancel(
    registry: &Registry,
    key: KeyRef<'_>,
    claim: Claim,
    origin: &Origin,
    now: heureka_model::Now,
) -> Answer {
    let cancelled: Result<_, Refused> = registry.cancel(key, claim, origin, now);
    cancelled.map_or_else(Answer::from, |cancelled| Answer::Cancelled { version: cancelled.version.owner })
}
