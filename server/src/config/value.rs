//! How settings read and look as text.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// A number of bytes, written `64MiB`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

/// What a source says about a setting, before it is understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Raw {
    /// A single value.
    One(String),
    /// A TOML array.
    Many(Vec<String>),
    /// Bytes that are not UTF-8.
    NoText,
}

/// A type that settings have.
pub(super) trait Value: Sized {
    /// What a reader of the documentation may write.
    const KIND: &'static str;

    /// Understands a source's words, or says what was expected.
    fn parse(raw: &Raw) -> Result<Self, String>;

    /// The value as it stands in a configuration file; parses back to itself.
    fn show(&self) -> toml::Value;
}

/// Puts what a source says into its place.
pub(super) fn set<T: Value>(slot: &mut T, raw: &Raw) -> Result<(), String> {
    *slot = T::parse(raw)?;
    Ok(())
}

impl Raw {
    /// The words of a TOML value; nothing for a table or a list of lists, which no setting is.
    pub(super) fn from_toml(value: &toml::Value) -> Option<Self> {
        match value {
            toml::Value::Array(items) => items.iter().map(scalar).collect::<Option<_>>().map(Self::Many),
            other => scalar(other).map(Self::One),
        }
    }

    /// Items of a list.
    pub(super) fn items(&self) -> Result<Vec<String>, String> {
        match self {
            Self::Many(items) => Ok(items.clone()),
            one => {
                let items = one.one()?.split(',').filter(|item| !item.trim().is_empty());
                Ok(items.map(str::to_owned).collect())
            }
        }
    }

    fn one(&self) -> Result<&str, String> {
        match self {
            Self::One(text) => Ok(text.trim()),
            Self::Many(_) => Err("expected one value, got a list".into()),
            Self::NoText => Err("is not valid UTF-8".into()),
        }
    }
}

/// A list of what holds secrets: a TOML array, or items between commas. A refusal tells the place of an item and not
/// the item.
pub(super) fn secrets<T>(raw: &Raw, read: fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    let items: Vec<&str> = match raw {
        Raw::Many(items) => items.iter().map(String::as_str).collect(),
        Raw::One(text) => text.split(',').filter(|item| !item.trim().is_empty()).collect(),
        Raw::NoText => return Err("is not valid UTF-8".into()),
    };
    let numbered = items.into_iter().enumerate();
    numbered
        .map(|(place, item)| read(item).map_err(|reason| format!("item {}: {reason}", place + 1)))
        .collect()
}

fn scalar(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Array(_) | toml::Value::Table(_) => None,
        other => Some(other.to_string()),
    }
}

/// Parses with the type's own `FromStr`.
fn standard<T: std::str::FromStr>(raw: &Raw, expected: &str) -> Result<T, String> {
    let text = raw.one()?;
    text.parse().map_err(|_| format!("expected {expected}, got {text:?}"))
}

impl Value for bool {
    const KIND: &'static str = "`true` or `false`";

    fn parse(raw: &Raw) -> Result<Self, String> {
        standard(raw, "true or false")
    }

    fn show(&self) -> toml::Value {
        (*self).into()
    }
}

impl Value for u32 {
    const KIND: &'static str = "number";

    fn parse(raw: &Raw) -> Result<Self, String> {
        standard(raw, "a whole number")
    }

    fn show(&self) -> toml::Value {
        i64::from(*self).into()
    }
}

impl Value for f64 {
    const KIND: &'static str = "fraction";

    fn parse(raw: &Raw) -> Result<Self, String> {
        standard(raw, "a number")
    }

    fn show(&self) -> toml::Value {
        (*self).into()
    }
}

impl Value for String {
    const KIND: &'static str = "text";

    fn parse(raw: &Raw) -> Result<Self, String> {
        raw.one().map(str::to_owned)
    }

    fn show(&self) -> toml::Value {
        self.as_str().into()
    }
}

impl Value for Duration {
    const KIND: &'static str = "duration, `30s`";

    fn parse(raw: &Raw) -> Result<Self, String> {
        let text = raw.one()?;
        humantime::parse_duration(text)
            .map_err(|_| format!("expected a duration such as 30s or 5m, got {text:?}"))
    }

    fn show(&self) -> toml::Value {
        humantime::format_duration(*self).to_string().into()
    }
}

const UNITS: [(&str, u64); 8] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1000),
    ("B", 1),
    ("", 1),
];

impl Value for Bytes {
    const KIND: &'static str = "size, `64MiB`";

    fn parse(raw: &Raw) -> Result<Self, String> {
        let text = raw.one()?;
        let expected = || format!("expected a size such as 64MiB, got {text:?}");
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let factor = UNITS.iter().find(|(name, _)| *name == unit.trim()).ok_or_else(expected)?.1;
        let number: u64 = number.parse().map_err(|_| expected())?;
        number.checked_mul(factor).map(Self).ok_or_else(expected)
    }

    fn show(&self) -> toml::Value {
        let exact = UNITS[..3].iter().find(|(_, factor)| self.0 != 0 && self.0.is_multiple_of(*factor));
        let (unit, factor) = exact.copied().unwrap_or(("B", 1));
        format!("{}{unit}", self.0 / factor).into()
    }
}

impl Value for SocketAddr {
    const KIND: &'static str = "`address:port`, or `:port` for every address";

    fn parse(raw: &Raw) -> Result<Self, String> {
        let text = raw.one()?;
        let full = if text.starts_with(':') { format!("[::]{text}") } else { text.to_owned() };
        full.parse()
            .map_err(|_| format!("expected an IP address and a port such as 127.0.0.1:8761, got {text:?}"))
    }

    fn show(&self) -> toml::Value {
        self.to_string().into()
    }
}

impl Value for IpAddr {
    const KIND: &'static str = "IP address";

    fn parse(raw: &Raw) -> Result<Self, String> {
        standard(raw, "an IP address").map(|ip: Self| ip.to_canonical())
    }

    fn show(&self) -> toml::Value {
        self.to_string().into()
    }
}

/// A list: a TOML array, or in an environment variable items between commas.
impl Value for Vec<IpAddr> {
    const KIND: &'static str = "list of IP addresses";

    fn parse(raw: &Raw) -> Result<Self, String> {
        raw.items()?.into_iter().map(|item| IpAddr::parse(&Raw::One(item))).collect()
    }

    fn show(&self) -> toml::Value {
        toml::Value::Array(self.iter().map(Value::show).collect())
    }
}

/// Writes [`Value`] for an enum without fields from its words.
macro_rules! words {
    ($type:ty, $kind:literal, $($word:literal => $variant:path),+ $(,)?) => {
        impl $crate::config::value::Value for $type {
            const KIND: &'static str = $kind;

            fn parse(raw: &$crate::config::value::Raw) -> Result<Self, String> {
                match String::parse(raw)?.as_str() {
                    $($word => Ok($variant),)+
                    other => Err(format!("expected one of {}, got {other:?}", [$($word),+].join(", "))),
                }
            }

            fn show(&self) -> toml::Value {
                match self { $($variant => $word.into(),)+ }
            }
        }
    };
}
pub(super) use words;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one<T: Value>(text: &str) -> Result<T, String> {
        T::parse(&Raw::One(text.into()))
    }

    #[test]
    fn sizes_take_binary_and_decimal_units() {
        for (text, bytes) in
            [("0", 0), ("7", 7), ("7B", 7), ("2kB", 2000), ("64MiB", 64 << 20), ("4 GiB", 4 << 30)]
        {
            assert_eq!(one::<Bytes>(text), Ok(Bytes(bytes)), "{text}");
        }
    }

    #[test]
    fn bad_sizes_are_refused() {
        for text in ["", "MiB", "-1", "1.5GiB", "12 parsecs", "99999999999GiB", "0x10"] {
            assert!(one::<Bytes>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_port_alone_means_every_address() {
        assert_eq!(one::<SocketAddr>(":8761"), Ok("[::]:8761".parse().unwrap()));
    }

    #[test]
    fn lists_come_as_arrays_or_between_commas() {
        let expected: Vec<IpAddr> = vec!["10.0.0.1".parse().unwrap(), "::1".parse().unwrap()];
        assert_eq!(one::<Vec<IpAddr>>("10.0.0.1, ::1"), Ok(expected.clone()));
        let array = Raw::Many(vec!["::ffff:10.0.0.1".into(), "::1".into()]);
        assert_eq!(Vec::<IpAddr>::parse(&array), Ok(expected));
        assert_eq!(one::<Vec<IpAddr>>(""), Ok(vec![]));
    }

    #[test]
    fn a_list_is_refused_where_one_value_belongs() {
        assert!(bool::parse(&Raw::Many(vec!["true".into()])).is_err());
    }

    proptest! {
        #[test]
        fn sizes_print_as_they_read(bytes: u64) {
            let shown = Raw::from_toml(&Bytes(bytes).show()).unwrap();
            prop_assert_eq!(Bytes::parse(&shown), Ok(Bytes(bytes)));
        }

        #[test]
        fn durations_print_as_they_read(millis in 0..u64::from(u32::MAX)) {
            let duration = Duration::from_millis(millis);
            let shown = Raw::from_toml(&duration.show()).unwrap();
            prop_assert_eq!(Duration::parse(&shown), Ok(duration));
        }

        #[test]
        fn any_text_is_taken_or_refused_without_panic(text: String) {
            let _ = one::<Bytes>(&text).map(drop);
            let _ = one::<Duration>(&text).map(drop);
            let _ = one::<SocketAddr>(&text).map(drop);
            let _ = one::<Vec<IpAddr>>(&text).map(drop);
        }
    }
}
