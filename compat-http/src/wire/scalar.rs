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

    /// As a whole number between `min` and `max`; nothing when null or blank.
    ///
    /// # Errors
    /// `Invalid` for what is no whole number or lies outside.
    pub(crate) fn integer(&self, field: &str, min: i64, max: i64) -> Result<Option<i64>, Error> {
        let text = match self {
            Self::Null => return Ok(None),
            Self::Bool(_) => return Err(not_whole(field)),
            Self::Number(text) => text,
            Self::Text(text) => text.trim(),
        };
        if text.is_empty() {
            return Ok(None);
        }
        let value = whole(text).ok_or_else(|| not_whole(field))?;
        if value < min || value > max {
            return Err(Invalid::new(field, Problem::OutOfRange { value, min, max }).into());
        }
        Ok(Some(value))
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
            Self::Number(text) => whole(text).map(|number| number != 0).ok_or_else(wrong),
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

/// The whole number that `text` spells, also as `8e3` or `80.0`; saturates beyond 64 bits.
fn whole(text: &str) -> Option<i64> {
    if let Ok(number) = text.parse::<i64>() {
        return Some(number);
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte)) {
        return None;
    }
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && number.fract() == 0.0)?;
    Some(saturating(number))
}

#[expect(clippy::cast_possible_truncation, reason = "a cast from f64 saturates, which is what is wanted")]
fn saturating(number: f64) -> i64 {
    number as i64
}

fn not_whole(field: &str) -> Error {
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
            assert_eq!(scalar.integer("port", 0, 65_535).unwrap(), expected, "{scalar:?}");
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
            let refusal = scalar.integer("port.$", 0, 65_535).unwrap_err().to_string();
            assert!(refusal.starts_with("port.$: "), "{scalar:?}: {refusal}");
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
