//! Watchers against writers: what readers of one selection share, who is woken for what, and what a reader is told
//! while keys move. Each test lets the herald run beside the writer, since nobody orders the two.

use std::collections::BTreeMap;

use heureka_interleavings::{Reader, Registry, Told, explore};
use heureka_model::Status;
use loom::sync::Arc;
use loom::thread;

/// Content of each key.
type Set = BTreeMap<u32, u64>;

fn set<const N: usize>(held: [(u32, u64); N]) -> Set {
    held.into()
}

/// Nothing was told twice or backwards: contents grow with each change of a key.
fn assert_forward(reader: &Reader) {
    let mut last = BTreeMap::new();
    for Told { key, content, .. } in &reader.told {
        let before = last.insert(*key, *content);
        assert!(before < Some(*content), "{key}: {content} after {before:?} in {:?}", reader.told);
    }
}

/// A watcher that sleeps was woken for everything that it was not told and that concerns it.
fn assert_told_or_woken(reader: &mut Reader, registry: &Registry, expected: &Set) {
    if !reader.is_woken() {
        reader.pass(registry);
        assert_eq!(reader.set, *expected, "asleep at {} of {}", reader.position(), registry.head());
    }
    reader.catch_up(registry);
    assert_eq!(reader.set, *expected);
    assert_forward(reader);
}

/// Runs `write` and then the herald beside the rest.
fn beside(registry: &Arc<Registry>, write: fn(&Registry)) -> thread::JoinHandle<()> {
    let registry = Arc::clone(registry);
    thread::spawn(move || {
        write(&registry);
        registry.herald();
    })
}

#[test]
fn a_reader_at_the_head_misses_no_change_and_no_wake() {
    explore(|| {
        let registry = Arc::new(Registry::new(2));
        let mut reader = Reader::at_head(&registry, "all", set([(0, 0), (1, 1)]));
        let writer = beside(&registry, |registry| registry.change(0, 10, Status::Up));
        reader.poll(&registry, usize::MAX);
        reader.pass(&registry);
        writer.join().unwrap();
        assert_told_or_woken(&mut reader, &registry, &set([(0, 10), (1, 1)]));
    });
}

#[test]
fn a_reader_that_joins_while_a_change_is_announced_is_told_it_or_woken() {
    explore(|| {
        let registry = Arc::new(Registry::new(2));
        let writer = beside(&registry, |registry| registry.change(0, 10, Status::Up));
        let mut reader = Reader::full(&registry, "A");
        reader.poll(&registry, usize::MAX);
        reader.pass(&registry);
        writer.join().unwrap();
        assert_told_or_woken(&mut reader, &registry, &set([(0, 10)]));
    });
}

#[test]
fn a_reader_that_comes_back_while_a_change_is_announced_is_told_it_or_woken() {
    explore(|| {
        let registry = Arc::new(Registry::new(1));
        let writer = beside(&registry, |registry| registry.change(0, 10, Status::Up));
        let mut reader = Reader::resuming(&registry, "all", 1, set([(0, 0)]));
        reader.pass(&registry);
        reader.poll(&registry, usize::MAX);
        writer.join().unwrap();
        assert_told_or_woken(&mut reader, &registry, &set([(0, 10)]));
    });
}

#[test]
fn one_who_leaves_takes_nothing_from_those_who_stay() {
    explore(|| {
        let registry = Arc::new(Registry::new(1));
        let mut stays = Reader::at_head(&registry, "all", set([(0, 0)]));
        let leaves = Reader::at_head(&registry, "all", set([(0, 0)]));
        let writer = beside(&registry, |registry| registry.change(0, 10, Status::Up));
        let parting = thread::spawn(move || drop(leaves));
        stays.poll(&registry, usize::MAX);
        writer.join().unwrap();
        parting.join().unwrap();
        assert_told_or_woken(&mut stays, &registry, &set([(0, 10)]));
    });
}

#[test]
fn the_last_one_leaves_and_the_next_one_joins_without_a_gap() {
    explore(|| {
        let registry = Arc::new(Registry::new(1));
        let leaves = Reader::at_head(&registry, "all", set([(0, 0)]));
        let writer = beside(&registry, |registry| registry.change(0, 10, Status::Up));
        let joining = {
            let registry = Arc::clone(&registry);
            thread::spawn(move || {
                let mut joins = Reader::full(&registry, "all");
                joins.poll(&registry, usize::MAX);
                joins.pass(&registry);
                joins
            })
        };
        drop(leaves);
        writer.join().unwrap();
        let mut joins = joining.join().unwrap();
        assert_told_or_woken(&mut joins, &registry, &set([(0, 10)]));
    });
}

#[test]
fn changes_of_others_are_passed_over_and_own_ones_are_not() {
    explore(|| {
        let registry = Arc::new(Registry::new(2));
        let mut reader = Reader::at_head(&registry, "B", set([(1, 1)]));
        let writer = beside(&registry, |registry| {
            registry.change(0, 10, Status::Up);
            registry.herald();
            registry.change(1, 11, Status::Up);
        });
        reader.pass(&registry);
        reader.poll(&registry, usize::MAX);
        writer.join().unwrap();
        assert_told_or_woken(&mut reader, &registry, &set([(1, 11)]));
        assert!(reader.told.iter().all(|told| told.key == 1), "{:?}", reader.told);
    });
}

#[test]
fn two_heralds_wake_for_everything_below_what_they_say_was_told() {
    explore(|| {
        let registry = Arc::new(Registry::new(2));
        let mut reader = Reader::at_head(&registry, "all", set([(0, 0), (1, 1)]));
        let writers = [
            beside(&registry, |registry| registry.change(0, 10, Status::Up)),
            beside(&registry, |registry| registry.change(1, 11, Status::Up)),
        ];
        reader.poll(&registry, usize::MAX);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        assert_told_or_woken(&mut reader, &registry, &set([(0, 10), (1, 11)]));
    });
}

#[test]
fn readers_of_one_passage_are_told_the_same() {
    explore(|| {
        let registry = Arc::new(Registry::new(2));
        let mut readers = [0, 1].map(|_| Reader::at_head(&registry, "all", set([(0, 0), (1, 1)])));
        let writer = beside(&registry, |registry| {
            registry.change(0, 10, Status::Up);
            registry.change(1, 11, Status::Up);
        });
        // Twice, so that one meets what the other read from further back.
        for reader in [0, 1, 0] {
            readers[reader].poll(&registry, usize::MAX);
        }
        writer.join().unwrap();
        for reader in &mut readers {
            assert_told_or_woken(reader, &registry, &set([(0, 10), (1, 11)]));
        }
    });
}

#[test]
fn one_who_comes_into_the_middle_of_a_passage_is_told_the_rest_of_it() {
    explore(|| {
        let registry = Arc::new(Registry::new(2));
        let mut behind = Reader::at_head(&registry, "all", set([(0, 0), (1, 1)]));
        registry.change(0, 10, Status::Up);
        let mut comes = Reader::at_head(&registry, "all", set([(0, 10), (1, 1)]));
        let writer = beside(&registry, |registry| registry.change(1, 11, Status::Up));
        behind.poll(&registry, usize::MAX);
        comes.poll(&registry, usize::MAX);
        writer.join().unwrap();
        for reader in [&mut behind, &mut comes] {
            assert_told_or_woken(reader, &registry, &set([(0, 10), (1, 11)]));
        }
    });
}

#[test]
fn who_leaves_the_selection_is_told_to_have_left_it() {
    explore(|| {
        let registry = Arc::new(Registry::new(1));
        let mut reader = Reader::at_head(&registry, "up", set([(0, 0)]));
        let writer = beside(&registry, |registry| {
            registry.change(0, 10, Status::Down);
            registry.change(0, 11, Status::Down);
        });
        reader.poll(&registry, usize::MAX);
        writer.join().unwrap();
        assert_told_or_woken(&mut reader, &registry, &set([]));
    });
}

#[test]
fn whole_sets_that_are_read_together_beside_a_writer_are_whole() {
    explore(|| {
        let registry = Arc::new(Registry::new(2));
        let mut readers = [0, 1].map(|_| Reader::full(&registry, "all"));
        let writer = beside(&registry, |registry| registry.change(0, 10, Status::Up));
        // In small steps, so that the pages of the two interleave with the writer.
        for reader in &mut readers {
            reader.poll(&registry, 1);
        }
        writer.join().unwrap();
        for reader in &mut readers {
            reader.catch_up(&registry);
            assert_eq!(reader.set, set([(0, 10), (1, 1)]));
            assert_forward(reader);
        }
    });
}

#[test]
fn a_removal_while_the_set_is_read_leaves_nothing_behind() {
    explore(|| {
        let registry = Arc::new(Registry::new(2));
        let mut reader = Reader::full(&registry, "all");
        let writer = beside(&registry, |registry| registry.remove(0, 10));
        reader.poll(&registry, 1);
        reader.poll(&registry, 1);
        writer.join().unwrap();
        assert_told_or_woken(&mut reader, &registry, &set([(1, 1)]));
    });
}

#[test]
fn a_reader_behind_the_ring_reads_the_index_and_misses_nothing() {
    explore(|| {
        let registry = Arc::new(Registry::new(2));
        let mut reader = Reader::at_head(&registry, "all", set([(0, 0), (1, 1)]));
        // One more than the ring holds, so that the reader goes by the index, and then by the ring again.
        registry.change(0, 10, Status::Up);
        registry.change(1, 11, Status::Up);
        let writer = beside(&registry, |registry| {
            registry.change(0, 12, Status::Up);
            registry.change(1, 13, Status::Up);
        });
        reader.poll(&registry, usize::MAX);
        reader.poll(&registry, usize::MAX);
        writer.join().unwrap();
        assert_told_or_woken(&mut reader, &registry, &set([(0, 12), (1, 13)]));
    });
}

/// A fingerprint that is known is that of what was told.
fn assert_proved(reader: &mut Reader, registry: &Registry) -> bool {
    reader.digest(registry).is_some_and(|digest| {
        assert_eq!(digest, reader.hash(registry), "{:?} at {}", reader.set, reader.position());
        true
    })
}

/// Where nothing moves any more, the fingerprint is known, at once or where the reader is led.
fn assert_proved_in_the_end(reader: &mut Reader, registry: &Registry, expected: &Set) {
    reader.catch_up(registry);
    assert_eq!(reader.set, *expected);
    if !assert_proved(reader, registry) {
        reader.catch_up(registry);
        assert!(assert_proved(reader, registry), "not known where it was to be");
    }
}

#[test]
fn a_fingerprint_by_application_is_that_of_the_set_that_was_told() {
    explore(|| {
        let registry = Arc::new(Registry::new(2));
        let mut reader = Reader::at_head(&registry, "all", set([(0, 0), (1, 1)]));
        let writer = beside(&registry, |registry| registry.change(0, 10, Status::Up));
        assert_proved(&mut reader, &registry);
        reader.poll(&registry, usize::MAX);
        assert_proved(&mut reader, &registry);
        writer.join().unwrap();
        assert_proved_in_the_end(&mut reader, &registry, &set([(0, 10), (1, 1)]));
    });
}

#[test]
fn a_fingerprint_for_which_everything_is_looked_at_is_that_of_the_set_that_was_told() {
    explore(|| {
        let registry = Arc::new(Registry::new(2));
        let mut reader = Reader::at_head(&registry, "up", set([(0, 0), (1, 1)]));
        let writer = beside(&registry, |registry| {
            registry.change(0, 10, Status::Down);
            registry.change(0, 11, Status::Up);
        });
        assert_proved(&mut reader, &registry);
        reader.poll(&registry, usize::MAX);
        assert_proved(&mut reader, &registry);
        writer.join().unwrap();
        assert_proved_in_the_end(&mut reader, &registry, &set([(0, 11), (1, 1)]));
    });
}

#[test]
fn two_readers_share_a_fingerprint_that_follows_the_log() {
    explore(|| {
        let registry = Arc::new(Registry::new(1));
        let mut readers = [0, 1].map(|_| Reader::at_head(&registry, "up", set([(0, 0)])));
        let writer = beside(&registry, |registry| registry.change(0, 10, Status::Up));
        let [first, second] = &mut readers;
        assert_proved(first, &registry);
        second.poll(&registry, usize::MAX);
        assert_proved(second, &registry);
        writer.join().unwrap();
        for reader in &mut readers {
            assert_proved_in_the_end(reader, &registry, &set([(0, 10)]));
        }
    });
}

#[test]
fn a_set_that_lacks_what_moved_away_is_not_proved_by_a_fingerprint_of_before() {
    explore(|| {
        let registry = Arc::new(Registry::new(2));
        let mut earlier = Reader::at_head(&registry, "all", set([(0, 0), (1, 1)]));
        assert!(assert_proved(&mut earlier, &registry));
        let writer = beside(&registry, |registry| registry.change(0, 10, Status::Up));
        let mut reader = Reader::full(&registry, "all");
        reader.poll(&registry, usize::MAX);
        assert_proved(&mut reader, &registry);
        writer.join().unwrap();
        assert_proved_in_the_end(&mut reader, &registry, &set([(0, 10), (1, 1)]));
    });
}
