//! What is told beside the changes: readings of what the client holds.

use std::pin::Pin;

use heureka_proto::served::watch_event::Event;
use heureka_proto::v1;
use heureka_registry::{Frame, Lane, LaneWish, Reader};
use tokio::sync::watch;

use crate::grpc::core::Core;

/// Looks into the lane after which others get their turn: readings of the set may be rare.
const LOOKS: usize = 16;

/// A wait for reports.
pub(super) type News<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Readings to tell, and reports that decide what the client holds.
#[derive(Default)]
pub(super) struct Beside {
    lane: Option<Box<Telling>>,
    /// Wakes for reports that decide.
    deciding: Option<watch::Receiver<u64>>,
}

struct Telling {
    lane: Lane,
    news: watch::Receiver<u64>,
    /// There may be something to tell.
    pending: bool,
    /// Changes were told since the last readings.
    turn: bool,
}

impl Beside {
    pub(super) fn new(
        core: &Core,
        reader: &Reader,
        wish: Option<Box<LaneWish>>,
        selectors: &heureka_model::Selectors,
    ) -> Self {
        let lane = wish.map(|wish| {
            let lane = Lane::new(&core.registry, selectors, *wish, core.now());
            Box::new(Telling { news: lane.news(), lane, pending: true, turn: false })
        });
        Self { lane, deciding: reader.news() }
    }

    /// Whether reports came since the last call that decide what the client holds.
    pub(super) fn heed(&mut self) -> bool {
        if let Some(telling) = &mut self.lane {
            telling.pending |= is_heard(&mut telling.news);
        }
        self.deciding.as_mut().is_some_and(is_heard)
    }

    /// The client was told these changes on the live stream.
    pub(super) fn told(&mut self, core: &Core, frame: &Frame) {
        let Some(telling) = &mut self.lane else { return };
        telling.turn = true;
        for told in frame.changes.iter().filter(|told| told.registration.is_some()) {
            telling.lane.enter(&core.registry, &told.key);
        }
        telling.pending |= telling.lane.is_behind(&core.registry);
    }

    /// The client is told a set anew.
    pub(super) fn begin_again(&mut self) {
        if let Some(telling) = &mut self.lane {
            telling.lane.begin_again();
            telling.pending = true;
        }
    }

    /// The next readings although there may be changes to tell: they had their turn.
    pub(super) fn between(&mut self, core: &Core, reader: &Reader) -> Option<Event> {
        if !self.lane.as_ref().is_some_and(|telling| telling.turn) {
            return None;
        }
        self.next(core, reader)
    }

    /// The next readings.
    pub(super) fn next(&mut self, core: &Core, reader: &Reader) -> Option<Event> {
        let telling = self.lane.as_mut()?;
        telling.turn = false;
        for _ in 0..LOOKS {
            if !telling.pending {
                return None;
            }
            let readings = telling.lane.poll(&core.registry, reader);
            telling.pending = telling.lane.is_behind(&core.registry);
            if !readings.is_empty() {
                let readings = readings.into_iter().map(v1::Reading::from).collect();
                return Some(Event::Readings(v1::Readings { readings }));
            }
        }
        None
    }

    /// Whether the client asked for readings.
    pub(super) fn tells(&self) -> bool {
        self.lane.is_some()
    }

    /// Whether there may be more readings at this moment.
    pub(super) fn is_pending(&self) -> bool {
        self.lane.as_ref().is_some_and(|telling| telling.pending)
    }

    /// Waits for reports that concern the client, where there may be some. In a box, so that all other watchers are no
    /// larger for it.
    pub(super) fn news(&mut self) -> Option<News<'_>> {
        if self.lane.is_none() && self.deciding.is_none() {
            return None;
        }
        let (lane, deciding) = (self.lane.as_mut(), self.deciding.as_mut());
        Some(Box::pin(async move {
            tokio::select! {
                () = changed(lane.map(|telling| &mut telling.news)) => {}
                () = changed(deciding) => {}
            }
        }))
    }
}

/// Waits for what is told beside the changes; for ever where nothing is.
pub(super) async fn heard(news: &mut Option<News<'_>>) {
    match news {
        Some(news) => news.await,
        None => std::future::pending().await,
    }
}

fn is_heard(news: &mut watch::Receiver<u64>) -> bool {
    let heard = news.has_changed().unwrap_or_default();
    news.mark_unchanged();
    heard
}

/// Leaves the news to be heard of later.
async fn changed(news: Option<&mut watch::Receiver<u64>>) {
    if let Some(news) = news
        && news.changed().await.is_ok()
    {
        return news.mark_changed();
    }
    std::future::pending::<()>().await;
}
