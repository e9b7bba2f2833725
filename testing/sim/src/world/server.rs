//! A server of the cluster: the core, its clocks, and what was seen of both.

use std::sync::Arc;
use std::time::Duration;

use heureka_model::{Mono, Now, Wall};
use heureka_registry::replication::{Identity, Replicator};
use heureka_registry::{Config, KeyState, Preservation, PreservationMode, Registry, Seeds};

use super::Event;
use crate::WALL;
use crate::observe::Seen;
use crate::plan::Shape;
use crate::rng::Rng;

/// Name of the cluster.
const CLUSTER: &str = "simulated";

/// A tick later than this is a pause, as the core sees it.
const PAUSED: u64 = 2_000;

/// Whether a server works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Up,
    /// Stands still; what comes waits.
    Paused,
    Down,
}

/// A server.
pub(crate) struct Server {
    pub(crate) number: usize,
    pub(crate) health: Health,
    /// Counts its starts.
    pub(crate) life: u32,
    pub(crate) core: Option<Core>,
    /// When this life began.
    pub(crate) started: u64,
    /// Wall clock against true time.
    pub(crate) skew: i64,
    /// Time that the monotonic clock of this life stood still.
    pub(crate) suspended: u64,
    /// Monotonic time of the last tick.
    ticked: u64,
    /// Begins and ends of this life's pauses on the monotonic clock, as the core should have found them.
    pauses: Vec<(u64, u64)>,
    /// The fault that stopped it.
    pub(crate) paused_by: Option<usize>,
    /// What came while it stood still.
    pub(crate) waiting: Vec<Event>,
    /// Streams it has an end of.
    pub(crate) streams: Vec<u64>,
    /// Failed dials in a row, by server.
    pub(crate) failures: Vec<u32>,
    /// Dials planned so far, by server: only the last one counts.
    pub(crate) dials: Vec<u32>,
    /// What it holds, by key.
    pub(crate) seen: Vec<Option<Seen>>,
    /// Since when.
    pub(crate) changed: Vec<u64>,
    /// Head of its log when that was looked at.
    pub(crate) head: u64,
    /// What it knew at some time, for a start with old knowledge.
    pub(crate) memory: Vec<KeyState>,
    /// Faults touched it last.
    pub(crate) disturbed: u64,
    pub(crate) rng: Rng,
}

/// What a running server consists of.
#[derive(Clone)]
pub(crate) struct Core {
    pub(crate) registry: Arc<Registry>,
    pub(crate) replicator: Arc<Replicator>,
}

impl Server {
    pub(crate) fn new(number: usize, skew: i64, shape: &Shape, seed: u64) -> Self {
        Self {
            number,
            health: Health::Down,
            life: 0,
            core: None,
            started: 0,
            skew,
            suspended: 0,
            ticked: 0,
            pauses: Vec::new(),
            paused_by: None,
            waiting: Vec::new(),
            streams: Vec::new(),
            failures: vec![0; shape.nodes],
            dials: vec![0; shape.nodes],
            seen: vec![None; shape.clients],
            changed: vec![0; shape.clients],
            head: 0,
            memory: Vec::new(),
            disturbed: 0,
            rng: Rng::fork(seed, 1_000 + number as u64),
        }
    }

    /// Begins a life that knows nothing.
    pub(crate) fn start(&mut self, shape: &Shape, preservation: PreservationMode, at: u64) {
        self.health = Health::Up;
        self.life += 1;
        self.started = at;
        self.suspended = 0;
        self.ticked = 0;
        self.pauses.clear();
        self.head = 0;
        self.seen.fill(None);
        self.changed.fill(at);
        self.failures.fill(0);
        let seeds = Seeds { boot: self.rng.next() | 1, hash: self.rng.next(), shuffle: self.rng.next() };
        let now = self.now(shape, at);
        let registry = Arc::new(Registry::new(config(shape, preservation), seeds, now));
        let identity =
            Identity { cluster: CLUSTER.to_owned(), node: name(self.number), address: name(self.number) };
        let replicator = Arc::new(Replicator::new(Arc::clone(&registry), identity));
        replicator.set_ready(shape.nodes == 1);
        self.core = Some(Core { registry, replicator });
    }

    /// Ends a life.
    pub(crate) fn stop(&mut self) {
        self.health = Health::Down;
        self.core = None;
        self.waiting.clear();
        self.streams.clear();
    }

    /// Takes in what an earlier life knew, as a warm start does.
    pub(crate) fn remember(&mut self, shape: &Shape, at: u64) {
        let now = self.now(shape, at);
        let Some(core) = &self.core else { return };
        for known in self.memory.drain(..) {
            // Nothing is full here.
            let _ = core.registry.restore(known, now);
        }
    }

    /// Notes what it knows now.
    pub(crate) fn memorize(&mut self, shape: &Shape, at: u64) {
        let now = self.now(shape, at);
        let Some(core) = &self.core else { return };
        let known = self.seen.iter().enumerate().filter(|(_, seen)| seen.is_some());
        let state = |(number, _)| core.registry.export(crate::observe::key(number, shape.apps).as_ref(), now);
        self.memory = known.filter_map(state).collect();
    }

    /// Both of its clocks.
    pub(crate) fn now(&self, shape: &Shape, at: u64) -> Now {
        let wall = (WALL + at).saturating_add_signed(self.skew);
        Now { mono: Mono(self.mono(at)), wall: Wall(wall - wall % shape.wall_grain) }
    }

    /// Its monotonic clock.
    pub(crate) fn mono(&self, at: u64) -> u64 {
        at - self.started - self.suspended
    }

    /// How much of a lease has passed since a time of its monotonic clock, as it should count.
    pub(crate) fn passed(&self, since: u64, at: u64) -> u64 {
        let pauses = self.pauses.iter().copied().chain(self.pause(at));
        let paused: u64 = pauses.map(|(from, until)| until.saturating_sub(from.max(since))).sum();
        self.mono(at) - since - paused
    }

    /// From when the next tick was due until now, if that is a pause.
    fn pause(&self, at: u64) -> Option<(u64, u64)> {
        let (due, now) = (self.ticked + 1_000, self.mono(at));
        (now > due + PAUSED).then_some((due, now))
    }

    /// Notes a tick, and the pause that it ends.
    pub(crate) fn note_tick(&mut self, at: u64) {
        self.pauses.extend(self.pause(at));
        self.ticked = self.mono(at);
    }

    pub(crate) fn is_up(&self) -> bool {
        self.health == Health::Up
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.is_up() && self.core.as_ref().is_some_and(|core| core.replicator.is_ready())
    }

    pub(crate) fn boot(&self) -> u64 {
        self.core.as_ref().map_or(0, |core| core.registry.boot())
    }
}

/// Name and address of a server.
pub(crate) fn name(number: usize) -> String {
    format!("n{number}")
}

fn config(shape: &Shape, mode: PreservationMode) -> Config {
    Config {
        tombstone_ttl: Duration::from_millis(shape.tombstone_ttl),
        preservation: Preservation { mode, ..Preservation::default() },
        asks_peers: shape.nodes > 1,
        ..Config::default()
    }
}
