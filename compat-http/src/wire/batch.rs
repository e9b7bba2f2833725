//! Batches between servers of the original's kind: items in, one answer for each out.
//!
//! A batch is read item by item. What no reader can make sense of spoils its own item and no other; members that
//! nobody knows are skipped, since a peer of a later version may send them.

use std::fmt;

use heureka_model::{Registration, Status, Wall};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::draft::Draft;
use super::json;
use super::json_reader::{self, members};
use super::scalar::Scalar;
use crate::error::Error;

/// What a peer did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    /// It was told an instance.
    Register,
    /// It was told that the instance lives.
    Heartbeat,
    /// It was told that the instance goes.
    Cancel,
    /// An operator set the status.
    StatusUpdate,
    /// An operator ended that.
    DeleteStatusOverride,
}

impl Action {
    const ALL: [Self; 5] =
        [Self::Register, Self::Heartbeat, Self::Cancel, Self::StatusUpdate, Self::DeleteStatusOverride];

    /// Name on the wire.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Register => "Register",
            Self::Heartbeat => "Heartbeat",
            Self::Cancel => "Cancel",
            Self::StatusUpdate => "StatusUpdate",
            Self::DeleteStatusOverride => "DeleteStatusOverride",
        }
    }
}

/// One item, as far as it can be read without knowing what it is for.
#[derive(Debug)]
pub(crate) struct Item<'a> {
    pub(crate) action: Action,
    pub(crate) app: String,
    pub(crate) id: String,
    pub(crate) stamp: Option<Wall>,
    pub(crate) status: Option<String>,
    pub(crate) overridden: Option<Status>,
    instance: Option<&'a RawValue>,
}

/// The items of a batch, in order, each still to be read.
///
/// # Errors
/// `Body` when the text is no batch, `Invalid` for one of more than `max` items.
pub(crate) fn items(body: &[u8], max: usize) -> Result<Vec<&RawValue>, Error> {
    let text = std::str::from_utf8(body).map_err(|_| Error::Body("the text is not UTF-8".into()))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut list = None;
    members(text, "body", |name, value| {
        if name == LIST {
            list = Some(value);
        }
        Ok(())
    })?;
    let list = list.ok_or_else(|| Error::Body(format!("member {LIST} is missing")))?;
    let mut found = Vec::new();
    let outcome =
        Elements { found: &mut found, max }.deserialize(&mut serde_json::Deserializer::from_str(list.get()));
    outcome.map_err(|_| Error::Body(format!("{LIST}: expected a list")))?;
    if found.len() > max {
        return Err(Error::Body(format!("{LIST}: more than the limit of {max} items")));
    }
    Ok(found)
}

const LIST: &str = "replicationList";

impl<'a> Item<'a> {
    /// Reads one item.
    ///
    /// # Errors
    /// `Invalid` naming the member at fault, `Body` when it is no object.
    pub(crate) fn read(text: &'a RawValue) -> Result<Self, Error> {
        let mut action = None;
        let (mut app, mut id) = (String::new(), String::new());
        let (mut stamp, mut status, mut overridden, mut instance) = (None, None, None, None);
        members(text.get(), "item", |name, value| {
            match name {
                "action" => action = Scalar::of(name, value)?.label(),
                "appName" => app = Scalar::of(name, value)?.text(),
                "id" => id = Scalar::of(name, value)?.text(),
                "lastDirtyTimestamp" => stamp = read_stamp(name, value)?,
                "status" => status = Scalar::of(name, value)?.label(),
                "overriddenStatus" => overridden = Scalar::of(name, value)?.label(),
                "instanceInfo" => instance = (!value.get().starts_with('n')).then_some(value),
                _ => {}
            }
            Ok(())
        })?;
        let action = action.ok_or_else(|| Error::malformed("action", "is required"))?;
        let known = Action::ALL.into_iter().find(|known| known.as_str() == action);
        let action = known.ok_or_else(|| Error::malformed("action", "is none of the five"))?;
        for (member, text) in [("appName", &app), ("id", &id)] {
            if text.is_empty() {
                return Err(Error::malformed(member, "is required"));
            }
        }
        let overridden = overridden.and_then(|text| Status::from_name(&text));
        let overridden = overridden.filter(|status| *status != Status::Unknown);
        Ok(Self { action, app, id, stamp, status, overridden, instance })
    }

    /// The instance of a `Register`.
    ///
    /// # Errors
    /// `Invalid` when it is absent or a member of it cannot be meant.
    pub(crate) fn instance(&self) -> Result<Draft, Error> {
        let text = self.instance.ok_or_else(|| Error::malformed("instanceInfo", "is required"))?;
        json_reader::read_members(text.get(), "instanceInfo")
    }

    /// The status of a `StatusUpdate`.
    ///
    /// # Errors
    /// `Invalid` when it is absent or no status.
    pub(crate) fn told_status(&self) -> Result<Status, Error> {
        let text = self.status.as_deref().ok_or_else(|| Error::malformed("status", "is required"))?;
        Status::from_name(text).ok_or_else(|| Error::malformed("status", "is no status"))
    }
}

fn read_stamp(field: &str, value: &RawValue) -> Result<Option<Wall>, Error> {
    let millis = Scalar::of(field, value)?.integer(field, i64::MAX - 1)?;
    Ok(millis.map(|millis| Wall(u64::try_from(millis).unwrap_or(0))))
}

/// Answers to a batch, in its order. No member that the original does not know: its server takes an answer that it
/// cannot read for a broken connection and sends the batch again, for ever.
#[derive(Debug)]
pub(crate) struct Answers(Vec<u8>);

impl Answers {
    pub(crate) fn new() -> Self {
        Self(b"{\"responseList\":[".to_vec())
    }

    /// The answer to the next item: a code, and with a conflict the newer record.
    pub(crate) fn add(&mut self, code: u16, record: Option<&Registration>) {
        let out = &mut self.0;
        if out.last() != Some(&b'[') {
            out.push(b',');
        }
        out.extend_from_slice(format!("{{\"statusCode\":{code}").as_bytes());
        if let Some(record) = record {
            out.extend_from_slice(b",\"responseEntity\":");
            json::bare_instance(out, record);
        }
        out.push(b'}');
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.0.extend_from_slice(b"]}");
        self.0
    }
}

/// Elements of a list as they stand in the text, up to one more than `max`; the rest is skipped.
pub(crate) struct Elements<'f, 'de> {
    pub(crate) found: &'f mut Vec<&'de RawValue>,
    pub(crate) max: usize,
}

impl<'de> DeserializeSeed<'de> for Elements<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Elements<'_, 'de> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while self.found.len() <= self.max {
            match list.next_element::<&'de RawValue>()? {
                Some(element) => self.found.push(element),
                None => return Ok(()),
            }
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }
}
