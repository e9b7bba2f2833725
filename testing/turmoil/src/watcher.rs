//! A watcher: the client's own watch, recorded byte by byte, and the set that an application makes of its events.

use std::rc::Rc;
use std::time::Duration;

use futures_util::StreamExt as _;
use heureka_client::{Event, Settings};
use heureka_history::Recorder;
use heureka_model::{Registration, RemovalReason};

use crate::ledger::{Book, Removal, now, number, until};
use crate::net;
use crate::plan::{Look, Plan};

struct Watcher {
    number: usize,
    name: String,
    look: Look,
    book: Book,
    recorder: Recorder,
}

/// Watches until the end of the run.
pub(crate) async fn look(plan: Rc<Plan>, number: usize, book: Book, recorder: Recorder) -> turmoil::Result {
    let watcher = &plan.watchers[number];
    until(watcher.begins).await;
    let name = format!("w{number}");
    let settings = Settings { bookmark_interval: Duration::from_secs(2), ..Settings::default() };
    let client = net::client(settings, &watcher.servers, &recorder, &name)?;
    let mut watch = client.watch(watcher.look.selectors());
    let watcher = Watcher { number, name, look: watcher.look.clone(), book, recorder };
    while let Some(event) = watch.next().await {
        match event {
            Ok(event) => watcher.hear(event),
            Err(error) => watcher.book.borrow_mut().breach("a watch goes on", now(), None, error.to_string()),
        }
    }
    Err("the watch ended".into())
}

impl Watcher {
    fn hear(&self, event: Event) {
        match event {
            Event::Added(live) => self.shows("adds", &live),
            Event::Modified(live) => self.shows("changes", &live),
            Event::Removed { last, reason } => {
                if reason.is_some() {
                    // Whatever the servers tell later must be newer than this removal; nobody knows of one that was
                    // only missing from a snapshot.
                    self.recorder.shows(&self.name, last.instance.key.clone(), last.version, false);
                }
                self.removed(&last, reason);
            }
            Event::Synced { instances } => self.note(None, &format!("is synced with {instances}")),
            Event::Reading(reading) => self.note(None, &format!("reads {}", reading.key)),
            Event::Preserving(is_on) => self.note(None, &format!("preserving {is_on}")),
        }
    }

    fn shows(&self, verb: &str, live: &Registration) {
        let key = live.instance.key.clone();
        self.recorder.shows(&self.name, key.clone(), live.version, true);
        self.note(number(&key), &format!("{verb} {key} {:?}", live.version.parts()));
        self.book.borrow_mut().views[self.number].insert(key, live.version);
    }

    fn removed(&self, last: &Registration, reason: Option<RemovalReason>) {
        let key = last.instance.key.clone();
        let why = reason.map_or("unobserved".to_owned(), |reason| format!("{reason:?}"));
        self.note(number(&key), &format!("removes {key} {:?}, {why}", last.version.parts()));
        self.book.borrow_mut().views[self.number].remove(&key);
        // Whoever is of another status than is looked for is not gone.
        let may_be_there = match reason {
            Some(reason) => reason == RemovalReason::FilteredOut,
            None => self.look == Look::Up,
        };
        if let Some(number) = number(&key).filter(|_| !may_be_there) {
            self.book.borrow_mut().removals.push(Removal { at: now(), key: number, watcher: self.number });
        }
    }

    fn note(&self, key: Option<usize>, text: &str) {
        self.book.borrow_mut().note(now(), key, format!("w{} {text}", self.number));
    }
}
