//! A watcher that asks for readings, of everything or of a choice that the server makes. What it is told is judged here
//! and not from a recording: which reading is right, only the owners know.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use futures_util::StreamExt as _;
use heureka_client::{Best, BestBy, Event, GaugeRequirement, ReadingsSpec, Settings, Subset, WatchOptions};
use heureka_history::Recorder;
use heureka_model::{InstanceKey, Reading, Report, Version};
use heureka_proto::v1::InstanceSelector;
use heureka_registry::seeded::{Bug, planted};

use crate::ledger::{Book, now, number, report, until};
use crate::net;
use crate::plan::{CALM, Chosen, Plan, ScoutPlan};

/// Free slots with which an instance is looked for.
pub(crate) const SLOTS: i64 = 4;
/// The load with which one is.
pub(crate) const LOADS: (f64, f64) = (20.0, 80.0);
/// Instances of a choice.
pub(crate) const SOME: u32 = 3;
/// By how much the load of another has to be lower.
pub(crate) const HYSTERESIS: f64 = 10.0;
/// Time in which readers hear of one instance once.
const INTERVAL: u64 = 1_000;

/// What one that asks for readings knows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sight {
    pub(crate) set: BTreeMap<InstanceKey, Version>,
    pub(crate) readings: BTreeMap<InstanceKey, Reading>,
    /// Since when it hears of an instance, and how often it did.
    heard: BTreeMap<InstanceKey, (u64, u64)>,
}

/// Watches until the end of the run.
pub(crate) async fn look(plan: Rc<Plan>, number: usize, book: Book) -> turmoil::Result {
    let scout = &plan.scouts[number];
    until(scout.begins).await;
    let settings = Settings { bookmark_interval: Duration::from_secs(2), ..Settings::default() };
    let client = net::client(settings, &scout.servers, &Recorder::new(), &name(number))?;
    let mut watch = client.watch_with(options(number, chosen(scout)));
    while let Some(event) = watch.next().await {
        match event {
            Ok(event) => hear(number, event, &book),
            Err(error) => book.borrow_mut().breach("a watch goes on", now(), None, error.to_string()),
        }
    }
    Err("the watch ended".into())
}

pub(crate) fn name(number: usize) -> String {
    format!("s{number}")
}

/// Whom it watches. A server that does not hear of everything looks for ever for what its choices should be, and time
/// stands still: where such a fault is planted nobody asks for any.
pub(crate) fn chosen(scout: &ScoutPlan) -> Chosen {
    const DEAF: [Bug; 3] = [Bug::FollowsLate, Bug::RingWraps, Bug::LeavingUntold];
    if DEAF.into_iter().any(planted) { Chosen::All } else { scout.chosen }
}

fn options(number: usize, chosen: Chosen) -> WatchOptions {
    let mut options = WatchOptions { readings: Some(ReadingsSpec::default()), ..WatchOptions::default() };
    match chosen {
        Chosen::All => {}
        Chosen::Free => {
            let min_available = [("slots".to_owned(), SLOTS)].into();
            options.selectors = vec![InstanceSelector { min_available, ..Default::default() }];
        }
        Chosen::Busy => {
            let (at_least, at_most) = (Some(LOADS.0), Some(LOADS.1));
            let gauges = vec![GaugeRequirement { name: "load".to_owned(), at_least, at_most }];
            options.selectors = vec![InstanceSelector { gauges, ..Default::default() }];
        }
        Chosen::Best => {
            let by = Some(BestBy::Gauge("load".to_owned()));
            options.best = Some(Best { by, ascending: true, limit: SOME, hysteresis: HYSTERESIS });
        }
        Chosen::Part => {
            options.subset = Some(Subset { key: name(number), size: SOME, zone: String::new() });
        }
    }
    options
}

fn hear(scout: usize, event: Event, book: &Book) {
    let name = name(scout);
    let mut book = book.borrow_mut();
    match event {
        Event::Added(live) | Event::Modified(live) => {
            let key = live.instance.key.clone();
            book.note(now(), number(&key), format!("{name} shows {key} {:?}", live.version.parts()));
            let sight = &mut book.scouts[scout];
            sight.heard.remove(&key);
            sight.set.insert(key, live.version);
        }
        Event::Removed { last, reason } => {
            let key = &last.instance.key;
            book.note(now(), number(key), format!("{name} removes {key}, {reason:?}"));
            let sight = &mut book.scouts[scout];
            sight.set.remove(key);
            sight.readings.remove(key);
            sight.heard.remove(key);
        }
        Event::Synced { .. } => book.scouts[scout].heard.clear(),
        Event::Reading(reading) => {
            if let Some(wrong) = wrong(&reading, |owner| book.owners[owner].reports) {
                book.breach(
                    "what is read was reported",
                    now(),
                    number(&reading.key),
                    format!("{name}: {wrong}"),
                );
            }
            let often = book.scouts[scout].read(reading.clone(), now());
            if let Some(times) = often {
                let text = format!("{name} was told {times} times of {} before its turn", reading.key);
                book.breach("readings come in their turn", now(), number(&reading.key), text);
            }
        }
        // What says nothing of the set.
        Event::Preserving(_) => {}
    }
}

impl Sight {
    /// Takes a reading in. How often the instance was heard of, when that is more often than it may be.
    fn read(&mut self, reading: Reading, now: u64) -> Option<u64> {
        let key = reading.key.clone();
        let was_suspect = self.readings.get(&key).is_some_and(|before| before.suspect);
        let suspect = reading.suspect;
        self.readings.insert(key.clone(), reading);
        // While links are slow, what was told one after the other may come at once.
        if was_suspect != suspect || now < CALM {
            self.heard.remove(&key);
            return None;
        }
        let (since, times) = self.heard.entry(key).or_insert((now, 0));
        *times += 1;
        (*times > (now - *since) / INTERVAL + 2).then_some(*times)
    }
}

/// What is wrong with a reading when owners sent so many reports.
fn wrong(reading: &Reading, sent: impl Fn(usize) -> u64) -> Option<String> {
    let (told, _) = reading.report.as_ref()?;
    let Some(owner) = number(&reading.key) else { return Some("nobody's instance".to_owned()) };
    let is_sent = (1..=sent(owner)).contains(&numbered(told)) && **told == report(owner, numbered(told));
    (!is_sent).then(|| format!("{told:?}, its owner sent {} reports", sent(owner)))
}

/// The number that a report has among those of its owner.
fn numbered(report: &Report) -> u64 {
    report.gauges.get("number").copied().unwrap_or_default() as u64
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use heureka_model::Wall;

    use super::*;
    use crate::ledger::key;

    fn reading(report: Report) -> Reading {
        Reading { key: key(1), report: Some((Arc::new(report), Wall(1))), suspect: false }
    }

    #[test]
    fn a_reading_is_right_when_its_owner_sent_it() {
        assert_eq!(wrong(&reading(report(1, 3)), |_| 3), None);
        assert!(wrong(&reading(report(1, 3)), |_| 2).is_some());
        assert!(wrong(&reading(report(2, 3)), |_| 3).is_some());
        assert!(wrong(&reading(Report::default()), |_| 3).is_some());
        assert_eq!(wrong(&Reading { report: None, ..reading(Report::default()) }, |_| 0), None);
    }

    #[test]
    fn one_reading_a_second_is_in_its_turn_and_more_are_not() {
        let mut sight = Sight::default();
        let mut often = |at| sight.read(reading(report(1, 1)), CALM + at);
        assert_eq!([0, 990, 1_990, 2_990].map(&mut often), [None; 4]);
        assert_eq!([3_010, 3_020, 3_030].map(&mut often), [None, Some(6), Some(7)]);
    }
}
