//! A watcher that speaks the wire itself: takes few changes at a time, reads slowly or not at all for a while, leaves
//! in the middle, and goes to another server with its token. It repairs nothing, so what a server told wrongly stays
//! wrong until the end.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use heureka_history::Recorder;
use heureka_model::{InstanceKey, Version};
use heureka_proto::v1;
use heureka_proto::v1::discovery_service_client::DiscoveryServiceClient;
use heureka_proto::v1::watch_event::Event;
use tokio::time::{sleep, timeout};
use tonic::{Code, Status, Streaming};

use crate::ledger::{Book, now, number, until};
use crate::net;
use crate::plan::{CALM, Plan, ProberPlan};
use crate::server::Slot;

/// Time between two bookmarks.
const INTERVAL: Duration = Duration::from_secs(1);
/// Silence after which a stream is given up.
const SILENCE: Duration = Duration::from_secs(6);
/// Time before the next stream when one failed.
const PAUSE: Duration = Duration::from_millis(500);
/// Marks that a server may have had at hand for a reader that stood still.
const AT_HAND: u32 = 4;
/// The least that a mark takes of a window.
const MARK: u32 = 60;

type Set = BTreeMap<InstanceKey, Version>;

struct Prober {
    number: usize,
    name: String,
    plan: ProberPlan,
    slots: Vec<Slot>,
    book: Book,
    recorder: Recorder,
    /// The server of the moment, among those that it knows.
    server: usize,
    stalls: VecDeque<(u64, u64)>,
    leaves: VecDeque<(u64, u64)>,
    /// It goes on where it was.
    returns: bool,
    /// What was told up to the last mark, and its token.
    marked: (Set, Bytes),
    held: Set,
    /// A whole set until it is complete.
    building: Option<Set>,
    /// What was there when it read on after it had stood still, and how many marks of before came since.
    behind: Option<(u64, u32)>,
}

/// Watches until the end of the run.
pub(crate) async fn probe(
    plan: Rc<Plan>,
    number: usize,
    slots: Vec<Slot>,
    book: Book,
    recorder: Recorder,
) -> turmoil::Result {
    let plan = plan.probers[number].clone();
    until(plan.begins).await;
    let (stalls, leaves) = (plan.stalls.clone().into(), plan.leaves.clone().into());
    let mut prober = Prober {
        number,
        name: format!("p{number}"),
        plan,
        slots,
        book,
        recorder,
        server: 0,
        returns: false,
        stalls,
        leaves,
        marked: Default::default(),
        held: Set::new(),
        building: None,
        behind: None,
    };
    loop {
        let away = match prober.stream().await {
            Ok(away) => away,
            Err(status) => prober.refused(&status),
        };
        sleep(away).await;
        if !std::mem::take(&mut prober.returns) {
            prober.server = (prober.server + 1) % prober.plan.servers.len();
        }
    }
}

impl Prober {
    /// Reads one stream; how long to stay away after it.
    async fn stream(&mut self) -> Result<Duration, Status> {
        let server = self.plan.servers[self.server];
        let channel = net::narrow_channel(server, self.plan.window)
            .map_err(|error| Status::unknown(error.to_string()))?;
        let mut client = DiscoveryServiceClient::new(self.recorder.tap(&self.name, channel));
        // What came after the mark is told again.
        (self.held, self.building, self.behind) = (self.marked.0.clone(), None, None);
        let answer = timeout(SILENCE, client.watch(self.request())).await;
        let mut stream = answer.map_err(|_| Status::unavailable("no answer"))??.into_inner();
        loop {
            if let Some(away) = due(&mut self.leaves) {
                self.returns = self.plan.returns;
                if self.returns {
                    self.marked = Default::default();
                }
                return Ok(away);
            }
            if let Some(lasts) = due(&mut self.stalls) {
                self.stand_still(lasts, server).await;
            }
            sleep(self.pause()).await;
            let Some(event) = message(&mut stream).await? else { return Ok(PAUSE) };
            if !self.take(event) {
                return Ok(PAUSE);
            }
        }
    }

    fn request(&self) -> v1::WatchRequest {
        let spec = v1::WatchSpec {
            selectors: self.plan.look.selectors(),
            resume_token: self.marked.1.clone(),
            bookmark_interval: Some(prost_types::Duration { seconds: INTERVAL.as_secs() as i64, nanos: 0 }),
            max_batch_size: self.plan.batch,
            ..v1::WatchSpec::default()
        };
        v1::WatchRequest { spec: Some(spec), client_name: self.name.clone() }
    }

    /// What it takes to read a message; nothing any more when everybody is to see what there is in the end.
    fn pause(&self) -> Duration {
        Duration::from_millis(if now() < CALM { self.plan.pause } else { 0 })
    }

    async fn stand_still(&mut self, lasts: Duration, server: usize) {
        let boot =
            |slot: &Slot| slot.borrow().life.as_ref().map(|life| (life.boot(), life.running.core().head()));
        let before = boot(&self.slots[server]);
        self.note("stands still");
        sleep(lasts).await;
        let after = boot(&self.slots[server]);
        // Another life of the server would count anew, and whoever reads slowly is told marks all the way.
        self.behind = match (before, after) {
            (Some((boot, _)), Some((same, head))) if boot == same && self.plan.pause == 0 => Some((head, 0)),
            _ => None,
        };
    }

    /// Takes a message in; whether the stream goes on.
    fn take(&mut self, event: Event) -> bool {
        match event {
            Event::SnapshotBegin(begin) => {
                self.note(&format!("begins with {:?}", begin.mode()));
                self.building = (begin.mode() == v1::SnapshotMode::Full).then(Set::new);
            }
            Event::Changes(batch) => batch.changes.iter().for_each(|change| self.apply(change)),
            Event::SnapshotEnd(end) => {
                if let Some(built) = self.building.take() {
                    self.held = built;
                }
                self.mark(end.resume_token, end.revision);
            }
            Event::Bookmark(mark) => self.mark(mark.resume_token, mark.revision),
            Event::GoAway(away) => {
                if !away.resume_token.is_empty() {
                    self.marked = (self.held.clone(), away.resume_token);
                }
                return false;
            }
            // What says nothing of the set.
            _ => {}
        }
        if self.building.is_none() {
            self.book.borrow_mut().probes[self.number].clone_from(&self.held);
        }
        true
    }

    fn apply(&mut self, change: &v1::Change) {
        let (Some(key), Some(version)) = (change.key.clone(), change.version) else { return };
        let (key, version) = (InstanceKey::from(key), Version::from(version));
        let is_there = change.r#type() != v1::ChangeType::Removed;
        let verb = if is_there { "is told" } else { "is told the removal of" };
        self.book.borrow_mut().note(
            now(),
            number(&key),
            format!("p{} {verb} {key} {:?}", self.number, version.parts()),
        );
        let set = self.building.as_mut().unwrap_or(&mut self.held);
        if is_there {
            set.insert(key, version)
        } else {
            set.remove(&key)
        };
    }

    fn mark(&mut self, token: Bytes, revision: u64) {
        self.marked = (self.held.clone(), token);
        let Some((head, stale)) = &mut self.behind else { return };
        if revision >= *head {
            self.behind = None;
            return;
        }
        *stale += 1;
        if *stale > AT_HAND + self.plan.window / MARK {
            let text = format!("p{} stood still and is told mark after mark of before", self.number);
            self.behind = None;
            self.book.borrow_mut().breach("nothing waits for who does not read", now(), None, text);
        }
    }

    /// How long to stay away.
    fn refused(&mut self, status: &Status) -> Duration {
        if matches!(status.code(), Code::InvalidArgument | Code::OutOfRange | Code::Internal) {
            self.book.borrow_mut().breach(
                "a token is of use",
                now(),
                None,
                format!("p{}: {status}", self.number),
            );
        }
        PAUSE
    }

    fn note(&self, text: &str) {
        self.book.borrow_mut().note(now(), None, format!("p{} {text}", self.number));
    }
}

async fn message(stream: &mut Streaming<v1::WatchResponse>) -> Result<Option<Event>, Status> {
    let message = timeout(SILENCE, stream.message()).await.map_err(|_| Status::unavailable("silence"))??;
    Ok(message.and_then(|message| message.event).and_then(|event| event.event))
}

/// How long what is due now lasts from now on.
fn due(times: &mut VecDeque<(u64, u64)>) -> Option<Duration> {
    let now = now();
    let (at, lasts) = *times.front().filter(|(at, _)| *at <= now)?;
    times.pop_front();
    Some(Duration::from_millis((at + lasts).saturating_sub(now)))
}
