//! YAML files as Spring reads them: documents of nested maps and lists, written out as properties.
//!
//! The parser says what stands where; anchors, merges, doubled keys and the words of YAML 1.1 are dealt with here.

mod build;
mod words;

use std::rc::Rc;

use super::ImportError;
use super::statement::{Collector, Document, Place};
use build::{Kind, Node};

/// Documents of a file, in their order.
pub(super) fn read(file: &Rc<str>, bytes: &[u8]) -> Result<Vec<Document>, ImportError> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = 1 + bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        ImportError::at(&Place::new(file, line), "", "is not UTF-8")
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut found = Writer { file, collector: Collector::new() };
    build::documents(file, text)?.iter().map(|root| found.document(root)).collect()
}

struct Writer<'a> {
    file: &'a Rc<str>,
    collector: Collector,
}

impl Writer<'_> {
    fn document(&mut self, root: &Node) -> Result<Document, ImportError> {
        match &root.kind {
            Kind::Map(_) => self.node("", root)?,
            Kind::Scalar(text) if text.is_empty() => {}
            _ => return Err(ImportError::at(&self.place(root), "", "expected names and values")),
        }
        Ok(self.collector.take())
    }

    fn node(&mut self, path: &str, node: &Node) -> Result<(), ImportError> {
        match &node.kind {
            Kind::Scalar(text) => self.collector.push(path, text, self.place(node)),
            Kind::List(items) if items.is_empty() => self.collector.push(path, "", self.place(node)),
            Kind::List(items) => items
                .iter()
                .enumerate()
                .try_for_each(|(index, item)| self.node(&format!("{path}[{index}]"), item)),
            Kind::Map(pairs) => pairs.iter().try_for_each(|(key, value)| self.node(&join(path, key), value)),
        }
    }

    fn place(&self, node: &Node) -> Place {
        Place::new(self.file, node.line)
    }
}

/// A key in brackets stands for itself, dots included.
pub(super) fn join(path: &str, key: &str) -> String {
    if path.is_empty() || key.starts_with('[') { format!("{path}{key}") } else { format!("{path}.{key}") }
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
    fn maps_and_lists_become_names() {
        let table: [(&str, &[&str]); 16] = [
            ("a: b", &["1: a=b"]),
            ("\u{feff}a: b", &["1: a=b"]),
            ("a:\n  b:\n    c: 1\n  d: 2", &["3: a.b.c=1", "4: a.d=2"]),
            ("a.b: {c.d: e}", &["1: a.b.c.d=e"]),
            ("a: [b, c]", &["1: a[0]=b", "1: a[1]=c"]),
            ("a:\n- b: 1\n- c: 2", &["2: a[0].b=1", "3: a[1].c=2"]),
            ("a: {'[b.c]': d}", &["1: a[b.c]=d"]),
            ("a:\nb: ~\nc: []\nd: {}\ne: ''", &["1: a=", "2: b=", "3: c=", "5: e="]),
            ("a: yes\nb: 'yes'\nc: !!str yes", &["1: a=true", "2: b=yes", "3: c=yes"]),
            (
                "a: 1_000\nb: 0x10\nc: 010\nd: 0b11\ne: 08\nf: 0.85",
                &["1: a=1000", "2: b=16", "3: c=8", "4: d=3", "5: e=08", "6: f=0.85"],
            ),
            ("a: &x {b: 1}\nc: *x", &["1: a.b=1", "1: c.b=1"]),
            ("a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}", &["1: a.b=1", "1: a.c=2", "2: d.c=3", "1: d.b=1"]),
            (
                "a: &x {b: 1}\nc: &y {b: 2, d: 3}\ne: {<<: [*x, *y]}",
                &["1: a.b=1", "2: c.b=2", "2: c.d=3", "1: e.b=1", "2: e.d=3"],
            ),
            ("a: |\n  b\n  c\nd: >-\n  e\n  f", &["2: a=b\nc\n", "5: d=e f"]),
            ("# nothing", &[]),
            ("---\n", &[]),
        ];
        for (text, expected) in table {
            let found = documents(text.as_bytes()).unwrap();
            assert_eq!(found.concat(), expected, "{text}");
        }
    }

    #[test]
    fn documents_stand_between_separators() {
        let found = documents(b"a: 1\n---\n---\nb: 2\n...\n---\nc: 3\n").unwrap();
        assert_eq!(found, [vec!["1: a=1"], vec![], vec!["4: b=2"], vec!["7: c=3"]]);
    }

    #[test]
    fn what_cannot_be_read_is_named_with_line_and_field() {
        let table = [
            ("a: 1\nb:\n  c: 1\n  c: 2", "f:4: b.c: is said twice"),
            ("a: 1\nb: {c: *x}", "f:2: b.c: "),
            ("a: 1\nb:\n  c: [1, 2", "f:"),
            ("a: 1\n\tb: 2", "f:1: a: "),
            ("a: 1\nb: @c@", "f:2: b: "),
            ("a: 1\n- b", "f:2: "),
            ("- a", "f:1: expected names and values"),
            ("text", "f:1: expected names and values"),
            ("a: 1\nb: !!java.net.URL [x]", "f:2: b: "),
            ("a: 1\n{b: 1}: 2", "f:2:"),
            ("a: 1\nb: {<<: 1}", "f:2: b: "),
            ("a: &x [*x]", "f:1: a"),
        ];
        for (text, start) in table {
            let told = documents(text.as_bytes()).unwrap_err();
            assert!(told.starts_with(start), "{text:?}: {told}");
        }
        assert_eq!(documents(b"a: 1\nb: \xff").unwrap_err(), "f:2: is not UTF-8");
    }

    #[test]
    fn secrets_stay_out_of_what_is_said_about_mistakes() {
        for text in [
            "p: \"secret",
            "p: @secret",
            "p: 'a' secret",
            "secret",
            "p: [secret",
            "p: *secret",
            "p: !secret x",
        ] {
            let told = documents(text.as_bytes()).unwrap_err();
            assert!(!told.contains("secret"), "{text:?}: {told}");
        }
    }

    #[test]
    fn bombs_are_refused_before_they_go_off() {
        let laughs = (1..12).fold("a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned(), |text, n| {
            let aliases = vec![format!("*a{}", n - 1); 9].join(",");
            format!("{text}a{n}: &a{n} [{aliases}]\n")
        });
        let chain = (1..50_000).fold("a0: &a0 [x]\n".to_owned(), |mut text, n| {
            text.push_str(&format!("a{n}: &a{n} [*a{}]\n", n - 1));
            text
        });
        let wide = format!("a: &a {}\nb: [{}]", "x".repeat(200_000), "*a,".repeat(50_000));
        let long = format!("{}: [{}]", "k".repeat(900), "x,".repeat(50_000));
        let merges = format!("a: &a {{{}}}\nb: [{}]", keys(5000), "{<<: *a},".repeat(5000));
        let deep = ["[", "{a: ", "- ", "? ", "&a ", "'", "%"].map(|text| text.repeat(900_000 / text.len()));
        for text in deep.into_iter().chain([laughs, chain, wide, long, merges]) {
            let told = documents(text.as_bytes());
            assert!(told.is_err(), "{}", text.chars().take(60).collect::<String>());
        }
    }

    #[test]
    fn long_files_of_little_sense_come_to_an_end() {
        for text in [
            "\t",
            " ",
            "\n",
            "#",
            "a:",
            "a: b\n",
            "--- a\n",
            "a: &a\n- ",
            "!!map ",
            "\"\\",
            "|\n",
            ">\n ",
            "...",
        ] {
            let _ = documents(text.repeat(900_000 / text.len()).as_bytes());
        }
    }

    fn keys(count: usize) -> String {
        (0..count).map(|n| format!("k{n}: 1, ")).collect()
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[-a: \n\t\\[\\]{},?&*!|>'\"%@#~<]{0,60}") {
            let _ = documents(text.as_bytes());
        }

        #[test]
        fn quoted_values_come_back(value: String) {
            let quoted = serde_json::to_string(&value).unwrap();
            if let Ok(found) = documents(format!("a: {quoted}").as_bytes()) {
                prop_assert_eq!(&found[0][0], &format!("1: a={value}"));
            }
        }
    }
}
