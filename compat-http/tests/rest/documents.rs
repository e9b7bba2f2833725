//! Documents taken apart into leaves, so that order counts for nothing and a difference has a place.

use std::collections::BTreeMap;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use serde_json::Value;

/// Place of each leaf and its value as JSON text, which keeps its type.
pub(crate) type Leaves = BTreeMap<String, String>;

/// An XML element.
#[derive(Debug, Default)]
pub(crate) struct Element {
    pub(crate) name: String,
    pub(crate) attributes: Vec<(String, String)>,
    pub(crate) children: Vec<Element>,
    pub(crate) text: String,
}

impl Element {
    /// Parses a whole document.
    ///
    /// # Errors
    /// When it is not well-formed, holds anything behind its root, or an illegal character.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if !text.chars().all(|c| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..)) {
            return Err("illegal character".into());
        }
        let mut reader = Reader::from_str(text);
        reader.config_mut().expand_empty_elements = true;
        let mut open = vec![Self::default()];
        loop {
            match reader.read_event().map_err(|error| error.to_string())? {
                Event::Start(tag) => open.push(Self::opened(&tag)?),
                Event::End(_) => {
                    let closed = open.pop().unwrap();
                    open.last_mut().unwrap().children.push(closed);
                }
                Event::Text(part) => open.last_mut().unwrap().text.push_str(&part.xml10_content()),
                Event::GeneralRef(reference) => open.last_mut().unwrap().text.push(resolve(&reference)?),
                Event::Eof => break,
                other => return Err(format!("unexpected {other:?}")),
            }
        }
        let mut document = open.pop().unwrap();
        if !open.is_empty() || document.children.len() != 1 || !document.text.trim().is_empty() {
            return Err("not one root".into());
        }
        Ok(document.children.remove(0))
    }

    fn opened(tag: &BytesStart<'_>) -> Result<Self, String> {
        let name = tag.name().0.to_owned();
        if name.is_empty() {
            return Err("an element without a name".into());
        }
        let attributes = tag.attributes().map(|attribute| {
            let attribute = attribute.unwrap();
            (attribute.key.0.to_owned(), attribute.value.into_owned())
        });
        Ok(Self { name, attributes: attributes.collect(), ..Self::default() })
    }

    pub(crate) fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name)
    }

    /// Text of a child.
    pub(crate) fn find(&self, name: &str) -> Option<&str> {
        self.child(name).map(|child| child.text.as_str())
    }

    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Every instance in the document.
    pub(crate) fn instances(&self) -> Vec<&Self> {
        if self.name == "instance" {
            return vec![self];
        }
        self.children.iter().flat_map(Self::instances).collect()
    }
}

fn resolve(reference: &quick_xml::events::BytesRef<'_>) -> Result<char, String> {
    Ok(match reference.as_ref() {
        "lt" => '<',
        "gt" => '>',
        "amp" => '&',
        "quot" => '"',
        "apos" => '\'',
        _ => match reference.resolve_char_ref() {
            Ok(Some(character)) if character >= ' ' || "\t\n\r".contains(character) => character,
            other => return Err(format!("reference to {other:?}")),
        },
    })
}

/// Leaves of a JSON document.
pub(crate) fn of_json(text: &str) -> Result<Leaves, String> {
    let mut leaves = Leaves::new();
    json_into(&mut leaves, "", &serde_json::from_str(text).map_err(|error| error.to_string())?);
    Ok(leaves)
}

fn json_into(leaves: &mut Leaves, place: &str, value: &Value) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                json_into(leaves, &format!("{place}/{name}"), value);
            }
        }
        Value::Array(items) if items.is_empty() => drop(leaves.insert(place.to_owned(), "[]".into())),
        Value::Array(items) => {
            for item in items {
                json_into(leaves, &fresh(leaves, &format!("{place}[{}]", json_identity(item))), item);
            }
        }
        scalar => drop(leaves.insert(place.to_owned(), scalar.to_string())),
    }
}

fn json_identity(item: &Value) -> String {
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let amazon = &item["dataCenterInfo"]["metadata"]["instance-id"];
    [&item["name"], &item["instanceId"], amazon, &item["hostName"]]
        .into_iter()
        .find_map(text)
        .unwrap_or_default()
}

/// Leaves of an XML document; attributes are marked by `@`.
pub(crate) fn of_xml(text: &str) -> Result<Leaves, String> {
    let mut leaves = Leaves::new();
    let root = Element::parse(text)?;
    xml_into(&mut leaves, &format!("/{}", root.name), &root);
    Ok(leaves)
}

fn xml_into(leaves: &mut Leaves, place: &str, element: &Element) {
    for (name, value) in &element.attributes {
        leaves.insert(format!("{place}/@{name}"), value.clone());
    }
    for child in &element.children {
        let identity = xml_identity(child);
        let place = fresh(leaves, &format!("{place}/{}{identity}", child.name));
        xml_into(leaves, &place, child);
    }
    if element.children.is_empty() {
        leaves.insert(place.to_owned(), element.text.clone());
    }
}

fn xml_identity(element: &Element) -> String {
    let told = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(|text| format!("[{text}]"));
    match element.name.as_str() {
        "application" => told(element.find("name")).unwrap_or_default(),
        "instance" => {
            let block = element.child("dataCenterInfo").and_then(|block| block.child("metadata"));
            let amazon = block.and_then(|metadata| metadata.find("instance-id"));
            let candidates = [element.find("instanceId"), amazon, element.find("hostName")];
            candidates.into_iter().find_map(told).unwrap_or_default()
        }
        _ => String::new(),
    }
}

/// The place, or the place with a number when something stands there already.
fn fresh(leaves: &Leaves, place: &str) -> String {
    let taken = |place: &str| {
        let below = format!("{place}/");
        leaves.contains_key(place)
            || leaves.range(below.clone()..).next().is_some_and(|(leaf, _)| leaf.starts_with(&below))
    };
    let mut candidate = place.to_owned();
    let mut number = 1;
    while taken(&candidate) {
        number += 1;
        candidate = format!("{place}#{number}");
    }
    candidate
}
