//! Parameters of a query, of the page's documents and of the feed: each has a name that is known, once or as often as
//! several make sense.

use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use heureka_model::Invalid;

/// A query as it came.
pub(crate) type Parameters = Result<Query<Vec<(String, String)>>, QueryRejection>;

/// The parameters that are taken.
pub(crate) struct Names {
    /// Those that are given once at most.
    pub(crate) one: &'static [&'static str],
    /// Those that may be given more than once.
    pub(crate) many: &'static [&'static str],
    /// What is wrong with any other.
    pub(crate) otherwise: &'static str,
}

/// Parameters whose names are known.
pub(crate) struct Asked(Vec<(String, String)>);

impl Names {
    /// Reads a query.
    ///
    /// # Errors
    ///
    /// The first parameter that is unknown, no UTF-8, or given twice where one is meant.
    pub(crate) fn read(&self, parameters: Parameters) -> Result<Asked, Invalid> {
        let Query(parameters) = parameters.map_err(|_| Invalid::malformed("query", "is not UTF-8"))?;
        for (index, (name, value)) in parameters.iter().enumerate() {
            if let Some(wrong) = self.wrong(&parameters[..index], name, value) {
                return Err(Invalid::malformed(name.clone(), wrong));
            }
        }
        Ok(Asked(parameters))
    }

    fn wrong(&self, before: &[(String, String)], name: &str, value: &str) -> Option<&'static str> {
        let is_single = self.one.contains(&name);
        if !is_single && !self.many.contains(&name) {
            return Some(self.otherwise);
        }
        // What stood there was no text.
        if value.contains(char::REPLACEMENT_CHARACTER) {
            return Some("is not UTF-8");
        }
        let is_again = is_single && before.iter().any(|(earlier, _)| earlier == name);
        is_again.then_some("is given more than once")
    }
}

impl Asked {
    /// The value of a name that is given once.
    pub(crate) fn one(&self, name: &str) -> Option<&str> {
        self.many(name).next()
    }

    /// The values of a name.
    pub(crate) fn many(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}
