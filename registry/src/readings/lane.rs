//! A cursor into the lane of readings.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use foldhash::fast::FixedState;
use heureka_model::{InstanceKey, Now, Reading, Report, Selectors};
use tokio::sync::watch;

use crate::Registry;
use crate::readings::{Asking, Found, Listening};
use crate::record::Record;
use crate::views::Reader;

/// Readings told at a time at most.
const READINGS: usize = 256;
/// News looked at for them.
const SHARE: usize = 512;
/// Bytes of names told at a time; the reading that goes beyond is the last.
const BYTES: usize = 48 << 10;
/// Instances that entered the set and whose readings are still to be told; with more of them all are told again.
const ENTERED: usize = 4096;

/// Which readings a reader asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaneWish {
    /// Free amounts.
    pub available: bool,
    /// Gauges.
    pub gauges: Gauges,
    /// Who is overdue.
    pub suspect: bool,
}

/// Which gauges a reader asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Gauges {
    /// None.
    #[default]
    None,
    /// These.
    Named(BTreeSet<String>),
    /// All.
    All,
}

/// Readings of the instances of a set: once each, then whenever there are others.
#[derive(Debug)]
pub struct Lane {
    selectors: Selectors,
    wish: LaneWish,
    listening: Listening,
    _asking: Option<Asking>,
    /// Everything up to here was told; before the first time, nothing.
    after: Option<u64>,
    /// Instances of which the reader has just been told.
    entered: VecDeque<InstanceKey>,
}

impl LaneWish {
    /// Everything there is.
    #[must_use]
    pub fn everything() -> Self {
        Self { available: true, gauges: Gauges::All, suspect: true }
    }

    fn asks_for_reports(&self) -> bool {
        self.available || self.gauges != Gauges::None
    }

    /// What of a report was asked for.
    fn part_of(&self, report: &Arc<Report>) -> Arc<Report> {
        if self.available && self.gauges == Gauges::All {
            return Arc::clone(report);
        }
        let is_wanted = |name: &str| match &self.gauges {
            Gauges::None => false,
            Gauges::Named(names) => names.contains(name),
            Gauges::All => true,
        };
        let gauges = report.gauges.iter().filter(|(name, _)| is_wanted(name));
        Arc::new(Report {
            available: if self.available { report.available.clone() } else { Default::default() },
            gauges: gauges.map(|(name, value)| (name.clone(), *value)).collect(),
        })
    }
}

/// Readings that are told together.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) readings: Vec<Reading>,
    bytes: usize,
    /// Number of the last news that was told of those who entered, by slot.
    entrants: HashMap<u32, u64, FixedState>,
}

impl Page {
    fn is_full(&self) -> bool {
        self.readings.len() >= READINGS || self.bytes >= BYTES
    }

    fn push(&mut self, reading: Reading) {
        self.bytes += weight(&reading);
        self.readings.push(reading);
    }
}

impl Lane {
    /// The readings of a selection.
    #[must_use]
    pub fn new(registry: &Registry, selectors: &Selectors, wish: LaneWish, now: Now) -> Self {
        let asking = wish.suspect.then(|| registry.ask_for_overdue(now));
        let listening = registry.listen(selectors);
        let selectors = selectors.by_record();
        Self { selectors, wish, listening, _asking: asking, after: None, entered: VecDeque::new() }
    }

    /// Wakes for news of applications that the selection may touch.
    #[must_use]
    pub fn news(&self) -> watch::Receiver<u64> {
        self.listening.news()
    }

    /// The reader was told of an instance, or of a change of it: what is known of it beside is told, too.
    pub fn enter(&mut self, registry: &Registry, key: &InstanceKey) {
        if self.after.is_none() || !registry.has_reports(&key.namespace, &key.app) {
            return;
        }
        if self.entered.len() >= ENTERED {
            return self.begin_again();
        }
        self.entered.push_back(key.clone());
    }

    /// Everything is told once more.
    pub fn begin_again(&mut self) {
        self.after = None;
        self.entered.clear();
    }

    /// Whether there may be something to tell.
    #[must_use]
    pub fn is_behind(&self, registry: &Registry) -> bool {
        !self.entered.is_empty()
            || self.after.is_none_or(|after| registry.has_news_after(&self.selectors, after))
    }

    /// The next readings of what `reader` holds; none may mean that there are none of the set among those looked at.
    pub fn poll(&mut self, registry: &Registry, reader: &Reader) -> Vec<Reading> {
        let mut page = Page::default();
        self.tell_entrants(registry, &mut page);
        if !page.is_full() {
            self.read_on(registry, reader, &mut page);
        }
        page.readings
    }

    /// Tells what is known of those who entered.
    pub(crate) fn tell_entrants(&mut self, registry: &Registry, page: &mut Page) {
        while !page.is_full() {
            let Some(key) = self.entered.pop_front() else { return };
            let slot = registry.slot_of(key.as_ref()).filter(|slot| !page.entrants.contains_key(slot));
            let Some(slot) = slot else { continue };
            if let Some((seq, reading)) = self.entrant(registry, slot) {
                page.entrants.insert(slot, seq);
                page.push(reading);
            }
        }
    }

    /// Reads on in the lane.
    pub(crate) fn read_on(&mut self, registry: &Registry, reader: &Reader, page: &mut Page) {
        let after = self.after.unwrap_or_default();
        let (news, upto) = registry.news_after(&self.selectors, after, SHARE);
        self.after = Some(upto);
        for found in news {
            if page.is_full() {
                self.after = Some(found.seq - 1);
                return;
            }
            // News may have come since an entrant was looked at.
            let is_told = page.entrants.get(&found.slot).is_some_and(|seq| found.seq <= *seq);
            let is_news = self.is_news(&found, after) && !is_told;
            if let Some(reading) = is_news.then(|| self.reading(registry, reader, &found)).flatten() {
                page.push(reading);
            }
        }
    }

    fn is_news(&self, found: &Found, after: u64) -> bool {
        let reported = self.wish.asks_for_reports() && found.reported;
        // Of what was before, nobody has to be told that nothing is wrong.
        let suspected = self.wish.suspect && found.suspected && (after > 0 || found.suspect);
        reported || suspected
    }

    fn reading(&self, registry: &Registry, reader: &Reader, found: &Found) -> Option<Reading> {
        let (revision, record) = registry.slots.record(found.slot)?;
        let is_it = record.is_live() && registry.life_of(found.slot, &record) == found.life;
        let holds = || match reader.holds(&record.key()) {
            Some(holds) => holds,
            // Of a change that is still to be told, the reading is told after it.
            None => revision <= reader.position() && self.selects(revision, &record),
        };
        (is_it && holds()).then(|| self.of(&record, found))
    }

    /// What is known of an instance that the reader was just told of; when that was reported by an earlier life or
    /// process of it, that nothing is.
    /// With the number of the news.
    fn entrant(&self, registry: &Registry, slot: u32) -> Option<(u64, Reading)> {
        let (_, record) = registry.slots.record(slot)?;
        let found = registry.found(slot).filter(|_| record.is_live())?;
        if registry.life_of(slot, &record) != found.life {
            return Some((found.seq, Reading { key: record.key(), report: None, suspect: false }));
        }
        Some((found.seq, self.of(&record, &found)))
    }

    fn of(&self, record: &Record, found: &Found) -> Reading {
        let report = found.report.as_ref().filter(|_| self.wish.asks_for_reports());
        Reading {
            key: record.key(),
            report: report.map(|(report, at)| (self.wish.part_of(report), *at)),
            suspect: self.wish.suspect && found.suspect,
        }
    }

    fn selects(&self, revision: u64, record: &Record) -> bool {
        let app = record.app();
        if self.selectors.is_by_app() {
            return self.selectors.covers_app(&app.namespace.name, &app.name);
        }
        let registration = record.registration(revision, heureka_model::Wall(0));
        self.selectors.matches(&registration)
    }
}

fn weight(reading: &Reading) -> usize {
    const READING: usize = 96;
    const NUMBER: usize = 12;
    let numbers =
        |report: &Report| report.text_size() + (report.available.len() + report.gauges.len()) * NUMBER;
    let InstanceKey { namespace, app, id } = &reading.key;
    let report = reading.report.as_ref().map_or(0, |(report, _)| numbers(report));
    READING + namespace.len() + app.len() + id.len() + report
}
