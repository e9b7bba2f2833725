//! What is wrong with an input, and where.

/// A value that a caller sent and the registry does not take. The caller's fault; retrying changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct Invalid {
    /// Path of the field at fault, in the words of the native contract, for example `instance.ip_address`.
    pub field: String,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What can be wrong with a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The field is required.
    #[error("is required")]
    Missing,
    /// A text or collection is larger than the server takes.
    #[error("has {actual}, more than the limit of {limit}")]
    TooLarge {
        /// Largest size taken, in bytes for texts and in entries for collections.
        limit: usize,
        /// Size that was sent.
        actual: usize,
    },
    /// A number lies outside its range.
    #[error("{value} is outside {min} to {max}")]
    OutOfRange {
        /// Number that was sent.
        value: i64,
        /// Smallest number taken.
        min: i64,
        /// Largest number taken.
        max: i64,
    },
    /// A name holds a control character.
    #[error("holds a control character")]
    ControlCharacter,
    /// The value has the wrong form; the text says which form is expected.
    #[error("{0}")]
    Malformed(&'static str),
}

impl Invalid {
    /// `problem` at `field`.
    pub fn new(field: impl Into<String>, problem: Problem) -> Self {
        Self { field: field.into(), problem }
    }

    /// The required `field` is absent or empty.
    pub fn missing(field: impl Into<String>) -> Self {
        Self::new(field, Problem::Missing)
    }

    /// `field` has the wrong form.
    pub fn malformed(field: impl Into<String>, expected: &'static str) -> Self {
        Self::new(field, Problem::Malformed(expected))
    }

    /// The same fault, with its field seen from the message that holds it.
    #[must_use]
    pub fn within(self, parent: &str) -> Self {
        Self { field: format!("{parent}.{}", self.field), ..self }
    }
}
