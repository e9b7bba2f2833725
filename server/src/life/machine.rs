//! When a server may answer readers: one small state machine without a clock, a socket or a task.
//!
//! ```text
//! STARTING ──> SYNCING ──> READY ──> DRAINING ──> STOPPED
//!                 └───────────────────^
//! ```
//!
//! A server that has just started knows less than its clients do. Until it caught up it takes every write and
//! answers no reader, because a list without some instances is worse than no list. It never waits for all of its
//! peers: one of them that is ready is enough, and when none is, it waits a while and serves what it has.

use std::time::Duration;

use heureka_model::Mono;

/// How long a server with a recent store looks for a peer before it serves what the store held. A connection within
/// a network takes a fraction of that.
const WARM_WAIT: Duration = Duration::from_secs(1);

/// Where a server is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// It loads what it stored; nothing is answered yet.
    Starting,
    /// It takes writes and catches up; readers are sent elsewhere.
    Syncing,
    /// It serves everything.
    Ready,
    /// It leaves and tells its clients to.
    Draining,
    /// It answers nothing any more.
    Stopped,
}

/// Why a server became ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It has no peers to learn from.
    Alone,
    /// It knows what a ready peer knows.
    Synced,
    /// No peer was reached, and the store is recent enough.
    Warm,
    /// No peer was ready for as long as it waits.
    Waited,
}

/// What an operator says about waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Readers are refused for so long when nobody could say what was registered before.
    pub hold: Duration,
    /// How long a peer that is ready is waited for.
    pub peer_wait: Duration,
}

/// What is seen of the peers at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// There is at least one to look for.
    pub configured: bool,
    /// A stream to at least one is open.
    pub reachable: bool,
    /// At least one of those is ready.
    pub ready: bool,
    /// Everything that one of the ready ones knows was taken in.
    pub synced: bool,
}

/// The life of one server.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    rules: Rules,
    state: State,
    warm: bool,
    served: bool,
    began: Mono,
    /// When a peer was last reachable; the beginning, while none was.
    reached: Mono,
    /// When a peer was last ready; the beginning, while none was.
    led: Mono,
}

impl State {
    /// The state as one word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Syncing => "syncing",
            Self::Ready => "ready",
            Self::Draining => "draining",
            Self::Stopped => "stopped",
        }
    }
}

impl Cause {
    /// The cause as one word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Synced => "synced",
            Self::Warm => "warm store",
            Self::Waited => "no peer ready",
        }
    }
}

impl Machine {
    /// A server that starts now.
    #[must_use]
    pub fn new(rules: Rules, now: Mono) -> Self {
        Self { rules, state: State::Starting, warm: false, served: false, began: now, reached: now, led: now }
    }

    /// Where the server is.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// The server was ready at least once; from then on readers are answered until the end.
    #[must_use]
    pub fn served(&self) -> bool {
        self.served
    }

    /// The store was looked at. `warm`: it held what the server knew not long ago.
    pub fn loaded(&mut self, warm: bool, now: Mono) {
        if self.state == State::Starting {
            (self.state, self.warm) = (State::Syncing, warm);
            (self.began, self.reached, self.led) = (now, now, now);
        }
    }

    /// Looks at the peers; the cause, if the server is ready from now on.
    pub fn look(&mut self, seen: Seen, now: Mono) -> Option<Cause> {
        if self.state != State::Syncing {
            return None;
        }
        if seen.reachable {
            self.reached = now;
        }
        if seen.ready {
            self.led = now;
        }
        let cause = self.cause(seen, now)?;
        (self.state, self.served) = (State::Ready, true);
        Some(cause)
    }

    /// The server is to leave.
    pub fn drain(&mut self) {
        self.state = self.state.max(State::Draining);
    }

    /// The server has left.
    pub fn stop(&mut self) {
        self.state = State::Stopped;
    }

    fn cause(&self, seen: Seen, now: Mono) -> Option<Cause> {
        let held = now.since(self.began) < self.rules.hold;
        // Whoever has no memory of its own and no peer's cannot know what is missing.
        let ignorant = held && !self.warm;
        if seen.ready && seen.synced {
            return Some(Cause::Synced);
        }
        if !seen.configured {
            return (!ignorant).then_some(Cause::Alone);
        }
        if self.warm && !seen.reachable && now.since(self.reached) >= WARM_WAIT {
            return Some(Cause::Warm);
        }
        let waited = !seen.ready && now.since(self.led) >= self.rules.peer_wait;
        (waited && !ignorant).then_some(Cause::Waited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules { hold: Duration::ZERO, peer_wait: Duration::from_secs(10) };
    const HELD: Rules = Rules { hold: Duration::from_secs(30), ..RULES };

    const ALONE: Seen = Seen { configured: false, reachable: false, ready: false, synced: false };
    const LOST: Seen = Seen { configured: true, ..ALONE };
    const MET: Seen = Seen { reachable: true, ..LOST };
    const LED: Seen = Seen { ready: true, ..MET };
    const SYNCED: Seen = Seen { synced: true, ..LED };

    /// Looks at each second of the row; the second and cause at which the server is ready.
    fn life(rules: Rules, warm: bool, seconds: &[(u64, Seen)]) -> Option<(u64, Cause)> {
        let mut machine = Machine::new(rules, Mono(5_000));
        machine.loaded(warm, Mono(5_000));
        seconds
            .iter()
            .find_map(|(second, seen)| Some((*second, machine.look(*seen, Mono(5_000 + second * 1000))?)))
    }

    /// The same sight at every second of a minute.
    fn always(seen: Seen) -> Vec<(u64, Seen)> {
        (0..=60).map(|second| (second, seen)).collect()
    }

    #[test]
    fn a_server_is_ready_when_it_knows_enough_or_waited_enough() {
        let table = [
            ("no peers", RULES, false, always(ALONE), Some((0, Cause::Alone))),
            ("no peers, a hold", HELD, false, always(ALONE), Some((30, Cause::Alone))),
            ("no peers, a hold, a store", HELD, true, always(ALONE), Some((0, Cause::Alone))),
            ("synced at once", RULES, false, always(SYNCED), Some((0, Cause::Synced))),
            ("synced within the hold", HELD, false, always(SYNCED), Some((0, Cause::Synced))),
            ("nobody there", RULES, false, always(LOST), Some((10, Cause::Waited))),
            ("nobody there, a hold", HELD, false, always(LOST), Some((30, Cause::Waited))),
            ("nobody there, a store", RULES, true, always(LOST), Some((1, Cause::Warm))),
            ("nobody ready", RULES, false, always(MET), Some((10, Cause::Waited))),
            ("nobody ready, a store", RULES, true, always(MET), Some((10, Cause::Waited))),
            ("a long copy", RULES, false, always(LED), None),
            ("a long copy, a store", RULES, true, always(LED), None),
        ];
        for (name, rules, warm, seconds, expected) in table {
            assert_eq!(life(rules, warm, &seconds), expected, "{name}");
        }
    }

    #[test]
    fn a_peer_that_leaves_during_the_copy_is_waited_for_anew() {
        let gone_at_eight = |second| if second < 8 { LED } else { LOST };
        let seconds: Vec<_> = (0..=60).map(|second| (second, gone_at_eight(second))).collect();
        assert_eq!(life(RULES, false, &seconds), Some((17, Cause::Waited)));
        assert_eq!(life(RULES, true, &seconds), Some((8, Cause::Warm)), "a second after it was last seen");
    }

    #[test]
    fn being_synced_with_somebody_who_is_not_ready_is_not_enough() {
        let halfway = Seen { ready: false, ..SYNCED };
        assert_eq!(life(RULES, false, &[(0, halfway), (9, halfway), (9, SYNCED)]), Some((9, Cause::Synced)));
    }

    #[test]
    fn nothing_is_ready_before_the_store_was_looked_at() {
        let mut machine = Machine::new(RULES, Mono(0));
        assert_eq!(machine.look(SYNCED, Mono(99_000)), None);
        assert_eq!(machine.state(), State::Starting);
    }

    #[test]
    fn a_server_that_drains_never_comes_back() {
        let mut machine = Machine::new(RULES, Mono(0));
        machine.loaded(false, Mono(0));
        machine.drain();
        assert_eq!(machine.look(SYNCED, Mono(1)), None);
        assert!(!machine.served(), "it never was ready, so its readers stay refused");
        machine.stop();
        machine.drain();
        assert_eq!(machine.state(), State::Stopped);
    }

    #[test]
    fn a_server_that_was_ready_serves_until_the_end() {
        let mut machine = Machine::new(RULES, Mono(0));
        machine.loaded(false, Mono(0));
        assert_eq!(machine.look(ALONE, Mono(0)), Some(Cause::Alone));
        machine.loaded(false, Mono(1));
        assert_eq!((machine.state(), machine.look(ALONE, Mono(1))), (State::Ready, None));
        machine.drain();
        assert!(machine.served());
    }
}
