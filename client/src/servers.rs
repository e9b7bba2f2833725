//! Which of several servers is called.
//!
//! All calls go to one of them until it fails; then to the next, and on from there. A server that failed is not
//! tried again for a while, unless all of them failed. What a server asks for is waited out only when every one of
//! them asked. When a connection reached its age, one of those that may be called is drawn anew: servers that were
//! restarted get their share of the load back so.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::surroundings::chance;

/// Longest quarantine that a server may ask for.
const LONGEST_TOLD: Duration = Duration::from_mins(5);

/// The servers and the one that is called.
#[derive(Debug)]
pub(crate) struct Servers<T> {
    transports: Box<[T]>,
    choice: Mutex<Choice>,
}

/// A server that was chosen for one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pick {
    server: usize,
    /// Failures of the server before the attempt: of all that fail together only the first counts.
    failures: u64,
    /// Draws before the attempt: of all that ask for another together only the first counts.
    draws: u64,
}

/// The choice, apart from what is chosen from.
#[derive(Debug)]
struct Choice {
    current: usize,
    draws: u64,
    servers: Box<[Health]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Health {
    backoff: Backoff,
    quarantined_until: Option<Instant>,
    /// Up to when it asked to be left alone; nothing when it only failed.
    asked_until: Option<Instant>,
    failures: u64,
}

impl<T: Clone> Servers<T> {
    /// Starts with a random one, so that a fleet with one list spreads over it. `transports` is not empty.
    pub(crate) fn new(transports: Vec<T>) -> Self {
        let first = chance::<u64>() % transports.len().max(1) as u64;
        Self::beginning_at(first as usize, transports)
    }

    pub(crate) fn beginning_at(first: usize, transports: Vec<T>) -> Self {
        let choice = Mutex::new(Choice::new(transports.len(), first));
        Self { transports: transports.into(), choice }
    }

    pub(crate) fn len(&self) -> usize {
        self.transports.len()
    }

    /// The server to try now.
    pub(crate) fn pick(&self) -> (Pick, T) {
        let pick = self.choice().pick(Instant::now());
        (pick, self.transports[pick.server].clone())
    }

    /// The server did not answer, or sent us away; for so long when it said so.
    pub(crate) fn failed(&self, pick: Pick, told: Option<Duration>) {
        self.choice().failed(pick, told, chance(), Instant::now());
    }

    /// The connection to the server reached its age: the next attempts go to a random one.
    pub(crate) fn draw(&self, pick: Pick) {
        self.choice().draw(pick, chance(), Instant::now());
    }

    /// Until one of the servers that did not ask for time, or asked for the least, may be called: nothing as long as
    /// there is one that did not ask.
    pub(crate) fn asked(&self) -> Duration {
        self.choice().soonest(|health| health.asked_until, Instant::now())
    }

    /// Until a server is not quarantined.
    pub(crate) fn quarantine(&self) -> Duration {
        self.choice().soonest(|health| health.quarantined_until, Instant::now())
    }

    /// The server answered.
    pub(crate) fn answered(&self, pick: Pick) {
        self.choice().answered(pick);
    }

    /// Consistent after every statement, so a panic elsewhere does not spoil it.
    fn choice(&self) -> MutexGuard<'_, Choice> {
        self.choice.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Choice {
    fn new(servers: usize, current: usize) -> Self {
        Self { current, draws: 0, servers: vec![Health::default(); servers].into() }
    }

    fn pick(&mut self, now: Instant) -> Pick {
        let count = self.servers.len();
        let ring = || (0..count).map(|step| (self.current + step) % count);
        let usable = ring().find(|server| self.servers[*server].is_usable(now));
        let soonest = || ring().min_by_key(|server| self.servers[*server].quarantined_until);
        self.current = usable.or_else(soonest).unwrap_or(self.current);
        Pick { server: self.current, failures: self.servers[self.current].failures, draws: self.draws }
    }

    /// Takes one of those that may be called for the current one, whichever `lot` says.
    fn draw(&mut self, pick: Pick, lot: u64, now: Instant) {
        if self.draws != pick.draws {
            return;
        }
        self.draws += 1;
        let usable: Vec<_> =
            (0..self.servers.len()).filter(|server| self.servers[*server].is_usable(now)).collect();
        if !usable.is_empty() {
            self.current = usable[(lot % usable.len() as u64) as usize];
        }
    }

    fn failed(&mut self, pick: Pick, told: Option<Duration>, share: f64, now: Instant) {
        let health = &mut self.servers[pick.server];
        if health.failures != pick.failures {
            return;
        }
        health.failures += 1;
        let told = told.map(|told| told.min(LONGEST_TOLD));
        let wait = health.backoff.next(share).max(told.unwrap_or_default());
        health.quarantined_until = Some(now + wait);
        health.asked_until = told.map(|told| now + told);
        if self.current == pick.server {
            self.current = (pick.server + 1) % self.servers.len();
        }
    }

    fn answered(&mut self, pick: Pick) {
        let health = &mut self.servers[pick.server];
        if health.failures == pick.failures {
            health.backoff.reset();
            health.quarantined_until = None;
            health.asked_until = None;
        }
    }

    fn soonest(&self, until: impl Fn(&Health) -> Option<Instant>, now: Instant) -> Duration {
        let soonest = self.servers.iter().map(until).min().flatten();
        soonest.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }
}

impl Health {
    fn is_usable(&self, now: Instant) -> bool {
        self.quarantined_until.is_none_or(|until| until <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(1);

    fn chosen(choice: &mut Choice, now: Instant) -> usize {
        choice.pick(now).server
    }

    fn fail(choice: &mut Choice, now: Instant) {
        let pick = choice.pick(now);
        choice.failed(pick, None, 1.0, now);
    }

    #[test]
    fn the_choice_sticks_until_its_server_fails_and_then_to_the_next() {
        let now = Instant::now();
        let mut choice = Choice::new(3, 1);
        assert_eq!([chosen(&mut choice, now), chosen(&mut choice, now)], [1, 1]);
        fail(&mut choice, now);
        assert_eq!(chosen(&mut choice, now), 2);
        assert_eq!(chosen(&mut choice, now + Duration::from_hours(1)), 2);
    }

    #[test]
    fn whoever_reached_its_age_draws_among_those_that_may_be_called_and_only_once() {
        let now = Instant::now();
        let mut choice = Choice::new(3, 0);
        fail(&mut choice, now);
        let together = choice.pick(now);
        choice.draw(together, 3, now);
        // Two and one are left, in the order of the list.
        assert_eq!(chosen(&mut choice, now), 2);
        choice.draw(together, 0, now);
        assert_eq!(chosen(&mut choice, now), 2, "the second of one connection draws no more");
        let later = choice.pick(now + Duration::from_secs(1));
        choice.draw(later, 0, now + Duration::from_secs(1));
        assert_eq!(chosen(&mut choice, now + Duration::from_secs(1)), 0, "all of them may be called again");
    }

    #[test]
    fn nothing_is_drawn_while_no_server_may_be_called() {
        let now = Instant::now();
        let mut choice = Choice::new(2, 0);
        fail(&mut choice, now);
        fail(&mut choice, now);
        let pick = choice.pick(now);
        choice.draw(pick, 1, now);
        assert_eq!(chosen(&mut choice, now), pick.server);
    }

    #[test]
    fn a_quarantined_server_is_passed_over_until_its_time() {
        let now = Instant::now();
        let mut choice = Choice::new(3, 0);
        fail(&mut choice, now);
        fail(&mut choice, now + STEP);
        fail(&mut choice, now + STEP * 2);
        // All failed: the one whose time comes first is tried all the same.
        assert_eq!(chosen(&mut choice, now + STEP * 3), 0);
        let again = choice.pick(now + STEP * 3);
        choice.failed(again, None, 1.0, now + STEP * 3);
        assert_eq!(chosen(&mut choice, now + STEP * 150), 1);
    }

    #[test]
    fn attempts_that_fail_together_count_as_one_failure() {
        let now = Instant::now();
        let mut choice = Choice::new(2, 0);
        let together = [choice.pick(now); 5];
        together.into_iter().for_each(|pick| choice.failed(pick, None, 1.0, now));
        assert_eq!(choice.servers[0].quarantined_until, Some(now + Duration::from_millis(100)));
        // An answer to an attempt from before the failure proves nothing.
        choice.answered(together[0]);
        assert!(choice.servers[0].quarantined_until.is_some());
    }

    #[test]
    fn what_a_server_asks_for_is_waited_for_only_when_all_of_them_ask() {
        let now = Instant::now();
        let mut choice = Choice::new(2, 0);
        let asked = |choice: &Choice| choice.soonest(|health| health.asked_until, now).as_secs();
        let first = choice.pick(now);
        choice.failed(first, Some(Duration::from_hours(1)), 1.0, now);
        assert_eq!(
            (asked(&choice), choice.soonest(|health| health.quarantined_until, now)),
            (0, Duration::ZERO)
        );
        let second = choice.pick(now);
        choice.failed(second, None, 1.0, now);
        assert_eq!(asked(&choice), 0);
        assert_eq!(choice.soonest(|health| health.quarantined_until, now), Duration::from_millis(100));
        let second = choice.pick(now);
        choice.failed(second, Some(Duration::from_secs(7)), 1.0, now);
        assert_eq!((second.server, asked(&choice)), (1, 7));
        let second = choice.pick(now);
        choice.answered(second);
        assert_eq!(asked(&choice), 0);
    }

    #[test]
    fn quarantines_double_until_an_answer_and_last_as_long_as_told() {
        let now = Instant::now();
        let mut choice = Choice::new(1, 0);
        let mut quarantine = |told, answered| {
            let pick = choice.pick(now);
            if answered {
                choice.answered(pick);
            }
            choice.failed(pick, told, 1.0, now);
            choice.servers[0].quarantined_until.unwrap().duration_since(now).as_millis()
        };
        assert_eq!(
            [quarantine(None, false), quarantine(None, false), quarantine(None, true)],
            [100, 200, 100]
        );
        assert_eq!(quarantine(Some(Duration::from_secs(7)), false), 7000);
        assert_eq!(quarantine(Some(Duration::from_hours(24)), false), 300_000);
    }
}
