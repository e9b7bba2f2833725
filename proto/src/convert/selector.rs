//! Selectors.

use std::collections::BTreeMap;

use heureka_model::{
    GaugeRange, Invalid, LabelOperator, LabelRequirement, Number, Numbers, Problem, Selector, Selectors,
    Status, canonical_app,
};

use super::status::status;
use crate::v1;

/// Selectors in one request.
pub const MAX_SELECTORS: usize = 100;
/// Entries of all repeated fields of all selectors of one request: each is compared with every change, so a
/// subscription's price is bounded by this.
pub const MAX_SELECTOR_ENTRIES: usize = 1000;
/// Bytes of one text of a selector: as many as the longest name that is registered has, a virtual address list.
pub const MAX_SELECTOR_TEXT: usize = 1024;
/// Bytes of all texts of all selectors of one request: a subscription holds them as long as it lives.
pub const MAX_SELECTOR_TEXTS: usize = 64 * 1024;

/// The union of the selectors of a request, in which they stand as `selectors`.
///
/// # Errors
/// Too many selectors or entries, texts that are too long alone or together, an unknown status or operator, unusable operands, an empty name.
pub fn selectors(wire: Vec<v1::InstanceSelector>) -> Result<Selectors, Invalid> {
    at_most("selectors", wire.len(), MAX_SELECTORS)?;
    at_most("selectors", wire.iter().map(entries).sum(), MAX_SELECTOR_ENTRIES)?;
    at_most("selectors", wire.iter().flat_map(texts).map(String::len).sum(), MAX_SELECTOR_TEXTS)?;
    let parse = |(position, wire)| {
        selector(wire).map_err(|invalid: Invalid| invalid.within(&format!("selectors[{position}]")))
    };
    wire.into_iter().enumerate().map(parse).collect::<Result<_, _>>().map(Selectors::new)
}

fn selector(wire: v1::InstanceSelector) -> Result<Selector, Invalid> {
    let canonical = |app: String| canonical_app(&app).into_owned();
    Ok(Selector {
        namespace: text("namespace", wire.namespace)?,
        apps: named("apps", wire.apps)?.into_iter().map(canonical).collect(),
        vip_addresses: named("vip_addresses", wire.vip_addresses)?.into_iter().collect(),
        secure_vip_addresses: named("secure_vip_addresses", wire.secure_vip_addresses)?.into_iter().collect(),
        ids: named("ids", wire.ids)?.into_iter().collect(),
        statuses: statuses(&wire.statuses)?,
        zones: short("zones", wire.zones)?.into_iter().collect(),
        labels: labels(wire.labels)?,
        numbers: numbers(wire.min_available, wire.gauges)?,
    })
}

fn numbers(
    min_available: BTreeMap<String, i64>,
    gauges: Vec<v1::GaugeRequirement>,
) -> Result<Numbers, Invalid> {
    if let Some(name) = min_available.keys().find(|name| name.len() > MAX_SELECTOR_TEXT) {
        return Err(too_large("min_available", name.len(), MAX_SELECTOR_TEXT));
    }
    let range = |(position, wire): (usize, v1::GaugeRequirement)| {
        let range =
            text("name", wire.name).and_then(|name| GaugeRange::new(name, wire.at_least, wire.at_most));
        range.map_err(|invalid: Invalid| invalid.within(&format!("gauges[{position}]")))
    };
    let gauges = gauges.into_iter().enumerate().map(range).collect::<Result<_, _>>()?;
    let numbers = Numbers { min_available, gauges };
    numbers.validate().map(|()| numbers)
}

/// An empty name matches nothing, so it is a slip of the caller.
fn named(field: &str, names: Vec<String>) -> Result<Vec<String>, Invalid> {
    match names.iter().position(String::is_empty) {
        Some(position) => Err(Invalid::missing(format!("{field}[{position}]"))),
        None => short(field, names),
    }
}

fn short(field: &str, texts: Vec<String>) -> Result<Vec<String>, Invalid> {
    match texts.iter().map(String::len).enumerate().find(|(_, length)| *length > MAX_SELECTOR_TEXT) {
        Some((position, length)) => Err(too_large(format!("{field}[{position}]"), length, MAX_SELECTOR_TEXT)),
        None => Ok(texts),
    }
}

fn text(field: &str, text: String) -> Result<String, Invalid> {
    at_most(field, text.len(), MAX_SELECTOR_TEXT).map(|()| text)
}

fn statuses(numbers: &[i32]) -> Result<Vec<Status>, Invalid> {
    let parse = |(position, number): (usize, &i32)| {
        let field = format!("statuses[{position}]");
        status(&field, *number)?.ok_or_else(|| Invalid::missing(field))
    };
    numbers.iter().enumerate().map(parse).collect()
}

fn labels(wire: Vec<v1::LabelRequirement>) -> Result<Vec<LabelRequirement>, Invalid> {
    let parse = |(position, wire)| {
        label(wire).map_err(|invalid: Invalid| invalid.within(&format!("labels[{position}]")))
    };
    wire.into_iter().enumerate().map(parse).collect()
}

fn label(wire: v1::LabelRequirement) -> Result<LabelRequirement, Invalid> {
    let key = text("key", wire.key)?;
    let values = short("values", wire.values)?;
    let operator = match v1::LabelOperator::try_from(wire.operator) {
        Ok(v1::LabelOperator::In) => LabelOperator::In(values.into_iter().collect()),
        Ok(v1::LabelOperator::NotIn) => LabelOperator::NotIn(values.into_iter().collect()),
        Ok(v1::LabelOperator::Exists) => no_operand(&values).map(|()| LabelOperator::Exists)?,
        Ok(v1::LabelOperator::NotExists) => no_operand(&values).map(|()| LabelOperator::NotExists)?,
        Ok(v1::LabelOperator::AtLeast) => LabelOperator::AtLeast(number(&values)?),
        Ok(v1::LabelOperator::AtMost) => LabelOperator::AtMost(number(&values)?),
        Ok(v1::LabelOperator::Unspecified) => return Err(Invalid::missing("operator")),
        Err(_) => {
            let problem = Problem::OutOfRange { value: wire.operator.into(), min: 1, max: 6 };
            return Err(Invalid::new("operator", problem));
        }
    };
    LabelRequirement::new(key, operator)
}

fn no_operand(values: &[String]) -> Result<(), Invalid> {
    match values {
        [] => Ok(()),
        _ => Err(Invalid::malformed("values", "this operator takes none")),
    }
}

fn number(values: &[String]) -> Result<Number, Invalid> {
    match values {
        [value] => Number::parse(value).ok_or_else(|| Invalid::malformed("values", "not a finite number")),
        _ => Err(Invalid::malformed("values", "this operator takes exactly one")),
    }
}

fn at_most(field: &str, actual: usize, limit: usize) -> Result<(), Invalid> {
    if actual > limit { Err(too_large(field, actual, limit)) } else { Ok(()) }
}

fn too_large(field: impl Into<String>, actual: usize, limit: usize) -> Invalid {
    Invalid::new(field, Problem::TooLarge { limit, actual })
}

fn texts(wire: &v1::InstanceSelector) -> impl Iterator<Item = &String> {
    let lists = [&wire.apps, &wire.vip_addresses, &wire.secure_vip_addresses, &wire.ids, &wire.zones];
    let labels = wire.labels.iter().flat_map(|label| label.values.iter().chain([&label.key]));
    let names = wire.min_available.keys().chain(wire.gauges.iter().map(|gauge| &gauge.name));
    lists.into_iter().flatten().chain(labels).chain(names).chain([&wire.namespace])
}

fn entries(wire: &v1::InstanceSelector) -> usize {
    wire.apps.len()
        + wire.vip_addresses.len()
        + wire.secure_vip_addresses.len()
        + wire.ids.len()
        + wire.statuses.len()
        + wire.zones.len()
        + wire.labels.iter().map(|label| 1 + label.values.len()).sum::<usize>()
        + wire.min_available.len()
        + wire.gauges.len()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use prost::Message;

    use super::*;

    fn label(key: &str, operator: i32, values: &[&str]) -> v1::InstanceSelector {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        v1::InstanceSelector {
            labels: vec![
                v1::LabelRequirement { key: "ok".into(), operator: 3, values: Vec::new() },
                v1::LabelRequirement { key: key.into(), operator, values },
            ],
            ..v1::InstanceSelector::default()
        }
    }

    #[test]
    fn each_fault_names_its_field() {
        let base = v1::InstanceSelector::default;
        let many = |count| vec![String::from("x"); count];
        let table = [
            ("apps[1]", v1::InstanceSelector { apps: vec!["a".into(), String::new()], ..base() }),
            ("ids[0]", v1::InstanceSelector { ids: vec![String::new()], ..base() }),
            ("vip_addresses[0]", v1::InstanceSelector { vip_addresses: vec![String::new()], ..base() }),
            ("statuses[0]", v1::InstanceSelector { statuses: vec![0], ..base() }),
            ("statuses[1]", v1::InstanceSelector { statuses: vec![1, 77], ..base() }),
            ("labels[1].key", label("", 3, &[])),
            ("labels[1].operator", label("k", 0, &[])),
            ("labels[1].operator", label("k", 7, &[])),
            ("labels[1].values", label("k", 1, &[])),
            ("labels[1].values", label("k", 3, &["x"])),
            ("labels[1].values", label("k", 4, &["x"])),
            ("labels[1].values", label("k", 5, &["eight"])),
            ("labels[1].values", label("k", 5, &["1", "2"])),
            ("labels[1].values", label("k", 6, &["NaN"])),
        ];
        for (field, broken) in table {
            let invalid = selectors(vec![base(), broken]).unwrap_err();
            assert_eq!(invalid.field, format!("selectors[1].{field}"));
        }
        assert_eq!(selectors(vec![base(); MAX_SELECTORS + 1]).unwrap_err().field, "selectors");
        let wide = v1::InstanceSelector { zones: many(MAX_SELECTOR_ENTRIES + 1), ..base() };
        assert_eq!(selectors(vec![wide]).unwrap_err().field, "selectors");
        let operands = label("k", 1, &["x"; MAX_SELECTOR_ENTRIES]);
        assert_eq!(selectors(vec![operands]).unwrap_err().field, "selectors");
    }

    #[test]
    fn every_text_is_bounded_alone() {
        let base = v1::InstanceSelector::default;
        let table = |length: usize| {
            let long = "x".repeat(length);
            let list = || vec!["x".to_owned(), "x".repeat(length)];
            [
                ("namespace", v1::InstanceSelector { namespace: long.clone(), ..base() }),
                ("apps[1]", v1::InstanceSelector { apps: list(), ..base() }),
                ("vip_addresses[1]", v1::InstanceSelector { vip_addresses: list(), ..base() }),
                ("secure_vip_addresses[1]", v1::InstanceSelector { secure_vip_addresses: list(), ..base() }),
                ("ids[1]", v1::InstanceSelector { ids: list(), ..base() }),
                ("zones[1]", v1::InstanceSelector { zones: list(), ..base() }),
                ("labels[1].key", label(&long, 3, &[])),
                ("labels[1].values[1]", label("k", 1, &["x", &long])),
            ]
        };
        for (field, most) in table(MAX_SELECTOR_TEXT) {
            assert!(selectors(vec![most]).is_ok(), "{field}");
        }
        let problem = Problem::TooLarge { limit: MAX_SELECTOR_TEXT, actual: MAX_SELECTOR_TEXT + 1 };
        for (field, more) in table(MAX_SELECTOR_TEXT + 1) {
            let invalid = selectors(vec![base(), more]).unwrap_err();
            assert_eq!(invalid, Invalid::new(format!("selectors[1].{field}"), problem.clone()));
        }
    }

    #[test]
    fn all_texts_are_bounded_together() {
        let full = MAX_SELECTOR_TEXTS / MAX_SELECTOR_TEXT;
        let most = || {
            let ids = vec!["x".repeat(MAX_SELECTOR_TEXT); full - 1];
            vec![v1::InstanceSelector {
                ids,
                zones: vec!["x".repeat(MAX_SELECTOR_TEXT)],
                ..Default::default()
            }]
        };
        assert!(selectors(most()).is_ok());
        let more = v1::InstanceSelector { namespace: "x".into(), ..Default::default() };
        let invalid = selectors(most().into_iter().chain([more]).collect()).unwrap_err();
        let problem = Problem::TooLarge { limit: MAX_SELECTOR_TEXTS, actual: MAX_SELECTOR_TEXTS + 1 };
        assert_eq!(invalid, Invalid::new("selectors", problem));
    }

    #[test]
    fn application_names_are_read_without_case() {
        let wire = v1::InstanceSelector { apps: vec!["web".into()], ..v1::InstanceSelector::default() };
        let parsed = selectors(vec![wire]).unwrap();
        assert!(parsed.covers_app("", "WEB"));
        assert!(!parsed.covers_app("", "web"));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..256)) {
            if let Ok(wire) = v1::InstanceSelector::decode(bytes.as_slice()) {
                let _: Result<Selectors, Invalid> = selectors(vec![wire]);
            }
        }
    }
}
