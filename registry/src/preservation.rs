//! Self-preservation: how many lapsed leases may go.
//!
//! Everything is worked out from the leases themselves at each tick; there is no counter that could drift. A
//! server that suddenly hears nobody is more likely cut off than surrounded by the dead, so lapsed leases beyond
//! a budget are held; and because holding must end, a set that stays silent while the others renew is let go at
//! the budget's rate.

use std::collections::VecDeque;
use std::time::Duration;

use heureka_model::Mono;

use crate::outlook::Next;
use crate::{Preservation, PreservationMode};

/// Span over which the budget counts.
const WINDOW: Duration = Duration::from_mins(1);

/// How long beyond its lease a silent instance is held while the others renew.
const SILENCE: Duration = Duration::from_secs(90);

/// What one look at all leases found.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Census {
    /// Leases, the lapsed ones included.
    pub(crate) live: usize,
    /// Lapsed leases.
    pub(crate) lapsed: Vec<Lapsed>,
    /// Renewals per minute that all leases promise.
    pub(crate) promised: f64,
    /// The same over leases that hold and were renewed at least once.
    pub(crate) expected: f64,
    /// The part of `expected` whose last renewal is not overdue.
    pub(crate) heard: f64,
    /// Longest lease.
    pub(crate) longest_ms: u64,
}

/// A lease that ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lapsed {
    pub(crate) slot: u32,
    /// Time since it ran out.
    pub(crate) overdue: Duration,
    /// Self-preservation does not hold it: it was never renewed, or its owner reported DOWN.
    pub(crate) unprotected: bool,
    /// Time after which its owner is to renew.
    pub(crate) interval: Duration,
}

/// What may be removed at this tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowance {
    /// Lapsed leases under protection that may go.
    pub(crate) protected: usize,
    /// Only those overdue for so long.
    pub(crate) overdue: Duration,
    /// The last UP instance of an application stays.
    pub(crate) keep_last_up: bool,
    /// Leases outside protection go as well.
    pub(crate) unprotected: bool,
}

impl Census {
    /// Takes slots for lapsed because they once were.
    pub(crate) fn recall(&mut self, slots: &[u32]) {
        let (overdue, interval) = (Duration::from_secs(1), Duration::ZERO);
        let lapsed = |slot: &u32| Lapsed { slot: *slot, overdue, unprotected: true, interval };
        self.lapsed.extend(slots.iter().map(lapsed));
    }

    /// Expects as many renewals as were promised once.
    pub(crate) fn expect(&mut self, promised: f64) {
        self.promised = self.promised.max(promised);
        self.expected = self.promised;
    }
}

/// What happened within the window.
#[derive(Debug, Default)]
struct Recent(VecDeque<(Mono, usize)>);

/// State between ticks.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    since: Option<Mono>,
    /// Since when the others renew.
    steady: Option<Mono>,
    /// Protected leases removed within the window.
    removed: Recent,
    /// Removed instances that came back within it.
    returned: Recent,
    eureka_sweep: Option<Mono>,
    forecast: Forecast,
}

/// What was decided last, in words and numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Forecast {
    pub(crate) budget: usize,
    pub(crate) next: Next,
}

const NOTHING: Allowance =
    Allowance { protected: 0, overdue: Duration::ZERO, keep_last_up: false, unprotected: true };

impl Allowance {
    /// Nothing at all.
    pub(crate) const NOTHING: Self = Self { unprotected: false, ..NOTHING };
}

impl Guard {
    pub(crate) fn is_protecting(&self) -> bool {
        self.since.is_some()
    }

    /// How many lapsed leases may go now. `renewals` are those of the last minute.
    pub(crate) fn decide(
        &mut self,
        config: &Preservation,
        census: &Census,
        renewals: u64,
        now: Mono,
    ) -> Allowance {
        match config.mode {
            PreservationMode::Off => {
                self.since = None;
                self.forecast = Forecast { budget: census.live, next: Next::AtOnce };
                Allowance { protected: usize::MAX, ..NOTHING }
            }
            PreservationMode::Eureka => self.eureka(config, census, renewals, now),
            PreservationMode::Budget => self.budget(config, census, now),
        }
    }

    /// Counts removals of protected leases against the budget.
    pub(crate) fn removed(&mut self, count: usize, now: Mono) {
        self.removed.note(count, now);
    }

    /// Counts instances that were removed and are there again: leases are counted as they were before.
    pub(crate) fn returned(&mut self, count: usize, now: Mono) {
        self.returned.note(count, now);
    }

    /// What was decided last.
    pub(crate) fn forecast(&self) -> Forecast {
        self.forecast
    }

    /// Protected leases that went within the window.
    pub(crate) fn removed_lately(&mut self, now: Mono) -> usize {
        self.removed.count(now)
    }

    /// For how long leases have been held.
    pub(crate) fn held_for(&self, now: Mono) -> Option<Duration> {
        self.since.map(|since| now.since(since))
    }

    fn budget(&mut self, config: &Preservation, census: &Census, now: Mono) -> Allowance {
        let recent = self.removed.count(now);
        let gone = recent.saturating_sub(self.returned.count(now));
        let silent = census.lapsed.iter().filter(|lapsed| !lapsed.unprotected).count();
        let budget = budget(census.live + gone, config.threshold);
        let collapsed = census.heard < config.threshold * census.expected;
        let beyond = recent + silent > budget || (collapsed && silent > 0);
        let nothing_renews = census.expected == 0.0;
        let silence = collapsed || (beyond && nothing_renews);
        self.steady = if silence { None } else { self.steady.or(Some(now)) };
        // Those who come back after an outage do so over one interval; whoever is late is not dead yet.
        let patience = patience(census);
        let returned = self.steady.is_some_and(|since| now.since(since) >= patience);
        if !beyond && (self.since.is_none() || returned) {
            self.since = None;
            self.forecast = Forecast { budget, next: Next::AtOnce };
            return Allowance { protected: silent, ..NOTHING };
        }
        let held = now.since(*self.since.get_or_insert(now));
        let left = budget.saturating_sub(recent);
        let patience_over = held >= config.max_hold;
        let may_go = if nothing_renews { patience_over } else { returned };
        if !may_go {
            let next = match self.steady {
                _ if nothing_renews => Next::AfterHold(config.max_hold.saturating_sub(held)),
                Some(since) => Next::AfterOthersRenewed(patience.saturating_sub(now.since(since))),
                None => Next::WhileOthersAreSilent,
            };
            self.forecast = Forecast { budget, next };
            return NOTHING;
        }
        let overdue = if patience_over { Duration::ZERO } else { SILENCE };
        self.forecast = Forecast { budget, next: Next::Gradually(overdue) };
        Allowance { protected: left, overdue, keep_last_up: !patience_over, unprotected: true }
    }

    /// The original's arithmetic, in its order, so that borderline figures come out alike.
    fn eureka(&mut self, config: &Preservation, census: &Census, renewals: u64, now: Mono) -> Allowance {
        let threshold = (census.promised * config.threshold) as u64;
        let enabled = threshold > 0 && renewals > threshold;
        self.since = if enabled || threshold == 0 { None } else { self.since.or(Some(now)) };
        let limit = census.live - (census.live as f64 * config.threshold) as usize;
        let due = self.eureka_sweep.is_none_or(|last| now.since(last) >= config.eureka_interval);
        let wait = self
            .eureka_sweep
            .filter(|_| !due)
            .map_or(config.eureka_interval, |last| config.eureka_interval.saturating_sub(now.since(last)));
        let next = if enabled { Next::AtSweep(wait) } else { Next::UntilRenewals(threshold) };
        self.forecast = Forecast { budget: limit, next };
        if !due {
            return Allowance { unprotected: false, ..NOTHING };
        }
        self.eureka_sweep = Some(now);
        Allowance { protected: if enabled { limit } else { 0 }, unprotected: false, ..NOTHING }
    }
}

impl Recent {
    fn note(&mut self, count: usize, now: Mono) {
        if count > 0 {
            self.0.push_back((now, count));
        }
    }

    fn count(&mut self, now: Mono) -> usize {
        while self.0.front().is_some_and(|(at, _)| now.since(*at) >= WINDOW) {
            self.0.pop_front();
        }
        self.0.iter().map(|(_, count)| count).sum()
    }
}

/// How long the others must have renewed before silence means anything: so long that each owner of a lapsed lease
/// could have come back.
fn patience(census: &Census) -> Duration {
    let held = census.lapsed.iter().filter(|lapsed| !lapsed.unprotected);
    held.map(|lapsed| lapsed.interval * 3 / 2).max().unwrap_or_default().min(SILENCE)
}

/// Protected leases of `live` that may go within the window; one always may.
fn budget(live: usize, threshold: f64) -> usize {
    // The small term keeps 20 × 0.15 = 3.0000000000000004 from becoming 4.
    ((live as f64 * (1.0 - threshold) - 1e-9).ceil() as usize).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lapsed(count: usize, overdue: u64, unprotected: bool) -> Vec<Lapsed> {
        let overdue = Duration::from_secs(overdue);
        let interval = Duration::from_secs(30);
        (0..count as u32).map(|slot| Lapsed { slot, overdue, unprotected, interval }).collect()
    }

    /// `live` leases of 30 s intervals of which some lapsed; the others renew.
    fn census(live: usize, lapsed: Vec<Lapsed>) -> Census {
        let others = 2.0 * (live - lapsed.len()) as f64;
        Census {
            live,
            lapsed,
            promised: 2.0 * live as f64,
            expected: others,
            heard: others,
            longest_ms: 90_000,
        }
    }

    fn decide(guard: &mut Guard, census: &Census, second: u64) -> Allowance {
        guard.decide(&Preservation::default(), census, 0, Mono(second * 1000))
    }

    /// A guard that has seen the others renew for a while.
    fn settled() -> Guard {
        let mut guard = Guard::default();
        decide(&mut guard, &census(20, Vec::new()), 0);
        guard
    }

    #[test]
    fn the_budget_is_fifteen_percent_rounded_up_and_at_least_one() {
        for (live, expected) in [(1, 1), (2, 1), (6, 1), (7, 2), (20, 3), (100, 15), (101, 16)] {
            assert_eq!(budget(live, 0.85), expected, "{live}");
        }
    }

    #[test]
    fn lapses_within_the_budget_go_at_once() {
        let mut guard = Guard::default();
        assert_eq!(decide(&mut guard, &census(20, lapsed(3, 0, false)), 0).protected, 3);
        assert!(!guard.is_protecting());
    }

    #[test]
    fn the_budget_covers_a_whole_minute() {
        let mut guard = settled();
        assert_eq!(decide(&mut guard, &census(20, lapsed(2, 0, false)), 100).protected, 2);
        guard.removed(2, Mono(100_000));
        let second = decide(&mut guard, &census(18, lapsed(2, 0, false)), 130);
        assert_eq!(
            (second.protected, second.overdue),
            (1, SILENCE),
            "one more, if it was silent long enough"
        );
        assert!(guard.is_protecting());
        assert_eq!(decide(&mut guard, &census(18, lapsed(2, 0, false)), 160).protected, 2);
        assert!(!guard.is_protecting());
    }

    #[test]
    fn who_was_removed_and_came_back_counts_once() {
        let mut guard = settled();
        guard.removed(1, Mono(100_000));
        assert_eq!(
            decide(&mut guard, &census(6, lapsed(1, 0, false)), 101).protected,
            1,
            "one of seven went"
        );
        guard.returned(1, Mono(102_000));
        assert!(!guard.is_protecting());
        decide(&mut guard, &census(6, lapsed(1, 0, false)), 102);
        assert!(guard.is_protecting(), "one of six went, and one may");
    }

    #[test]
    fn beyond_the_budget_all_are_held_until_they_were_silent_long_enough() {
        let mut guard = settled();
        let early = decide(&mut guard, &census(20, lapsed(6, 1, false)), 100);
        assert!(guard.is_protecting());
        assert_eq!(
            early,
            Allowance { protected: 3, overdue: SILENCE, keep_last_up: true, unprotected: true }
        );
    }

    #[test]
    fn leases_outside_protection_neither_count_nor_wait() {
        let mut guard = Guard::default();
        let allowance = decide(&mut guard, &census(20, lapsed(20, 0, true)), 0);
        assert!(allowance.unprotected && !guard.is_protecting());
    }

    #[test]
    fn nothing_goes_while_the_others_fall_silent_too() {
        let mut guard = Guard::default();
        let collapsing = Census { heard: 10.0, ..census(20, lapsed(1, 1000, false)) };
        assert_eq!(decide(&mut guard, &collapsing, 0), NOTHING);
        assert!(guard.is_protecting());
    }

    #[test]
    fn whoever_comes_back_later_than_the_others_after_an_outage_is_waited_for() {
        let mut guard = settled();
        let silent = census(20, lapsed(20, 100, false));
        assert_eq!(decide(&mut guard, &silent, 100), NOTHING);
        let first_returned = census(20, lapsed(15, 100, false));
        assert_eq!(decide(&mut guard, &first_returned, 200), NOTHING, "beyond the budget");
        let nearly_all = census(20, lapsed(2, 100, false));
        assert_eq!(decide(&mut guard, &nearly_all, 220), NOTHING, "within it, but an interval is not over");
        assert_eq!(decide(&mut guard, &nearly_all, 245).protected, 2);
        assert!(!guard.is_protecting());
    }

    #[test]
    fn when_nothing_at_all_renews_the_hold_ends_after_its_maximum() {
        let mut guard = Guard::default();
        let silent = census(20, lapsed(20, 1000, false));
        assert_eq!(decide(&mut guard, &silent, 0), NOTHING);
        assert_eq!(decide(&mut guard, &silent, 1799), NOTHING);
        let after = decide(&mut guard, &silent, 1800);
        assert_eq!((after.protected, after.keep_last_up), (3, false));
        guard.removed(3, Mono(1_800_000));
        assert_eq!(decide(&mut guard, &census(17, lapsed(17, 1000, false)), 1801).protected, 0);
    }

    #[test]
    fn one_of_one_goes_and_two_of_three_are_held() {
        let mut guard = Guard::default();
        assert_eq!(decide(&mut guard, &census(1, lapsed(1, 0, false)), 0).protected, 1);
        assert!(!guard.is_protecting());
        decide(&mut guard, &census(3, lapsed(2, 0, false)), 0);
        assert!(guard.is_protecting());
    }

    #[test]
    fn the_original_arithmetic() {
        let config = Preservation { mode: PreservationMode::Eureka, ..Preservation::default() };
        let ten = census(10, lapsed(1, 0, false));
        let mut guard = Guard::default();
        assert_eq!(guard.decide(&config, &ten, 17, Mono(0)).protected, 0);
        assert!(guard.is_protecting());
        assert_eq!(guard.decide(&config, &ten, 18, Mono(60_000)).protected, 2);
        assert!(!guard.is_protecting());
        assert_eq!(guard.decide(&config, &ten, 18, Mono(60_001)).protected, 0, "one sweep a minute");
        for (live, limit) in [(1, 1), (2, 1), (6, 1), (7, 2), (20, 3), (100, 15)] {
            let mut guard = Guard::default();
            let allowance = guard.decide(&config, &census(live, lapsed(live, 0, false)), 1000, Mono(0));
            assert_eq!(allowance.protected, limit, "{live}");
        }
    }

    #[test]
    fn what_will_happen_next_is_told_with_its_time() {
        let mut guard = Guard::default();
        let silent = census(20, lapsed(20, 100, false));
        decide(&mut guard, &silent, 0);
        decide(&mut guard, &silent, 300);
        assert_eq!(guard.forecast().next, Next::AfterHold(Duration::from_mins(25)));
        assert_eq!(guard.held_for(Mono(300_000)), Some(Duration::from_mins(5)));
        let falling = Census { heard: 10.0, ..census(20, lapsed(1, 100, false)) };
        decide(&mut guard, &falling, 310);
        assert_eq!(guard.forecast().next, Next::WhileOthersAreSilent);
        let returning = census(20, lapsed(6, 100, false));
        decide(&mut guard, &returning, 320);
        assert_eq!(guard.forecast().next, Next::AfterOthersRenewed(Duration::from_secs(45)));
        decide(&mut guard, &returning, 335);
        assert_eq!(guard.forecast().next, Next::AfterOthersRenewed(Duration::from_secs(30)));
        decide(&mut guard, &returning, 365);
        let told = guard.forecast();
        assert_eq!((told.budget, told.next), (3, Next::Gradually(SILENCE)));
        decide(&mut guard, &census(20, Vec::new()), 370);
        assert_eq!((guard.forecast().next, guard.held_for(Mono(370_000))), (Next::AtOnce, None));
    }

    #[test]
    fn the_originals_next_sweep_is_told() {
        let config = Preservation { mode: PreservationMode::Eureka, ..Preservation::default() };
        let ten = census(10, lapsed(1, 0, false));
        let mut guard = Guard::default();
        guard.decide(&config, &ten, 17, Mono(0));
        assert_eq!(guard.forecast().next, Next::UntilRenewals(17));
        guard.decide(&config, &ten, 18, Mono(20_000));
        let told = guard.forecast();
        assert_eq!((told.budget, told.next), (2, Next::AtSweep(Duration::from_secs(40))));
    }

    #[test]
    fn mode_off_holds_nothing() {
        let config = Preservation { mode: PreservationMode::Off, ..Preservation::default() };
        let all = census(20, lapsed(20, 0, false));
        assert_eq!(Guard::default().decide(&config, &all, 0, Mono(0)).protected, usize::MAX);
    }
}
