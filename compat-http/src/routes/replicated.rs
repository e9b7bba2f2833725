//! `peerreplication/batch`: what another server was told.

use std::sync::Arc;

use axum::body::Body;
use heureka_model::canonical_app;
use heureka_registry::Refused;
use http::StatusCode;
use http::request::Parts;
use serde_json::value::RawValue;

use super::caller::Caller;
use super::{Answer, App, content_answer, key, overrides};
use crate::body;
use crate::error::Error;
use crate::intake;
use crate::negotiate::Format;
use crate::wire::batch::{Action, Answers, Item, items};

/// Batches larger than this are not read on the thread that serves others as well.
const INLINE_MAX: usize = 128 << 10;

/// Takes a batch: from a trusted peer only, each item for itself and in order.
pub(super) async fn batch(app: &Arc<App>, parts: &Parts, body: Body) -> Answer {
    if let Some(address) = Caller::stranger(parts, &app.trusted) {
        app.telemetry.batch_refused();
        return Err(Error::NoPeer(address));
    }
    if Format::sent(&parts.headers)? != Format::Json {
        return Err(Error::Body("a batch is JSON".into()));
    }
    // A sender that is told 503 tries again; any other refusal makes it drop the batch.
    let turn = Arc::clone(&app.batches).try_acquire_owned().map_err(|_| Error::Busy)?;
    let limits = (app.config.batch_wire_max, app.config.batch_decoded_max);
    let content = body::read_within(&parts.headers, body, limits).await?;
    if content.len() <= INLINE_MAX {
        return app.take_batch(&content);
    }
    let app = Arc::clone(app);
    let work = move || {
        let _turn = turn;
        app.take_batch(&content)
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| Error::Unavailable)?
}

impl App {
    fn take_batch(&self, content: &[u8]) -> Answer {
        let mut answers = Answers::new();
        for item in items(content, self.config.batch_items_max)? {
            let outcome = self.take_item(item);
            self.telemetry.item(!matches!(&outcome, Err(error) if is_fault(error)));
            match &outcome {
                Ok(()) => answers.add(200, None),
                Err(error) => answers.add(code(error), error.record()),
            }
        }
        Ok(content_answer(answers.finish(), Format::Json))
    }

    fn take_item(&self, text: &RawValue) -> Result<(), Error> {
        let item = Item::read(text)?;
        let name = canonical_app(&item.app);
        let (registry, key, now) = (&self.registry, key(&name, &item.id), self.now());
        match item.action {
            Action::Register => {
                intake::register(registry, item.instance()?.finish(&name, Format::Json)?, now)
            }
            Action::Heartbeat => intake::renew(registry, key, item.stamp, item.overridden, now),
            Action::Cancel => intake::cancel(registry, key, now),
            Action::StatusUpdate => overrides::say(self, key, item.told_status()?, &intake::PEER),
            Action::DeleteStatusOverride => intake::clear_status(registry, key, item.status.as_deref(), now),
        }
    }
}

/// Whether the item itself is at fault, and not a difference between two servers.
fn is_fault(error: &Error) -> bool {
    !matches!(code(error), 404 | 409)
}

/// The code of an item. A sender repeats none; 503 says that the fault is ours.
fn code(error: &Error) -> u16 {
    match error {
        Error::Core(Refused::Full) => StatusCode::SERVICE_UNAVAILABLE.as_u16(),
        other => other.status().as_u16(),
    }
}
