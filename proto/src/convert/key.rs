//! Instance keys.

use std::borrow::Cow;

use heureka_model::{InstanceKey, Invalid, KeyRef, canonical_app};

use crate::{served, v1};

/// A key as it stands in a message, its application in upper case. Allocates only when that changes it, so that
/// a renewal does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BorrowedKey<'a> {
    namespace: &'a str,
    app: Cow<'a, str>,
    id: &'a str,
}

impl<'a> BorrowedKey<'a> {
    /// The key of a message in which it is required. Sizes are not checked: no stored key exceeds them.
    ///
    /// # Errors
    /// `key`, `key.app` or `key.id` is absent.
    pub fn required(key: Option<&'a v1::InstanceKey>) -> Result<Self, Invalid> {
        let key = key.ok_or_else(|| Invalid::missing("key"))?;
        Self::new(&key.namespace, &key.app, &key.id)
    }

    /// The same of a key whose texts have not been read yet.
    ///
    /// # Errors
    /// As [`required`](Self::required), or a text is no UTF-8.
    pub fn unread(key: Option<&'a served::InstanceKey>) -> Result<Self, Invalid> {
        let key = key.ok_or_else(|| Invalid::missing("key"))?;
        let text = |field: &str, bytes: &'a [u8]| {
            std::str::from_utf8(bytes).map_err(|_| Invalid::malformed(field, "is no UTF-8"))
        };
        let namespace = text("key.namespace", &key.namespace)?;
        Self::new(namespace, text("key.app", &key.app)?, text("key.id", &key.id)?)
    }

    fn new(namespace: &'a str, app: &'a str, id: &'a str) -> Result<Self, Invalid> {
        if app.is_empty() {
            return Err(Invalid::missing("key.app"));
        }
        if id.is_empty() {
            return Err(Invalid::missing("key.id"));
        }
        Ok(Self { namespace, app: canonical_app(app), id })
    }

    /// The same key for a look-up.
    #[must_use]
    pub fn as_ref(&self) -> KeyRef<'_> {
        KeyRef { namespace: self.namespace, app: &self.app, id: self.id }
    }
}

impl From<v1::InstanceKey> for InstanceKey {
    /// The key with its application in upper case; emptiness is for the receiver to judge.
    fn from(key: v1::InstanceKey) -> Self {
        let app = match canonical_app(&key.app) {
            Cow::Borrowed(_) => key.app,
            Cow::Owned(canonical) => canonical,
        };
        Self { namespace: key.namespace, app, id: key.id }
    }
}

impl From<InstanceKey> for v1::InstanceKey {
    fn from(key: InstanceKey) -> Self {
        Self { namespace: key.namespace, app: key.app, id: key.id }
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;

    fn key(app: &str, id: &str) -> v1::InstanceKey {
        v1::InstanceKey { namespace: String::new(), app: app.into(), id: id.into() }
    }

    #[test]
    fn absent_parts_are_named() {
        let field = |key: Option<&v1::InstanceKey>| BorrowedKey::required(key).unwrap_err().field;
        assert_eq!(field(None), "key");
        assert_eq!(field(Some(&key("", "n1"))), "key.app");
        assert_eq!(field(Some(&key("web", ""))), "key.id");
    }

    #[test]
    fn a_key_that_is_read_late_is_the_same_and_names_what_is_no_text() {
        let late = |message: &v1::InstanceKey| {
            served::InstanceKey::decode(message.encode_to_vec().as_slice()).unwrap()
        };
        for message in [key("web", "Node-1"), key("WEB", "ä"), key("", "n1"), key("web", "")] {
            assert_eq!(BorrowedKey::unread(Some(&late(&message))), BorrowedKey::required(Some(&message)));
        }
        assert_eq!(BorrowedKey::unread(None), BorrowedKey::required(None));
        let broken = served::InstanceKey { id: vec![0xff].into(), ..late(&key("web", "n1")) };
        assert_eq!(BorrowedKey::unread(Some(&broken)).unwrap_err().field, "key.id");
    }

    #[test]
    fn applications_are_upper_cased_and_ids_kept() {
        let message = key("web", "Node-1");
        let borrowed = BorrowedKey::required(Some(&message)).unwrap();
        assert_eq!(borrowed.as_ref(), KeyRef { namespace: "", app: "WEB", id: "Node-1" });
        assert_eq!(InstanceKey::from(message.clone()).as_ref(), borrowed.as_ref());
    }

    #[test]
    fn an_upper_case_application_is_borrowed() {
        let message = key("WEB", "n1");
        assert!(matches!(BorrowedKey::required(Some(&message)).unwrap().app, Cow::Borrowed("WEB")));
    }
}
