//! The documents: JSON and XML, in and out.

pub(crate) mod batch;
mod draft;
mod dto;
pub(crate) mod json;
pub(crate) mod json_reader;
pub(crate) mod list_reader;
pub(crate) mod native;
mod scalar;
pub(crate) mod status;
mod xml;
mod xml_names;
mod xml_reader;

use std::borrow::Borrow;

use heureka_model::{Action, Registration};

pub(crate) use draft::{Draft, Parsed};
pub(crate) use scalar::Scalar;

use crate::error::Error;
use crate::negotiate::{Format, Shape};

/// Reads a registration body.
///
/// # Errors
/// `Body` when it is no such document, `Invalid` when a member cannot be meant.
pub(crate) fn read_instance(body: &[u8], format: Format) -> Result<Draft, Error> {
    if format == Format::Xml && declares_latin(body) {
        return xml_reader::read_instance(&body.iter().map(|byte| char::from(*byte)).collect::<String>());
    }
    let text = std::str::from_utf8(body).map_err(|_| Error::Body("the text is not UTF-8".into()))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match format {
        Format::Json => json_reader::read_instance(text),
        Format::Xml => xml_reader::read_instance(text),
    }
}

/// Whether a document declares to be in ISO 8859-1, the one encoding beside UTF-8 that is read.
fn declares_latin(body: &[u8]) -> bool {
    let declaration = body.strip_prefix(b"<?xml").and_then(|rest| rest.split(|byte| *byte == b'>').next());
    let mut words = declaration.into_iter().flat_map(|text| text.split(|byte| matches!(byte, b'"' | b'\'')));
    // The whole word: ISO 8859-15 is another encoding.
    words.any(|word| word.eq_ignore_ascii_case(b"iso-8859-1"))
}

/// One instance as a document of its own.
pub(crate) fn instance_document(registration: &Registration, format: Format, shape: Shape) -> Vec<u8> {
    let mut out = Vec::with_capacity(2048);
    match format {
        Format::Json => json::instance_document(&mut out, registration),
        Format::Xml => xml::instance_document(&mut out, registration, shape),
    }
    out
}

/// One application as a document of its own.
pub(crate) fn application_document<R: Borrow<Registration>>(
    name: &str,
    instances: impl Iterator<Item = (Option<Action>, R)>,
    format: Format,
    shape: Shape,
) -> Vec<u8> {
    let (before, after): (&[u8], &[u8]) = match format {
        Format::Json => (b"{\"application\":", b"}"),
        Format::Xml => (b"", b""),
    };
    let mut out = before.to_vec();
    application(&mut out, name, instances, format, shape);
    out.extend_from_slice(after);
    out
}

/// One application as a member of a list. JSON members are separated by [`separator`].
pub(crate) fn application<R: Borrow<Registration>>(
    out: &mut Vec<u8>,
    name: &str,
    instances: impl Iterator<Item = (Option<Action>, R)>,
    format: Format,
    shape: Shape,
) {
    open_application(out, name, format);
    for (position, (action, registration)) in instances.enumerate() {
        if position > 0 {
            out.extend_from_slice(separator(format));
        }
        instance(out, registration.borrow(), action, format, shape);
    }
    close_application(out, format);
}

/// Beginning of an application, up to its instances.
pub(crate) fn open_application(out: &mut Vec<u8>, name: &str, format: Format) {
    match format {
        Format::Json => json::open_application(out, name),
        Format::Xml => xml::open_application(out, name),
    }
}

/// One instance inside an application.
pub(crate) fn instance(
    out: &mut Vec<u8>,
    registration: &Registration,
    action: Option<Action>,
    format: Format,
    shape: Shape,
) {
    match format {
        Format::Json => json::instance(out, registration, action, shape),
        Format::Xml => xml::instance(out, registration, action, shape),
    }
}

/// End of an application.
pub(crate) fn close_application(out: &mut Vec<u8>, format: Format) {
    out.extend_from_slice(match format {
        Format::Json => b"]}",
        Format::Xml => b"</application>",
    });
}

/// What stands between two members of a list.
pub(crate) fn separator(format: Format) -> &'static [u8] {
    match format {
        Format::Json => b",",
        Format::Xml => b"",
    }
}

/// Beginning of a list of applications, up to its first member.
pub(crate) fn open_list(version: &str, hash: &str, format: Format) -> Vec<u8> {
    match format {
        Format::Json => format!(
            "{{\"applications\":{{\"versions__delta\":\"{version}\",\"apps__hashcode\":\"{hash}\",\"application\":["
        ),
        Format::Xml => format!(
            "<applications><versions__delta>{version}</versions__delta><apps__hashcode>{hash}</apps__hashcode>"
        ),
    }
    .into_bytes()
}

/// End of a list of applications.
pub(crate) fn close_list(format: Format) -> &'static [u8] {
    match format {
        Format::Json => b"]}}",
        Format::Xml => b"</applications>",
    }
}

/// Beginning of a list whose hash is known only at its end.
pub(crate) fn open_unhashed_list(format: Format) -> &'static [u8] {
    match format {
        Format::Json => b"{\"applications\":{\"application\":[",
        Format::Xml => b"<applications>",
    }
}

/// End of a list whose hash was not known at its beginning. Readers find members by name, not by place.
pub(crate) fn close_unhashed_list(version: &str, hash: &str, format: Format) -> Vec<u8> {
    match format {
        Format::Json => {
            format!("],\"versions__delta\":\"{version}\",\"apps__hashcode\":\"{hash}\"}}}}").into_bytes()
        }
        Format::Xml => format!(
            "<versions__delta>{version}</versions__delta><apps__hashcode>{hash}</apps__hashcode></applications>"
        )
        .into_bytes(),
    }
}
