//! How Spring and Netflix write values, and what ours are for them.

use std::time::Duration;

use toml::Value;

/// Why a value is not carried.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The original would not take it either: what was expected.
    Unusable(&'static str),
    /// Nothing here is like it.
    NoPlace(String),
}

/// From the text of a property to the value of a setting.
pub(super) type Form = fn(&str) -> Result<Value, Refusal>;

pub(super) fn truth(text: &str) -> Result<bool, Refusal> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "on" | "yes" | "1" => Ok(true),
        "false" | "off" | "no" | "0" => Ok(false),
        _ => Err(Refusal::Unusable("expected true or false")),
    }
}

pub(super) fn flag(text: &str) -> Result<Value, Refusal> {
    truth(text).map(Value::from)
}

/// Self-preservation, on or off.
pub(super) fn preservation(text: &str) -> Result<Value, Refusal> {
    truth(text).map(|on| if on { "budget" } else { "off" }.into())
}

pub(super) fn integer(text: &str) -> Result<i64, Refusal> {
    text.trim().parse().map_err(|_| Refusal::Unusable("expected a whole number"))
}

pub(super) fn number(text: &str) -> Result<Value, Refusal> {
    integer(text).map(Value::from)
}

pub(super) fn fraction(text: &str) -> Result<Value, Refusal> {
    let number: Result<f64, _> = text.trim().parse();
    number.map(Value::from).map_err(|_| Refusal::Unusable("expected a number such as 0.85"))
}

pub(super) fn word(text: &str) -> Result<Value, Refusal> {
    Ok(text.trim().into())
}

/// A level of Java's loggers.
pub(super) fn level(text: &str) -> Result<Value, Refusal> {
    match text.trim().to_ascii_lowercase().as_str() {
        "fatal" => Ok("error".into()),
        // YAML reads the bare word as a truth value.
        "off" | "false" => Ok("off".into()),
        level @ ("trace" | "debug" | "info" | "warn" | "error") => Ok(level.into()),
        _ => Err(Refusal::Unusable("expected trace, debug, info, warn, error or off")),
    }
}

/// A path prefix; `/` stands for none.
pub(super) fn prefix(text: &str) -> Result<Value, Refusal> {
    let text = text.trim();
    Ok(if text == "/" { "" } else { text }.into())
}

pub(super) fn millis(text: &str) -> Result<Value, Refusal> {
    duration(text, "ms").map(shown)
}

pub(super) fn seconds(text: &str) -> Result<Value, Refusal> {
    duration(text, "s").map(shown)
}

fn shown(duration: Duration) -> Value {
    humantime::format_duration(duration).to_string().into()
}

const EXPECTED: Refusal = Refusal::Unusable("expected a duration such as 30000, 30s or PT30S");

/// `30000`, `30s`, `PT30S`; a bare number counts the given unit.
pub(super) fn duration(text: &str, unit: &str) -> Result<Duration, Refusal> {
    let text = text.trim().to_ascii_lowercase();
    let (text, negative) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (rest, text.starts_with('-')),
        None => (&*text, false),
    };
    let nanos = match text.strip_prefix('p') {
        Some(parts) => iso(parts),
        None => simple(text, unit),
    };
    let duration =
        nanos.and_then(|nanos| u64::try_from(nanos).ok()).map(Duration::from_nanos).ok_or(EXPECTED)?;
    if negative && !duration.is_zero() {
        return Err(Refusal::NoPlace("durations are not negative here".into()));
    }
    Ok(duration)
}

const UNITS: [(&str, u128); 7] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", SECOND),
    ("m", 60 * SECOND),
    ("h", 3600 * SECOND),
    ("d", 86_400 * SECOND),
];
const SECOND: u128 = 1_000_000_000;

fn simple(text: &str, unit: &str) -> Option<u128> {
    let (number, named) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let named = if named.is_empty() { unit } else { named };
    let factor = UNITS.iter().find(|(name, _)| *name == named)?.1;
    number.parse::<u128>().ok()?.checked_mul(factor)
}

/// `1dt2h3m4.5s` of ISO 8601, in lower case and without the `p`.
fn iso(text: &str) -> Option<u128> {
    let (days, time) = text.split_once('t').unwrap_or((text, ""));
    let mut rest = time;
    let mut sum = if days.is_empty() { 0 } else { part(&mut &*days, 'd')? };
    for (unit, factor) in [('h', 3600), ('m', 60), ('s', 1)] {
        if rest.contains(unit) {
            sum = sum.checked_add(part(&mut rest, unit)?.checked_mul(factor)?)?;
        }
    }
    (rest.is_empty() && text.ends_with(|c: char| c.is_ascii_alphabetic() && c != 't')).then_some(sum)
}

/// A number before its unit in nanoseconds of a second; for days, of a day.
fn part(rest: &mut &str, unit: char) -> Option<u128> {
    let (number, after) = rest.split_once(unit)?;
    *rest = after;
    let (whole, fraction) = number.split_once(['.', ',']).unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole)
        || !digits(fraction)
        || fraction.len() > 9
        || (unit != 's' && whole.len() != number.len())
    {
        return None;
    }
    let nanos: u128 = format!("{fraction:0<9}").parse().ok()?;
    let one = if unit == 'd' { 86_400 * SECOND } else { SECOND };
    whole.parse::<u128>().ok()?.checked_mul(one)?.checked_add(nanos)
}

/// `8KB`, in steps of 1024; a bare number counts bytes.
pub(super) fn size(text: &str) -> Result<Value, Refusal> {
    let text = text.trim();
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let shift = match unit {
        "" | "B" => 0,
        "KB" => 10,
        "MB" => 20,
        "GB" => 30,
        "TB" => 40,
        _ => return Err(Refusal::Unusable("expected a size such as 8KB")),
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    let bytes = bytes.ok_or(Refusal::Unusable("expected a size such as 8KB"))?;
    Ok(format!("{bytes}B").into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_read_in_every_form() {
        let table = [
            ("30000", "ms", 30_000),
            ("30", "s", 30_000),
            (" 30s ", "ms", 30_000),
            ("250ms", "s", 250),
            ("2m", "ms", 120_000),
            ("1H", "ms", 3_600_000),
            ("2d", "ms", 172_800_000),
            ("1000000ns", "ms", 1),
            ("5000us", "ms", 5),
            ("PT30S", "ms", 30_000),
            ("pt1m30.5s", "ms", 90_500),
            ("P1DT1H", "ms", 90_000_000),
            ("P2D", "ms", 172_800_000),
            ("+5s", "ms", 5_000),
            ("-0", "ms", 0),
        ];
        for (text, unit, millis) in table {
            assert_eq!(duration(text, unit), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert!(matches!(duration("-1", "ms"), Err(Refusal::NoPlace(_))));
        for text in [
            "", "s", "1.5s", "1x", "1 s", "1h30m", "P", "PT", "PT1", "PT1X", "PT1M1H", "P1H", "--1", "1e3",
            "PT1.5M",
        ] {
            assert_eq!(duration(text, "ms"), Err(EXPECTED), "{text}");
        }
    }

    #[test]
    fn truths_sizes_and_levels_are_springs() {
        for (text, value) in
            [("TRUE", true), ("on", true), ("Yes", true), ("1", true), ("off", false), ("0", false)]
        {
            assert_eq!(truth(text), Ok(value));
        }
        assert!(truth("maybe").is_err() && truth("").is_err());
        for (text, value) in [("8KB", "8192B"), ("8192", "8192B"), ("16B", "16B"), ("1MB", "1048576B")] {
            assert_eq!(size(text), Ok(value.into()));
        }
        for text in ["8kb", "-1", "KB", "1.5MB", "99999999999999999999"] {
            assert!(size(text).is_err(), "{text}");
        }
        assert_eq!((level("WARN"), level("FATAL")), (Ok("warn".into()), Ok("error".into())));
        assert!(level("loud").is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,20}|[-+pPtTdhmsnu0-9.,]{0,20}") {
            let _ = (duration(&text, "ms"), size(&text), truth(&text), level(&text), fraction(&text), number(&text));
        }
    }
}
