//! The life of a node, as everybody else in the process sees it.

mod cluster;
mod machine;
mod preserving;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use heureka_model::{Clock, Mono, Wall};
use parking_lot::Mutex;
use tokio::sync::watch;

pub use cluster::{Amiss, Cluster, Differences, Known, Neighbours};
pub use machine::{Cause, Machine, Rules, Seen, State};
pub use preserving::{InForce, Preserving};

/// Time between two looks at the peers while the server is not ready.
const LOOK: Duration = Duration::from_millis(50);

/// Without a tick for so long the process does not live.
const PULSE: Duration = Duration::from_secs(5);

/// The life of a server, shared by everything that asks for it. The answers cost a load each.
pub struct Life {
    machine: Mutex<Machine>,
    states: watch::Sender<State>,
    /// Whether readers are answered.
    serves: AtomicBool,
    /// Monotonic milliseconds of the last tick.
    pulse: AtomicU64,
    clock: Arc<dyn Clock>,
    started: Wall,
    neighbours: Neighbours,
}

impl Life {
    /// A server that starts now.
    #[must_use]
    pub fn new(rules: Rules, neighbours: Neighbours, clock: Arc<dyn Clock>) -> Self {
        let now = clock.now();
        Self {
            machine: Mutex::new(Machine::new(rules, now.mono)),
            states: watch::Sender::new(State::Starting),
            serves: AtomicBool::new(false),
            pulse: AtomicU64::new(now.mono.0),
            started: now.wall,
            clock,
            neighbours,
        }
    }

    /// Where the server is.
    #[must_use]
    pub fn state(&self) -> State {
        *self.states.borrow()
    }

    /// Wakes for every change of the state.
    #[must_use]
    pub fn states(&self) -> watch::Receiver<State> {
        self.states.subscribe()
    }

    /// Whether readers are answered: since the server was first ready, until the end.
    #[must_use]
    pub fn serves_readers(&self) -> bool {
        self.serves.load(Ordering::Acquire)
    }

    /// Wall time of the start.
    #[must_use]
    pub fn started(&self) -> Wall {
        self.started
    }

    /// The store was looked at. `warm`: it held what the server knew not long ago.
    pub fn loaded(&self, warm: bool) {
        let now = self.clock.now();
        self.change(|machine| machine.loaded(warm, now.mono));
        self.look();
    }

    /// Looks at the peers once.
    pub fn look(&self) {
        let now = self.clock.now();
        let seen = (self.neighbours)();
        if let Some(cause) = self.change(|machine| machine.look(seen, now.mono)) {
            tracing::info!(cause = cause.word(), "ready");
        }
    }

    /// The server is to leave.
    pub fn drain(&self) {
        self.change(Machine::drain);
    }

    /// The server has left.
    pub fn stop(&self) {
        self.change(Machine::stop);
    }

    /// A tick came.
    pub fn beat(&self, now: Mono) {
        self.pulse.store(now.0, Ordering::Release);
    }

    /// Whether ticks come.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        let last = Mono(self.pulse.load(Ordering::Acquire));
        self.clock.now().mono.since(last) <= PULSE
    }

    /// Looks at the peers until the server is ready or leaves.
    pub async fn catch_up(self: Arc<Self>) {
        let mut states = self.states();
        while *states.borrow_and_update() <= State::Syncing {
            // Whichever ends first, the state is looked at again.
            let _ = tokio::time::timeout(LOOK, states.changed()).await;
            self.look();
        }
    }

    /// Makes one step and tells it. Whether readers are answered is known before the state is.
    fn change<T>(&self, step: impl FnOnce(&mut Machine) -> T) -> T {
        let mut machine = self.machine.lock();
        let outcome = step(&mut machine);
        self.serves.store(machine.served(), Ordering::Release);
        let state = machine.state();
        self.states.send_if_modified(|told| std::mem::replace(told, state) != state);
        outcome
    }
}

#[cfg(test)]
mod tests {
    use heureka_model::Now;

    use super::*;

    #[derive(Default)]
    struct Manual(AtomicU64);

    impl Clock for Manual {
        fn now(&self) -> Now {
            let millis = self.0.load(Ordering::Relaxed);
            Now { mono: Mono(millis), wall: Wall(1_000 + millis) }
        }
    }

    fn life(rules: Rules, seen: Arc<Mutex<Seen>>) -> (Arc<Manual>, Arc<Life>) {
        let clock = Arc::new(Manual::default());
        let neighbours: Neighbours = Arc::new(move || *seen.lock());
        (clock.clone(), Arc::new(Life::new(rules, neighbours, clock)))
    }

    #[test]
    fn a_server_without_peers_is_ready_when_it_has_loaded() {
        let (_clock, life) = life(Rules::default(), Arc::default());
        assert_eq!((life.state(), life.serves_readers()), (State::Starting, false));
        life.loaded(false);
        assert_eq!((life.state(), life.serves_readers()), (State::Ready, true));
        assert_eq!(life.started(), Wall(1_000));
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_gets_ready_is_noticed_without_being_told() {
        let seen = Arc::new(Mutex::new(Seen { configured: true, ..Seen::default() }));
        let rules = Rules { peer_wait: Duration::from_secs(10), ..Rules::default() };
        let (_clock, life) = life(rules, seen.clone());
        life.loaded(false);
        let catching_up = tokio::spawn(life.clone().catch_up());
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!((life.state(), life.serves_readers()), (State::Syncing, false));
        *seen.lock() = Seen { configured: true, reachable: true, ready: true, synced: true };
        catching_up.await.unwrap();
        assert_eq!(life.state(), State::Ready);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_looks_at_peers_after_the_end() {
        let seen = Arc::new(Mutex::new(Seen { configured: true, ..Seen::default() }));
        let (_clock, life) = life(Rules { peer_wait: Duration::MAX, ..Rules::default() }, seen);
        life.loaded(false);
        let catching_up = tokio::spawn(life.clone().catch_up());
        life.drain();
        catching_up.await.unwrap();
        assert_eq!((life.state(), life.serves_readers()), (State::Draining, false));
    }

    #[test]
    fn a_process_without_ticks_is_not_alive() {
        let (clock, life) = life(Rules::default(), Arc::default());
        for (millis, alive) in [(0, true), (5_000, true), (5_001, false)] {
            clock.0.store(millis, Ordering::Relaxed);
            assert_eq!(life.is_alive(), alive, "{millis}");
        }
        life.beat(Mono(5_001));
        assert!(life.is_alive());
    }
}
