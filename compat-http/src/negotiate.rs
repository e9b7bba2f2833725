//! What a caller reads and what it sent: `Accept`, `Accept-Encoding`, `Content-Type` and the legacy headers.

use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};

use crate::error::Error;
use crate::routes::path::Version;

/// Document format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Format {
    /// JSON.
    Json,
    /// XML, the default of this surface.
    Xml,
}

/// How much of an instance is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Shape {
    /// Everything.
    Full,
    /// What `X-Eureka-Accept: compact` asks for.
    Compact,
    /// Everything, with the statuses of the first version of the surface. Only in XML.
    FirstVersion,
}

impl Format {
    /// The type that goes with a body of this format.
    pub(crate) fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Json => "application/json",
            Self::Xml => "application/xml",
        })
    }

    /// JSON exactly when `Accept` contains `json`, whatever else it says; nobody gets a 406.
    pub(crate) fn accepted(headers: &HeaderMap) -> Self {
        let json = |value: &HeaderValue| contains_ignoring_case(value.as_bytes(), b"json");
        if headers.get_all(ACCEPT).iter().any(json) { Self::Json } else { Self::Xml }
    }

    /// Format of a body that was sent, by its type. The charset may be absent or one that ASCII is part of: the
    /// bytes are read as UTF-8 in any case.
    ///
    /// # Errors
    /// `MediaType` for other types, `Invalid` for what is no type at all.
    pub(crate) fn sent(headers: &HeaderMap) -> Result<Self, Error> {
        let value = headers.get(CONTENT_TYPE).ok_or(Error::MediaType)?;
        let text = value.to_str().map_err(|_| not_a_type())?;
        let mut parts = text.split(';').map(str::trim);
        let essence = parts.next().unwrap_or_default();
        let (kind, subtype) = essence.split_once('/').ok_or_else(not_a_type)?;
        if kind.is_empty() || subtype.is_empty() || essence.contains(',') {
            return Err(not_a_type());
        }
        if !parts.all(is_utf8_or_no_charset) {
            return Err(Error::MediaType);
        }
        match essence.to_ascii_lowercase().as_str() {
            "application/json" => Ok(Self::Json),
            "application/xml" | "application/*" | "*/*" => Ok(Self::Xml),
            _ => Err(Error::MediaType),
        }
    }
}

impl Shape {
    /// The shape of lists: compact where `X-Eureka-Accept` says so.
    pub(crate) fn accepted(headers: &HeaderMap, format: Format, version: Version) -> Self {
        match headers.get("x-eureka-accept") {
            Some(value) if value.as_bytes().eq_ignore_ascii_case(b"compact") => Self::Compact,
            _ => Self::whole(format, version),
        }
    }

    /// The shape of a single instance, which nobody gets in the compact one.
    pub(crate) fn whole(format: Format, version: Version) -> Self {
        if format == Format::Xml && version == Version::V1 { Self::FirstVersion } else { Self::Full }
    }
}

/// Whether the caller reads gzip: any coding with `gzip` in its name, unless it is refused with `q=0`.
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        name.to_ascii_lowercase().contains("gzip") && !is_zero_weight(weight)
    })
}

/// Whether the body that was sent is compressed.
///
/// # Errors
/// `ContentEncoding` for anything but gzip and identity.
pub(crate) fn is_gzipped(headers: &HeaderMap) -> Result<bool, Error> {
    let Some(value) = headers.get(CONTENT_ENCODING) else { return Ok(false) };
    match value.to_str().unwrap_or("?").trim().to_ascii_lowercase().as_str() {
        "gzip" | "x-gzip" => Ok(true),
        "identity" | "" => Ok(false),
        _ => Err(Error::ContentEncoding),
    }
}

fn not_a_type() -> Error {
    Error::malformed("Content-Type", "is no media type")
}

fn is_utf8_or_no_charset(parameter: &str) -> bool {
    let Some((name, value)) = parameter.split_once('=') else { return true };
    let charset = value.trim().trim_matches('"');
    !name.trim().eq_ignore_ascii_case("charset")
        || ["utf-8", "utf8", "iso-8859-1", "us-ascii"].iter().any(|known| charset.eq_ignore_ascii_case(known))
}

fn is_zero_weight(parameters: &str) -> bool {
    parameters.split(';').any(|parameter| {
        let Some((name, weight)) = parameter.split_once('=') else { return false };
        name.trim().eq_ignore_ascii_case("q") && weight.trim().parse() == Ok(0.0_f32)
    })
}

fn contains_ignoring_case(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderName;

    fn headers(name: &HeaderName, values: &[&'static str]) -> HeaderMap {
        values.iter().map(|value| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn json_is_told_exactly_when_accept_contains_it() {
        let json = [
            "application/json",
            "application/json;charset=utf-8",
            " application/json",
            "application/json, application/*+json",
            "application/vnd.x+json",
            "text/html;q=0.9, application/json;q=0",
            "APPLICATION/JSON",
        ];
        for accept in json {
            assert_eq!(Format::accepted(&headers(&ACCEPT, &[accept])), Format::Json, "{accept}");
        }
        for accept in ["*/*", "application/xml", "text/html", "nonsense", "", "js on"] {
            assert_eq!(Format::accepted(&headers(&ACCEPT, &[accept])), Format::Xml, "{accept}");
        }
        assert_eq!(Format::accepted(&HeaderMap::new()), Format::Xml);
        assert_eq!(
            Format::accepted(&headers(&ACCEPT, &["application/xml", "application/json"])),
            Format::Json
        );
    }

    #[test]
    fn body_types_are_taken_or_refused_as_the_original_does() {
        let table = [
            ("application/json", Some(Format::Json)),
            ("Application/JSON; charset=UTF-8", Some(Format::Json)),
            ("application/json;charset=\"utf-8\"", Some(Format::Json)),
            ("application/xml;charset=ISO-8859-1", Some(Format::Xml)),
            ("application/*", Some(Format::Xml)),
            ("application/json;charset=utf-16", None),
            ("text/json", None),
            ("text/xml", None),
            ("application/vnd.api+json", None),
            ("application/octet-stream", None),
        ];
        for (text, expected) in table {
            assert_eq!(Format::sent(&headers(&CONTENT_TYPE, &[text])).ok(), expected, "{text}");
        }
        for text in ["", "json", "/json", "application/", "application/json, application/json"] {
            let refusal = Format::sent(&headers(&CONTENT_TYPE, &[text])).unwrap_err();
            assert!(matches!(refusal, Error::Invalid(_)), "{text}");
        }
        assert!(matches!(Format::sent(&HeaderMap::new()), Err(Error::MediaType)));
    }

    #[test]
    fn gzip_is_a_substring_unless_its_weight_is_zero() {
        for yes in ["gzip", "x-gzip", "deflate, gzip;q=0.1", "GZIP", "br;q=0, gzip"] {
            assert!(accepts_gzip(&headers(&ACCEPT_ENCODING, &[yes])), "{yes}");
        }
        for no in
            ["", "identity", "gzip;q=0", "gzip; q=0.0", "gzip ; Q = 0", "gzip;x=1;q=0.000", "*", "deflate"]
        {
            assert!(!accepts_gzip(&headers(&ACCEPT_ENCODING, &[no])), "{no}");
        }
    }
}
