//! Encoded answers, kept by revision: a reader never sees an answer older than the last change, except within
//! the shortest interval that the operator allows.
//!
//! There is one slot per list and form. Whoever finds a slot out of date brings it up to date while others wait
//! for that one piece of work, and then read it, whatever has changed since they asked. All slots together hold at most `cache_max_bytes`; a list that is larger alone is
//! encoded for each reader while it is sent.

mod delta;
mod groups;
mod gzip;
mod list;
mod piece;
mod stream;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Body;
use heureka_model::{Clock, Mono, Now};
use heureka_registry::{LIST_AGE_MAX, Registry};
use parking_lot::RwLock;
use tokio::sync::Mutex;

use crate::budget::Budget;
use crate::config::Config;
use crate::error::Error;
use crate::negotiate::{Format, Shape};
use groups::List;
use piece::Document;

/// Largest answer that is brought up to date on the thread that serves requests.
const INLINE_MAX: usize = 1 << 20;
/// Registries up to this size are encoded anew as often as they change.
const SMALL_REGISTRY: u32 = 10_000;
const LARGE_REGISTRY_INTERVAL: Duration = Duration::from_millis(100);
/// Two lists, each in JSON and XML, full and compact, and in XML of the first version.
const SLOTS: usize = 10;

/// Form of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Kind {
    pub(crate) format: Format,
    pub(crate) shape: Shape,
}

/// Which list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All applications.
    Full,
    /// What changed lately.
    Delta,
}

/// Answers kept for the next reader.
pub(crate) struct Cache {
    registry: Arc<Registry>,
    clock: Arc<dyn Clock>,
    budget: Arc<Budget>,
    max: usize,
    min_interval: Option<Duration>,
    slots: [Slot; SLOTS],
    /// Counts uses, to tell which slot was used last.
    uses: AtomicU64,
}

/// A list on its way out.
pub(crate) struct Listed {
    pub(crate) body: Body,
    /// Its length, unless it is encoded while it is sent.
    pub(crate) length: Option<u64>,
    /// A number that grows whenever the list says something else. The list may say more than this number.
    pub(crate) number: u64,
}

/// What a reader waits for.
#[derive(Clone, Copy)]
struct Wanted {
    /// The registry's revision when the reader came: nothing older will do.
    head: u64,
    gzip: bool,
}

#[derive(Default)]
struct Slot {
    answer: RwLock<Option<Arc<Answer>>>,
    /// Held by whoever brings the slot up to date.
    turn: Mutex<()>,
    used: AtomicU64,
    /// Number of instances at which the list was last found too large to keep; zero when it was not.
    too_large_at: AtomicU64,
}

/// An encoded answer and what it was true of.
struct Answer {
    document: Document,
    list: List,
    /// When the first of its parts has to be encoded anew.
    due: Mono,
    built: Mono,
}

impl Cache {
    pub(crate) fn new(
        registry: Arc<Registry>,
        clock: Arc<dyn Clock>,
        config: &Config,
        budget: Arc<Budget>,
    ) -> Self {
        Self {
            registry,
            clock,
            budget,
            max: config.lists_max_bytes(),
            min_interval: config.cache_min_interval,
            slots: std::array::from_fn(|_| Slot::default()),
            uses: AtomicU64::new(0),
        }
    }

    /// The list as it is.
    ///
    /// # Errors
    /// `Unavailable` when the server is going down, `Busy` when too many read a list that is too large to be kept.
    pub(crate) async fn list(
        self: &Arc<Self>,
        scope: Scope,
        kind: Kind,
        gzip: bool,
    ) -> Result<Listed, Error> {
        let head = self.registry.head();
        let wanted = Wanted { head, gzip };
        let Some(answer) = self.answer(scope, kind, wanted).await? else {
            let source = (Arc::clone(&self.registry), Arc::clone(&self.clock));
            let body = stream::body(source, &self.budget, kind, gzip)?;
            return Ok(Listed { body, length: None, number: head });
        };
        let number = match scope {
            Scope::Full => answer.list.revision,
            // What leaves the window changes a delta as well.
            Scope::Delta => answer.list.version,
        };
        let (body, length) = answer.document.body(gzip);
        Ok(Listed { body, length: Some(length), number })
    }

    /// An answer that is as new as wanted; nothing when it is too large to be kept.
    async fn answer(
        self: &Arc<Self>,
        scope: Scope,
        kind: Kind,
        wanted: Wanted,
    ) -> Result<Option<Arc<Answer>>, Error> {
        let slot = self.slot(scope, kind);
        slot.used.store(self.uses.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        if slot.is_too_large(&self.registry) {
            return Ok(None);
        }
        if let Some(answer) = self.current(slot, wanted) {
            return Ok(Some(answer));
        }
        let _turn = slot.turn.lock().await;
        if let Some(answer) = self.current(slot, wanted) {
            return Ok(Some(answer));
        }
        if slot.is_small() {
            return Ok(self.renewed(scope, kind, wanted));
        }
        let cache = Arc::clone(self);
        let work = tokio::task::spawn_blocking(move || cache.renewed(scope, kind, wanted));
        work.await.map_err(|_| Error::Unavailable)
    }

    fn slot(&self, scope: Scope, kind: Kind) -> &Slot {
        let form = match (kind.format, kind.shape) {
            (Format::Json, Shape::Full | Shape::FirstVersion) => 0,
            (Format::Json, Shape::Compact) => 1,
            (Format::Xml, Shape::Full) => 2,
            (Format::Xml, Shape::Compact) => 3,
            (Format::Xml, Shape::FirstVersion) => 4,
        };
        let place = if scope == Scope::Delta { form + SLOTS / 2 } else { form };
        &self.slots[place]
    }

    fn current(&self, slot: &Slot, wanted: Wanted) -> Option<Arc<Answer>> {
        let answer = slot.answer.read().clone()?;
        let ready = !wanted.gzip || answer.document.is_deflated();
        (ready && self.is_current(&answer, wanted.head, self.clock.now())).then_some(answer)
    }

    fn is_current(&self, answer: &Answer, head: u64, now: Now) -> bool {
        let fresh = answer.list.revision >= head
            || now.mono.since(answer.built) < self.interval(answer.list.counts.total());
        fresh && now.mono <= answer.due
    }

    fn interval(&self, instances: u32) -> Duration {
        let default = if instances > SMALL_REGISTRY { LARGE_REGISTRY_INTERVAL } else { Duration::ZERO };
        self.min_interval.unwrap_or(default)
    }

    /// Brings the slot up to date. Nothing when the list is too large.
    fn renewed(&self, scope: Scope, kind: Kind, wanted: Wanted) -> Option<Arc<Answer>> {
        let slot = self.slot(scope, kind);
        let now = self.clock.now();
        let old = slot.answer.read().clone();
        let answer = match old.clone().filter(|answer| self.is_current(answer, wanted.head, now)) {
            Some(answer) => answer,
            None => match self.built(old.as_deref(), scope, kind, now) {
                Some(answer) => Arc::new(answer),
                None => return slot.give_up(&self.registry),
            },
        };
        if wanted.gzip {
            answer.document.gzip();
        }
        self.keep(slot, &answer);
        Some(answer)
    }

    fn built(&self, old: Option<&Answer>, scope: Scope, kind: Kind, now: Now) -> Option<Answer> {
        let old = old.map(|answer| answer.list.groups.as_slice()).unwrap_or_default();
        let list = match scope {
            Scope::Full => list::refresh(old, &self.registry, kind, self.max, now).ok()?,
            // What only a delta tells has to be said however large it is.
            Scope::Delta => delta::refresh(old, &self.registry, kind, usize::MAX, now).ok()?,
        };
        let document = list.document(kind.format);
        let due = list.due().unwrap_or_else(|| now.mono.plus(LIST_AGE_MAX));
        Some(Answer { document, list, due, built: now.mono })
    }

    /// Keeps the answer if it fits, at the cost of the slots that were not used for longest.
    fn keep(&self, slot: &Slot, answer: &Arc<Answer>) {
        let size = answer.document.size();
        *slot.answer.write() = (size <= self.max).then(|| Arc::clone(answer));
        let mut others: Vec<&Slot> = self.slots.iter().filter(|other| !std::ptr::eq(*other, slot)).collect();
        others.sort_unstable_by_key(|other| std::cmp::Reverse(other.used.load(Ordering::Relaxed)));
        let mut held = size;
        for other in others {
            held += other.size();
            if held > self.max {
                held -= other.clear();
            }
        }
    }
}

impl Slot {
    fn size(&self) -> usize {
        self.answer.read().as_ref().map_or(0, |answer| answer.document.size())
    }

    fn clear(&self) -> usize {
        self.answer.write().take().map_or(0, |answer| answer.document.size())
    }

    /// Whether the list was found too large and has not shrunk by a tenth since.
    fn is_too_large(&self, registry: &Registry) -> bool {
        let limit = self.too_large_at.load(Ordering::Relaxed);
        limit > 0 && registry.stats().instances >= limit - limit / 10
    }

    fn give_up(&self, registry: &Registry) -> Option<Arc<Answer>> {
        self.clear();
        self.too_large_at.store(registry.stats().instances.max(1), Ordering::Relaxed);
        None
    }

    fn is_small(&self) -> bool {
        self.answer.read().as_ref().is_some_and(|answer| answer.document.size() <= INLINE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use heureka_model::{Instance, InstanceKey, Wall};
    use heureka_registry::{Claim, Origin, RegisterMode, Seeds};

    const KIND: Kind = Kind { format: Format::Json, shape: Shape::Full };
    const NOW: Now = Now { mono: Mono(0), wall: Wall(1_800_000_000_000) };

    struct Still;

    impl Clock for Still {
        fn now(&self) -> Now {
            NOW
        }
    }

    fn change(registry: &Registry, id: &str) {
        let key = InstanceKey { namespace: String::new(), app: "A".into(), id: id.into() };
        let mode = RegisterMode::Upsert;
        registry.register(&Instance::new(key), Claim::Next, mode, &Origin::System, NOW).unwrap();
    }

    #[test]
    fn who_waits_for_a_list_reads_the_next_one_whatever_changed_meanwhile() {
        let registry = Arc::new(Registry::new(
            heureka_registry::Config::default(),
            Seeds { boot: 1, hash: 2, shuffle: 3 },
            NOW,
        ));
        let cache =
            Cache::new(Arc::clone(&registry), Arc::new(Still), &Config::default(), Budget::new(1 << 20));
        let cache = Arc::new(cache);
        let head = || registry.head();
        let read = || Box::pin(cache.list(Scope::Full, KIND, true));
        change(&registry, "first");
        let turn = cache.slot(Scope::Full, KIND).turn.try_lock().unwrap();
        let mut waiting = [read(), read()];
        assert!(waiting.iter_mut().all(|reader| reader.now_or_never().is_none()));
        let built = head();
        cache.renewed(Scope::Full, KIND, Wanted { head: built, gzip: true }).unwrap();
        change(&registry, "second");
        drop(turn);
        for reader in waiting {
            assert_eq!(reader.now_or_never().unwrap().unwrap().number, built);
        }
        assert_eq!(read().now_or_never().unwrap().unwrap().number, head());
    }
}
