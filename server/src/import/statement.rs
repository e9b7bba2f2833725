//! What files say: documents of statements, each a name, a value and the line where it stands.

use std::fmt;
use std::rc::Rc;

use super::ImportError;
use super::table::from_variable;

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) file: Rc<str>,
    /// From 1.
    pub(super) line: usize,
}

impl Place {
    pub(super) fn new(file: &Rc<str>, line: usize) -> Self {
        Self { file: file.clone(), line }
    }
}

/// The name of a property. Two spellings of one name have the same canonical form: letters in lower case, without
/// dashes and underscores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    /// As it stands in the file, without the index of a list.
    pub(super) written: String,
    /// Its parts between dots and in brackets, as they stand there.
    pub(super) elements: Vec<String>,
    pub(super) canonical: String,
}

impl Name {
    pub(super) fn of(written: String, elements: Vec<String>) -> Self {
        let canonical = elements.iter().map(|element| canonical(element)).collect::<Vec<_>>().join(".");
        Self { written, elements, canonical }
    }

    /// Splits off the index at the end: `a.b[3]` is item 3 of `a.b`.
    pub(super) fn parse(text: &str) -> (Self, Option<usize>) {
        let index = text.strip_suffix(']').and_then(|text| text.rsplit_once('['));
        let index = index.and_then(|(list, index)| Some((list, index.parse().ok()?)));
        let (text, index) = index.map_or((text, None), |(list, index)| (list, Some(index)));
        (Self::of(text.to_owned(), elements(text)), index)
    }
}

/// Parts between dots; a part in brackets may hold dots.
fn elements(text: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut bracket = false;
    for c in text.chars() {
        match c {
            '[' if !bracket => bracket = true,
            ']' if bracket => bracket = false,
            '.' if !bracket => found.push(String::new()),
            other => found.last_mut().expect("invariant: never empty").push(other),
        }
        if c == '[' && bracket && found.last().is_some_and(|part| !part.is_empty()) {
            found.push(String::new());
        }
    }
    found
}

fn canonical(element: &str) -> String {
    let letters: String = element.chars().filter(|c| c.is_alphanumeric()).collect();
    if letters.is_empty() { element.to_owned() } else { letters.to_lowercase() }
}

/// One property in one document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Statement {
    pub(super) name: Name,
    /// Place in a list.
    pub(super) index: Option<usize>,
    pub(super) value: String,
    pub(super) place: Place,
}

impl Statement {
    pub(super) fn new(name: &str, value: String, place: Place) -> Self {
        let variable = from_variable(name).map(|elements| (Name::of(name.to_owned(), elements), None));
        let (name, index) = variable.unwrap_or_else(|| Name::parse(name));
        Self { name, index, value, place }
    }

    /// The name with its index, fit to be shown.
    pub(super) fn shown(&self) -> String {
        let index = self.index.map(|index| format!("[{index}]")).unwrap_or_default();
        shown(&format!("{}{index}", self.name.written))
    }
}

/// Statements that count together or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Document {
    pub(super) statements: Vec<Statement>,
}

/// Statements of a file as they are read, within what a configuration may reasonably hold: a few lines can stand for
/// much more (an anchor that is used often, a list that repeats a long name).
#[derive(Debug)]
pub(super) struct Collector {
    pub(super) statements: Vec<Statement>,
    room: usize,
}

/// Bytes of all names and values of a file, written out.
const ROOM: usize = 4 << 20;
/// What a statement costs beside its texts.
const STATEMENT: usize = 128;

impl Collector {
    pub(super) fn new() -> Self {
        Self { statements: Vec::new(), room: ROOM }
    }

    pub(super) fn push(&mut self, name: &str, value: &str, place: Place) -> Result<(), ImportError> {
        let cost = STATEMENT + 3 * name.len() + value.len();
        let room = self.room.checked_sub(cost);
        self.room =
            room.ok_or_else(|| ImportError::at(&place, name, "stands for more than 4 MiB of text"))?;
        self.statements.push(Statement::new(name, value.to_owned(), place));
        Ok(())
    }

    /// Ends a document.
    pub(super) fn take(&mut self) -> Document {
        Document { statements: std::mem::take(&mut self.statements) }
    }
}

/// Text of a file as it may be shown: on one line, not endless, without credentials of URLs.
pub(super) fn shown(text: &str) -> String {
    let mut short: String = text.chars().take(LONGEST).flat_map(visible).collect();
    if text.chars().nth(LONGEST).is_some() {
        short.push('…');
    }
    match (short.find("://"), short.rfind('@')) {
        (Some(start), Some(end)) if start < end => format!("{}://***{}", &short[..start], &short[end..]),
        _ => short,
    }
}

/// Longest name that is shown whole.
const LONGEST: usize = 200;

fn visible(c: char) -> impl Iterator<Item = char> {
    let hidden = c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let escaped = hidden.then(|| c.escape_unicode());
    escaped.into_iter().flatten().chain((!hidden).then_some(c))
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", shown(&self.file), self.line)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// What the reader of a format found, a line for each statement of each document.
    pub(in super::super) fn lines(
        read: Result<Vec<Document>, ImportError>,
    ) -> Result<Vec<Vec<String>>, String> {
        let line = |one: &Statement| format!("{}: {}={}", one.place.line, one.shown(), one.value);
        let found = read.map_err(|error| error.to_string())?;
        Ok(found.iter().map(|document| document.statements.iter().map(line).collect()).collect())
    }

    #[test]
    fn spellings_of_a_name_are_one() {
        for name in [
            "eureka.server.enable-self-preservation",
            "eureka.server.enableSelfPreservation",
            "eureka.server.enable_self_preservation",
            "Eureka.Server.ENABLE-SELF-PRESERVATION",
            "eureka.server[enableSelfPreservation]",
        ] {
            assert_eq!(Name::parse(name).0.canonical, "eureka.server.enableselfpreservation", "{name}");
        }
    }

    #[test]
    fn brackets_hold_an_index_or_a_part_of_its_own() {
        let table: [(&str, &[&str], Option<usize>); 6] = [
            ("a.b[3]", &["a", "b"], Some(3)),
            ("a[x.y].b", &["a", "x.y", "b"], None),
            ("a[b]", &["a", "b"], None),
            ("a.[b.c]", &["a", "b.c"], None),
            ("a[-1]", &["a", "-1"], None),
            ("a[99999999999999999999999]", &["a", "99999999999999999999999"], None),
        ];
        for (text, elements, index) in table {
            let (name, found) = Name::parse(text);
            assert_eq!(
                (name.elements, found),
                (elements.iter().map(|part| (*part).into()).collect(), index),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_shown_stays_on_its_line_and_keeps_secrets() {
        assert_eq!(shown("a\nb\u{202e}"), "a\\u{a}b\\u{202e}");
        assert_eq!(shown("http://user:se@cret@host/x"), "http://***@host/x");
        assert_eq!(shown(&"x".repeat(300)).chars().count(), 201);
    }
}
