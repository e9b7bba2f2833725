//! JSON as the original writes it: no blanks, no nulls, one shape.

use heureka_model::{Action, Registration};
use serde::Serialize;

use super::dto::{Compact, Full};
use crate::negotiate::Shape;

/// `{"instance":{…}}`.
pub(crate) fn instance_document(out: &mut Vec<u8>, registration: &Registration) {
    out.extend_from_slice(b"{\"instance\":");
    append(out, &Full::of(registration, None));
    out.push(b'}');
}

/// `{…}` in full, without a wrapper.
pub(crate) fn bare_instance(out: &mut Vec<u8>, registration: &Registration) {
    append(out, &Full::of(registration, None));
}

/// Beginning of an application, up to its instances.
pub(crate) fn open_application(out: &mut Vec<u8>, name: &str) {
    out.extend_from_slice(b"{\"name\":");
    append(out, name);
    out.extend_from_slice(b",\"instance\":[");
}

/// One instance without a wrapper.
pub(crate) fn instance(out: &mut Vec<u8>, registration: &Registration, action: Option<Action>, shape: Shape) {
    match shape {
        Shape::Full | Shape::FirstVersion => append(out, &Full::of(registration, action)),
        Shape::Compact => append(out, &Compact::of(registration, action)),
    }
}

/// An object of texts, in their order.
pub(crate) fn map(out: &mut Vec<u8>, pairs: &[(&str, String)]) {
    out.push(b'{');
    for (position, (name, value)) in pairs.iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        append(out, name);
        out.push(b':');
        append(out, value);
    }
    out.push(b'}');
}

/// A value at the end of a document.
pub(crate) fn append<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(out, value)
        .expect("invariant: texts and numbers always encode, and memory takes all");
}
