//! Renewals against the sweep, against a cancel, and against the next user of a slot.

use heureka_interleavings::{Renewal, Shard, explore};
use loom::sync::Arc;
use loom::thread;

const KEY: u32 = 7;
const OTHER: u32 = 8;

#[test]
fn a_lapsed_instance_is_either_renewed_or_removed() {
    explore(|| {
        let shard = Arc::new(Shard::new(KEY, 1));
        let sweep = {
            let shard = Arc::clone(&shard);
            thread::spawn(move || shard.sweep(2000))
        };
        let renewal = shard.renew(2000);
        let removed = sweep.join().unwrap();
        assert_eq!(removed, renewal == Renewal::NotFound, "{renewal:?}");
        assert_eq!(shard.lease(), (!removed).then_some((2000, true)));
    });
}

#[test]
fn two_renewals_and_a_sweep_agree() {
    explore(|| {
        let shard = Arc::new(Shard::new(KEY, 1));
        let renewals: Vec<_> = (0..2)
            .map(|_| {
                let shard = Arc::clone(&shard);
                thread::spawn(move || shard.renew(2000))
            })
            .collect();
        let removed = shard.sweep(2000);
        let accepted =
            renewals.into_iter().map(|renewal| renewal.join().unwrap()).any(|one| one == Renewal::Accepted);
        assert_ne!(removed, accepted);
        assert_eq!(shard.lease().is_some(), accepted);
    });
}

#[test]
fn a_registration_between_the_look_and_the_removal_saves_the_instance() {
    explore(|| {
        let shard = Arc::new(Shard::new(KEY, 1));
        let sweep = {
            let shard = Arc::clone(&shard);
            thread::spawn(move || shard.sweep(2000))
        };
        shard.register(KEY, 1, 2000);
        sweep.join().unwrap();
        assert_eq!(shard.lease(), Some((2000, false)), "whoever came first, it is there");
        assert_eq!(shard.renew(2001), Renewal::Accepted);
    });
}

#[test]
fn what_two_sweeps_remove_is_removed_once() {
    explore(|| {
        let shard = Arc::new(Shard::new(KEY, 1));
        let sweep = {
            let shard = Arc::clone(&shard);
            thread::spawn(move || shard.sweep(2000))
        };
        let here = shard.sweep(2000);
        let there = sweep.join().unwrap();
        assert!(here != there, "removed {} times", u32::from(here) + u32::from(there));
    });
}

#[test]
fn a_renewal_never_reaches_the_next_user_of_the_slot() {
    explore(|| {
        let shard = Arc::new(Shard::new(KEY, 1));
        let renewal = {
            let shard = Arc::clone(&shard);
            thread::spawn(move || shard.renew(500))
        };
        shard.cancel();
        shard.register_elsewhere(OTHER, 1, 700);
        renewal.join().unwrap();
        assert_eq!(shard.lease(), Some((700, false)));
    });
}
