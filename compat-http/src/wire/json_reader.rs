//! Registration bodies in JSON.
//!
//! Walks the text once and takes what it knows; a value of any shape under an unknown name is skipped without
//! recursion, so depth costs nothing. Nothing is built that the registry does not keep.

use std::borrow::Cow;
use std::fmt;

use heureka_model::Metadata;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::draft::{DataCenterDraft, Draft, PortKind};
use super::scalar::Scalar;
use crate::error::Error;
use crate::negotiate::Format;

/// Reads `{"instance":{…}}`. What follows the closing brace is ignored, as the original does.
///
/// # Errors
/// `Body` when the text is no such document, `Invalid` when a member cannot be meant.
pub(crate) fn read_instance(text: &str) -> Result<Draft, Error> {
    let mut root = Root { draft: None, refusal: None, place: "body" };
    let outcome = serde_json::Deserializer::from_str(text).deserialize_map(&mut root);
    finished(outcome, root.refusal, root.place)?;
    root.draft.ok_or_else(|| Error::Body("root member instance is missing".into()))
}

/// Reads the members of an instance that stands without its wrapper.
///
/// # Errors
/// `Body` when the text is no object, `Invalid` when a member cannot be meant.
pub(crate) fn read_members(text: &str, field: &str) -> Result<Draft, Error> {
    let mut draft = Draft::default();
    members(text, field, |name, value| take_member(&mut draft, name, value))?;
    Ok(draft)
}

/// The document: one member and no other.
struct Root {
    draft: Option<Draft>,
    refusal: Option<Error>,
    /// What an object is expected for.
    place: &'static str,
}

impl<'de> Visitor<'de> for &mut Root {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<Name<'de>>()? {
            if name.0 != "instance" {
                let text = format!("unexpected root member {:.64}, expected instance", name.0);
                self.refusal = Some(Error::Body(text));
                return Err(A::Error::custom("refused"));
            }
            self.place = "instance";
            let mut draft = Draft::default();
            let take = |name: &str, value| take_member(&mut draft, name, value);
            map.next_value_seed(Members { take, refusal: &mut self.refusal })?;
            self.draft = Some(draft);
        }
        Ok(())
    }
}

pub(crate) fn take_member(draft: &mut Draft, name: &str, value: &RawValue) -> Result<(), Error> {
    match name {
        "port" => read_port(draft, PortKind::Plain, value),
        "securePort" => read_port(draft, PortKind::Secure, value),
        "leaseInfo" => read_lease(draft, value),
        "dataCenterInfo" => read_data_center(value).map(|block| draft.set_data_center(block)),
        "metadata" => read_metadata(name, value).map(|metadata| draft.set_metadata(metadata)),
        name => match draft.text_member(name) {
            Some(text) => {
                *text = Scalar::of(name, value)?.text();
                Ok(())
            }
            None if Draft::is_word(name) => draft.set_word(name, Scalar::of(name, value)?, Format::Json),
            None => Ok(()),
        },
    }
}

/// An object of `$` and `@enabled`, or just the number.
fn read_port(draft: &mut Draft, kind: PortKind, value: &RawValue) -> Result<(), Error> {
    draft.clear_port(kind);
    if is_null(value) {
        return Ok(());
    }
    let field = kind.member();
    if !is_object(value) {
        return draft.set_port_number(kind, &Scalar::of(field, value)?);
    }
    members(value.get(), field, |name, value| match name {
        "$" => draft.set_port_number(kind, &Scalar::of(field, value)?),
        "@enabled" | "enabled" => draft.set_port_enabled(kind, &Scalar::of(kind.flag(), value)?),
        _ => Ok(()),
    })?;
    draft.touch_port(kind);
    Ok(())
}

fn read_lease(draft: &mut Draft, value: &RawValue) -> Result<(), Error> {
    if is_null(value) {
        return Ok(());
    }
    members(value.get(), "leaseInfo", |name, value| match name {
        "renewalIntervalInSecs" | "durationInSecs" => {
            let value = Scalar::of(name, value).map_err(|error| under(error, "leaseInfo", name))?;
            draft.set_lease(name, &value)
        }
        // A client may write anything here; it is no reason to refuse it.
        "registrationTimestamp" => match Scalar::of(name, value) {
            Ok(value) => draft.set_lease(name, &value).or(Ok(())),
            Err(_) => Ok(()),
        },
        _ => Ok(()),
    })
}

fn read_data_center(value: &RawValue) -> Result<Option<DataCenterDraft>, Error> {
    if is_null(value) {
        return Ok(None);
    }
    let mut block = DataCenterDraft::default();
    members(value.get(), "dataCenterInfo", |name, value| {
        match name {
            "@class" => block.class_name = Scalar::of("dataCenterInfo.@class", value)?.text(),
            "name" => block.name = Scalar::of("dataCenterInfo.name", value)?.text(),
            "metadata" => block.metadata = read_metadata("dataCenterInfo.metadata", value)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(Some(block))
}

/// A map of texts. Null values are absent; `@class` is a mark of the original's writer and no key.
fn read_metadata(field: &str, value: &RawValue) -> Result<Metadata, Error> {
    let mut metadata = Metadata::new();
    if is_null(value) {
        return Ok(metadata);
    }
    members(value.get(), field, |key, value| {
        if key == "@class" {
            return Ok(());
        }
        let label = Scalar::of(field, value).map_err(|error| under(error, field, key))?.label();
        match label {
            Some(label) => drop(metadata.insert(key.to_owned(), label)),
            None => drop(metadata.remove(key)),
        }
        Ok(())
    })?;
    Ok(metadata)
}

/// The same fault, named after the entry instead of the map.
fn under(error: Error, field: &str, key: &str) -> Error {
    match error {
        Error::Invalid(invalid) => {
            let field = format!("{field}.{key:.64}");
            Error::Invalid(heureka_model::Invalid { field, ..invalid })
        }
        other => other,
    }
}

fn is_null(value: &RawValue) -> bool {
    value.get().starts_with('n')
}

fn is_object(value: &RawValue) -> bool {
    value.get().starts_with('{')
}

/// Calls `take` for each member of the object that `text` begins with, in order.
pub(crate) fn members<'a>(
    text: &'a str,
    field: &str,
    take: impl FnMut(&str, &'a RawValue) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut refusal = None;
    let seed = Members { take, refusal: &mut refusal };
    let outcome = seed.deserialize(&mut serde_json::Deserializer::from_str(text));
    finished(outcome, refusal, field)
}

/// Our own reason to stop comes before the parser's.
fn finished(outcome: serde_json::Result<()>, refusal: Option<Error>, field: &str) -> Result<(), Error> {
    match (refusal, outcome) {
        (Some(refusal), _) => Err(refusal),
        (None, Err(error)) if error.is_data() => Err(Error::Body(format!("{field}: expected an object"))),
        (None, Err(error)) => Err(Error::Body(format!("{field}: {error}"))),
        (None, Ok(())) => Ok(()),
    }
}

struct Members<'r, F> {
    take: F,
    refusal: &'r mut Option<Error>,
}

impl<'de, F: FnMut(&str, &'de RawValue) -> Result<(), Error>> DeserializeSeed<'de> for Members<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, F: FnMut(&str, &'de RawValue) -> Result<(), Error>> Visitor<'de> for Members<'_, F> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<Name<'de>>()? {
            let value = map.next_value::<&'de RawValue>()?;
            if let Err(refusal) = (self.take)(&name.0, value) {
                *self.refusal = Some(refusal);
                return Err(A::Error::custom("refused"));
            }
        }
        Ok(())
    }
}

/// A member's name, borrowed from the text unless it holds escapes.
struct Name<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> serde::Deserialize<'de> for Name<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(NameVisitor).map(Name)
    }
}

struct NameVisitor;

impl<'de> Visitor<'de> for NameVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a member name")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(name.to_owned()))
    }
}
