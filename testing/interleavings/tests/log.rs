//! The log against its readers: what a pass through the index may meet while keys move, segments are repacked,
//! tombstones are forgotten and slots are used again.

use std::collections::BTreeMap;

use heureka_interleavings::{Ledger, Met, Pass, explore};
use loom::sync::Arc;
use loom::thread;

/// Key → last change, as a reader holds it.
type View = BTreeMap<u32, Met>;

/// A reader and what it was told, pass by pass.
struct Reader {
    ledger: Arc<Ledger>,
    position: u64,
    view: View,
    passes: Vec<(Pass, View)>,
}

impl Reader {
    fn new(ledger: &Arc<Ledger>) -> Self {
        Self { ledger: Arc::clone(ledger), position: 0, view: View::new(), passes: Vec::new() }
    }

    /// One that holds everything up to the head.
    fn at_head(ledger: &Arc<Ledger>) -> Self {
        let mut reader = Self::new(ledger);
        reader.pass(usize::MAX);
        reader
    }

    fn pass(&mut self, budget: usize) {
        let pass = self.ledger.pass(self.position, budget);
        self.take(pass);
    }

    fn take(&mut self, pass: Pass) {
        assert!(pass.position >= self.position, "a pass goes forward");
        self.position = pass.position;
        for met in &pass.met {
            self.view.insert(met.slot, *met);
        }
        self.passes.push((pass, self.view.clone()));
    }

    /// Compares all that was told with all that happened: `changes` in any order.
    fn judge(&self, changes: &[Met]) {
        let history: BTreeMap<u64, Met> = changes.iter().map(|change| (change.revision, *change)).collect();
        let mut before = 0;
        for (pass, view) in &self.passes {
            for met in &pass.met {
                assert!(met.revision > before, "out of order: {met:?} after {before}");
                assert_eq!(Some(met), history.get(&met.revision), "another content than its revision's");
                before = met.revision;
            }
            let slots: std::collections::BTreeSet<u32> = pass.met.iter().map(|met| met.slot).collect();
            assert_eq!(slots.len(), pass.met.len(), "twice in a pass: {pass:?}");
            assert!(before <= pass.position, "met beyond the position: {pass:?}");
            if !pass.lost {
                told_all(&history, pass.position, view);
            }
        }
    }
}

/// A reader at `position` holds every key whose last change is not above it.
fn told_all(history: &BTreeMap<u64, Met>, position: u64, view: &View) {
    let last: View = history.values().map(|change| (change.slot, *change)).collect();
    for (slot, change) in last {
        if change.revision <= position {
            assert_eq!(view.get(&slot), Some(&change), "missed at {position}: {change:?}");
        }
    }
}

/// The changes that a new ledger starts with.
fn initial(keys: u32) -> Vec<Met> {
    (0..keys).map(|key| live(u64::from(key) + 1, key, u64::from(key))).collect()
}

fn live(revision: u64, slot: u32, content: u64) -> Met {
    Met { revision, slot, content, live: true }
}

#[test]
fn a_key_that_moves_while_it_is_read_is_met_once_and_at_its_last_change() {
    explore(|| {
        let ledger = Arc::new(Ledger::new(2));
        let mut reader = Reader::new(&ledger);
        let writer = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || [live(ledger.change(0, 10), 0, 10), live(ledger.change(1, 11), 1, 11)])
        };
        reader.pass(usize::MAX);
        reader.pass(usize::MAX);
        let changes = writer.join().unwrap();
        reader.pass(usize::MAX);
        reader.judge(&[&initial(2)[..], &changes].concat());
        assert_eq!(reader.position, 4);
    });
}

#[test]
fn a_pass_in_small_steps_crosses_what_moved_on() {
    explore(|| {
        let ledger = Arc::new(Ledger::new(2));
        let mut reader = Reader::new(&ledger);
        let writer = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || [live(ledger.change(1, 10), 1, 10), live(ledger.change(1, 11), 1, 11)])
        };
        for _ in 0..3 {
            reader.pass(1);
        }
        let changes = writer.join().unwrap();
        reader.pass(usize::MAX);
        reader.judge(&[&initial(2)[..], &changes].concat());
        assert_eq!(reader.position, 4);
    });
}

#[test]
fn two_writers_make_one_order() {
    explore(|| {
        let ledger = Arc::new(Ledger::new(2));
        let mut reader = Reader::new(&ledger);
        let writers: Vec<_> = [(0, 10), (1, 11)]
            .into_iter()
            .map(|(key, content)| {
                let ledger = Arc::clone(&ledger);
                thread::spawn(move || live(ledger.change(key, content), key, content))
            })
            .collect();
        reader.pass(usize::MAX);
        let changes: Vec<Met> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        reader.pass(usize::MAX);
        reader.judge(&[initial(2), changes].concat());
        assert_eq!(reader.position, 4);
    });
}

#[test]
fn a_key_that_moves_alone_within_a_segment_is_always_found() {
    explore(|| {
        let ledger = Arc::new(Ledger::new(1));
        let mut reader = Reader::new(&ledger);
        let writer = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || [10, 11].map(|content| live(ledger.change(0, content), 0, content)))
        };
        reader.pass(usize::MAX);
        reader.pass(usize::MAX);
        let changes = writer.join().unwrap();
        reader.pass(usize::MAX);
        reader.judge(&[&initial(1)[..], &changes].concat());
        assert_eq!(reader.view.get(&0), changes.last());
    });
}

#[test]
fn a_key_that_stays_while_its_segment_is_repacked_is_not_lost() {
    explore(|| {
        let ledger = Arc::new(Ledger::new(3));
        // The head leaves the first segment, and one of its cells is emptied: the next move repacks it.
        let moved = live(ledger.change(0, 10), 0, 10);
        let mut reader = Reader::new(&ledger);
        let writer = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || [live(ledger.change(1, 11), 1, 11), live(ledger.change(0, 12), 0, 12)])
        };
        reader.pass(1);
        reader.pass(usize::MAX);
        let changes = writer.join().unwrap();
        reader.pass(usize::MAX);
        reader.judge(&[&initial(3)[..], &[moved], &changes].concat());
        assert_eq!(reader.position, 6);
    });
}

#[test]
fn a_key_that_leaves_a_repacked_segment_last_is_met_where_it_went() {
    explore(|| {
        let ledger = Arc::new(Ledger::new(3));
        let moved = [live(ledger.change(0, 10), 0, 10), live(ledger.change(1, 11), 1, 11)];
        let mut reader = Reader::new(&ledger);
        let writer = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || live(ledger.change(2, 12), 2, 12))
        };
        reader.pass(1);
        reader.pass(usize::MAX);
        let change = writer.join().unwrap();
        reader.pass(usize::MAX);
        reader.judge(&[&initial(3)[..], &moved, &[change]].concat());
        assert_eq!(reader.position, 6);
    });
}

#[test]
fn a_reader_hears_of_a_removal_or_that_it_is_lost() {
    explore(|| {
        let ledger = Arc::new(Ledger::new(2));
        let mut reader = Reader::at_head(&ledger);
        let removed = Met { live: false, ..live(ledger.remove(0, 10), 0, 10) };
        let writer = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || ledger.forget(0, removed.revision))
        };
        reader.pass(usize::MAX);
        writer.join().unwrap();
        reader.judge(&[&initial(2)[..], &[removed]].concat());
    });
}

#[test]
fn a_slot_that_another_key_takes_is_never_read_as_the_key_before() {
    explore(|| {
        let ledger = Arc::new(Ledger::new(2));
        let removed = Met { live: false, ..live(ledger.remove(0, 10), 0, 10) };
        let mut reader = Reader::new(&ledger);
        let writer = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || live(ledger.reuse(0, removed.revision, 20), 0, 20))
        };
        reader.pass(usize::MAX);
        let reused = writer.join().unwrap();
        reader.pass(usize::MAX);
        reader.judge(&[&initial(2)[..], &[removed, reused]].concat());
        assert_eq!(reader.view.get(&0), Some(&reused));
    });
}

#[test]
fn the_ring_holds_the_newest_changes_and_takes_none_for_another() {
    explore(|| {
        let ledger = Arc::new(Ledger::new(1));
        let writer = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || {
                for content in 10..13 {
                    ledger.change(0, content);
                }
            })
        };
        let head = ledger.head();
        let recent = ledger.recent(head);
        let after = ledger.head();
        match recent {
            Some(met) => assert_eq!(met, live(head, 0, if head == 1 { 0 } else { head + 8 })),
            None => assert!(after + 1 >= head + 2, "the ring of two lacks {head} at {after}"),
        }
        writer.join().unwrap();
    });
}

#[test]
fn head_and_sums_belong_together() {
    explore(|| {
        let ledger = Arc::new(Ledger::new(2));
        let writer = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || {
                ledger.remove(0, 10);
                ledger.change(0, 11);
            })
        };
        let live_at = |head| if head == 3 { 1 } else { 2 };
        let (head, live) = ledger.sums();
        assert_eq!(live, live_at(head), "at {head}");
        writer.join().unwrap();
    });
}
