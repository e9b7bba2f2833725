//! Values as clients spell them: numbers as texts, booleans as texts, texts as numbers.

use std::borrow::Cow;

use heureka_model::{Invalid, Problem};
use serde_json::value::RawValue;

use crate::error::Error;

/// A value without structure. XML has only texts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scalar<'a> {
    Null,
    Bool(bool),
    /// As it was written, so that `1.10` stays `1.10` where a text is wanted.
    Number(&'a str),
    Text(Cow<'a, str>),
}

impl<'a> Scalar<'a> {
    /// The scalar that `raw` spells.
    ///
    /// # Errors
    /// `Invalid` for an object or a list, `Body` for a text that holds half a surrogate pair.
    pub(crate) fn of(field: &str, raw: &'a RawValue) -> Result<Self, Error> {
        let text = raw.get();
        match text.as_bytes().first() {
            Some(b'"') => parse_text(field, text),
            Some(b'n') => Ok(Self::Null),
            Some(b't') => Ok(Self::Bool(true)),
            Some(b'f') => Ok(Self::Bool(false)),
            Some(b'{' | b'[') => Err(Error::malformed(field, "expected a single value")),
            _ => Ok(Self::Number(text)),
        }
    }

    /// As text; empty when null, which means the same.
    pub(crate) fn text(self) -> String {
        self.label().unwrap_or_default()
    }

    /// As a metadata value, where empty and absent differ; nothing when null.
    pub(crate) fn label(self) -> Option<String> {
        match self {
            Self::Null => None,
            Self::Bool(value) => Some(value.to_string()),
            Self::Number(text) => Some(text.to_owned()),
            Self::Text(text) => Some(text.into_owned()),
        }
    }

    /// As a number without its fraction, from `-max` to `max`; nothing when null or blank.
    ///
    /// # Errors
    /// `Invalid` for what is no number or lies outside.
    pub(crate) fn integer(&self, field: &str, max: i64) -> Result<Option<i64>, Error> {
        let Some(number) = self.number(field)? else { return Ok(None) };
        bounded(field, number.truncated(), -max, max).map(Some)
    }

    /// As a port number; nothing when null or blank.
    ///
    /// # Errors
    /// `Invalid` for what is no whole number or lies outside 0 to 65535.
    pub(crate) fn port(&self, field: &str) -> Result<Option<u16>, Error> {
        let max = i64::from(u16::MAX);
        let Some(number) = self.number(field)? else { return Ok(None) };
        let whole = number.whole().ok_or_else(|| no_number(field))?;
        Ok(u16::try_from(bounded(field, whole, 0, max)?).ok())
    }

    fn number(&self, field: &str) -> Result<Option<Number>, Error> {
        let text = match self {
            Self::Null => return Ok(None),
            Self::Bool(_) => return Err(no_number(field)),
            Self::Number(text) => text,
            Self::Text(text) => text.trim(),
        };
        if text.is_empty() {
            return Ok(None);
        }
        Number::parse(text).map(Some).ok_or_else(|| no_number(field))
    }

    /// As a flag: `true` and `false` in any case, whole numbers other than zero; null and blank are false.
    ///
    /// # Errors
    /// `Invalid` for other texts.
    pub(crate) fn flag(&self, field: &str) -> Result<bool, Error> {
        let wrong = || Error::malformed(field, "expected true or false");
        match self {
            Self::Null => Ok(false),
            Self::Bool(value) => Ok(*value),
            Self::Number(text) => {
                Number::parse(text).and_then(Number::whole).map(|number| number != 0).ok_or_else(wrong)
            }
            Self::Text(text) => match text.trim() {
                "" => Ok(false),
                word if word.eq_ignore_ascii_case("true") => Ok(true),
                word if word.eq_ignore_ascii_case("false") => Ok(false),
                _ => Err(wrong()),
            },
        }
    }
}

fn parse_text<'a>(field: &str, raw: &'a str) -> Result<Scalar<'a>, Error> {
    let inner = &raw[1..raw.len() - 1];
    if !inner.contains('\\') {
        return Ok(Scalar::Text(Cow::Borrowed(inner)));
    }
    let text =
        serde_json::from_str::<String>(raw).map_err(|_| Error::malformed(field, "is no valid text"))?;
    Ok(Scalar::Text(Cow::Owned(text)))
}

/// A number as it was spelt.
#[derive(Clone, Copy)]
enum Number {
    Whole(i64),
    Float(f64),
}

impl Number {
    /// Also `8e3` and `80.5`; not the words that Rust knows for numbers.
    fn parse(text: &str) -> Option<Self> {
        if let Ok(number) = text.parse() {
            return Some(Self::Whole(number));
        }
        if !text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte)) {
            return None;
        }
        text.parse().ok().filter(|number: &f64| number.is_finite()).map(Self::Float)
    }

    /// Without its fraction; saturates beyond 64 bits.
    #[expect(clippy::cast_possible_truncation, reason = "a cast from f64 truncates and saturates, as wanted")]
    fn truncated(self) -> i64 {
        match self {
            Self::Whole(number) => number,
            Self::Float(number) => number as i64,
        }
    }

    fn whole(self) -> Option<i64> {
        match self {
            Self::Float(number) if number.fract() != 0.0 => None,
            number => Some(number.truncated()),
        }
    }
}

fn bounded(field: &str, value: i64, min: i64, max: i64) -> Result<i64, Error> {
    if value < min || value > max {
        return Err(Invalid::new(field, Problem::OutOfRange { value, min, max }).into());
    }
    Ok(value)
}

fn no_number(field: &str) -> Error {
    Error::malformed(field, "expected a whole number")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Scalar<'_> {
        Scalar::Text(text.into())
    }

    #[test]
    fn whole_numbers_are_read_in_every_spelling() {
        for (scalar, expected) in [
            (text(" 8080 "), Some(8080)),
            (text("+7"), Some(7)),
            (Scalar::Number("8e3"), Some(8000)),
            (Scalar::Number("80.0"), Some(80)),
            (text("9e3"), Some(9000)),
            (Scalar::Null, None),
            (text(""), None),
            (text("  "), None),
        ] {
            assert_eq!(scalar.port("port").unwrap(), expected, "{scalar:?}");
        }
    }

    #[test]
    fn other_numbers_are_refused_by_name() {
        for scalar in [
            text("abc"),
            text("80.5"),
            text("nan"),
            text("inf"),
            text("infinity"),
            text("0x50"),
            Scalar::Number("80.5"),
            Scalar::Number("-1"),
            Scalar::Number("65536"),
            Scalar::Number("99999999999999999999"),
            Scalar::Number("1e400"),
            Scalar::Bool(true),
        ] {
            let refusal = scalar.port("port.$").unwrap_err().to_string();
            assert!(refusal.starts_with("port.$: "), "{scalar:?}: {refusal}");
        }
    }

    #[test]
    fn other_integers_lose_their_fraction() {
        for (text, expected) in
            [("30.9", 30), ("-1.5", -1), ("1700000000000.25", 1_700_000_000_000), ("2e3", 2000)]
        {
            assert_eq!(Scalar::Number(text).integer("t", 1 << 60).unwrap(), Some(expected), "{text}");
        }
        for text in ["9999999999999999999999", "-9999999999999999999999", "abc", "0x1", "1e999"] {
            assert!(Scalar::Text(text.into()).integer("t", 1 << 60).is_err(), "{text}");
        }
    }

    #[test]
    fn flags_are_read_in_every_spelling() {
        for yes in [text("true"), text("TRUE"), Scalar::Bool(true), Scalar::Number("1")] {
            assert!(yes.flag("@enabled").unwrap(), "{yes:?}");
        }
        for no in [text("false"), text(""), Scalar::Null, Scalar::Bool(false), Scalar::Number("0")] {
            assert!(!no.flag("@enabled").unwrap(), "{no:?}");
        }
        assert!(text("yes").flag("@enabled").is_err());
        assert!(Scalar::Number("1.5").flag("@enabled").is_err());
    }

    #[test]
    fn numbers_keep_their_digits_as_text() {
        let raw = |json| serde_json::from_str::<&RawValue>(json).unwrap();
        assert_eq!(Scalar::of("m", raw("1.10")).unwrap().text(), "1.10");
        assert_eq!(Scalar::of("m", raw("\"a\\u0062\"")).unwrap().text(), "ab");
        assert_eq!(Scalar::of("m", raw("true")).unwrap().text(), "true");
        assert!(Scalar::of("m", raw("[1]")).is_err());
        assert!(Scalar::of("m", raw("\"\\ud800\"")).is_err());
    }
}
