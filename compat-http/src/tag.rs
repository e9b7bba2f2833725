//! `ETag` and `If-None-Match`: whoever holds what a list says is told so instead of the list.
//!
//! A tag is made of the number at which a document was true and of its form, and costs no look at the document. It is weak:
//! documents of one tag say the same of everything but the times of renewals, in any compression. A document may know of more
//! than its tag says, never of less.

use std::fmt;

use axum::body::Body;
use http::header::{ETAG, IF_NONE_MATCH, VARY};
use http::request::Parts;
use http::{HeaderValue, Response};

use crate::cache::Kind;
use crate::error::Error;
use crate::negotiate::{Format, Shape};

/// What of a request decides about the form.
const FORM: &str = "Accept, Accept-Encoding, X-Eureka-Accept";

/// What stands for a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    boot: u64,
    number: u64,
    form: &'static str,
}

impl Tag {
    /// The tag of a document in this form, at this number of a life of the server.
    pub(crate) fn new(boot: u64, number: u64, kind: Kind) -> Self {
        let form = match (kind.format, kind.shape) {
            (Format::Json, Shape::Compact) => "jc",
            (Format::Json, _) => "j",
            (Format::Xml, Shape::Full) => "x",
            (Format::Xml, Shape::Compact) => "xc",
            (Format::Xml, Shape::FirstVersion) => "x1",
        };
        Self { boot, number, form }
    }

    /// # Errors
    /// `Held` when the caller holds a document of this tag.
    pub(crate) fn refuse_held(self, parts: &Parts) -> Result<(), Error> {
        let mut lists = parts.headers.get_all(IF_NONE_MATCH).iter().peekable();
        if lists.peek().is_none() {
            return Ok(());
        }
        let own = self.to_string();
        let tags = lists.filter_map(|list| list.to_str().ok()).flat_map(|list| list.split(','));
        let held = tags.map(str::trim).any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == own);
        if held { Err(Error::Held(self)) } else { Ok(()) }
    }

    /// Says what the document of the answer is called.
    pub(crate) fn mark(self, answer: &mut Response<Body>) {
        let value = HeaderValue::try_from(format!("W/{self}")).expect("invariant: digits and letters");
        answer.headers_mut().insert(ETAG, value);
        answer.headers_mut().insert(VARY, HeaderValue::from_static(FORM));
    }
}

/// Without the mark of a weak one, which counts for nothing where tags are compared.
impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{:x}-{:x}-{}\"", self.boot, self.number, self.form)
    }
}
