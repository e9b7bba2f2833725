//! The begin of a stream, and of one that is brought up to date as a whole.

use heureka_proto::served::watch_event::Event;
use heureka_proto::v1;
use heureka_registry::Extent;

use super::{Stage, Watcher};
use crate::grpc::seats::{Watches, count};

impl Watcher {
    pub(super) fn begin(&mut self) -> Event {
        let mode = self.spec.opening.mode;
        let standing = self.core.registry.standing();
        let revision = standing.revision;
        self.ahead = Some(standing);
        // A subscription to the future has told its past already.
        let target = if mode == v1::SnapshotMode::None { self.told } else { revision };
        self.stage = Stage::Initial(Some(target));
        self.protecting = self.core.registry.protecting();
        let header = self.core.header(revision, self.now);
        let told = self.spec.opening.apps.take();
        let told = || told.iter().flat_map(|told| told.iter());
        let (apps, parts) = (told().filter_map(whole).collect(), told().filter_map(part).collect());
        Event::SnapshotBegin(v1::SnapshotBegin { header, mode: mode.into(), apps, parts })
    }
}

/// An application that is told whole.
fn whole((namespace, app, extent): (&str, &str, &Extent)) -> Option<v1::AppDigest> {
    let (namespace, app) = (namespace.to_owned(), app.to_owned());
    (*extent == Extent::Whole).then(|| v1::AppDigest { namespace, app, ..v1::AppDigest::default() })
}

/// One of which some buckets are.
fn part((namespace, app, extent): (&str, &str, &Extent)) -> Option<v1::AppBuckets> {
    let Extent::Buckets(told) = extent else { return None };
    let buckets = (0..).zip(told).filter_map(|(number, told)| told.then_some(number)).collect();
    let (namespace, app) = (namespace.to_owned(), app.to_owned());
    Some(v1::AppBuckets { namespace, app, bucket_count: told.len() as u32, buckets })
}

pub(super) fn count_opening(watches: &Watches, mode: v1::SnapshotMode) {
    let figures = watches.figures();
    let figure = match mode {
        v1::SnapshotMode::Resume => &figures.resumed,
        v1::SnapshotMode::None => &figures.live,
        v1::SnapshotMode::Diff => &figures.differing,
        v1::SnapshotMode::Full | v1::SnapshotMode::Unspecified => &figures.full,
    };
    count(figure, 1);
}
