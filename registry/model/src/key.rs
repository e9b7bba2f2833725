//! Identity of an instance.

use std::borrow::Cow;
use std::fmt;

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
}
