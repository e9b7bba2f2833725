//! Slots: the place of a key while anything is known of it.

use std::sync::OnceLock;

use crate::leases::Lease;
use crate::record::Record;
use crate::sync::{AtomicU32, CHUNK, CHUNKS, Mutex, Ordering};

/// What a slot holds. Written inside the sequencer only, so that a reader who sees a revision sees its record.
#[derive(Default)]
pub(crate) struct Cell {
    /// Revision of the record; 0 when there is none.
    pub(crate) revision: u64,
    pub(crate) record: Option<Record>,
}

pub(crate) struct Slots {
    chunks: Box<[OnceLock<Chunk>]>,
    free: Mutex<Free>,
}

struct Chunk {
    cells: Box<[Mutex<Cell>]>,
    leases: Box<[Lease]>,
    /// Where the slot stands among its application's members; guarded by the lock of that list.
    places: Box<[AtomicU32]>,
}

#[derive(Default)]
struct Free {
    returned: Vec<u32>,
    next: u32,
}

impl Slots {
    pub(crate) fn new() -> Self {
        Self { chunks: (0..CHUNKS).map(|_| OnceLock::new()).collect(), free: Mutex::default() }
    }

    /// A slot nobody has, unless all are taken.
    pub(crate) fn take(&self) -> Option<u32> {
        let mut free = self.free.lock();
        if let Some(slot) = free.returned.pop() {
            return Some(slot);
        }
        let slot = free.next;
        let chunk = self.chunks.get(slot as usize / CHUNK)?;
        chunk.get_or_init(Chunk::new);
        free.next += 1;
        Some(slot)
    }

    /// Gives a slot back. Its cell and lease are empty by then.
    pub(crate) fn give_back(&self, slot: u32) {
        self.free.lock().returned.push(slot);
    }

    pub(crate) fn cell(&self, slot: u32) -> &Mutex<Cell> {
        &self.chunk(slot).cells[slot as usize % CHUNK]
    }

    /// The record of a slot and its revision.
    pub(crate) fn record(&self, slot: u32) -> Option<(u64, Record)> {
        let cell = self.cell(slot).lock();
        cell.record.clone().map(|record| (cell.revision, record))
    }

    pub(crate) fn lease(&self, slot: u32) -> &Lease {
        &self.chunk(slot).leases[slot as usize % CHUNK]
    }

    pub(crate) fn place(&self, slot: u32) -> u32 {
        self.chunk(slot).places[slot as usize % CHUNK].load(Ordering::Relaxed)
    }

    pub(crate) fn set_place(&self, slot: u32, place: u32) {
        self.chunk(slot).places[slot as usize % CHUNK].store(place, Ordering::Relaxed);
    }

    /// Leases of all slots that were ever taken, with the slot of the first in each run.
    pub(crate) fn leases(&self) -> impl Iterator<Item = (u32, &[Lease])> {
        let taken = self.free.lock().next as usize;
        let chunks = self.chunks.iter().map_while(OnceLock::get);
        chunks
            .zip((0..taken).step_by(CHUNK))
            .map(move |(chunk, first)| (first as u32, &chunk.leases[..CHUNK.min(taken - first)]))
    }

    fn chunk(&self, slot: u32) -> &Chunk {
        self.chunks[slot as usize / CHUNK].get().expect("a slot in use stands in a chunk")
    }
}

impl Chunk {
    fn new() -> Self {
        Self {
            cells: (0..CHUNK).map(|_| Mutex::default()).collect(),
            leases: (0..CHUNK).map(|_| Lease::default()).collect(),
            places: (0..CHUNK).map(|_| AtomicU32::new(0)).collect(),
        }
    }
}
