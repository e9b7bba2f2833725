//! What those who ask for readings must know in the end: the set that the servers' state makes, worked out here anew,
//! and of each instance in it what its owner reported last.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use heureka_model::{InstanceKey, Registration, Report, Selectors, Version, affinity};

use crate::judge::ALL;
use crate::ledger::{Ledger, Owner, Standing, number, report};
use crate::plan::{Chosen, Kind, Plan};
use crate::scout::{HYSTERESIS, LOADS, SLOTS, SOME, Sight, chosen, name};
use crate::server::Life;

/// An instance as a server has it.
struct Shown {
    live: Registration,
    report: Option<Arc<Report>>,
}

/// Whether servers and those who ask them know what owners reported last.
pub(crate) fn end(at: u64, plan: &Plan, lives: &[Life], book: &mut Ledger) {
    for (server, life) in lives.iter().enumerate() {
        for shown in shown(at, life) {
            let last = last(plan, &shown.live.instance.key, book);
            if last.is_some() && shown.report.as_deref() != last.as_ref() {
                let text = format!("n{server} has {:?}, not {last:?}", shown.report);
                let key = number(&shown.live.instance.key);
                book.breach("servers know the last report", at, key, text);
            }
        }
    }
    let shown = shown(at, &lives[0]);
    for (scout, asked) in plan.scouts.iter().enumerate() {
        let sight = book.scouts[scout].clone();
        if let Some(wrong) = wrong(scout, chosen(asked), &shown, &sight.set) {
            book.breach("a view is what it is a view of", at, None, format!("{}: {wrong}", name(scout)));
        }
        readings(at, plan, scout, &sight, book);
    }
}

fn readings(at: u64, plan: &Plan, scout: usize, sight: &Sight, book: &mut Ledger) {
    for key in sight.set.keys() {
        let told = sight.readings.get(key).and_then(|reading| reading.report.as_ref());
        let Some(last) = last(plan, key, book).filter(|last| told.is_none_or(|(told, _)| **told != *last))
        else {
            continue;
        };
        let text = format!("{} was told {told:?}, not {last:?}", name(scout));
        book.breach("readers know the last report", at, number(key), text);
    }
}

/// What the owner of an instance reported last, if a server told it that it took that.
fn last(plan: &Plan, key: &InstanceKey, book: &Ledger) -> Option<Report> {
    let owner = number(key)?;
    let Owner { standing, reports, is_reported, .. } = &book.owners[owner];
    let reports_now = *standing == Standing::There && *is_reported && plan.owners[owner].kind == Kind::Native;
    reports_now.then(|| report(owner, *reports))
}

fn shown(at: u64, life: &Life) -> Vec<Shown> {
    let core = life.running.core();
    let page = core.page(&Selectors::default(), None, ALL, life.now(at));
    let report = |live: &Registration| core.reported(live.instance.key.as_ref()).map(|(report, _)| report);
    page.instances.into_iter().map(|live| Shown { report: report(&live), live }).collect()
}

/// What is wrong with a set that is to be chosen so among what is shown.
fn wrong(
    scout: usize,
    chosen: Chosen,
    shown: &[Shown],
    set: &BTreeMap<InstanceKey, Version>,
) -> Option<String> {
    let expected: Vec<_> = match chosen {
        Chosen::All => shown.iter().collect(),
        Chosen::Free => shown.iter().filter(|shown| shown.slots() >= SLOTS).collect(),
        Chosen::Busy => {
            let fits = |load: f64| (LOADS.0..=LOADS.1).contains(&load);
            shown.iter().filter(|shown| shown.load().is_some_and(fits)).collect()
        }
        Chosen::Part => {
            let mut drawn: Vec<_> = shown.iter().collect();
            let drawn_to = |shown: &&Shown| affinity(&name(scout), shown.live.instance.key.as_ref());
            drawn.sort_by_key(|shown| Reverse(drawn_to(shown)));
            drawn.truncate(SOME as usize);
            drawn
        }
        Chosen::Best => {
            if let Some(wrong) = not_the_best(shown, set) {
                return Some(wrong);
            }
            shown.iter().filter(|shown| set.contains_key(&shown.live.instance.key)).collect()
        }
    };
    let expected: BTreeMap<_, _> =
        expected.into_iter().map(|shown| (shown.live.instance.key.clone(), shown.live.version)).collect();
    (expected != *set).then(|| format!("{chosen:?} holds {set:?}, not {expected:?}"))
}

/// Who is among the best depends on who was before; but none outside is much better than one inside.
fn not_the_best(shown: &[Shown], set: &BTreeMap<InstanceKey, Version>) -> Option<String> {
    let loads = |inside: bool| {
        let is_there = move |shown: &&Shown| set.contains_key(&shown.live.instance.key) == inside;
        shown.iter().filter(is_there).filter_map(Shown::load)
    };
    let worst = loads(true).fold(f64::MIN, f64::max);
    let best = loads(false).fold(f64::MAX, f64::min);
    let all = shown.iter().filter_map(Shown::load).count();
    let wanted = all.min(SOME as usize);
    let is_right = loads(true).count() == wanted && worst - best <= HYSTERESIS;
    (!is_right).then(|| format!("{} of {all} have loads up to {worst}, others from {best}", set.len()))
}

impl Shown {
    fn load(&self) -> Option<f64> {
        self.report.as_ref()?.gauges.get("load").copied()
    }

    fn slots(&self) -> i64 {
        Report::available(self.report.as_deref(), &self.live.instance, "slots")
    }
}
