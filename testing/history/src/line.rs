//! One step as a line of JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use heureka_proto::v1;
use prost::Message;
use serde::{Deserialize, Serialize};

use crate::recording::{Page, Step, What};
use crate::unreadable::Unreadable;
use crate::wrote::Wrote;

/// A line: a watcher, and exactly one of the others.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
struct Line {
    #[serde(skip_serializing_if = "String::is_empty")]
    watcher: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    open: Option<Open>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    closed: Option<Closed>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wrote: Option<Call>,
    #[serde(skip_serializing_if = "Option::is_none")]
    forgot: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    listed: Option<Exchange>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rested: Option<Exchange>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shows: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<Held>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Open {
    #[serde(default)]
    server: String,
    spec: String,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Closed {
    code: String,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Call {
    call: String,
    request: String,
    response: String,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Exchange {
    request: String,
    response: String,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Held {
    count: u64,
    /// Sixteen hexadecimal digits: not every language has the number.
    hash: String,
}

/// Reads a line.
pub(crate) fn parse(text: &str) -> Result<Step, Unreadable> {
    let mut line: Line = serde_json::from_str(text).map_err(|fault| Unreadable::new(fault.to_string()))?;
    let watcher = std::mem::take(&mut line.watcher);
    let mut found = whats(line)?;
    match (found.pop(), found.pop()) {
        (Some(what), None) => Ok(Step { watcher, what }),
        (None, _) => Err(Unreadable::new("says nothing but a watcher")),
        _ => Err(Unreadable::new("says more than one thing")),
    }
}

fn whats(line: Line) -> Result<Vec<What>, Unreadable> {
    let mut found = Vec::new();
    if let Some(open) = line.open {
        found.push(What::Open { server: open.server, spec: Box::new(message("open.spec", &open.spec)?) });
    }
    if let Some(text) = line.message {
        found.push(What::Message(bytes("message", &text)?));
    }
    if let Some(closed) = line.closed {
        found.push(What::Closed { code: closed.code });
    }
    if let Some(call) = line.wrote {
        let request = bytes("wrote.request", &call.request)?;
        found.push(What::Wrote(Wrote::new(&call.call, request, bytes("wrote.response", &call.response)?)?));
    }
    if let Some(key) = line.forgot {
        found.push(What::Forgot(message::<v1::InstanceKey>("forgot", &key)?.into()));
    }
    if let Some(exchange) = line.listed {
        found.push(What::Listed(Box::new(page("listed", &exchange)?)));
    }
    if let Some(exchange) = line.rested {
        found.push(What::Rested(Box::new(page("rested", &exchange)?)));
    }
    if let Some(change) = line.shows {
        found.push(shows(message("shows", &change)?)?);
    }
    if let Some(held) = line.held {
        let hash = u64::from_str_radix(&held.hash, 16);
        let hash = hash.map_err(|_| Unreadable::new("held.hash: not a hexadecimal number of 64 bits"))?;
        found.push(What::Held { count: held.count, hash });
    }
    Ok(found)
}

/// Writes a line, without its end.
pub(crate) fn write(step: &Step) -> String {
    let mut line = Line { watcher: step.watcher.clone(), ..Line::default() };
    match &step.what {
        What::Open { server, spec } => {
            line.open = Some(Open { server: server.clone(), spec: STANDARD.encode(spec.encode_to_vec()) });
        }
        What::Message(bytes) => line.message = Some(STANDARD.encode(bytes)),
        What::Closed { code } => line.closed = Some(Closed { code: code.clone() }),
        What::Wrote(wrote) => {
            let (request, response) = (STANDARD.encode(wrote.request()), STANDARD.encode(wrote.response()));
            line.wrote = Some(Call { call: wrote.call().to_owned(), request, response });
        }
        What::Forgot(key) => {
            line.forgot = Some(STANDARD.encode(v1::InstanceKey::from(key.clone()).encode_to_vec()));
        }
        What::Listed(page) => line.listed = Some(exchange(page)),
        What::Rested(page) => line.rested = Some(exchange(page)),
        What::Shows { key, version, live } => {
            let kind = if *live { v1::ChangeType::Modified } else { v1::ChangeType::Removed };
            let (key, version) = (Some(key.clone().into()), Some((*version).into()));
            let change = v1::Change { r#type: kind.into(), key, version, ..v1::Change::default() };
            line.shows = Some(STANDARD.encode(change.encode_to_vec()));
        }
        What::Held { count, hash } => line.held = Some(Held { count: *count, hash: format!("{hash:016x}") }),
    }
    serde_json::to_string(&line).expect("invariant: a line is plain texts and numbers")
}

fn shows(change: v1::Change) -> Result<What, Unreadable> {
    let live = change.r#type() != v1::ChangeType::Removed;
    let missing = |field| move || Unreadable::new(format!("shows.{field}: is missing"));
    let key = change.key.ok_or_else(missing("key"))?.into();
    let version = change.version.ok_or_else(missing("version"))?.into();
    Ok(What::Shows { key, version, live })
}

fn page(field: &str, exchange: &Exchange) -> Result<Page, Unreadable> {
    Ok(Page { request: message(field, &exchange.request)?, response: message(field, &exchange.response)? })
}

fn exchange(page: &Page) -> Exchange {
    let (request, response) = (page.request.encode_to_vec(), page.response.encode_to_vec());
    Exchange { request: STANDARD.encode(request), response: STANDARD.encode(response) }
}

fn message<M: Message + Default>(field: &str, text: &str) -> Result<M, Unreadable> {
    M::decode(bytes(field, text)?).map_err(|fault| Unreadable::new(format!("{field}: {fault}")))
}

fn bytes(field: &str, text: &str) -> Result<Bytes, Unreadable> {
    let decoded = STANDARD.decode(text).map_err(|fault| Unreadable::new(format!("{field}: {fault}")))?;
    Ok(decoded.into())
}
