//! What is known of each instance, in the order of its last news.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;
use heureka_model::{Mono, Report, Selectors, Wall};

use crate::Refused;
use crate::leases::Heard;
use crate::seeded::{Bug, planted};
use crate::store::App;

/// About what an entry takes beside the names of its report.
const ENTRY: u64 = 320;
/// About what a name takes beside its text.
const NAME: u64 = 64;

/// Entries by slot, and by application in the order of their last news.
#[derive(Default)]
pub(super) struct Board {
    seq: u64,
    entries: HashMap<u32, Entry, RandomState>,
    lanes: HashMap<Box<str>, HashMap<Box<str>, Lane, RandomState>, RandomState>,
    /// Reports that were not told yet, by when they may be.
    due: BTreeSet<(Mono, u32)>,
    /// Applications with news since they were heralded.
    touched: HashMap<usize, Arc<App>, RandomState>,
    /// Slots whose instances are overdue.
    overdue: HashSet<u32, RandomState>,
    bytes: u64,
}

/// Slots of one application by their last news.
type Lane = BTreeMap<u64, u32>;

/// One life of an instance, kept by one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) fingerprint: u32,
    pub(crate) registered: Wall,
    pub(crate) incarnation: u64,
}

/// A report that came.
pub(super) struct Taken {
    pub(super) slot: u32,
    pub(super) life: Life,
    pub(super) at: Wall,
    pub(super) heard: Heard,
    pub(super) report: Arc<Report>,
}

/// When readers hear of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// At once, or never, as of one that was known.
    Now,
    /// When they may be told of the instance again: of the newest by then.
    Later,
}

/// What is known of the instance in a slot.
struct Entry {
    app: Arc<App>,
    life: Life,
    seq: u64,
    /// Numbers of the last news of either kind; 0 when there was none.
    reported: u64,
    suspected: u64,
    report: Option<(Arc<Report>, Wall)>,
    heard: Heard,
    suspect: bool,
    /// When readers were last told of a report.
    told: Option<Mono>,
    due: Option<Mono>,
    bytes: u64,
}

/// Some news, as a reader finds them.
#[derive(Clone)]
pub(crate) struct Found {
    pub(crate) seq: u64,
    pub(crate) slot: u32,
    pub(crate) life: Life,
    /// A report came after what the reader asked from.
    pub(crate) reported: bool,
    /// It became overdue, or is no more, after what the reader asked from.
    pub(crate) suspected: bool,
    pub(crate) report: Option<(Arc<Report>, Wall)>,
    /// By whom it came.
    pub(crate) heard: Heard,
    pub(crate) suspect: bool,
}

impl Board {
    pub(super) fn seq(&self) -> u64 {
        self.seq
    }

    /// Takes a report in.
    pub(super) fn take(
        &mut self,
        taken: Taken,
        app: &Arc<App>,
        room: u64,
        interval: Duration,
        now: Mono,
    ) -> Result<Turn, Refused> {
        let Taken { slot, life, at, heard, report } = taken;
        let bytes = ENTRY + weight(&report);
        let known = self.entries.get(&slot);
        if self.bytes + bytes > room + known.map_or(0, |entry| entry.bytes) {
            return Err(Refused::Full);
        }
        let entry = self.entry(slot, life, app);
        if heard == Heard::Peer && entry.report.as_ref().is_some_and(|(_, known)| *known >= at) {
            return Ok(Turn::Now);
        }
        let grown = bytes - entry.bytes.min(bytes);
        let shrunk = entry.bytes - bytes.min(entry.bytes);
        (entry.report, entry.heard, entry.bytes) = (Some((report, at)), heard, bytes);
        let due = entry.told.map(|told| told.plus(interval)).filter(|due| *due > now);
        let due = due.filter(|_| !planted(Bug::TurnIgnored));
        let was_due = entry.due.is_some();
        self.bytes = self.bytes + grown - shrunk;
        match due {
            Some(_) if was_due || planted(Bug::TurnMissed) => {}
            Some(due) => self.put_off(slot, due),
            None => self.tell(slot, now),
        }
        Ok(if due.is_some() { Turn::Later } else { Turn::Now })
    }

    /// Tells the reports that may be told by now.
    pub(super) fn tell_due(&mut self, now: Mono) {
        while let Some((due, slot)) = self.due.first().copied().filter(|(due, _)| *due <= now) {
            self.due.remove(&(due, slot));
            self.tell(slot, now);
        }
    }

    pub(super) fn next_due(&self) -> Option<Mono> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Applications with news since the last call.
    pub(super) fn touched(&mut self) -> Vec<Arc<App>> {
        self.touched.drain().map(|(_, app)| app).collect()
    }

    pub(super) fn report(&self, slot: u32, life: Life) -> Option<(Arc<Report>, Wall)> {
        self.entries.get(&slot).filter(|entry| entry.life == life)?.report.clone()
    }

    pub(super) fn has(&self, namespace: &str, app: &str) -> bool {
        self.lanes.get(namespace).is_some_and(|lanes| lanes.contains_key(app))
    }

    /// At most `max` news after `after` of the applications that a selection may touch, and where to go on.
    pub(super) fn after(&self, selectors: &Selectors, after: u64, max: usize) -> (Vec<Found>, u64) {
        self.merged(self.lanes_of(selectors).into_iter(), after, max)
    }

    /// The same of all applications.
    pub(super) fn all_after(&self, after: u64, max: usize) -> (Vec<Found>, u64) {
        if self.seq <= after {
            return (Vec::new(), after);
        }
        self.merged(self.lanes.values().flat_map(HashMap::values), after, max)
    }

    fn merged<'a>(&self, lanes: impl Iterator<Item = &'a Lane>, after: u64, max: usize) -> (Vec<Found>, u64) {
        let mut news: Vec<(u64, u32)> = Vec::new();
        for lane in lanes {
            news.extend(lane.range(after + 1..).take(max + 1).map(|(seq, slot)| (*seq, *slot)));
        }
        news.sort_unstable();
        news.dedup();
        let more = news.len() > max;
        news.truncate(max);
        let upto = if more { news.last().map_or(after, |(seq, _)| *seq) } else { self.seq.max(after) };
        let found = news.into_iter().filter_map(|(_, slot)| self.found(slot, after)).collect();
        (found, upto)
    }

    fn lanes_of<'a>(&'a self, selectors: &'a Selectors) -> Vec<&'a Lane> {
        let mut lanes = Vec::new();
        for selector in selectors.iter() {
            let Some(namespace) = self.lanes.get(selector.namespace.as_str()) else { continue };
            if selector.apps.is_empty() {
                lanes.extend(namespace.values());
            }
            lanes.extend(selector.apps.iter().filter_map(|app| namespace.get(app.as_str())));
        }
        lanes
    }

    pub(super) fn found(&self, slot: u32, after: u64) -> Option<Found> {
        let entry = self.entries.get(&slot)?;
        Some(Found {
            seq: entry.seq,
            slot,
            life: entry.life,
            reported: entry.reported > after,
            suspected: entry.suspected > after,
            report: entry.report.clone(),
            heard: entry.heard,
            suspect: entry.suspect,
        })
    }

    /// Slots whose instances were found overdue.
    pub(super) fn overdue(&self) -> &HashSet<u32, RandomState> {
        &self.overdue
    }

    /// Notes that the instance in a slot is overdue, or is no more.
    pub(super) fn suspect(&mut self, slot: u32, life: Life, app: &Arc<App>, suspect: bool) {
        if suspect {
            self.overdue.insert(slot);
        } else {
            self.overdue.remove(&slot);
        }
        if !suspect && self.entries.get(&slot).is_none_or(|entry| entry.life != life) {
            return;
        }
        let entry = self.entry(slot, life, app);
        entry.suspect = suspect;
        let (fresh, seq) = (entry.bytes == 0, self.advance(slot));
        let entry = self.entries.get_mut(&slot).expect("invariant: it was put there above");
        entry.suspected = seq;
        if fresh {
            entry.bytes = ENTRY;
            self.bytes += ENTRY;
        }
    }

    /// Nobody asks any more who is overdue.
    pub(super) fn forget_overdue(&mut self) {
        for slot in std::mem::take(&mut self.overdue) {
            self.entries.entry(slot).and_modify(|entry| entry.suspect = false);
        }
    }

    /// Drops what is known of slots that `is_current` says are of another instance by now.
    pub(super) fn sweep(&mut self, is_current: impl Fn(u32, &Life) -> bool) {
        let gone = self.entries.iter().filter(|(slot, entry)| !is_current(**slot, &entry.life));
        let gone: Vec<u32> = gone.map(|(slot, _)| *slot).collect();
        gone.into_iter().for_each(|slot| self.drop(slot));
    }

    /// Number of entries and the bytes they take.
    #[cfg(test)]
    pub(super) fn size(&self) -> (usize, u64) {
        (self.entries.len(), self.bytes)
    }

    /// The entry of an instance; one of an earlier instance in the slot goes.
    fn entry(&mut self, slot: u32, life: Life, app: &Arc<App>) -> &mut Entry {
        if self.entries.get(&slot).is_some_and(|entry| entry.life != life) {
            self.drop(slot);
        }
        self.entries.entry(slot).or_insert_with(|| Entry {
            app: Arc::clone(app),
            life,
            seq: 0,
            reported: 0,
            suspected: 0,
            report: None,
            heard: Heard::Nobody,
            suspect: false,
            told: None,
            due: None,
            bytes: 0,
        })
    }

    fn put_off(&mut self, slot: u32, due: Mono) {
        if let Some(entry) = self.entries.get_mut(&slot) {
            entry.due = Some(due);
            self.due.insert((due, slot));
        }
    }

    fn tell(&mut self, slot: u32, now: Mono) {
        let seq = self.advance(slot);
        let Some(entry) = self.entries.get_mut(&slot) else { return };
        (entry.reported, entry.told) = (seq, Some(now));
        if let Some(due) = entry.due.take() {
            self.due.remove(&(due, slot));
        }
    }

    /// Moves an entry to the end of its lane.
    fn advance(&mut self, slot: u32) -> u64 {
        let Some(entry) = self.entries.get_mut(&slot) else { return self.seq };
        self.seq += 1;
        let App { namespace, name, .. } = &*entry.app;
        let lanes = self.lanes.entry(namespace.name.clone()).or_default();
        let lane = lanes.entry(name.clone()).or_default();
        lane.remove(&entry.seq);
        lane.insert(self.seq, slot);
        entry.seq = self.seq;
        self.touched.insert(Arc::as_ptr(&entry.app).addr(), Arc::clone(&entry.app));
        self.seq
    }

    fn drop(&mut self, slot: u32) {
        let Some(entry) = self.entries.remove(&slot) else { return };
        self.bytes -= entry.bytes;
        self.overdue.remove(&slot);
        if let Some(due) = entry.due {
            self.due.remove(&(due, slot));
        }
        let App { namespace, name, .. } = &*entry.app;
        let Some(lanes) = self.lanes.get_mut(&namespace.name) else { return };
        if let Some(lane) = lanes.get_mut(name) {
            lane.remove(&entry.seq);
            if lane.is_empty() {
                lanes.remove(name);
            }
        }
        if lanes.is_empty() {
            self.lanes.remove(&namespace.name);
        }
    }
}

fn weight(report: &Report) -> u64 {
    let names = report.available.len() + report.gauges.len();
    report.text_size() as u64 + names as u64 * NAME
}
