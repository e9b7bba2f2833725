//! A few seeds, so that `cargo test` says when the simulation itself is broken. The many are run by `make turmoil`.

use heureka_turmoil::{Plan, run};

#[test]
fn nothing_breaks_in_a_few_runs() {
    for seed in 0..3 {
        let outcome = run(&Plan::of(seed));
        assert!(outcome.breaches.is_empty(), "seed {seed}: {:#?}", outcome.breaches);
    }
}

#[test]
fn a_seed_gives_the_same_plan() {
    assert_eq!(format!("{:?}", Plan::of(7)), format!("{:?}", Plan::of(7)));
    assert_ne!(format!("{:?}", Plan::of(7)), format!("{:?}", Plan::of(8)));
}
