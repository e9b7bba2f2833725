//! A cache, as balancers have one: what it serves is looked at all the time.

use std::rc::Rc;
use std::time::Duration;

use heureka_client::Settings;
use heureka_history::Recorder;
use heureka_registry::seeded::{Bug, planted};
use tokio::time::sleep;

use crate::ledger::{Book, Shrink, key, now, until};
use crate::net;
use crate::plan::Plan;

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(50);
/// Time after which it is known that an owner keeps its instance.
const SETTLED: u64 = 3_000;

/// Keeps what there is until the end of the run.
pub(crate) async fn keep(plan: Rc<Plan>, number: usize, book: Book, recorder: Recorder) -> turmoil::Result {
    until(plan.caches[number].begins).await;
    let guard = Settings::default().snapshot_hold;
    let snapshot_hold = if planted(Bug::ShrinkBelieved) { Duration::ZERO } else { guard };
    let settings =
        Settings { bookmark_interval: Duration::from_secs(1), snapshot_hold, ..Settings::default() };
    let client = net::client(settings, &plan.caches[number].servers, &recorder, &format!("c{number}"))?;
    let cache = client.cache(Vec::new());
    let mut before = Vec::new();
    loop {
        sleep(LOOK).await;
        let held: Vec<usize> =
            (0..plan.owners.len()).filter(|owner| cache.instance(&key(*owner)).is_some()).collect();
        let lost: Vec<_> = before.iter().filter(|owner| !held.contains(owner)).copied().collect();
        shrank(number, &before, &lost, &book);
        before = held;
    }
}

/// Notes what went.
fn shrank(number: usize, before: &[usize], lost: &[usize], book: &Book) {
    if lost.is_empty() {
        return;
    }
    let (at, mut book) = (now(), book.borrow_mut());
    book.note(at, None, format!("c{number} lost {lost:?} of {before:?}"));
    let kept = |owner: &&usize| book.owners[**owner].is_there_for(SETTLED, at);
    let lost = lost.iter().filter(kept).copied().collect();
    book.shrinks.push(Shrink { at, cache: number, before: before.to_vec(), lost });
}
