//! Identity of an instance.

use std::borrow::Cow;
use std::fmt;

use crate::instance::{name, required};
use crate::{Invalid, Limits};

/// Identity of one instance: unique inside its application, which is unique inside its namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceKey {
    /// Tenant space; empty is the default one and the only one the Eureka surface sees.
    pub namespace: String,
    /// Application, in upper case (see [`canonical_app`]).
    pub app: String,
    /// Instance id, kept byte for byte.
    pub id: String,
}

/// A borrowed [`InstanceKey`], for look-ups that allocate nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyRef<'a> {
    /// Tenant space.
    pub namespace: &'a str,
    /// Application, in upper case.
    pub app: &'a str,
    /// Instance id.
    pub id: &'a str,
}

impl InstanceKey {
    /// The same key, borrowed.
    #[must_use]
    pub fn as_ref(&self) -> KeyRef<'_> {
        KeyRef { namespace: &self.namespace, app: &self.app, id: &self.id }
    }
}

impl KeyRef<'_> {
    /// Checks the parts as [`Instance::validate`](crate::Instance::validate) does, for calls that remember a key
    /// without an instance.
    ///
    /// # Errors
    /// The first field at fault, named as in the native contract.
    pub fn validate(self, limits: &Limits) -> Result<(), Invalid> {
        name("key.namespace", self.namespace, limits.name)?;
        required("key.app", self.app, limits.name)?;
        required("key.id", self.id, limits.id)
    }

    /// The same key, owned.
    #[must_use]
    pub fn to_owned(self) -> InstanceKey {
        InstanceKey { namespace: self.namespace.to_owned(), app: self.app.to_owned(), id: self.id.to_owned() }
    }
}

impl fmt::Display for InstanceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}

impl fmt::Display for KeyRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.namespace.is_empty() {
            write!(f, "{}:", self.namespace)?;
        }
        write!(f, "{}/{}", self.app, self.id)
    }
}

/// Whether two texts are equal, without touching either when both are empty.
///
/// Empty texts are the rule in some places (the default namespace), and comparing them in the usual way is dear:
/// with AVX-512 the C library loads from an empty text's dangling address under an empty mask, which costs a trip
/// through microcode, some 70 ns.
#[must_use]
pub fn same_text(one: &str, other: &str) -> bool {
    one.len() == other.len() && (one.is_empty() || one == other)
}

/// The stored form of an application name: Unicode upper case. Borrows when nothing changes.
#[must_use]
pub fn canonical_app(name: &str) -> Cow<'_, str> {
    if name.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_lowercase()) {
        Cow::Borrowed(name)
    } else {
        Cow::Owned(name.to_uppercase())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn application_names_are_upper_cased_without_copying_when_they_are_already() {
        assert!(matches!(canonical_app("BILLING-2"), Cow::Borrowed("BILLING-2")));
        assert_eq!(canonical_app("billing"), "BILLING");
        assert_eq!(canonical_app("straße"), "STRASSE");
        assert_eq!(canonical_app("приём"), "ПРИЁМ");
    }

    #[test]
    fn a_key_alone_is_checked_like_an_instance() {
        let limits = Limits::default();
        let key = |app, id| KeyRef { namespace: "", app, id };
        assert_eq!(key("WEB", "n1").validate(&limits), Ok(()));
        assert_eq!(key("", "n1").validate(&limits).unwrap_err().field, "key.app");
        assert_eq!(key("WEB", "a\nb").validate(&limits).unwrap_err().field, "key.id");
        assert_eq!(key(&"A".repeat(257), "n1").validate(&limits).unwrap_err().field, "key.app");
    }
}
