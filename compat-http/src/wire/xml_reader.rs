//! Registration bodies in XML.
//!
//! A plain pull reader: no namespaces, no entities but the five of XML itself, no document type. What it does
//! not know it skips by counting tags, so depth costs nothing.

use heureka_model::Metadata;
use quick_xml::Reader;
use quick_xml::escape::unescape;
use quick_xml::events::{BytesRef, BytesStart, Event};

use super::draft::{DataCenterDraft, Draft, PortKind};
use super::scalar::Scalar;
use super::xml::is_legal;
use super::xml_names;
use crate::error::Error;
use crate::negotiate::Format;

/// More attributes on one element are not looked at.
const ATTRIBUTES_MAX: usize = 16;
const ROOTS: [&str; 2] = ["instance", "com.netflix.appinfo.InstanceInfo"];

type Source<'a> = Reader<&'a [u8]>;

/// Reads `<instance>…</instance>`.
///
/// # Errors
/// `Body` when the text is no such document, `Invalid` when a member cannot be meant.
pub(crate) fn read_instance(text: &str) -> Result<Draft, Error> {
    if !text.chars().all(is_legal) {
        return Err(Error::Body("the text holds a character that XML does not know".into()));
    }
    let mut reader = Reader::from_str(text);
    reader.config_mut().expand_empty_elements = true;
    let mut draft = None;
    loop {
        match next(&mut reader)? {
            Event::Start(tag) if draft.is_none() => draft = Some(read_root(&mut reader, &tag)?),
            Event::Start(_) => return Err(Error::Body("a second root element".into())),
            Event::Eof => break,
            event => expect_blank(&event)?,
        }
    }
    draft.ok_or_else(|| Error::Body("no root element".into()))
}

fn read_root(reader: &mut Source<'_>, tag: &BytesStart<'_>) -> Result<Draft, Error> {
    let name = tag.name().0;
    if !ROOTS.contains(&name) {
        return Err(Error::Body(format!("unexpected root element {name:.64}, expected instance")));
    }
    let mut draft = Draft::default();
    children(reader, |reader, tag| read_member(reader, tag, &mut draft))?;
    Ok(draft)
}

fn read_member(reader: &mut Source<'_>, tag: &BytesStart<'_>, draft: &mut Draft) -> Result<(), Error> {
    match tag.name().0 {
        "port" => read_port(reader, tag, PortKind::Plain, draft),
        "securePort" => read_port(reader, tag, PortKind::Secure, draft),
        "leaseInfo" => read_lease(reader, draft),
        "dataCenterInfo" => read_data_center(reader, tag).map(|block| draft.set_data_center(block)),
        "metadata" => read_metadata(reader, "metadata").map(|metadata| draft.set_metadata(metadata)),
        name => read_text_member(reader, name, draft),
    }
}

fn read_text_member(reader: &mut Source<'_>, name: &str, draft: &mut Draft) -> Result<(), Error> {
    if let Some(place) = draft.text_member(name) {
        *place = text(reader, name)?;
        return Ok(());
    }
    if !Draft::is_word(name) {
        return skip(reader);
    }
    let value = text(reader, name)?;
    draft.set_word(name, Scalar::Text(value.into()), Format::Xml)
}

fn read_port(
    reader: &mut Source<'_>,
    tag: &BytesStart<'_>,
    kind: PortKind,
    draft: &mut Draft,
) -> Result<(), Error> {
    draft.clear_port(kind);
    if let Some(flag) = attribute(tag, "enabled")?.filter(|flag| !flag.trim().is_empty()) {
        draft.set_port_enabled(kind, &Scalar::Text(flag.into()))?;
    }
    let number = text(reader, kind.member())?;
    draft.set_port_number(kind, &Scalar::Text(number.into()))
}

fn read_lease(reader: &mut Source<'_>, draft: &mut Draft) -> Result<(), Error> {
    children(reader, |reader, tag| match tag.name().0 {
        name @ ("renewalIntervalInSecs" | "durationInSecs") => {
            let value = text(reader, name)?;
            draft.set_lease(name, &Scalar::Text(value.into()))
        }
        _ => skip(reader),
    })
}

/// A block without a name is no block, as in the original.
fn read_data_center(reader: &mut Source<'_>, tag: &BytesStart<'_>) -> Result<Option<DataCenterDraft>, Error> {
    let mut block = DataCenterDraft {
        class_name: attribute(tag, "class")?.unwrap_or_default(),
        ..DataCenterDraft::default()
    };
    children(reader, |reader, tag| {
        match tag.name().0 {
            "name" => block.name = text(reader, "dataCenterInfo.name")?,
            "metadata" => block.metadata = read_metadata(reader, "dataCenterInfo.metadata")?,
            _ => skip(reader)?,
        }
        Ok(())
    })?;
    block.let_name_decide();
    Ok((!block.name.is_empty()).then_some(block))
}

fn read_metadata(reader: &mut Source<'_>, field: &str) -> Result<Metadata, Error> {
    let mut metadata = Metadata::new();
    children(reader, |reader, tag| {
        let key = xml_names::decode(tag.name().0);
        let value = text(reader, &format!("{field}.{key:.64}"))?;
        metadata.insert(key, value);
        Ok(())
    })?;
    Ok(metadata)
}

/// Calls `take` for each child of the element just opened; `take` consumes the child to its end.
fn children<'a>(
    reader: &mut Source<'a>,
    mut take: impl FnMut(&mut Source<'a>, &BytesStart<'a>) -> Result<(), Error>,
) -> Result<(), Error> {
    loop {
        match next(reader)? {
            Event::Start(tag) => take(reader, &tag)?,
            Event::End(_) => return Ok(()),
            Event::Eof => return Err(Error::Body("unexpected end of the text".into())),
            _ => {}
        }
    }
}

/// The text of the element just opened, to its end.
fn text(reader: &mut Source<'_>, field: &str) -> Result<String, Error> {
    let mut text = String::new();
    loop {
        match next(reader)? {
            Event::Text(part) => text.push_str(&part.xml10_content()),
            Event::CData(part) => text.push_str(&part.xml10_content()),
            Event::GeneralRef(reference) => text.push(resolve(&reference)?),
            Event::End(_) => return Ok(text),
            Event::Start(_) => return Err(Error::malformed(field, "expected a text, not elements")),
            Event::Eof => return Err(Error::Body("unexpected end of the text".into())),
            _ => {}
        }
    }
}

/// Passes over the element just opened and all that is in it.
fn skip(reader: &mut Source<'_>) -> Result<(), Error> {
    let mut depth = 1_usize;
    while depth > 0 {
        match next(reader)? {
            Event::Start(_) => depth += 1,
            Event::End(_) => depth -= 1,
            Event::Eof => return Err(Error::Body("unexpected end of the text".into())),
            _ => {}
        }
    }
    Ok(())
}

/// The next event, unless it is one that no registration needs.
fn next<'a>(reader: &mut Source<'a>) -> Result<Event<'a>, Error> {
    let event = reader.read_event().map_err(|error| Error::Body(error.to_string()))?;
    match event {
        Event::DocType(_) => Err(Error::Body("a document type is not taken".into())),
        event => Ok(event),
    }
}

fn expect_blank(event: &Event<'_>) -> Result<(), Error> {
    let is_text = match event {
        Event::Text(text) => !text.trim().is_empty(),
        Event::CData(_) | Event::GeneralRef(_) | Event::End(_) => true,
        _ => false,
    };
    if is_text { Err(Error::Body("text outside the root element".into())) } else { Ok(()) }
}

fn resolve(reference: &BytesRef<'_>) -> Result<char, Error> {
    let unknown = || Error::Body(format!("unknown reference &{:.32};", reference.as_ref()));
    match reference.as_ref() {
        "lt" => Ok('<'),
        "gt" => Ok('>'),
        "amp" => Ok('&'),
        "quot" => Ok('"'),
        "apos" => Ok('\''),
        _ => {
            let character = reference.resolve_char_ref().map_err(|_| unknown())?;
            character.filter(|character| is_legal(*character)).ok_or_else(unknown)
        }
    }
}

fn attribute(tag: &BytesStart<'_>, name: &str) -> Result<Option<String>, Error> {
    let mut attributes = tag.attributes();
    for attribute in attributes.with_checks(false).take(ATTRIBUTES_MAX) {
        let attribute = attribute.map_err(|error| Error::Body(error.to_string()))?;
        if attribute.key.0 == name {
            let value = unescape(&attribute.value).map_err(|error| Error::Body(error.to_string()))?;
            return Ok(Some(value.into_owned()));
        }
    }
    Ok(None)
}
