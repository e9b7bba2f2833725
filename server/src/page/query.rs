//! Parameters of the documents.

use axum::extract::Query;
use heureka_model::Invalid;

use super::Parameters;

/// The parameters of one document.
pub(super) struct Names {
    pub(super) known: &'static [&'static str],
    /// What is wrong with any other.
    pub(super) otherwise: &'static str,
}

impl Names {
    /// The parameters, in their order.
    pub(super) fn read(&self, parameters: Parameters) -> Result<Vec<(String, String)>, Invalid> {
        let Query(parameters) = parameters.map_err(|_| Invalid::malformed("query", "is not UTF-8"))?;
        for (name, value) in &parameters {
            if !self.known.contains(&name.as_str()) {
                return Err(Invalid::malformed(name.clone(), self.otherwise));
            }
            // What stood there was no text.
            if value.contains(char::REPLACEMENT_CHARACTER) {
                return Err(Invalid::malformed(name.clone(), "is not UTF-8"));
            }
        }
        Ok(parameters)
    }
}

/// The last value of a name.
pub(super) fn value<'a>(parameters: &'a [(String, String)], name: &str) -> Option<&'a str> {
    parameters.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}
