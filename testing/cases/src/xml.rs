//! XML as a strict reader sees it.

use anyhow::{Context as _, bail, ensure};
use quick_xml::Reader;
use quick_xml::events::{BytesRef, BytesStart, Event};

/// An element with its text and children.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Element {
    pub(crate) name: String,
    attributes: Vec<(String, String)>,
    pub(crate) text: String,
    pub(crate) children: Vec<Element>,
}

impl Element {
    /// Reads a whole document.
    ///
    /// # Errors
    /// It is not well formed.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let legal = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..);
        ensure!(text.chars().all(legal), "an illegal character");
        let mut reader = Reader::from_str(text);
        reader.config_mut().expand_empty_elements = true;
        let mut open = vec![Self::default()];
        loop {
            match reader.read_event()? {
                Event::Start(tag) => open.push(Self::begun(&tag)?),
                Event::End(_) => {
                    let element = open.pop().context("an end without a beginning")?;
                    top(&mut open)?.children.push(element);
                }
                Event::Text(text) => top(&mut open)?.text.push_str(&text.xml10_content()),
                Event::GeneralRef(reference) => top(&mut open)?.text.push(resolved(&reference)?),
                Event::Eof => break,
                _ => {}
            }
        }
        match (open.len(), open.pop().unwrap_or_default().children.pop()) {
            (1, Some(root)) => Ok(root),
            _ => bail!("no root element, or one that does not end"),
        }
    }

    fn begun(tag: &BytesStart<'_>) -> anyhow::Result<Self> {
        let mut element = Self { name: name(tag.name().0)?, ..Self::default() };
        for attribute in tag.attributes() {
            let attribute = attribute?;
            element.attributes.push((name(attribute.key.0)?, attribute.value.into_owned()));
        }
        Ok(element)
    }

    /// The first child of that name.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn child(&self, name: &str) -> anyhow::Result<&Self> {
        let found = self.children.iter().find(|child| child.name == name);
        found.with_context(|| format!("{}: no {name}", self.name))
    }

    /// The text of the first child of that name.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn find(&self, name: &str) -> anyhow::Result<&str> {
        Ok(&self.child(name)?.text)
    }

    /// A whole number in the child of that name.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn number(&self, name: &str) -> anyhow::Result<i64> {
        self.find(name)?.parse().with_context(|| format!("{name}: no number"))
    }

    /// An attribute.
    ///
    /// # Errors
    /// It is not there.
    pub(crate) fn attribute(&self, name: &str) -> anyhow::Result<&str> {
        let found = self.attributes.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).with_context(|| format!("{}: no attribute {name}", self.name))
    }

    /// Every instance of a list.
    pub(crate) fn instances(&self) -> Vec<&Self> {
        let apps = self.children.iter().filter(|child| child.name == "application");
        apps.flat_map(|app| app.children.iter().filter(|child| child.name == "instance")).collect()
    }
}

/// A name that a parser which knows namespaces reads as one.
fn name(name: &str) -> anyhow::Result<String> {
    let starts = name.chars().next().is_some_and(|c| c.is_alphabetic() || c == '_');
    ensure!(starts && !name.contains([':', '$', '@', '&', '/']), "{name:?} is no name");
    Ok(name.to_owned())
}

fn top(open: &mut [Element]) -> anyhow::Result<&mut Element> {
    open.last_mut().context("an end without a beginning")
}

fn resolved(reference: &BytesRef<'_>) -> anyhow::Result<char> {
    Ok(match reference.as_ref() {
        "lt" => '<',
        "gt" => '>',
        "amp" => '&',
        "quot" => '"',
        "apos" => '\'',
        other => reference.resolve_char_ref()?.with_context(|| format!("&{other}; stands for nothing"))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_have_attributes_text_and_children() {
        let root = Element::parse("<a><b c=\"1\">x&amp;&#x41;</b><d/></a>").unwrap();
        assert_eq!(root.child("b").unwrap().attribute("c").unwrap(), "1");
        assert_eq!(root.find("b").unwrap(), "x&A");
        assert_eq!(root.find("d").unwrap(), "");
        assert!(root.number("b").is_err() && root.find("e").is_err());
    }

    #[test]
    fn what_a_strict_parser_refuses_is_refused() {
        for broken in ["", "<a>", "<a></b>", "<a><b:c/></a>", "<a>&nothing;</a>", "<a><1/></a>", "x"] {
            assert!(Element::parse(broken).is_err(), "{broken}");
        }
    }
}
