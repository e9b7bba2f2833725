//! A full list that is larger than may be kept: encoded while it is sent, a few instances at a time, so that a
//! reader costs time and little memory. Its hash comes last, counted from what was sent.

use std::convert::Infallible;
use std::sync::Arc;
use std::vec;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use heureka_model::{Clock, StatusCounts};
use heureka_registry::{AppSummary, Entry, Registry};

use super::Kind;
use super::gzip::{Deflated, HEADER, Sum};
use crate::budget::{Budget, Held};
use crate::error::Error;
use crate::wire;

/// Bytes encoded at a time, at least.
const PART: usize = 64 * 1024;
/// Applications of more instances are opened beside the thread that serves requests.
const INLINE_MAX: u32 = 2048;

/// Where the stream stands.
enum Stage {
    Opening,
    Listing,
    Trailing,
    Done,
}

/// The list, yet to be encoded.
struct Streamed {
    registry: Arc<Registry>,
    clock: Arc<dyn Clock>,
    kind: Kind,
    gzip: Option<Sum>,
    stage: Stage,
    /// Applications to come.
    apps: vec::IntoIter<AppSummary>,
    /// What is left of the open one.
    entries: vec::IntoIter<Entry>,
    /// An application is open.
    is_open: bool,
    /// Something stands before the next member, which a separator has to part from it.
    follows: bool,
    counts: StatusCounts,
    _held: Held,
}

/// A body of the whole list.
///
/// # Errors
/// `Busy` when too much is held for other readers.
pub(crate) fn body(
    (registry, clock): (Arc<Registry>, Arc<dyn Clock>),
    budget: &Arc<Budget>,
    kind: Kind,
    gzip: bool,
) -> Result<Body, Error> {
    let apps = registry.applications("");
    let held = budget.hold(size(&apps))?;
    let streamed = Streamed {
        registry,
        clock,
        kind,
        gzip: gzip.then(Sum::default),
        stage: Stage::Opening,
        apps: apps.into_iter(),
        entries: Vec::new().into_iter(),
        is_open: false,
        follows: false,
        counts: StatusCounts::default(),
        _held: held,
    };
    let parts = stream::unfold(streamed, async |mut streamed| {
        let part = streamed.next_part().await?;
        Some((Ok::<_, Infallible>(part), streamed))
    });
    Ok(Body::from_stream(parts))
}

/// What a reader holds: the applications, and one of them open.
fn size(apps: &[AppSummary]) -> usize {
    let largest = apps.iter().map(|app| app.digest.counts.total()).max().unwrap_or_default();
    let largest = usize::try_from(largest).unwrap_or(usize::MAX);
    size_of_val(apps).saturating_add(largest.saturating_mul(size_of::<Entry>()))
}

impl Streamed {
    async fn next_part(&mut self) -> Option<Bytes> {
        match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Opening => {
                self.stage = Stage::Listing;
                Some(self.opened())
            }
            Stage::Listing => {
                self.stage = Stage::Listing;
                let plain = self.listed().await;
                Some(self.encoded(plain))
            }
            Stage::Trailing => self.gzip.take().map(|sum| sum.trailer()),
            Stage::Done => None,
        }
    }

    fn opened(&mut self) -> Bytes {
        let plain = wire::open_unhashed_list(self.kind.format);
        let encoded = self.encoded(plain.to_vec());
        if self.gzip.is_some() { [HEADER, &encoded].concat().into() } else { encoded }
    }

    async fn listed(&mut self) -> Vec<u8> {
        let mut plain = Vec::with_capacity(2 * PART);
        while plain.len() < PART {
            if let Some(entry) = self.entries.next() {
                self.append(&mut plain, &entry);
            } else if let Some(app) = self.apps.next() {
                self.open(&mut plain, app).await;
            } else {
                self.close_application(&mut plain);
                let end = wire::close_unhashed_list("1", &self.counts.hash_code(), self.kind.format);
                plain.extend_from_slice(&end);
                self.stage = Stage::Trailing;
                break;
            }
        }
        plain
    }

    fn append(&mut self, out: &mut Vec<u8>, entry: &Entry) {
        let Kind { format, shape } = self.kind;
        let registration = entry.registration();
        self.counts.add(registration.status());
        self.separate(out);
        wire::instance(out, &registration, None, format, shape);
    }

    /// Begins an application, unless it lost its last instance meanwhile.
    async fn open(&mut self, out: &mut Vec<u8>, app: AppSummary) {
        let entries = self.entries_of(&app).await;
        if entries.is_empty() {
            return;
        }
        self.close_application(out);
        self.separate(out);
        wire::open_application(out, &app.name, self.kind.format);
        self.entries = entries.into_iter();
        (self.is_open, self.follows) = (true, false);
    }

    async fn entries_of(&self, app: &AppSummary) -> Vec<Entry> {
        let now = self.clock.now();
        if app.digest.counts.total() <= INLINE_MAX {
            return self.registry.entries("", &app.name, now);
        }
        let (registry, name) = (Arc::clone(&self.registry), app.name.clone());
        let work = tokio::task::spawn_blocking(move || registry.entries("", &name, now));
        // It fails when the runtime ends, and then nobody reads on.
        work.await.unwrap_or_default()
    }

    fn close_application(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.is_open) {
            wire::close_application(out, self.kind.format);
            self.follows = true;
        }
    }

    fn separate(&mut self, out: &mut Vec<u8>) {
        if std::mem::replace(&mut self.follows, true) {
            out.extend_from_slice(wire::separator(self.kind.format));
        }
    }

    fn encoded(&mut self, plain: Vec<u8>) -> Bytes {
        let Some(sum) = &mut self.gzip else { return plain.into() };
        let deflated = Deflated::of(&plain);
        sum.add(&deflated);
        deflated.bytes
    }
}
