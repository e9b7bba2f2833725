//! A full list that is larger than may be kept: encoded while it is sent, a few instances at a time, so that a
//! reader costs time but no memory. Its hash comes last, counted from what was sent.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use heureka_model::{Clock, InstanceKey, Registration, Selector, Selectors, StatusCounts};
use heureka_registry::Registry;
use http_body::Frame;

use super::Kind;
use super::gzip::{Deflated, HEADER, Sum};
use crate::wire;

/// Instances encoded at a time: about 64 KB of JSON.
const PAGE: usize = 128;

/// Where the stream stands.
enum Stage {
    Opening,
    Listing(Option<InstanceKey>),
    Trailing,
    Done,
}

/// The list, yet to be encoded.
struct Streamed {
    registry: Arc<Registry>,
    clock: Arc<dyn Clock>,
    all: Selectors,
    kind: Kind,
    gzip: Option<Sum>,
    stage: Stage,
    open_app: Option<String>,
    counts: StatusCounts,
}

/// A body of the whole list.
pub(crate) fn body(registry: Arc<Registry>, clock: Arc<dyn Clock>, kind: Kind, gzip: bool) -> Body {
    Body::new(Streamed {
        registry,
        clock,
        all: Selectors::new(vec![Selector::default()]),
        kind,
        gzip: gzip.then(Sum::default),
        stage: Stage::Opening,
        open_app: None,
        counts: StatusCounts::default(),
    })
}

impl Streamed {
    fn next_part(&mut self) -> Option<Bytes> {
        match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Opening => {
                self.stage = Stage::Listing(None);
                Some(self.opened())
            }
            Stage::Listing(after) => Some(self.listed(after.as_ref())),
            Stage::Trailing => self.gzip.take().map(|sum| sum.trailer()),
            Stage::Done => None,
        }
    }

    fn opened(&mut self) -> Bytes {
        let plain = wire::open_unhashed_list(self.kind.format);
        let encoded = self.encoded(plain.to_vec());
        if self.gzip.is_some() { [HEADER, &encoded].concat().into() } else { encoded }
    }

    fn listed(&mut self, after: Option<&InstanceKey>) -> Bytes {
        let page = self.registry.page(&self.all, after, PAGE, self.clock.now());
        let mut plain = Vec::with_capacity(64 * 1024);
        for registration in &page.instances {
            self.append(&mut plain, registration);
        }
        match page.next {
            Some(next) => self.stage = Stage::Listing(Some(next)),
            None => {
                self.close(&mut plain);
                self.stage = Stage::Trailing;
            }
        }
        self.encoded(plain)
    }

    fn append(&mut self, out: &mut Vec<u8>, registration: &Registration) {
        let Kind { format, shape } = self.kind;
        let app = &registration.instance.key.app;
        match self.open_app.as_deref() {
            Some(open) if open == app => out.extend_from_slice(wire::separator(format)),
            Some(_) => {
                wire::close_application(out, format);
                out.extend_from_slice(wire::separator(format));
                wire::open_application(out, app, format);
            }
            None => wire::open_application(out, app, format),
        }
        if self.open_app.as_deref() != Some(app) {
            self.open_app = Some(app.clone());
        }
        self.counts.add(registration.status());
        wire::instance(out, registration, None, format, shape);
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        let format = self.kind.format;
        if self.open_app.take().is_some() {
            wire::close_application(out, format);
        }
        out.extend_from_slice(&wire::close_unhashed_list("1", &self.counts.hash_code(), format));
    }

    fn encoded(&mut self, plain: Vec<u8>) -> Bytes {
        let Some(sum) = &mut self.gzip else { return plain.into() };
        let deflated = Deflated::of(&plain);
        sum.add(&deflated);
        deflated.bytes
    }
}

impl http_body::Body for Streamed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.next_part().map(|part| Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.stage, Stage::Done)
    }
}
