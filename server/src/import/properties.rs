//! `.properties` files: Latin-1, `\uXXXX`, continued lines, and documents between `#---` lines, as Spring reads them.

use std::rc::Rc;
use std::str::Chars;

use super::ImportError;
use super::statement::{Collector, Document, Place};

/// Documents of a file, in their order.
pub(super) fn read(file: &Rc<str>, bytes: &[u8]) -> Result<Vec<Document>, ImportError> {
    let mut reader = Reader { found: Collector::new(), documents: Vec::new(), comment: None };
    for line in logical(file, bytes) {
        reader.line(&line)?;
    }
    Ok(reader.end())
}

/// A line with those that continue it. Continued ones are joined, escapes still stand.
struct Line {
    text: String,
    place: Place,
}

/// Joins lines that end with an odd number of backslashes to the next one; comments are not continued.
fn logical(file: &Rc<str>, bytes: &[u8]) -> Vec<Line> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    // Every byte is the character of its number.
    let text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut lines: Vec<Line> = Vec::new();
    let mut open = false;
    for (number, line) in text.split('\n').enumerate() {
        let body = line.trim_start_matches(BLANKS);
        let comment = !open && body.starts_with(COMMENTS);
        let continued = !comment && is_continued(body);
        let body = if continued { &body[..body.len() - 1] } else { body };
        match lines.last_mut() {
            Some(last) if open => last.text.push_str(body),
            // A separator of documents has no blanks before it.
            _ if comment => lines.push(Line { text: line.to_owned(), place: Place::new(file, number + 1) }),
            _ => lines.push(Line { text: body.to_owned(), place: Place::new(file, number + 1) }),
        }
        open = continued;
    }
    lines
}

const BLANKS: [char; 3] = [' ', '\t', '\u{c}'];
const COMMENTS: [char; 2] = ['#', '!'];

fn is_continued(line: &str) -> bool {
    (line.len() - line.trim_end_matches('\\').len()) % 2 == 1
}

struct Reader {
    found: Collector,
    documents: Vec<Document>,
    /// With what the line before began, when it was a comment.
    comment: Option<char>,
}

impl Reader {
    fn line(&mut self, line: &Line) -> Result<(), ImportError> {
        let body = line.text.trim_start_matches(BLANKS);
        if body.is_empty() {
            self.comment = None;
            return Ok(());
        }
        match body.chars().next().filter(|c| COMMENTS.contains(c)) {
            Some(sign) => self.remark(&line.text, sign),
            None => {
                self.comment = None;
                self.property(body, &line.place)?;
            }
        }
        Ok(())
    }

    /// `#---` ends a document unless a remark of the same kind stands before it or any remark after it.
    fn remark(&mut self, text: &str, sign: char) {
        let separates = text.strip_prefix(sign).is_some_and(|rest| rest.trim_end_matches(BLANKS) == "---");
        if separates && self.comment != Some(sign) {
            let ended = self.found.take();
            self.documents.extend((!ended.statements.is_empty()).then_some(ended));
            return;
        }
        if self.found.statements.is_empty()
            && let Some(before) = self.documents.pop()
        {
            self.found.statements = before.statements;
        }
        self.comment = Some(sign);
    }

    fn property(&mut self, line: &str, place: &Place) -> Result<(), ImportError> {
        let (written, value) = split(line);
        let key = unescaped(written).map_err(|reason| ImportError::at(place, written, reason))?;
        let text = |value| unescaped(value).map_err(|reason| ImportError::at(place, &key, reason));
        match key.strip_suffix("[]") {
            Some(list) => (0..).zip(items(value)).try_for_each(|(index, item): (usize, _)| {
                self.found.push(&format!("{list}[{index}]"), &text(item)?, place.clone())
            }),
            None => self.found.push(&key, &text(value)?, place.clone()),
        }
    }

    fn end(mut self) -> Vec<Document> {
        let last = self.found.take();
        self.documents.push(last);
        self.documents
    }
}

/// Key and value; between them blanks, `=` or `:` with blanks around it.
fn split(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line.find(|c: char| {
        let ends = !escaped && (BLANKS.contains(&c) || c == '=' || c == ':');
        escaped = !escaped && c == '\\';
        ends
    });
    let (key, rest) = line.split_at(end.unwrap_or(line.len()));
    let rest = rest.trim_start_matches(BLANKS);
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (key, value.trim_start_matches(BLANKS))
}

/// Items between commas that are not escaped.
fn items(value: &str) -> impl Iterator<Item = &str> {
    let mut escaped = false;
    value.split(move |c: char| {
        let ends = !escaped && c == ',';
        escaped = !escaped && c == '\\';
        ends
    })
}

fn unescaped(text: &str) -> Result<String, &'static str> {
    let mut units = Vec::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        let unit = if c == '\\' { escape(&mut rest)? } else { Unit::Plain(c) };
        match unit {
            Unit::Plain(c) => units.extend_from_slice(c.encode_utf16(&mut [0; 2])),
            Unit::Half(unit) => units.push(unit),
        }
    }
    // Two escapes may be the halves of one character.
    String::from_utf16(&units).map_err(|_| "a \\u escape is half a character")
}

enum Unit {
    Plain(char),
    Half(u16),
}

fn escape(rest: &mut Chars<'_>) -> Result<Unit, &'static str> {
    Ok(Unit::Plain(match rest.next() {
        Some('t') => '\t',
        Some('n') => '\n',
        Some('r') => '\r',
        Some('f') => '\u{c}',
        Some('u') => return unicode(rest).map(Unit::Half),
        Some(other) => other,
        None => '\\',
    }))
}

fn unicode(rest: &mut Chars<'_>) -> Result<u16, &'static str> {
    let digits: String = rest.by_ref().take(4).collect();
    let whole = digits.len() == 4 && digits.chars().all(|c| c.is_ascii_hexdigit());
    let value = u16::from_str_radix(&digits, 16).ok().filter(|_| whole);
    value.ok_or("\\u needs four hexadecimal digits")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::statement::tests::lines;
    use super::*;

    fn documents(bytes: &[u8]) -> Result<Vec<Vec<String>>, String> {
        lines(read(&"f".into(), bytes))
    }

    #[test]
    fn lines_are_read_as_java_reads_them() {
        let table: [(&[u8], &[&str]); 18] = [
            (b"a=b", &["1: a=b"]),
            (b"a : b", &["1: a=b"]),
            (b"  a\t b c ", &["1: a=b c "]),
            (b"a", &["1: a="]),
            (b"a==b", &["1: a==b"]),
            (b"a= =b", &["1: a==b"]),
            (b"# a=b\n! c\n\nd=e", &["4: d=e"]),
            (b"a=b#c", &["1: a=b#c"]),
            (b"a=b,\\\n   c\nd=e", &["1: a=b,c", "3: d=e"]),
            (b"a=b\\\r\n  #c\r\nd=e\re=f", &["1: a=b#c", "3: d=e", "4: e=f"]),
            (b"a=b\\\\\nc=d", &["1: a=b\\", "2: c=d"]),
            (b"# no \\\na=b", &["2: a=b"]),
            (b"a=b\\", &["1: a=b"]),
            (b"a\\:b\\=c\\ d=e", &["1: a:b=c d=e"]),
            (b"a=\\t\\u00e9\\uD83D\\uDE00\\q", &["1: a=\t\u{e9}\u{1f600}q"]),
            (b"a=caf\xe9", &["1: a=caf\u{e9}"]),
            (b"\xef\xbb\xbfa=b", &["1: a=b"]),
            (b"a[]=b\\,c, d", &["1: a[0]=b,c", "1: a[1]= d"]),
        ];
        for (text, expected) in table {
            let found = documents(text).unwrap();
            assert_eq!(found, [expected.to_vec()], "{}", text.escape_ascii());
        }
    }

    #[test]
    fn documents_stand_between_separators() {
        let table: [(&str, &[&[&str]]); 10] = [
            ("a=1\n#---\nb=2", &[&["1: a=1"], &["3: b=2"]]),
            ("a=1\n!---  \nb=2", &[&["1: a=1"], &["3: b=2"]]),
            ("#---\na=1", &[&["2: a=1"]]),
            ("a=1\n # ---\nb=2", &[&["1: a=1", "3: b=2"]]),
            ("a=1\n #---\nb=2", &[&["1: a=1", "3: b=2"]]),
            ("a=1\n#x\n#---\nb=2", &[&["1: a=1", "4: b=2"]]),
            ("a=1\n#x\n\n#---\nb=2", &[&["1: a=1"], &["5: b=2"]]),
            ("a=1\n#---\n\n#x\nb=2", &[&["1: a=1", "5: b=2"]]),
            ("a=1\n#---\n#x\nb=2", &[&["1: a=1", "4: b=2"]]),
            ("a=1\n!x\n#---\nb=2", &[&["1: a=1"], &["4: b=2"]]),
        ];
        for (text, expected) in table {
            assert_eq!(documents(text.as_bytes()).unwrap(), expected, "{text:?}");
        }
    }

    #[test]
    fn bad_escapes_are_named_with_line_and_field() {
        for text in ["x=y\na.b=\\u12", "x=y\na.b=\\u+123", "x=y\na.b=\\uzzzz", "x=y\na.b=\\ud83d!"] {
            let told = documents(text.as_bytes()).unwrap_err();
            assert!(told.starts_with("f:2: a.b: ") && told.contains("\\u"), "{told}");
        }
    }

    #[test]
    fn a_list_that_repeats_a_long_name_has_an_end() {
        let text = format!("{}[]={}", "k".repeat(500_000), ",".repeat(500_000));
        assert!(documents(text.as_bytes()).unwrap_err().contains("4 MiB"));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let _ = documents(&bytes);
        }

        #[test]
        fn any_value_comes_back_from_its_escapes(value: String) {
            let units: Vec<u16> = value.encode_utf16().collect();
            let escaped: String = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
            let found = documents(format!("a={escaped}").as_bytes()).unwrap();
            prop_assert_eq!(&found[0][0], &format!("1: a={value}"));
        }
    }
}
