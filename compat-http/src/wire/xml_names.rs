//! Map keys as element names, in the coding that the original's writer uses and relabel rules are written for:
//! `_` is doubled, `$` becomes `_-`, and each UTF-16 unit of a character that a name may not hold at its place
//! becomes `_.` and four hexadecimal digits.
//!
//! One addition: `:` is coded as well. It is legal in a name, but readers that know namespaces take it for a
//! prefix that nobody declared and refuse the document.

/// Appends `key` as an element name. The empty key has none; the caller leaves it out.
pub(crate) fn encode(out: &mut Vec<u8>, key: &str) {
    for (position, character) in key.chars().enumerate() {
        match character {
            '_' => out.extend_from_slice(b"__"),
            '$' => out.extend_from_slice(b"_-"),
            character if may_stand(character, position == 0) => {
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
            character => escape(out, character),
        }
    }
}

fn escape(out: &mut Vec<u8>, character: char) {
    for unit in character.encode_utf16(&mut [0; 2]) {
        out.extend_from_slice(format!("_.{unit:04x}").as_bytes());
    }
}

/// The key that an element name stands for. A `_` that begins no escape is itself.
pub(crate) fn decode(name: &str) -> String {
    if !name.contains('_') {
        return name.to_owned();
    }
    let mut units: Vec<u16> = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some(character) = rest.chars().next() {
        let Some((unit, length)) = escape_at(rest) else {
            units.extend_from_slice(character.encode_utf16(&mut [0; 2]));
            rest = &rest[character.len_utf8()..];
            continue;
        };
        units.push(unit);
        rest = &rest[length..];
    }
    String::from_utf16_lossy(&units)
}

/// The escape that `text` begins with: its UTF-16 unit and its length.
fn escape_at(text: &str) -> Option<(u16, usize)> {
    if text.starts_with("__") {
        return Some((u16::from(b'_'), 2));
    }
    if text.starts_with("_-") {
        return Some((u16::from(b'$'), 2));
    }
    let digits = text.strip_prefix("_.")?.get(..4)?;
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    Some((u16::from_str_radix(digits, 16).ok()?, 6))
}

/// Whether a name may hold the character. Of the letters only those that the oldest edition of XML 1.0 knows, in
/// the scripts met most: parsers in use still go by it. Others are coded, which any reader can undo.
fn may_stand(character: char, first: bool) -> bool {
    let letter = matches!(character,
        'A'..='Z' | '_' | 'a'..='z'
        | 'À'..='Ö' | 'Ø'..='ö' | 'ø'..='ı' | 'Ĵ'..='ľ' | 'Ł'..='ň' | 'Ŋ'..='ž'
        | 'Α'..='Ρ' | 'Σ'..='ώ' | 'Ё'..='Ќ' | 'Ў'..='я' | 'ё'..='ќ' | 'ў'..='ҁ'
        | 'א'..='ת' | 'ء'..='غ' | 'ف'..='ي'
        | 'ぁ'..='ん' | 'ァ'..='ヺ' | '一'..='\u{9fa5}' | '가'..='힣');
    letter || (!first && matches!(character, '-' | '.' | '0'..='9'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(key: &str) -> String {
        let mut out = Vec::new();
        encode(&mut out, key);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn keys_are_coded_as_the_original_does() {
        for (key, name) in [
            ("my_key", "my__key"),
            ("metrics_path", "metrics__path"),
            ("$r", "_-r"),
            ("odd key$1", "odd_.0020key_-1"),
            ("1st", "_.0031st"),
            ("@class", "_.0040class"),
            ("prometheus.io/scrape", "prometheus.io_.002fscrape"),
            ("c:d", "c_.003ad"),
            ("-x", "_.002dx"),
            ("場所", "場所"),
            ("é", "é"),
            ("\u{1}", "_.0001"),
            ("🚀", "_.d83d_.de80"),
        ] {
            assert_eq!(encoded(key), name);
            assert_eq!(decode(name), key);
        }
    }

    #[test]
    fn an_underscore_that_begins_no_escape_is_itself() {
        for (name, key) in
            [("a_b", "a_b"), ("_x", "_x"), ("_.00", "_.00"), ("_.zzzz", "_.zzzz"), ("a_", "a_")]
        {
            assert_eq!(decode(name), key);
        }
    }

    proptest! {
        #[test]
        fn every_key_survives_the_round_trip(key in ".{1,40}") {
            prop_assert_eq!(decode(&encoded(&key)), key);
        }

        #[test]
        fn no_name_makes_the_decoder_fail(name in ".{0,40}") {
            let _ = decode(&name);
        }
    }
}
