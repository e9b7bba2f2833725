//! Why a file cannot be read whole.

use std::fmt;

use super::statement::{Place, shown};

/// Why a file cannot be read whole. Says where and what was expected, never what stands there: it may be a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ImportError {
    file: String,
    line: Option<usize>,
    field: Option<String>,
    message: String,
}

impl ImportError {
    /// A file that cannot be read at all.
    pub(super) fn file(file: &str, message: impl Into<String>) -> Self {
        Self { file: shown(file), line: None, field: None, message: message.into() }
    }

    /// Something about a line; an empty field is left out.
    pub(super) fn at(place: &Place, field: &str, message: impl Into<String>) -> Self {
        let field = (!field.is_empty()).then(|| shown(field));
        Self { line: Some(place.line), field, ..Self::file(&place.file, message) }
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file)?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        if let Some(field) = &self.field {
            write!(f, " {field}:")?;
        }
        write!(f, " {}", self.message)
    }
}
