//! A few seeds, so that `cargo test` says when the simulation itself is broken. The many are run by `make sim`.

use heureka_sim::{Plan, Temper, Trace, judge, regressions, run};

#[test]
fn a_seed_gives_the_same_run_with_and_without_a_trace() {
    for seed in 0..4 {
        let plan = Plan::of(seed);
        let fingerprints =
            [Trace::off(), Trace::off(), Trace::on()].map(|trace| run(&plan, trace).fingerprint);
        assert_eq!(fingerprints[0], fingerprints[1], "seed {seed}");
        assert_eq!(fingerprints[0], fingerprints[2], "seed {seed}");
    }
}

#[test]
fn different_seeds_give_different_runs() {
    let fingerprint = |seed| run(&Plan::with(seed, Temper::Calm), Trace::off()).fingerprint;
    assert_ne!(fingerprint(1), fingerprint(2));
}

#[test]
fn nothing_breaks_in_a_few_runs_of_each_small_kind() {
    for temper in Temper::ALL.into_iter().filter(|temper| *temper != Temper::Crowd) {
        for seed in 0..4 {
            let (_, violation) = judge(&Plan::with(seed, temper), false);
            assert!(violation.is_none(), "{temper:?}, seed {seed}: {violation:?}");
        }
    }
}

#[test]
fn the_list_of_seeds_that_failed_can_be_read() {
    assert!(regressions().count() > 10);
    assert!(regressions().all(|(_, what)| !what.is_empty()));
}
