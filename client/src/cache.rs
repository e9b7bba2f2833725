//! A copy of the registry in memory that is read without waiting.

mod apps;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use heureka_model::{InstanceKey, Registration};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_stream::Stream;
use tokio_stream::wrappers::WatchStream;

use crate::calls::Calls;
use crate::view::View;
use crate::watch::Watcher;
use crate::{Endpoint, Error, Event, InstanceSelector, Transport};

pub use apps::AppName;
use apps::{App, Apps};

/// Instances in memory, fed by a watch; [`Client::cache`](crate::Client::cache) returns it.
///
/// Look-ups take no lock, wait for nothing and see each application as it was at one moment. They go on answering
/// when no server does; [`age`](Self::age) tells how old the answer may be.
///
/// **A snapshot that would empty more than half of it is not believed at once.** A server that was just restarted
/// tells the truth and knows nobody. Such a snapshot waits until the server calls itself ready and two of its
/// digests in a row agree with what it told; and when it is another server, or another life of one, than told what
/// is held, until the longest lease of the missing instances would have lapsed as well, since those alive come back
/// within it. Until then the missing ones are served as before; what the snapshot holds, and every change and
/// removal that the server tells meanwhile, applies at once. The wait ends early when nobody is missing any more,
/// and after [`Settings::snapshot_hold`](crate::Settings::snapshot_hold) at the latest, each at the next sign of
/// life. What is removed on a live stream is removed at once, however much it is.
///
/// Clones share one copy; it follows the registry until the last of them is dropped.
#[derive(Clone, Debug)]
pub struct Cache {
    shared: Arc<Shared>,
    _feed: Arc<Feed>,
}

/// Tells that something in a [`Cache`] changed, however much it was: a slow reader is told once. Begins with the
/// state that was there, ends when the cache can follow no more.
#[derive(Debug)]
pub struct Changes(WatchStream<Progress>);

#[derive(Debug)]
struct Shared {
    apps: Apps,
    start: Instant,
    /// Milliseconds from the start to the last sign of life.
    heard: AtomicU64,
    /// Snapshots that were held back.
    holds: AtomicU64,
    progress: watch::Sender<Progress>,
}

#[derive(Clone, Debug, Default)]
struct Progress {
    is_ready: bool,
    /// Instances that would leave with the snapshot that waits.
    withheld: Option<usize>,
    /// Why the cache follows no more.
    fault: Option<Error>,
}

/// The task that follows; it ends with this value.
#[derive(Debug)]
struct Feed(AbortHandle);

impl Cache {
    pub(crate) fn new<T: Transport>(calls: Arc<Calls<T>>, selectors: Vec<InstanceSelector>) -> Self {
        let shared = Arc::new(Shared {
            apps: Apps::default(),
            start: Instant::now(),
            heard: AtomicU64::new(0),
            holds: AtomicU64::new(0),
            progress: watch::Sender::new(Progress::default()),
        });
        let view = View::holding(calls.settings.snapshot_hold);
        let feed = follow(Watcher::new(calls, selectors.into(), view), shared.clone());
        Self { shared, _feed: Arc::new(Feed(tokio::spawn(feed).abort_handle())) }
    }

    /// Waits until the first snapshot is complete.
    ///
    /// # Errors
    /// What no waiting mends, such as `INVALID_SELECTOR`: the cache follows no more.
    pub async fn ready(&self) -> Result<(), Error> {
        let mut progress = self.shared.progress.subscribe();
        let reached = progress.wait_for(|progress| progress.is_ready || progress.fault.is_some()).await;
        let reached = reached.map_err(|_| Error::abandoned())?;
        reached.fault.clone().map_or(Ok(()), Err)
    }

    /// Whether a first snapshot is complete. Before that every look-up finds nothing.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.shared.progress.borrow().is_ready
    }

    /// Why the cache follows the registry no more; nothing as long as it does.
    #[must_use]
    pub fn fault(&self) -> Option<Error> {
        self.shared.progress.borrow().fault.clone()
    }

    /// How long ago a server last gave a sign of life: a change or a bookmark, by default one in 5 s at least. Grows
    /// as long as no server does. Before the first sign it is the time since the cache was made.
    #[must_use]
    pub fn age(&self) -> Duration {
        let heard = Duration::from_millis(self.shared.heard.load(Ordering::Relaxed));
        self.shared.start.elapsed().saturating_sub(heard)
    }

    /// Instances of an application that are UP, by id.
    #[must_use]
    pub fn up<'a>(&self, app: impl Into<AppName<'a>>) -> Arc<[Arc<Registration>]> {
        self.shared.apps.find(app.into(), App::up)
    }

    /// Instances of an application in any status, by id.
    #[must_use]
    pub fn all<'a>(&self, app: impl Into<AppName<'a>>) -> Arc<[Arc<Registration>]> {
        self.shared.apps.find(app.into(), App::all)
    }

    /// One instance, in any status.
    #[must_use]
    pub fn instance(&self, key: &InstanceKey) -> Option<Arc<Registration>> {
        self.shared.apps.instance(key)
    }

    /// The next instance of an application in turn, of those that are UP and can be called. The turn begins at a
    /// random one and is shared by all callers.
    ///
    /// # Errors
    /// [`Error::NoInstance`] when none is UP, [`Error::NoEndpoint`] when none of those that are can be called.
    pub fn pick<'a>(&self, app: impl Into<AppName<'a>>) -> Result<Endpoint, Error> {
        self.shared.apps.pick(app.into())
    }

    /// Instances of all applications.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.apps.len()
    }

    /// Whether there is no instance at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tells whenever look-ups may answer otherwise.
    #[must_use]
    pub fn changes(&self) -> Changes {
        Changes(WatchStream::new(self.shared.progress.subscribe()))
    }

    /// How many instances would leave with the snapshot that is held back now; nothing when none is.
    #[must_use]
    pub fn withheld(&self) -> Option<usize> {
        self.shared.progress.borrow().withheld
    }

    /// How often the cache began to hold a snapshot back.
    #[must_use]
    pub fn holds(&self) -> u64 {
        self.shared.holds.load(Ordering::Relaxed)
    }
}

impl Stream for Changes {
    type Item = ();

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<()>> {
        Poll::Ready(ready!(Pin::new(&mut self.0).poll_next(context)).map(|_| ()))
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn follow<T: Transport>(mut watcher: Watcher<T>, shared: Arc<Shared>) {
    loop {
        match watcher.hear().await {
            Ok(events) => shared.take(&events, watcher.view.withheld()),
            Err(error) => {
                tracing::error!(%error, "the cache follows the registry no more");
                shared.progress.send_modify(|progress| progress.fault = Some(error));
                return;
            }
        }
    }
}

impl Shared {
    fn take(&self, events: &[Event], withheld: Option<usize>) {
        let heard = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.heard.store(heard, Ordering::Relaxed);
        self.apps.publish(events);
        let is_ready = events.iter().any(|event| matches!(event, Event::Synced { .. }));
        let before = self.progress.borrow().withheld;
        self.report(before, withheld);
        self.progress.send_if_modified(|progress| {
            progress.is_ready |= is_ready;
            progress.withheld = withheld;
            !events.is_empty() || before != withheld
        });
    }

    fn report(&self, before: Option<usize>, withheld: Option<usize>) {
        match (before, withheld) {
            (None, Some(instances)) => {
                self.holds.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(instances, "a snapshot that lacks most instances is held back");
            }
            (Some(_), None) => tracing::warn!("the snapshot that was held back is taken"),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
