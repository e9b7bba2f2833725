//! Connections that reach their age: where their watchers go, when, and what a stock client sees of it.

use std::time::Duration;

use heureka_turmoil::ages;

const AGE: Duration = Duration::from_mins(1);

#[test]
fn watchers_even_out_within_two_ages_after_a_server_died_and_no_stock_client_sees_an_error() {
    let ages = ages(7, AGE);
    let all: usize = ages.after.iter().sum();
    assert!(ages.before[0] < all / 20, "the one that died is nearly empty: {:?}", ages.before);
    // A third each; what chance adds or takes is a tenth of that, and five times as much is not chance.
    assert!(ages.after.iter().all(|at| (all / 6..=all / 2).contains(at)), "{:?}", ages.after);

    // Everybody came between 15 s and 20 s, goes within a fifth of an age before or after it, and is back within some
    // seconds.
    let age = AGE.as_millis() as u64;
    let (from, until) = (15_000 + age * 4 / 5, 30_000 + age * 6 / 5);
    assert!(ages.ends.iter().all(|end| (from..until).contains(end)), "{:?}", ages.ends);
    let most = (from / 1_000..until / 1_000).map(|second| ended_in(&ages.ends, second)).max().unwrap();
    assert!(ages.ends.len() >= all * 9 / 10 && most < all / 6, "{most} of {} in a second", ages.ends.len());

    assert!(ages.stock.len() >= 3, "{:?}", ages.stock);
    assert!(ages.stock.iter().all(Result::is_ok), "{:?}", ages.stock);
    assert_eq!(ages.failed_calls, [""; 0]);
}

fn ended_in(ends: &[u64], second: u64) -> usize {
    ends.iter().filter(|end| **end / 1_000 == second).count()
}
