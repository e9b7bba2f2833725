//! A client: one key, and the processes that live under it one after the other.
//!
//! Both kinds follow the rules that their protocols ask of them, and nothing more: they renew, register again when
//! told so, turn to the next server when one does not answer, adopt the version that a server returned.

use std::time::Duration;

use heureka_model::{Instance, InstanceKey, LeaseTerms, Port, Status, Wall};
use heureka_registry::{Beat, Claim, Refused, Writer};

use crate::WALL;
use crate::plan::{Act, ClientPlan, Kind, Shape};

/// What a client does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// There is no process.
    Gone,
    /// It wants to be registered, and is not yet as it wants.
    Registering,
    /// It is, and renews.
    Registered,
    /// It wants to be removed; then it ends, or starts anew.
    Cancelling { again: Option<i64> },
}

/// A client.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) key: InstanceKey,
    pub(crate) kind: Kind,
    pub(crate) phase: Phase,
    /// Number of its process, from 1.
    pub(crate) process: u32,
    /// Number of its content, over all processes.
    pub(crate) content: u64,
    pub(crate) status: Status,
    /// Where it can be reached, as a number.
    pub(crate) address: u32,
    /// Server it talks to.
    pub(crate) server: usize,
    /// Clock against true time.
    skew: i64,
    /// Native: version of the last write. Eureka: stamp of the last change.
    version: u64,
    /// Native: no write of this process was acknowledged.
    first: bool,
    terms: LeaseTerms,
    /// The request whose answer counts, and its verb.
    pub(crate) awaiting: Option<u64>,
    /// Timers set before count no longer.
    pub(crate) timer: u32,
    /// Times without an answer in a row.
    failures: u32,
}

/// What a client asks.
#[derive(Clone, Debug)]
pub(crate) enum Verb {
    /// To be registered.
    Register(Box<Instance>, Claim),
    /// To be kept.
    Renew(Beat),
    /// To be removed.
    Cancel(Claim),
}

/// What a server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Registered, with the owner version that is stored; or a late copy that was not applied.
    Registered { applied: bool, version: u64 },
    /// The lease is renewed.
    Renewed,
    /// Removed.
    Cancelled { version: u64 },
    /// No such instance.
    NotFound,
    /// The server knows an older record.
    Outdated,
    /// Another writer holds the version.
    Stale { version: u64 },
    /// Nobody listens there, or the server refused.
    Unavailable,
}

impl Answer {
    /// Whether a registration was taken for a late copy.
    pub(crate) fn is_late(self) -> bool {
        matches!(self, Self::Registered { applied: false, .. })
    }
}

/// What follows from an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing.
    Rest,
    /// The next renewal is due after the interval.
    Renew,
    /// Ask again at once.
    Again,
    /// Ask the next server soon.
    Turn,
    /// A new process starts.
    Start(i64),
}

impl Client {
    pub(crate) fn new(plan: &ClientPlan, shape: &Shape) -> Self {
        let app = format!("APP{}", plan.key % shape.apps);
        let id = format!("i{}", plan.key / shape.apps);
        Self {
            key: InstanceKey { namespace: String::new(), app, id },
            kind: plan.kind,
            phase: Phase::Gone,
            process: 0,
            content: 0,
            status: Status::Up,
            address: plan.key as u32,
            server: plan.home,
            skew: plan.skew,
            version: 0,
            first: true,
            terms: LeaseTerms::clamped(
                Duration::from_millis(shape.interval),
                Duration::from_millis(shape.lease),
            ),
            awaiting: None,
            timer: 0,
            failures: 0,
        }
    }

    /// A new process takes the key.
    pub(crate) fn start(&mut self, step: i64, moved: bool, at: u64) {
        self.process += 1;
        self.content += 1;
        self.skew += step;
        self.address += if moved { 10_000 } else { 0 };
        self.status = Status::Up;
        self.first = true;
        self.version = 0;
        self.failures = 0;
        self.awaiting = None;
        self.phase = Phase::Registering;
        self.touch(at);
    }

    /// Does what was planned; tells whether the client must be heard now.
    pub(crate) fn act(&mut self, act: Act, at: u64) -> bool {
        let there = matches!(self.phase, Phase::Registering | Phase::Registered);
        match act {
            Act::Return if self.phase == Phase::Gone => self.start(0, false, at),
            Act::Replace { step, moved } if there => self.start(step, moved, at),
            Act::Update | Act::Report(_) if there => {
                if let Act::Report(status) = act {
                    self.status = status;
                }
                self.content += 1;
                self.phase = Phase::Registering;
                self.touch(at);
            }
            Act::Leave | Act::Cycle { .. } if there => {
                let again = if let Act::Cycle { step } = act { Some(step) } else { None };
                self.phase = Phase::Cancelling { again };
                self.touch(at);
            }
            Act::Crash if there => {
                self.phase = Phase::Gone;
                self.awaiting = None;
                return false;
            }
            Act::Turn { to } if there => {
                self.server = to;
                return false;
            }
            _ => return false,
        }
        true
    }

    /// The request that the phase asks for.
    pub(crate) fn verb(&self) -> Option<Verb> {
        match self.phase {
            Phase::Gone => None,
            Phase::Registering => Some(Verb::Register(Box::new(self.instance()), self.claim())),
            Phase::Registered => Some(Verb::Renew(match self.kind {
                Kind::Native => Beat::Writer(self.writer()),
                Kind::Eureka => Beat::Stamp(Wall(self.version)),
            })),
            Phase::Cancelling { .. } => Some(Verb::Cancel(match self.kind {
                Kind::Native => self.claim(),
                Kind::Eureka => Claim::Next,
            })),
        }
    }

    /// Takes an answer to the request that is awaited.
    pub(crate) fn hear(&mut self, answer: Answer, at: u64) -> Next {
        if answer == Answer::Unavailable {
            self.failures += 1;
            return Next::Turn;
        }
        self.failures = 0;
        match (self.phase, answer) {
            (Phase::Registering, Answer::Registered { applied, version }) => {
                self.registered(applied, version)
            }
            (Phase::Registered, Answer::Renewed) => Next::Renew,
            (Phase::Registered, Answer::NotFound | Answer::Outdated) => {
                self.phase = Phase::Registering;
                if answer == Answer::NotFound || self.kind == Kind::Eureka {
                    self.touch(at);
                }
                Next::Again
            }
            (Phase::Registering | Phase::Cancelling { .. }, Answer::Stale { version }) => {
                self.version = self.version.max(version) + 1;
                Next::Again
            }
            (Phase::Cancelling { again }, Answer::Cancelled { version }) => self.cancelled(again, version),
            _ => Next::Again,
        }
    }

    /// Time that the client has not been answered makes it slower.
    pub(crate) fn pause(&self) -> u64 {
        (100 << self.failures.min(4)).min(1_000)
    }

    fn registered(&mut self, applied: bool, version: u64) -> Next {
        let native = self.kind == Kind::Native;
        if native && !applied {
            self.version = self.version.max(version) + 1;
            return Next::Again;
        }
        if native {
            self.version = self.version.max(version);
        }
        self.first = false;
        self.phase = Phase::Registered;
        Next::Renew
    }

    fn cancelled(&mut self, again: Option<i64>, version: u64) -> Next {
        self.phase = Phase::Gone;
        if self.kind == Kind::Native {
            self.version = self.version.max(version);
        }
        again.map_or(Next::Rest, Next::Start)
    }

    /// Something changed: the next write is a newer one.
    fn touch(&mut self, at: u64) {
        let wall = (WALL + at).saturating_add_signed(self.skew);
        self.version = wall.max(self.version + 1);
    }

    fn claim(&self) -> Claim {
        match self.kind {
            Kind::Native => Claim::Writer(self.writer()),
            Kind::Eureka => Claim::Stamp,
        }
    }

    fn writer(&self) -> Writer {
        let mut incarnation = [0; 16];
        incarnation[..4].copy_from_slice(&self.process.to_le_bytes());
        incarnation[4] = 1;
        Writer { incarnation, version: self.version, first: self.first }
    }

    fn instance(&self) -> Instance {
        let mut instance = Instance {
            status: self.status,
            host_name: format!("h{}", self.address),
            ip_address: format!("10.1.{}.{}", self.address / 250, self.address % 250),
            port: Some(Port { number: 8080, enabled: true }),
            lease: self.terms,
            last_dirty: (self.kind == Kind::Eureka).then_some(Wall(self.version)),
            ..Instance::new(self.key.clone())
        };
        instance.metadata.insert(CONTENT.to_owned(), self.content.to_string());
        instance.metadata.insert(PROCESS.to_owned(), self.process.to_string());
        instance
    }
}

/// Metadata key that carries the number of the content.
pub(crate) const CONTENT: &str = "content";
/// Metadata key that carries the number of the process.
pub(crate) const PROCESS: &str = "process";

impl From<Refused> for Answer {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::NotFound => Self::NotFound,
            Refused::Outdated => Self::Outdated,
            Refused::Stale { stored } => Self::Stale { version: stored.owner },
            _ => Self::Unavailable,
        }
    }
}
