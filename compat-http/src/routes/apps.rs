//! `apps`, `apps/delta`, `apps/{app}`.

use std::sync::Arc;

use bytes::Bytes;
use heureka_model::{Now, canonical_app};
use http::request::Parts;

use super::{Answer, App, cached, content_answer, kind, regional};
use crate::cache::{Kind, Scope};
use crate::error::Error;
use crate::wire;

/// All applications, or what changed of them lately, with those of other regions only where the caller names them.
pub(super) async fn list(app: &App, parts: &Parts, scope: Scope) -> Answer {
    let regions = regional::asked(app, parts)?;
    if regions.is_empty() {
        cached(app, parts, scope).await
    } else {
        regional::list(app, parts, scope, regions).await
    }
}

/// One application, encoded once for all who read it until it changes.
pub(super) async fn one(app: &App, parts: &Parts, name: &str) -> Answer {
    let kind = kind(parts);
    let now = app.now();
    let key = (canonical_app(name).into_owned(), kind);
    // Taken before the instances are read.
    let mark = app.registry.app_mark("", &key.0).ok_or(Error::NotFound)?;
    let tag = app.tag(mark.revision(), kind);
    let content = match app.applications.current(&key, now.mono) {
        Some(content) => content,
        None => {
            let content = encoded(app, &key.0, kind, now).await?;
            app.applications.keep(key, mark, content.clone(), content.len(), now.mono);
            content
        }
    };
    // Not before it is known that there is one.
    tag.refuse_held(parts)?;
    let mut answer = content_answer(content, kind.format);
    tag.mark(&mut answer);
    Ok(answer)
}

async fn encoded(app: &App, name: &str, kind: Kind, now: Now) -> Result<Bytes, Error> {
    let (registry, name, weight) = (Arc::clone(&app.registry), name.to_owned(), app.weight(Some(name)));
    let encode = move || {
        let found = registry.entries("", &name, now);
        let instances = found.iter().map(|entry| (None, entry.registration()));
        if found.is_empty() {
            Vec::new()
        } else {
            wire::application_document(&name, instances, kind.format, kind.shape)
        }
    };
    let content = app.build(weight, encode).await?;
    if content.is_empty() { Err(Error::NotFound) } else { app.budget.keep(content) }
}
