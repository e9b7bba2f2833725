//! Query parameters, form-decoded: `+` is a blank, a `%` that begins no escape is itself.

use std::borrow::Cow;

use heureka_model::{Status, Wall};
use percent_encoding::percent_decode_str;

use crate::error::Error;

/// Parameters in the order sent. Names without `=` have the empty value.
pub(crate) fn pairs(query: &str) -> impl Iterator<Item = (&str, &str)> {
    query.split('&').filter(|pair| !pair.is_empty()).map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

/// The text that a name or value spells.
///
/// # Errors
/// `Invalid` when it is not UTF-8.
pub(crate) fn decode<'a>(field: &str, text: &'a str) -> Result<Cow<'a, str>, Error> {
    if !text.contains(['%', '+']) {
        return Ok(Cow::Borrowed(text));
    }
    let blanks = text.replace('+', " ");
    let decoded =
        percent_decode_str(&blanks).decode_utf8().map_err(|_| Error::malformed(field, "is not UTF-8"))?;
    Ok(Cow::Owned(decoded.into_owned()))
}

/// The first parameter of this name.
///
/// # Errors
/// `Invalid` when it is not UTF-8.
pub(crate) fn first<'a>(query: &'a str, name: &str) -> Result<Option<Cow<'a, str>>, Error> {
    match pairs(query).find(|(key, _)| decode(name, key).is_ok_and(|key| key == name)) {
        Some((_, value)) => decode(name, value).map(Some),
        None => Ok(None),
    }
}

/// Parameter `lastDirtyTimestamp`: milliseconds in 64 signed bits. One before the epoch is older than all others.
///
/// # Errors
/// `Invalid` for other texts.
pub(crate) fn last_dirty(query: &str) -> Result<Option<Wall>, Error> {
    const NAME: &str = "lastDirtyTimestamp";
    let Some(text) = first(query, NAME)? else { return Ok(None) };
    let millis = text.parse::<i64>().map_err(|_| Error::malformed(NAME, "expected milliseconds"))?;
    Ok(Some(Wall(u64::try_from(millis).unwrap_or(0))))
}

/// Parameter `value` of the status calls: one of the five statuses, exactly.
///
/// # Errors
/// `Invalid` for other texts.
pub(crate) fn status_value(query: &str) -> Result<Option<Status>, Error> {
    let Some(text) = first(query, "value")? else { return Ok(None) };
    let wrong = || Error::malformed("value", "expected UP, DOWN, STARTING, OUT_OF_SERVICE or UNKNOWN");
    Status::from_name(&text).map(Some).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_of_equal_names_counts() {
        assert_eq!(first("a=1&b=2&a=3", "a").unwrap().as_deref(), Some("1"));
        assert_eq!(first("a&b", "a").unwrap().as_deref(), Some(""));
        assert_eq!(first("", "a").unwrap(), None);
    }

    #[test]
    fn values_are_form_decoded() {
        assert_eq!(decode("p", "a%20b+c%2Bd").unwrap(), "a b c+d");
        assert_eq!(decode("p", "%zz").unwrap(), "%zz");
        assert_eq!(decode("p", "%C3%A9quipe").unwrap(), "équipe");
        assert!(decode("p", "%ff").is_err());
    }

    #[test]
    fn dirty_timestamps_are_signed_64_bit_numbers() {
        let read = |text: &str| last_dirty(&format!("status=UP&lastDirtyTimestamp={text}"));
        assert_eq!(read("100").unwrap(), Some(Wall(100)));
        assert_eq!(read("%2B100").unwrap(), Some(Wall(100)));
        assert_eq!(read("-1").unwrap(), Some(Wall(0)));
        assert_eq!(last_dirty("status=UP").unwrap(), None);
        for text in ["", "abc", "1.5", "0x10", " 1", "99999999999999999999"] {
            let refusal = read(text).unwrap_err().to_string();
            assert!(refusal.starts_with("lastDirtyTimestamp: "), "{text}: {refusal}");
        }
    }

    #[test]
    fn statuses_are_exact() {
        assert_eq!(status_value("value=OUT_OF_SERVICE").unwrap(), Some(Status::OutOfService));
        assert_eq!(status_value("x=1").unwrap(), None);
        for text in ["value=up", "value=", "value", "value=SIDEWAYS", "value=UP+"] {
            assert!(status_value(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_query_makes_the_reader_fail(query in "([a-zA-Z=&%+é]|value=|lastDirtyTimestamp=|[0-9]){0,40}") {
            let _ = last_dirty(&query);
            let _ = status_value(&query);
            for (key, value) in pairs(&query) {
                let _ = decode("k", key);
                let _ = decode("v", value);
            }
        }
    }
}
