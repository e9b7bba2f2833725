//! `status` and `serverinfo/statusoverrides`: the server itself, and the operator's words about all instances.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::request::Parts;

use super::{Answer, App, version};
use crate::negotiate::{Format, Shape};
use crate::wire;

/// What the server says of itself.
pub(super) fn status(app: &App, parts: &Parts) -> Answer {
    let format = Format::accepted(&parts.headers);
    let shape = Shape::whole(format, version(parts));
    app.document(wire::status::document(&app.config.about.status(), format, shape), format)
}

/// The status that an operator set, by the id of the instance. The original keeps them by that alone; where two applications
/// share one, that of the last by name is told. Always JSON.
pub(super) async fn overrides(app: &App) -> Answer {
    let (registry, now) = (Arc::clone(&app.registry), app.now());
    let work = move || {
        let mut found = BTreeMap::new();
        for summary in registry.applications("") {
            for entry in registry.entries("", &summary.name, now) {
                let one = entry.registration();
                found.extend(one.override_status().map(|status| (one.instance.key.id, status.as_str())));
            }
        }
        let mut out = Vec::new();
        wire::json::append(&mut out, &found);
        out
    };
    let content = app.build(app.weight(None), work).await?;
    app.document(content, Format::Json)
}
