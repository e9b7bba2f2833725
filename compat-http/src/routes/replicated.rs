//! What another server was told: single calls that carry its header, and batches.
//!
//! Nothing of it is passed on: every server tells all others itself.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use heureka_model::{DrainPlan, KeyRef, Registration, Status, Wall, canonical_app};
use heureka_registry::{Beat, Claim, Origin, Refused, RegisterMode, SetOverride};
use http::StatusCode;
use http::request::Parts;
use serde_json::value::RawValue;

use super::caller::Caller;
use super::{Answer, App, content_answer, key, overrides};
use crate::body;
use crate::error::{Error, in_legacy_words, legacy};
use crate::negotiate::Format;
use crate::wire::batch::{Action, Answers, Item, items};
use crate::wire::{Parsed, native};

/// Batches larger than this are not read on the thread that serves others as well.
const INLINE_MAX: usize = 128 << 10;
/// For so long after an operator's write here another server may still tell of the time before.
const SETTLING: Duration = Duration::from_mins(1);
/// Bits of a stamp's clock below its milliseconds.
const COUNTER_BITS: u32 = 16;

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
        let key = key(&name, &item.id);
        match item.action {
            Action::Register => register(self, item.instance()?.finish(&name, Format::Json)?),
            Action::Heartbeat => renew(self, key, item.stamp, item.overridden),
            Action::Cancel => cancel(self, key),
            Action::StatusUpdate => set_status(self, key, item.told_status()?),
            Action::DeleteStatusOverride => clear_status(self, key, item.status.as_deref()),
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

/// Takes over the copy that a peer sent, unless the stored record is newer.
pub(super) fn register(app: &App, parsed: Parsed) -> Result<(), Error> {
    let Parsed { mut instance, override_status } = parsed;
    let drain = native::unfold(&mut instance);
    instance.validate(&app.registry.config().limits).map_err(in_legacy_words)?;
    let now = app.now();
    let key = instance.key.clone();
    instance.last_dirty.get_or_insert(now.wall);
    let stored = app.registry.get(key.as_ref(), now);
    instance.status = owners_status(instance.status, override_status, stored.as_ref());
    let told = app.registry.register(&instance, Claim::PeerStamp, RegisterMode::Upsert, &Origin::Peer, now);
    let told = told.map_err(legacy)?;
    match override_status {
        Some(status) if told.override_status != Some(status) => {
            take_override(app, key.as_ref(), status, drain)
        }
        _ => Ok(()),
    }
}

/// A peer shows what readers see. Under an override that is not the owner's word; the one that we know still is.
fn owners_status(shown: Status, override_: Option<Status>, stored: Option<&Registration>) -> Status {
    let hidden = override_ == Some(Status::OutOfService) && shown == Status::OutOfService;
    match stored.map(|stored| stored.instance.status) {
        Some(Status::Up) if hidden => Status::Up,
        _ => shown,
    }
}

/// Renews, or says how the records differ.
pub(super) fn renew(
    app: &App,
    key: KeyRef<'_>,
    stamp: Option<Wall>,
    told: Option<Status>,
) -> Result<(), Error> {
    let beat = stamp.map_or(Beat::Plain, Beat::PeerStamp);
    match app.registry.renew(key, beat, None, &Origin::Peer, app.now()) {
        Ok(renewed) if told.is_none() || renewed.override_status == told => Ok(()),
        Ok(_) => told.map_or(Ok(()), |told| take_override(app, key, told, None)),
        Err(Refused::Outdated) => {
            if let Some(told) = told {
                take_override(app, key, told, None)?;
            }
            Err(Error::NotFound)
        }
        Err(refused) => Err(legacy(refused)),
    }
}

/// Takes an override that a peer mentions beside other news. That the instance is gone by now is no fault of the
/// peer; and right after an operator's word here, the peer has not heard of it yet.
fn take_override(app: &App, key: KeyRef<'_>, told: Status, drain: Option<DrainPlan>) -> Result<(), Error> {
    let now = app.now();
    let Some(stored) = app.registry.get(key, now) else { return Ok(()) };
    let written = Wall(stored.version.overlay.clock >> COUNTER_BITS);
    if stored.override_status() == Some(told) || written.plus(SETTLING) > now.wall {
        return Ok(());
    }
    let drain = drain.filter(|_| told == Status::OutOfService);
    let set = SetOverride { status: told, ttl: None, drain };
    match app.registry.set_override(key, set, &Origin::Peer, now) {
        Ok(_) | Err(Refused::NotFound) => Ok(()),
        Err(refused) => Err(legacy(refused)),
    }
}

/// Removes the instance and remembers that.
pub(super) fn cancel(app: &App, key: KeyRef<'_>) -> Result<(), Error> {
    key.validate(&app.registry.config().limits).map_err(in_legacy_words)?;
    let cancelled = app.registry.cancel(key, Claim::Next, &Origin::Peer, app.now()).map_err(legacy)?;
    if cancelled.existed { Ok(()) } else { Err(Error::NotFound) }
}

fn set_status(app: &App, key: KeyRef<'_>, told: Status) -> Result<(), Error> {
    overrides::say(app, key, told, &Origin::Peer)
}

fn clear_status(app: &App, key: KeyRef<'_>, left: Option<&str>) -> Result<(), Error> {
    let left = left.and_then(Status::from_name).filter(|status| *status != Status::Unknown);
    app.registry.clear_override(key, left, &Origin::Peer, app.now()).map(drop).map_err(legacy)
}
