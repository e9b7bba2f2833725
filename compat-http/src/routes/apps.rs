//! `apps`, `apps/delta`, `apps/{app}`.

use heureka_model::canonical_app;
use http::request::Parts;

use super::{Answer, App, cached, document, kind};
use crate::cache::Scope;
use crate::error::Error;
use crate::wire;

/// All applications, or what changed of them lately. Parameters (`regions`) change nothing: there are no remote
/// regions.
pub(super) async fn list(app: &App, parts: &Parts, scope: Scope) -> Answer {
    cached(app, parts, scope).await
}

/// One application.
pub(super) fn one(app: &App, parts: &Parts, name: &str) -> Answer {
    let found = app.registry.application("", &canonical_app(name), app.now()).ok_or(Error::NotFound)?;
    let kind = kind(parts);
    let content = wire::application_document(&found.name, &found.instances, kind.format, kind.shape);
    Ok(document(content, kind.format))
}
