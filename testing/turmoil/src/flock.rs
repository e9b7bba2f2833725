//! A watcher of several sets on one stream: the client's own, recorded as a watcher for each set.

use std::rc::Rc;
use std::time::Duration;

use futures_util::StreamExt as _;
use heureka_client::{Event, Settings};
use heureka_history::Recorder;

use crate::ledger::{Book, now, number, until};
use crate::net;
use crate::plan::{FLOCK, Plan};

/// Watches until the end of the run.
pub(crate) async fn look(plan: Rc<Plan>, book: Book, recorder: Recorder) -> turmoil::Result {
    until(plan.flock.begins).await;
    let settings = Settings { bookmark_interval: Duration::from_secs(2), ..Settings::default() };
    let client = net::client(settings, &plan.flock.servers, &recorder, "f")?;
    let mut many = client.watch_many();
    let ids: Vec<_> = FLOCK.iter().map(|look| many.subscribe(look.selectors())).collect();
    while let Some((id, event)) = many.next().await {
        let set = ids.iter().position(|known| *known == id).ok_or("a subscription that nobody made")?;
        match event {
            Ok(event) => hear(set, event, &book, &recorder),
            Err(error) => book.borrow_mut().breach("a watch goes on", now(), None, error.to_string()),
        }
    }
    Err("the watch ended".into())
}

fn hear(set: usize, event: Event, book: &Book, recorder: &Recorder) {
    let name = format!("f#{}", set + 1);
    match event {
        Event::Added(live) | Event::Modified(live) => {
            let key = live.instance.key.clone();
            recorder.shows(&name, key.clone(), live.version, true);
            let mut book = book.borrow_mut();
            book.note(now(), number(&key), format!("{name} shows {key} {:?}", live.version.parts()));
            book.flock[set].insert(key, live.version);
        }
        Event::Removed { last, reason } => {
            let key = &last.instance.key;
            if reason.is_some() {
                recorder.shows(&name, key.clone(), last.version, false);
            }
            let mut book = book.borrow_mut();
            book.note(
                now(),
                number(key),
                format!("{name} removes {key} {:?}, {reason:?}", last.version.parts()),
            );
            book.flock[set].remove(key);
        }
        // What says nothing of the set.
        _ => {}
    }
}
