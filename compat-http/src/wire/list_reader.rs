//! Lists of another server, in JSON: `{"applications":{"application":[{"name":…,"instance":[{…}]}]}}`.
//!
//! Read one instance at a time, since a list may be as large as the registry. Older servers write a list of one as
//! the one alone.

use heureka_model::canonical_app;
use serde::de::DeserializeSeed;
use serde_json::value::RawValue;

use super::Draft;
use super::batch::Elements;
use super::draft::Parsed;
use super::json_reader::{members, take_member};
use super::scalar::Scalar;
use crate::error::Error;
use crate::negotiate::Format;

/// What a list says beside its instances.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Counts by status.
    pub(crate) hash: String,
    /// Instances that could not be read.
    pub(crate) unreadable: usize,
}

/// One instance of a list.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) parsed: Parsed,
    /// In a delta: it is gone.
    pub(crate) deleted: bool,
}

/// Calls `take` for each instance. One that cannot be read is counted and costs no other.
///
/// # Errors
/// `Body` when the text is no list.
pub(crate) fn read(text: &str, mut take: impl FnMut(Listed)) -> Result<Summary, Error> {
    let mut summary = Summary::default();
    let mut root = None;
    members(text, "body", |name, value| {
        if name == "applications" {
            root = Some(value);
        }
        Ok(())
    })?;
    let root = root.ok_or_else(|| Error::Body("root member applications is missing".into()))?;
    members(root.get(), "applications", |name, value| {
        match name {
            "apps__hashcode" => summary.hash = Scalar::of(name, value)?.text(),
            "application" => {
                for app in elements(name, value)? {
                    read_application(app, &mut summary, &mut take)?;
                }
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(summary)
}

fn read_application(
    app: &RawValue,
    summary: &mut Summary,
    take: &mut impl FnMut(Listed),
) -> Result<(), Error> {
    members(app.get(), "application", |name, value| {
        if name != "instance" {
            return Ok(());
        }
        for instance in elements(name, value)? {
            match read_instance(instance) {
                Ok(listed) => take(listed),
                Err(_) => summary.unreadable += 1,
            }
        }
        Ok(())
    })
}

fn read_instance(text: &RawValue) -> Result<Listed, Error> {
    let mut draft = Draft::default();
    let mut deleted = false;
    members(text.get(), "instance", |name, value| {
        if name == "actionType" {
            deleted = Scalar::of(name, value)?.text() == "DELETED";
        }
        take_member(&mut draft, name, value)
    })?;
    let app = canonical_app(draft.app()).into_owned();
    let parsed = draft.finish(&app, Format::Json)?;
    Ok(Listed { parsed, deleted })
}

/// The elements of a list, or the one that stands for it.
fn elements<'a>(field: &str, value: &'a RawValue) -> Result<Vec<&'a RawValue>, Error> {
    if value.get().starts_with('n') {
        return Ok(Vec::new());
    }
    if value.get().starts_with('{') {
        return Ok(vec![value]);
    }
    let mut found = Vec::new();
    let outcome = Elements { found: &mut found, max: usize::MAX - 1 }
        .deserialize(&mut serde_json::Deserializer::from_str(value.get()));
    outcome.map_err(|_| Error::Body(format!("{field}: expected a list")))?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INSTANCE: &str = r#"{"instanceId":"ID","app":"a","hostName":"h","ipAddr":"1.2.3.4","status":"UP",
        "dataCenterInfo":{"@class":"x","name":"MyOwn"},"lastDirtyTimestamp":"77","actionType":"ACTION"}"#;

    fn instance(id: &str, action: &str) -> String {
        INSTANCE.replace("ID", id).replace("ACTION", action)
    }

    fn ids(text: &str) -> Result<(Vec<(String, bool)>, Summary), Error> {
        let mut found = Vec::new();
        let summary = read(text, |one| found.push((one.parsed.instance.key.to_string(), one.deleted)))?;
        Ok((found, summary))
    }

    #[test]
    fn instances_are_read_one_by_one_and_a_bad_one_costs_no_other() {
        let bad = r#"{"instanceId":"x","app":"A"}"#;
        let text = format!(
            r#"{{"applications":{{"versions__delta":"1","apps__hashcode":"UP_2_","application":[
            {{"name":"A","instance":[{},{bad},{}]}}]}}}}"#,
            instance("1", "ADDED"),
            instance("2", "DELETED")
        );
        let (found, summary) = ids(&text).unwrap();
        assert_eq!(found, [("A/1".to_owned(), false), ("A/2".to_owned(), true)]);
        assert_eq!(summary, Summary { hash: "UP_2_".into(), unreadable: 1 });
    }

    #[test]
    fn a_list_of_one_may_be_the_one_alone_and_an_empty_one_null() {
        let text = format!(
            r#"{{"applications":{{"application":{{"name":"A","instance":{}}}}}}}"#,
            instance("1", "ADDED")
        );
        assert_eq!(ids(&text).unwrap().0.len(), 1);
        assert_eq!(ids(r#"{"applications":{"application":null}}"#).unwrap().0.len(), 0);
        assert_eq!(ids(r#"{"applications":{}}"#).unwrap().0.len(), 0);
        for text in ["", "{}", "[]", r#"{"applications":[]}"#, r#"{"applications":{"application":[1]}}"#] {
            assert!(ids(text).is_err(), "{text}");
        }
    }
}
