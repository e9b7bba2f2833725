//! `apps`, `apps/delta`, `apps/{app}`.

use std::sync::Arc;

use heureka_model::canonical_app;
use http::request::Parts;

use super::{Answer, App, cached, kind};
use crate::cache::{Kind, Scope};
use crate::error::Error;
use crate::wire;

/// All applications, or what changed of them lately. Parameters (`regions`) change nothing: there are no remote
/// regions.
pub(super) async fn list(app: &App, parts: &Parts, scope: Scope) -> Answer {
    cached(app, parts, scope).await
}

/// One application.
pub(super) async fn one(app: &App, parts: &Parts, name: &str) -> Answer {
    let Kind { format, shape } = kind(parts);
    let name = canonical_app(name).into_owned();
    let weight = app.weight(Some(&name));
    let (registry, now) = (Arc::clone(&app.registry), app.now());
    let encode = move || {
        let found = registry.entries("", &name, now);
        let instances = found.iter().map(|entry| (None, entry.registration()));
        if found.is_empty() {
            Vec::new()
        } else {
            wire::application_document(&name, instances, format, shape)
        }
    };
    let content = app.build(weight, encode).await?;
    if content.is_empty() { Err(Error::NotFound) } else { app.document(content, format) }
}
