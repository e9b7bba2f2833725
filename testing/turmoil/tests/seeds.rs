//! A few seeds, so that `cargo test` says when the simulation itself is broken. The many are run by `make turmoil`.

use heureka_turmoil::{Plan, run};

fn nothing_breaks(seed: u64) {
    let outcome = run(&Plan::of(seed));
    assert!(outcome.recording.steps().len() > 100, "seed {seed}: nobody watched");
    assert!(outcome.breaches.is_empty(), "seed {seed}: {:#?}", outcome.breaches);
}

// A test for each seed, so that they run side by side.

#[test]
fn nothing_breaks_in_a_run() {
    nothing_breaks(0);
}

#[test]
fn nothing_breaks_in_another_run() {
    nothing_breaks(1);
}

#[test]
fn a_seed_gives_the_same_plan() {
    assert_eq!(format!("{:?}", Plan::of(7)), format!("{:?}", Plan::of(7)));
    assert_ne!(format!("{:?}", Plan::of(7)), format!("{:?}", Plan::of(8)));
}
