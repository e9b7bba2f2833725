//! `${name:default}`, nested, as Spring fills it in from the properties themselves.

use std::collections::BTreeSet;

use super::ImportError;
use super::facts::Facts;
use super::statement::Statement;

/// A text with its placeholders filled in.
pub(super) enum Filled {
    Text(String),
    /// Nobody says this one, and it has no default.
    Missing(String),
}

/// Placeholders within placeholders, and values that refer to values.
const DEEPEST: usize = 32;
/// Longest text, and most placeholders, that one value may grow to: doubling references grow without end.
const LONGEST: usize = 64 << 10;
const MOST: usize = 10_000;

/// Fills in the value of a statement.
pub(super) fn fill(facts: &Facts, statement: &Statement) -> Result<Filled, ImportError> {
    match Filler::new(facts).text(&statement.value, 0) {
        Ok(text) => Ok(Filled::Text(text)),
        Err(Stop::Missing(name)) => Ok(Filled::Missing(name)),
        Err(Stop::Wrong(reason)) => Err(ImportError::at(&statement.place, &statement.shown(), reason)),
    }
}

/// The placeholders in the value of a statement, and in what they stand for, that no file says, so that their defaults
/// count.
pub(super) fn defaulted(facts: &Facts, statement: &Statement) -> BTreeSet<String> {
    let mut filler = Filler::new(facts);
    // A value that cannot be filled in was told when it was read.
    let _ = filler.text(&statement.value, 0);
    filler.defaulted
}

struct Filler<'a> {
    facts: &'a Facts,
    defaulted: BTreeSet<String>,
    /// Names whose values are being filled in.
    open: Vec<String>,
    filled: usize,
}

enum Stop {
    Missing(String),
    Wrong(&'static str),
}

impl<'a> Filler<'a> {
    fn new(facts: &'a Facts) -> Self {
        Self { facts, defaulted: BTreeSet::new(), open: Vec::new(), filled: 0 }
    }

    fn text(&mut self, mut rest: &str, depth: usize) -> Result<String, Stop> {
        if depth > DEEPEST {
            return Err(Stop::Wrong("its placeholders are nested too deep"));
        }
        let mut done = String::new();
        while let Some((before, after)) = rest.split_once(OPEN) {
            if let Some(before) = before.strip_suffix('\\') {
                done.push_str(before);
                done.push_str(OPEN);
                rest = after;
                continue;
            }
            // An open end is no placeholder.
            let Some(end) = end_of(after) else { break };
            done.push_str(before);
            done.push_str(&self.placeholder(&after[..end], depth + 1)?);
            rest = &after[end + 1..];
            self.check(&done)?;
        }
        done.push_str(rest);
        self.check(&done)?;
        Ok(done)
    }

    fn check(&self, done: &str) -> Result<(), Stop> {
        let holds = done.len() <= LONGEST && self.filled <= MOST;
        if holds { Ok(()) } else { Err(Stop::Wrong("grows beyond 64 KiB with its placeholders")) }
    }

    /// What is between `${` and `}`: a name, or a name and a default. A name may hold a colon. It is told as it stands
    /// there, since what it is filled in with may be a secret.
    fn placeholder(&mut self, inner: &str, depth: usize) -> Result<String, Stop> {
        self.filled += 1;
        let (written, default) = parts(inner);
        let name = self.text(written, depth)?;
        if default.is_some()
            && !inner.contains(OPEN)
            && let Some(text) = self.value(inner, depth)?
        {
            return Ok(text);
        }
        if let Some(text) = self.value(&name, depth)? {
            return Ok(text);
        }
        match default {
            Some(default) => {
                self.defaulted.insert(written.to_owned());
                self.text(default, depth)
            }
            None => Err(Stop::Missing(written.to_owned())),
        }
    }

    fn value(&mut self, name: &str, depth: usize) -> Result<Option<String>, Stop> {
        let Some(statement) = self.facts.raw(name) else { return Ok(None) };
        if self.open.iter().any(|open| open == name) {
            return Err(Stop::Wrong("refers to itself by its placeholders"));
        }
        self.open.push(name.to_owned());
        let text = self.text(&statement.value, depth);
        self.open.pop();
        text.map(Some)
    }
}

const OPEN: &str = "${";

/// Where the brace closes that is open at the start.
fn end_of(text: &str) -> Option<usize> {
    let mut open = 0_usize;
    text.char_indices().find_map(|(place, c)| match c {
        '}' if open == 0 => Some(place),
        '}' => {
            open -= 1;
            None
        }
        '{' => {
            open += 1;
            None
        }
        _ => None,
    })
}

/// Splits at the first colon outside of further placeholders.
fn parts(inner: &str) -> (&str, Option<&str>) {
    let mut open = 0_i32;
    let colon = inner.find(|c: char| {
        open += i32::from(c == '{') - i32::from(c == '}');
        c == ':' && open <= 0
    });
    match colon {
        Some(colon) => (&inner[..colon], Some(&inner[colon + 1..])),
        None => (inner, None),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::facts::Value;
    use super::super::statement::Place;
    use super::*;

    type Pairs<'a> = &'a [(&'a str, &'a str)];

    fn filled(pairs: Pairs<'_>) -> Result<Value, String> {
        let place = Place::new(&"f".into(), 1);
        let said: Vec<_> =
            pairs.iter().map(|(name, value)| Statement::new(name, (*value).into(), place.clone())).collect();
        let facts = Facts::of([&*said]);
        facts.value("x").map(Option::unwrap).map_err(|error| error.to_string())
    }

    fn text(text: &str) -> Result<Value, String> {
        Ok(Value::Text(text.into()))
    }

    #[test]
    fn placeholders_are_filled_in_from_the_properties() {
        let table: [(&str, Pairs<'_>, &str); 20] = [
            ("plain", &[], "plain"),
            ("http://${h}:${p}/", &[("h", "a"), ("p", "1")], "http://a:1/"),
            ("${h:b}", &[], "b"),
            ("${h:b}", &[("h", "a")], "a"),
            ("${h:}", &[], ""),
            ("${h:http://b:1/}", &[], "http://b:1/"),
            ("${h:${i:c}}", &[], "c"),
            ("${h:${i}}", &[("i", "c")], "c"),
            ("${h:${i}}", &[("h", "a")], "a"),
            ("${${n}.host}", &[("n", "web"), ("web.host", "a")], "a"),
            ("${h}", &[("h", "${i}"), ("i", "c")], "c"),
            ("${h:i}", &[("h:i", "a")], "a"),
            ("${my.host-name}", &[("my.hostName", "a")], "a"),
            ("${l[1]}", &[("l[0]", "a"), ("l[1]", "b")], "b"),
            ("\\${h}", &[("h", "a")], "${h}"),
            ("${h", &[("h", "a")], "${h"),
            ("{a}$b}", &[], "{a}$b}"),
            ("${ h :d}", &[("h", "a")], "d"),
            ("${my.host-name}", &[("my.hostName", "a"), ("my.host-name", "b"), ("my.host_name", "c")], "b"),
            ("${my.hostName:d}", &[("my.host-name", "b")], "d"),
        ];
        for (value, others, expected) in table {
            let pairs: Vec<_> = [("x", value)].into_iter().chain(others.iter().copied()).collect();
            assert_eq!(filled(&pairs), text(expected), "{value}");
        }
    }

    #[test]
    fn what_nobody_says_is_named() {
        for (value, name) in [
            ("a${HOST}", "HOST"),
            ("${a:${b}}", "b"),
            ("${my.hostName}", "my.hostName"),
            ("${${a:b}.c}", "${a:b}.c"),
        ] {
            let pairs = [("x", value), ("my.host-name", "a")];
            assert_eq!(filled(&pairs), Ok(Value::Missing(name.into())), "{value}");
        }
    }

    #[test]
    fn circles_depths_and_doublings_are_refused() {
        assert!(filled(&[("x", "${a}"), ("a", "${x}")]).unwrap_err().contains("refers to itself"));
        assert!(filled(&[("x", "${x:1}")]).unwrap_err().starts_with("f:1: x: "));
        let deep = format!("{}a{}", "${a:".repeat(1000), "}".repeat(1000));
        assert!(filled(&[("x", &deep)]).unwrap_err().contains("nested"));
        let names: Vec<_> =
            (0..25).map(|n| (format!("a{n}"), format!("${{a{}}}${{a{}}}", n + 1, n + 1))).collect();
        let mut pairs: Vec<_> = names.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        pairs.extend([("x", "${a0}"), ("a25", "")]);
        assert!(filled(&pairs).unwrap_err().contains("64 KiB"));
    }

    proptest! {
        #[test]
        fn no_text_panics(value in "[${}:\\\\a-cx.]{0,40}") {
            let _ = filled(&[("x", &value), ("a", "${b}"), ("b", "${c:1}")]);
        }
    }
}
