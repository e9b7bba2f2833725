//! What plain words mean in YAML 1.1, which Spring reads: the parser here speaks 1.2.

/// The text that Spring makes of a plain word.
pub(super) fn plain(word: &str) -> String {
    match word {
        "~" | "null" | "Null" | "NULL" => String::new(),
        "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "true" | "True" | "TRUE" => "true".to_owned(),
        "no" | "No" | "NO" | "off" | "Off" | "OFF" | "false" | "False" | "FALSE" => "false".to_owned(),
        other => whole_number(other).map_or_else(|| other.to_owned(), |number| number.to_string()),
    }
}

/// `1_000`, `0x1F`, `0b11`, and octal numbers behind a zero.
fn whole_number(word: &str) -> Option<i64> {
    let (sign, digits) = match word.strip_prefix(['-', '+']) {
        Some(digits) if word.starts_with('-') => (-1, digits),
        Some(digits) => (1, digits),
        None => (1, word),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let plain = digits.replace('_', "");
    let (radix, plain) = match plain.get(..2) {
        Some("0x") => (16, &plain[2..]),
        Some("0b") => (2, &plain[2..]),
        Some(_) if plain.starts_with('0') => (8, &plain[1..]),
        _ => (10, &*plain),
    };
    // The standard library would take a second sign.
    let number = plain
        .chars()
        .all(|c| c.is_ascii_alphanumeric())
        .then(|| i64::from_str_radix(plain, radix).ok())??;
    number.checked_mul(sign)
}
