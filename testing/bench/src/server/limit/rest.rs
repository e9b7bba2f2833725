//! Writes of a Eureka client, without a registry.

use std::collections::BTreeMap;

use axum::extract::{Path, Query};
use axum::http::StatusCode;
use bytes::Bytes;
use serde::Deserialize;

/// What a Eureka client sends, as far as its members are typed.
#[derive(Deserialize)]
struct Envelope {
    instance: Draft,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Draft {
    app: String,
    instance_id: String,
    host_name: String,
    ip_addr: String,
    status: String,
    vip_address: String,
    home_page_url: String,
    status_page_url: String,
    health_check_url: String,
    metadata: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Beat {
    status: String,
    last_dirty_timestamp: u64,
}

pub(super) async fn register(Path(app): Path<String>, body: Bytes) -> StatusCode {
    let Ok(Envelope { instance }) = serde_json::from_slice::<Envelope>(&body) else {
        return StatusCode::BAD_REQUEST;
    };
    let texts = [&instance.instance_id, &instance.host_name, &instance.ip_addr, &instance.status];
    let urls = [&instance.home_page_url, &instance.status_page_url, &instance.health_check_url];
    let complete = texts.into_iter().chain(urls).all(|text| !text.is_empty());
    let known = instance.app == app && !instance.vip_address.is_empty() && instance.metadata.len() == 10;
    if complete && known { StatusCode::NO_CONTENT } else { StatusCode::BAD_REQUEST }
}

pub(super) async fn renew(Path((app, id)): Path<(String, String)>, Query(beat): Query<Beat>) -> StatusCode {
    let complete = !app.is_empty() && !id.is_empty() && !beat.status.is_empty();
    if complete && beat.last_dirty_timestamp > 0 { StatusCode::OK } else { StatusCode::NOT_FOUND }
}
