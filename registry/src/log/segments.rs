//! The compacted log's index: revision → slot, for the last change of every key.
//!
//! Revisions are dense, so a revision's place is arithmetic: segment `revision / 4096`, cell `revision % 4096`.
//! A change stores its slot in the newest cell and then empties the key's old one. A segment that has emptied to
//! a quarter is copied into a smaller form, one that is empty is dropped; a reader that still holds the old form
//! reads on in it, since what it finds there is checked against the slot's own revision anyway.

use std::collections::BTreeMap;

use crate::sync::{Arc, AtomicU32, Ordering, RwLock, SEGMENT};

/// Written by the holder of the sequencer alone, read by anyone.
#[derive(Default)]
pub(crate) struct Segments {
    directory: RwLock<BTreeMap<u64, Arc<Segment>>>,
}

pub(crate) struct Segment {
    cells: Cells,
    live: AtomicU32,
    /// Number of live cells at which a smaller form pays.
    repack_at: u32,
}

/// A cell holds a slot plus one; 0 is empty.
enum Cells {
    Dense(Box<[AtomicU32]>),
    Sparse { offsets: Box<[u16]>, slots: Box<[AtomicU32]> },
}

/// Where a pass through the index stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Walked {
    /// Everything up to here was examined.
    pub(crate) position: u64,
    /// The bound was reached.
    pub(crate) done: bool,
}

impl Segments {
    /// Puts `slot` at `revision`, which is greater than any before.
    pub(crate) fn store(&self, revision: u64, slot: u32) {
        let number = revision / SEGMENT;
        let segment = self.segment(number).unwrap_or_else(|| self.open(number));
        segment.store(revision % SEGMENT, slot);
    }

    /// Empties the cell at `revision`.
    pub(crate) fn clear(&self, revision: u64, head: u64) {
        let number = revision / SEGMENT;
        let Some(segment) = self.segment(number) else { return };
        let left = segment.clear(revision % SEGMENT);
        if number == head / SEGMENT {
            return;
        }
        if left == 0 {
            self.directory.write().remove(&number);
        } else if left <= segment.repack_at {
            let smaller = Arc::new(segment.repacked());
            self.directory.write().insert(number, smaller);
        }
    }

    /// Visits the cells above `after` up to `bound` in order, about `budget` of them.
    pub(crate) fn walk(
        &self,
        after: u64,
        bound: u64,
        budget: usize,
        mut visit: impl FnMut(u64, u32),
    ) -> Walked {
        let mut position = after;
        let mut left = budget;
        while position < bound {
            let Some((number, segment)) = self.next((position + 1) / SEGMENT) else { break };
            if number > bound / SEGMENT {
                break;
            }
            let base = number * SEGMENT;
            let range =
                position.max(base.saturating_sub(1)) + 1 - base..bound.min(base + SEGMENT - 1) + 1 - base;
            let (offset, seen) = segment.visit(range, left, |offset, slot| visit(base + offset, slot));
            position = base + offset - 1;
            left = left.saturating_sub(seen);
            if left == 0 && position < bound {
                return Walked { position, done: false };
            }
        }
        Walked { position: bound.max(after), done: true }
    }

    fn segment(&self, number: u64) -> Option<Arc<Segment>> {
        self.directory.read().get(&number).cloned()
    }

    fn next(&self, number: u64) -> Option<(u64, Arc<Segment>)> {
        let directory = self.directory.read();
        directory.range(number..).next().map(|(number, segment)| (*number, Arc::clone(segment)))
    }

    fn open(&self, number: u64) -> Arc<Segment> {
        let segment = Arc::new(Segment::dense());
        self.directory.write().insert(number, Arc::clone(&segment));
        segment
    }
}

impl Segment {
    fn dense() -> Self {
        let cells = (0..SEGMENT).map(|_| AtomicU32::new(0)).collect();
        Self { cells: Cells::Dense(cells), live: AtomicU32::new(0), repack_at: SEGMENT as u32 / 4 }
    }

    fn store(&self, offset: u64, slot: u32) {
        let Some(cell) = self.cell(offset) else { return };
        cell.store(slot + 1, Ordering::Release);
        self.live.fetch_add(1, Ordering::Relaxed);
    }

    /// Empties a cell and tells how many are left.
    fn clear(&self, offset: u64) -> u32 {
        let Some(cell) = self.cell(offset) else { return self.live.load(Ordering::Relaxed) };
        if cell.load(Ordering::Relaxed) == 0 {
            return self.live.load(Ordering::Relaxed);
        }
        cell.store(0, Ordering::Release);
        self.live.fetch_sub(1, Ordering::Relaxed) - 1
    }

    fn cell(&self, offset: u64) -> Option<&AtomicU32> {
        match &self.cells {
            Cells::Dense(cells) => cells.get(offset as usize),
            Cells::Sparse { offsets, slots } => {
                offsets.binary_search(&(offset as u16)).ok().and_then(|place| slots.get(place))
            }
        }
    }

    /// Visits filled cells of `range`, at most `budget`; the first offset not examined and how many were filled.
    fn visit(
        &self,
        range: std::ops::Range<u64>,
        budget: usize,
        mut visit: impl FnMut(u64, u32),
    ) -> (u64, usize) {
        let mut seen = 0;
        for (offset, cell) in self.cells_of(&range) {
            if seen == budget {
                return (offset, seen);
            }
            let value = cell.load(Ordering::Acquire);
            if value != 0 {
                visit(offset, value - 1);
                seen += 1;
            }
        }
        (range.end, seen)
    }

    fn cells_of(&self, range: &std::ops::Range<u64>) -> Box<dyn Iterator<Item = (u64, &AtomicU32)> + '_> {
        match &self.cells {
            Cells::Dense(cells) => {
                let cells = &cells[range.start as usize..range.end as usize];
                Box::new((range.start..).zip(cells))
            }
            Cells::Sparse { offsets, slots } => {
                let start = offsets.partition_point(|offset| u64::from(*offset) < range.start);
                let end = offsets.partition_point(|offset| u64::from(*offset) < range.end);
                let offsets = offsets[start..end].iter().map(|offset| u64::from(*offset));
                Box::new(offsets.zip(&slots[start..end]))
            }
        }
    }

    fn repacked(&self) -> Self {
        let mut offsets = Vec::with_capacity(self.repack_at as usize);
        let mut slots = Vec::with_capacity(self.repack_at as usize);
        self.visit(0..SEGMENT, usize::MAX, |offset, slot| {
            offsets.push(offset as u16);
            slots.push(AtomicU32::new(slot + 1));
        });
        let live = slots.len() as u32;
        Self {
            cells: Cells::Sparse { offsets: offsets.into(), slots: slots.into() },
            live: AtomicU32::new(live),
            repack_at: live / 2,
        }
    }
}
