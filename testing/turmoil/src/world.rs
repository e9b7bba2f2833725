//! The driver: machines on a simulated network, faults when the plan says so, and a look at every server in between.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use heureka_history::{Recorder, Recording};
use turmoil::{Builder, Sim};

use crate::bugs;
use crate::judge;
use crate::ledger::{Book, Breach, Ledger, Standing, key, millis};
use crate::observe::Observer;
use crate::panics;
use crate::plan::{END, Fault, Kind, Machine, Plan, SERVERS, Trouble};
use crate::server::{self, Slot};
use crate::{cache, eureka, flock, native, net, prober, scout, watcher};

/// What virtual time moves by.
const TICK: Duration = Duration::from_millis(10);
/// Virtual milliseconds between two looks at the servers.
const LOOK: u64 = 100;
/// Messages that a socket takes in before its reader does.
const SOCKET: usize = 4096;

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Rules that do not hold, in the order in which that was seen.
    pub breaches: Vec<Breach>,
    /// What happened, a line each, with the number of the instance that it concerns.
    pub events: Vec<(Option<usize>, String)>,
    /// What passed over the wires of the watchers.
    pub recording: Recording,
    /// Removals of instances whose owners kept them, where faults excuse it.
    pub excused: u64,
    /// Hash of everything that happened.
    pub fingerprint: u64,
}

/// A cluster at work.
struct World<'a> {
    plan: Rc<Plan>,
    sim: Sim<'a>,
    slots: Vec<Slot>,
    book: Book,
    recorder: Recorder,
    observer: Observer,
}

/// Runs a plan from its begin to its end.
#[must_use]
pub fn run(plan: &Plan) -> Outcome {
    panics::forget();
    bugs::shorten_ring(plan.ring);
    net::clients_of(plan.seed);
    let mut world = World::new(plan);
    world.populate();
    world.pass();
    world.judged()
}

impl World<'_> {
    fn new(plan: &Plan) -> Self {
        let mut builder = Builder::new();
        builder
            .rng_seed(plan.seed)
            .tick_duration(TICK)
            .simulation_duration(Duration::from_millis(2 * END))
            .min_message_latency(Duration::from_millis(1))
            .max_message_latency(Duration::from_millis(plan.latency))
            .tcp_capacity(SOCKET);
        Self {
            sim: builder.build(),
            slots: (0..SERVERS).map(|_| Slot::default()).collect(),
            book: Rc::new(RefCell::new(ledger(plan))),
            recorder: Recorder::new(),
            observer: Observer::new(plan),
            plan: Rc::new(plan.clone()),
        }
    }

    fn populate(&mut self) {
        for (number, slot) in self.slots.iter().enumerate() {
            let (plan, slot, book) = (self.plan.clone(), slot.clone(), self.book.clone());
            self.sim.host(Machine::Server(number).address(), move || {
                server::serve(plan.clone(), number, slot.clone(), book.clone())
            });
        }
        for number in 0..self.plan.owners.len() {
            let (plan, book, recorder) = (self.plan.clone(), self.book.clone(), self.recorder.clone());
            let address = Machine::Owner(number).address();
            match self.plan.owners[number].kind {
                Kind::Native => self
                    .sim
                    .host(address, move || native::own(plan.clone(), number, book.clone(), recorder.clone())),
                Kind::Eureka => {
                    self.sim.host(address, move || eureka::own(plan.clone(), number, book.clone()));
                }
            }
        }
        for number in 0..self.plan.watchers.len() {
            let (plan, book, recorder) = (self.plan.clone(), self.book.clone(), self.recorder.clone());
            self.sim.host(Machine::Watcher(number).address(), move || {
                watcher::look(plan.clone(), number, book.clone(), recorder.clone())
            });
        }
        for number in 0..self.plan.probers.len() {
            let (plan, book, recorder) = (self.plan.clone(), self.book.clone(), self.recorder.clone());
            let slots = self.slots.clone();
            self.sim.host(Machine::Prober(number).address(), move || {
                prober::probe(plan.clone(), number, slots.clone(), book.clone(), recorder.clone())
            });
        }
        let (plan, book, recorder) = (self.plan.clone(), self.book.clone(), self.recorder.clone());
        self.sim.host(Machine::Flock.address(), move || {
            flock::look(plan.clone(), book.clone(), recorder.clone())
        });
        for number in 0..self.plan.caches.len() {
            let (plan, book, recorder) = (self.plan.clone(), self.book.clone(), self.recorder.clone());
            self.sim.host(Machine::Cache(number).address(), move || {
                cache::keep(plan.clone(), number, book.clone(), recorder.clone())
            });
        }
        for number in 0..self.plan.scouts.len() {
            let (plan, book) = (self.plan.clone(), self.book.clone());
            self.sim.host(Machine::Scout(number).address(), move || {
                scout::look(plan.clone(), number, book.clone())
            });
        }
    }

    /// Lets time pass until the end, or until a machine fails.
    fn pass(&mut self) {
        let (mut due, mut look) = (schedule(&self.plan), 0);
        loop {
            let at = millis(self.sim.elapsed());
            while due.last().is_some_and(|(when, ..)| *when <= at) {
                if let Some((_, begins, fault)) = due.pop() {
                    self.apply(at, begins, fault);
                }
            }
            if let Err(error) = self.sim.step() {
                return self.book.borrow_mut().breach("every machine runs", at, None, error.to_string());
            }
            if at >= look {
                look = at + LOOK;
                self.observer.look(at, &self.slots, &self.book, &self.recorder);
            }
            if at >= END {
                return judge::end(at, &self.plan, &self.slots, &self.book);
            }
        }
    }

    fn apply(&mut self, at: u64, begins: bool, fault: Fault) {
        let word = if begins { "begins" } else { "ends" };
        self.book.borrow_mut().note(at, None, format!("{:?} {word}", fault.trouble));
        let sim = &mut self.sim;
        match (fault.trouble, begins) {
            (Trouble::Cut(one, other), true) => sim.partition(one.address(), other.address()),
            (Trouble::Cut(one, other), false) => sim.repair(one.address(), other.address()),
            (Trouble::OneWay(from, to), true) => sim.partition_oneway(from.address(), to.address()),
            (Trouble::OneWay(from, to), false) => sim.repair_oneway(from.address(), to.address()),
            (Trouble::Held(one, other), true) => sim.hold(one.address(), other.address()),
            (Trouble::Held(one, other), false) => sim.release(one.address(), other.address()),
            (Trouble::Slow(one, other, most), is_on) => {
                let latency = Duration::from_millis(if is_on { most } else { self.plan.latency });
                sim.set_link_max_message_latency(one.address(), other.address(), latency);
            }
            (Trouble::Lossy(one, other, share), is_on) => {
                let rate = if is_on { share as f64 / 1_000.0 } else { 0.0 };
                sim.set_link_fail_rate(one.address(), other.address(), rate);
                sim.repair(one.address(), other.address());
            }
            (Trouble::Stopped(server), is_on) => self.stop(server, is_on),
            (Trouble::Killed(server), true) => {
                self.slots[server].borrow_mut().life = None;
                sim.crash(Machine::Server(server).address());
            }
            (Trouble::Blackout, is_on) => self.blackout(is_on),
            (Trouble::Drained(server), true) => {
                if let Some(life) = &self.slots[server].borrow().life {
                    life.leave();
                }
            }
            (Trouble::Killed(server) | Trouble::Drained(server), false) => {
                self.slots[server].borrow_mut().life = None;
                sim.bounce(Machine::Server(server).address());
            }
            (Trouble::Gone(owner, _), true) => {
                sim.crash(Machine::Owner(owner).address());
                self.book.borrow_mut().stands(at, owner, Standing::Lost);
                self.recorder.forgot(key(owner));
            }
            (Trouble::Gone(owner, true), false) => sim.bounce(Machine::Owner(owner).address()),
            (Trouble::Gone(_, false), false) => {}
        }
    }

    fn blackout(&mut self, begins: bool) {
        for (number, slot) in self.slots.iter().enumerate() {
            slot.borrow_mut().life = None;
            let address = Machine::Server(number).address();
            if begins { self.sim.crash(address) } else { self.sim.bounce(address) }
        }
    }

    fn stop(&self, server: usize, is_on: bool) {
        let server = Machine::Server(server);
        for (one, other) in self.plan.links().filter(|(one, other)| *one == server || *other == server) {
            if is_on {
                self.sim.hold(one.address(), other.address());
            } else {
                self.sim.release(one.address(), other.address());
            }
        }
    }

    fn judged(self) -> Outcome {
        let recording = self.recorder.recording();
        let mut book = self.book.borrow_mut();
        for text in panics::seen() {
            book.breach("nothing panics", END, None, text);
        }
        judge::recorded(&recording, &mut book);
        let lines = book.events.iter().map(|event| (event.key, event.to_string()));
        Outcome {
            events: lines.collect(),
            fingerprint: fingerprint(&book),
            breaches: std::mem::take(&mut book.breaches),
            excused: self.observer.excused,
            recording,
        }
    }
}

fn ledger(plan: &Plan) -> Ledger {
    Ledger::new(plan)
}

/// Begins and ends of faults, the last one first.
fn schedule(plan: &Plan) -> Vec<(u64, bool, Fault)> {
    let both =
        plan.faults.iter().flat_map(|fault| [(fault.from, true, *fault), (fault.until, false, *fault)]);
    let mut due: Vec<_> = both.collect();
    due.sort_by_key(|(when, begins, _)| std::cmp::Reverse((*when, *begins)));
    due
}

fn fingerprint(book: &Ledger) -> u64 {
    let bytes = book.events.iter().flat_map(|event| event.to_string().into_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
