//! The answer to a batch, read.

use serde_json::value::RawValue;

use serde::de::DeserializeSeed as _;

use crate::error::Error;
use crate::negotiate::Format;
use crate::wire::batch::Elements;
use crate::wire::json_reader::{members, read_members};
use crate::wire::{Parsed, Scalar};

/// What became of one item.
#[derive(Debug)]
pub(super) struct ItemAnswer {
    pub(super) code: u16,
    /// The newer record that goes with a conflict.
    pub(super) record: Option<Parsed>,
}

/// The answers, in the order of the items; at most `max`.
///
/// # Errors
/// `Body` when this is no answer to a batch.
pub(super) fn read(body: &[u8], max: usize) -> Result<Vec<ItemAnswer>, Error> {
    let text = std::str::from_utf8(body).map_err(|_| Error::Body("the text is not UTF-8".into()))?;
    let mut list = None;
    members(text, "answer", |name, value| {
        if name == "responseList" {
            list = Some(value);
        }
        Ok(())
    })?;
    let list: &RawValue = list.ok_or_else(|| Error::Body("member responseList is missing".into()))?;
    let mut found = Vec::new();
    let outcome =
        Elements { found: &mut found, max }.deserialize(&mut serde_json::Deserializer::from_str(list.get()));
    outcome.map_err(|_| Error::Body("responseList: expected a list".into()))?;
    found.into_iter().map(read_item).collect()
}

fn read_item(text: &RawValue) -> Result<ItemAnswer, Error> {
    let (mut code, mut entity) = (None, None);
    members(text.get(), "answer", |name, value| {
        match name {
            "statusCode" => code = Scalar::of(name, value)?.integer(name, 999)?,
            "responseEntity" => entity = value.get().starts_with('{').then_some(value),
            _ => {}
        }
        Ok(())
    })?;
    let code = code.and_then(|code| u16::try_from(code).ok());
    let code = code.ok_or_else(|| Error::malformed("statusCode", "is required"))?;
    Ok(ItemAnswer { code, record: entity.and_then(record) })
}

/// A record that cannot be read is as good as none: the next conflict brings another.
fn record(entity: &RawValue) -> Option<Parsed> {
    let draft = read_members(entity.get(), "responseEntity").ok()?;
    let app = heureka_model::canonical_app(draft.app()).into_owned();
    draft.finish(&app, Format::Json).ok()
}
