//! Which instances a reader asks for. One language for lists and watches.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::{Invalid, KeyRef, Numbers, Registration, Report, Status, same_text};

/// Conditions on an instance: fields are ANDed, entries of a list are ORed, an empty list does not restrict.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Selector {
    /// Namespace; empty is the default one.
    pub namespace: String,
    /// Applications, in upper case.
    pub apps: BTreeSet<String>,
    /// Virtual addresses, compared without case to each entry of an instance's list.
    pub vip_addresses: Addresses,
    /// The same for secure virtual addresses.
    pub secure_vip_addresses: Addresses,
    /// Instance ids.
    pub ids: BTreeSet<String>,
    /// Effective statuses.
    pub statuses: Vec<Status>,
    /// Zones.
    pub zones: BTreeSet<String>,
    /// Metadata conditions, all of which must hold.
    pub labels: Vec<LabelRequirement>,
    /// Conditions on what the instance reports.
    pub numbers: Numbers,
}

/// Virtual addresses without regard to case: folded once when they are collected, not at every comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Addresses(BTreeSet<String>);

impl Addresses {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an entry of a comma-separated list is one of these.
    #[must_use]
    pub fn meet(&self, list: &str) -> bool {
        list.split(',').any(|entry| self.0.contains(&*folded(entry.trim())))
    }
}

impl FromIterator<String> for Addresses {
    fn from_iter<I: IntoIterator<Item = String>>(addresses: I) -> Self {
        Self(addresses.into_iter().map(|address| folded(&address).into_owned()).collect())
    }
}

/// A union of selectors. An empty one selects the whole default namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Selectors(Vec<Selector>);

/// One condition on metadata.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LabelRequirement {
    key: String,
    operator: LabelOperator,
}

/// Comparison of a label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LabelOperator {
    /// The value is one of these.
    In(BTreeSet<String>),
    /// The key is absent or the value is none of these.
    NotIn(BTreeSet<String>),
    /// The key is present.
    Exists,
    /// The key is absent.
    NotExists,
    /// The value, read as a number, is at least this.
    AtLeast(Number),
    /// The value, read as a number, is at most this.
    AtMost(Number),
}

/// A finite number kept in the form in which it was written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Number(String);

impl Number {
    /// Reads a finite decimal number.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        finite(text).map(|_| Self(text.to_owned()))
    }

    fn value(&self) -> f64 {
        finite(&self.0).unwrap_or(f64::NAN)
    }
}

impl LabelRequirement {
    /// A condition on `key`.
    ///
    /// # Errors
    /// When the key is empty or a set operator has no operands.
    pub fn new(key: String, operator: LabelOperator) -> Result<Self, Invalid> {
        if key.is_empty() {
            return Err(Invalid::missing("key"));
        }
        if let LabelOperator::In(values) | LabelOperator::NotIn(values) = &operator
            && values.is_empty()
        {
            return Err(Invalid::missing("values"));
        }
        Ok(Self { key, operator })
    }

    /// Whether an instance with these labels qualifies.
    #[must_use]
    pub fn matches(&self, labels: &crate::Metadata) -> bool {
        let value = labels.get(&self.key);
        let number = || value.and_then(|text| finite(text));
        match &self.operator {
            LabelOperator::In(values) => value.is_some_and(|value| values.contains(value)),
            LabelOperator::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            LabelOperator::Exists => value.is_some(),
            LabelOperator::NotExists => value.is_none(),
            LabelOperator::AtLeast(bound) => number().is_some_and(|number| number >= bound.value()),
            LabelOperator::AtMost(bound) => number().is_some_and(|number| number <= bound.value()),
        }
    }
}

impl Selector {
    /// Whether only namespace and application decide, so that sums kept per application answer.
    #[must_use]
    pub fn is_by_app(&self) -> bool {
        self.vip_addresses.is_empty()
            && self.secure_vip_addresses.is_empty()
            && self.ids.is_empty()
            && self.statuses.is_empty()
            && self.zones.is_empty()
            && self.labels.is_empty()
            && self.numbers.is_empty()
    }

    /// Whether instances of this application may qualify.
    #[must_use]
    pub fn covers_app(&self, namespace: &str, app: &str) -> bool {
        same_text(&self.namespace, namespace) && one_of(&self.apps, app)
    }

    /// Whether an instance qualifies by its record; of its numbers nothing is asked.
    #[must_use]
    pub fn matches(&self, registration: &Registration) -> bool {
        let instance = &registration.instance;
        self.covers_app(&instance.key.namespace, &instance.key.app)
            && one_of(&self.ids, &instance.key.id)
            && (self.statuses.is_empty() || self.statuses.contains(&registration.status()))
            && one_of(&self.zones, &instance.locality.zone)
            && (self.vip_addresses.is_empty() || self.vip_addresses.meet(&instance.vip_address))
            && (self.secure_vip_addresses.is_empty()
                || self.secure_vip_addresses.meet(&instance.secure_vip_address))
            && self.labels.iter().all(|label| label.matches(&instance.metadata))
    }
}

impl Selectors {
    /// The union of `selectors`.
    #[must_use]
    pub fn new(selectors: Vec<Selector>) -> Self {
        Self(selectors)
    }

    /// The selectors; one that restricts nothing when none was given.
    pub fn iter(&self) -> impl Iterator<Item = &Selector> {
        static EVERYTHING: Selector = Selector {
            namespace: String::new(),
            apps: BTreeSet::new(),
            vip_addresses: Addresses(BTreeSet::new()),
            secure_vip_addresses: Addresses(BTreeSet::new()),
            ids: BTreeSet::new(),
            statuses: Vec::new(),
            zones: BTreeSet::new(),
            labels: Vec::new(),
            numbers: Numbers { min_available: BTreeMap::new(), gauges: Vec::new() },
        };
        self.0.iter().chain(self.0.is_empty().then_some(&EVERYTHING))
    }

    /// Namespace and name of the one application that is selected whole.
    #[must_use]
    pub fn whole_app(&self) -> Option<(&str, &str)> {
        let [selector] = self.0.as_slice() else { return None };
        let app = selector.apps.first().filter(|_| selector.apps.len() == 1 && selector.is_by_app())?;
        Some((&selector.namespace, app))
    }

    /// Whether namespace and application alone decide.
    #[must_use]
    pub fn is_by_app(&self) -> bool {
        self.iter().all(Selector::is_by_app)
    }

    /// Whether instances of this application may qualify.
    #[must_use]
    pub fn covers_app(&self, namespace: &str, app: &str) -> bool {
        self.iter().any(|selector| selector.covers_app(namespace, app))
    }

    /// Whether the removal of this key concerns the subscription, judged by what a tombstone still tells.
    #[must_use]
    pub fn covers_key(&self, key: KeyRef<'_>) -> bool {
        self.iter()
            .any(|selector| selector.covers_app(key.namespace, key.app) && one_of(&selector.ids, key.id))
    }

    /// Whether an instance qualifies by its record; of its numbers nothing is asked.
    #[must_use]
    pub fn matches(&self, registration: &Registration) -> bool {
        self.iter().any(|selector| selector.matches(registration))
    }

    /// Whether an instance that reported this, or nothing, qualifies in all.
    #[must_use]
    pub fn matches_reported(&self, registration: &Registration, report: Option<&Report>) -> bool {
        let fits = |selector: &Selector| {
            selector.matches(registration) && selector.numbers.hold(&registration.instance, report)
        };
        self.iter().any(fits)
    }

    /// Whether reports decide, too.
    #[must_use]
    pub fn has_numbers(&self) -> bool {
        self.0.iter().any(|selector| !selector.numbers.is_empty())
    }

    /// The same selection without its conditions on numbers.
    #[must_use]
    pub fn by_record(&self) -> Self {
        let mut selectors = self.0.clone();
        selectors.iter_mut().for_each(|selector| selector.numbers = Numbers::default());
        Self(selectors)
    }
}

fn one_of(wanted: &BTreeSet<String>, text: &str) -> bool {
    wanted.is_empty() || wanted.contains(text)
}

fn folded(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase()) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(text.to_lowercase())
    }
}

fn finite(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Instance, InstanceKey, LeaseTimes, Metadata, Overlay, StatusOverride, Version};

    fn registration(change: impl FnOnce(&mut Registration)) -> Registration {
        let key = InstanceKey { namespace: String::new(), app: "GPU".into(), id: "n1".into() };
        let mut registration = Registration {
            instance: Instance::new(key),
            overlay: Overlay::default(),
            version: Version::default(),
            times: LeaseTimes::default(),
            revision: 1,
        };
        change(&mut registration);
        registration
    }

    #[test]
    fn fields_are_anded_and_entries_are_ored() {
        let selector = Selector {
            apps: ["CPU".into(), "GPU".into()].into(),
            zones: ["a".into()].into(),
            ..Selector::default()
        };
        assert!(selector.matches(&registration(|r| r.instance.locality.zone = "a".into())));
        assert!(!selector.matches(&registration(|r| r.instance.locality.zone = "b".into())));
        assert!(!selector.matches(&registration(|r| r.instance.key.app = "WEB".into())));
    }

    #[test]
    fn the_effective_status_is_the_one_selected() {
        let selector = Selector { statuses: vec![Status::Up], ..Selector::default() };
        assert!(selector.matches(&registration(|_| {})));
        let out = StatusOverride { status: Status::OutOfService, until: None };
        assert!(!selector.matches(&registration(|r| r.overlay.status = Some(out))));
    }

    #[test]
    fn vips_match_one_entry_of_the_list_without_case() {
        let selector =
            Selector { vip_addresses: ["Orders".to_owned()].into_iter().collect(), ..Selector::default() };
        assert!(selector.matches(&registration(|r| r.instance.vip_address = "billing, orders".into())));
        assert!(!selector.matches(&registration(|r| r.instance.vip_address = "orders-v2".into())));
        assert!(selector.matches(&registration(|r| r.instance.vip_address = "a,ORDERS".into())));
    }

    #[test]
    fn an_empty_union_selects_the_default_namespace() {
        let all = Selectors::default();
        assert!(all.matches(&registration(|_| {})));
        assert!(!all.matches(&registration(|r| r.instance.key.namespace = "other".into())));
        assert!(all.is_by_app());
    }

    #[test]
    fn label_operators() {
        let labels: Metadata =
            [("slots", "8"), ("tier", "gold")].map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let number = |text| Number::parse(text).unwrap();
        let values = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<BTreeSet<_>>();
        let table = [
            ("tier", LabelOperator::In(values(&["gold", "iron"])), true),
            ("tier", LabelOperator::In(values(&["iron"])), false),
            ("tier", LabelOperator::NotIn(values(&["iron"])), true),
            ("none", LabelOperator::NotIn(values(&["iron"])), true),
            ("none", LabelOperator::In(values(&["iron"])), false),
            ("tier", LabelOperator::Exists, true),
            ("none", LabelOperator::Exists, false),
            ("none", LabelOperator::NotExists, true),
            ("slots", LabelOperator::AtLeast(number("8")), true),
            ("slots", LabelOperator::AtLeast(number("8.5")), false),
            ("slots", LabelOperator::AtMost(number("10")), true),
            ("tier", LabelOperator::AtLeast(number("0")), false),
            ("none", LabelOperator::AtMost(number("1")), false),
        ];
        for (key, operator, expected) in table {
            let requirement = LabelRequirement::new(key.to_owned(), operator).unwrap();
            assert_eq!(requirement.matches(&labels), expected, "{requirement:?}");
        }
    }

    #[test]
    fn unusable_requirements_are_refused() {
        assert!(LabelRequirement::new(String::new(), LabelOperator::Exists).is_err());
        assert!(LabelRequirement::new("k".into(), LabelOperator::In(BTreeSet::new())).is_err());
        assert_eq!(Number::parse("NaN"), None);
        assert_eq!(Number::parse("1e999"), None);
        assert_eq!(Number::parse("eight"), None);
    }
}
