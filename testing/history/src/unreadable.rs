//! Why a recording cannot be judged.

/// A recording that cannot be judged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct Unreadable {
    /// Line, from 1; 0 when it is not known.
    pub line: usize,
    problem: String,
}

impl Unreadable {
    pub(crate) fn new(problem: impl Into<String>) -> Self {
        Self { line: 0, problem: problem.into() }
    }

    pub(crate) fn at(self, line: usize) -> Self {
        Self { line, ..self }
    }
}
