//! Conditions on numbers that an instance reports.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::report::amount_of;
use crate::{Instance, Invalid, Report};

/// Conditions on free amounts and gauges, all of which must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Numbers {
    /// Free amounts that there must be at least; none below 0.
    pub min_available: BTreeMap<String, i64>,
    /// Ranges in which gauges must lie.
    pub gauges: Vec<GaugeRange>,
}

/// The range in which a gauge must lie.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GaugeRange {
    name: String,
    at_least: Option<Finite>,
    at_most: Option<Finite>,
}

/// A finite number; 0 has one sign only. Numbers compare as numbers do.
#[derive(Clone, Copy, Debug, Default)]
pub struct Finite(f64);

impl Finite {
    /// The number, if it is finite.
    #[must_use]
    pub fn new(number: f64) -> Option<Self> {
        // Minus zero plus zero is zero.
        number.is_finite().then_some(Self(number + 0.0))
    }

    /// The number.
    #[must_use]
    pub fn value(self) -> f64 {
        self.0
    }
}

impl PartialEq for Finite {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for Finite {}

impl PartialOrd for Finite {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Finite {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl std::hash::Hash for Finite {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

impl GaugeRange {
    /// The values of `name` between two bounds, both included.
    ///
    /// # Errors
    /// The name is empty, no bound is set, one is not finite, or no number lies between them.
    pub fn new(name: String, at_least: Option<f64>, at_most: Option<f64>) -> Result<Self, Invalid> {
        if name.is_empty() {
            return Err(Invalid::missing("name"));
        }
        let finite = |field: &str, bound: Option<f64>| match bound.map(Finite::new) {
            Some(None) => Err(Invalid::malformed(field, "is no finite number")),
            bound => Ok(bound.flatten()),
        };
        let (at_least, at_most) = (finite("at_least", at_least)?, finite("at_most", at_most)?);
        match (at_least, at_most) {
            (None, None) => Err(Invalid::missing("at_least")),
            (Some(least), Some(most)) if most < least => {
                Err(Invalid::malformed("at_most", "lies below at_least"))
            }
            _ => Ok(Self { name, at_least, at_most }),
        }
    }

    /// Whether the gauge lies in the range; one that was not reported does not.
    #[must_use]
    pub fn holds(&self, report: Option<&Report>) -> bool {
        let value = report.and_then(|report| report.gauges.get(&self.name)).copied();
        let Some(value) = value.and_then(Finite::new) else { return false };
        self.at_least.is_none_or(|least| value >= least) && self.at_most.is_none_or(|most| value <= most)
    }
}

impl Numbers {
    /// Whether every instance fits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.min_available.is_empty() && self.gauges.is_empty()
    }

    /// Checks the amounts.
    ///
    /// # Errors
    /// An amount below 0, or one without a name.
    pub fn validate(&self) -> Result<(), Invalid> {
        for (name, amount) in &self.min_available {
            if name.is_empty() {
                return Err(Invalid::malformed("min_available", "holds an empty name"));
            }
            amount_of("min_available", name, *amount)?;
        }
        Ok(())
    }

    /// Whether an instance that reported this, or nothing, fits.
    #[must_use]
    pub fn hold(&self, instance: &Instance, report: Option<&Report>) -> bool {
        let free = |(name, least): (&String, &i64)| Report::available(report, instance, name) >= *least;
        self.min_available.iter().all(free) && self.gauges.iter().all(|range| range.holds(report))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::InstanceKey;

    fn load(value: f64) -> Report {
        Report { gauges: [("load".to_owned(), value)].into(), ..Report::default() }
    }

    #[test]
    fn a_gauge_lies_between_its_bounds_both_included() {
        let range = |least, most| GaugeRange::new("load".into(), least, most).unwrap();
        let table = [
            (range(Some(1.0), None), 1.0, true),
            (range(Some(1.0), None), 0.999, false),
            (range(None, Some(2.0)), 2.0, true),
            (range(None, Some(2.0)), 2.001, false),
            (range(Some(-1.0), Some(1.0)), 0.0, true),
            (range(Some(0.0), Some(0.0)), -0.0, true),
            (range(Some(-0.0), None), 0.0, true),
        ];
        for (range, value, expected) in table {
            assert_eq!(range.holds(Some(&load(value))), expected, "{value} in {range:?}");
        }
        assert!(!range(None, Some(9.0)).holds(None), "nothing was reported");
        assert!(!range(None, Some(9.0)).holds(Some(&Report::default())));
    }

    #[test]
    fn unusable_ranges_are_refused() {
        let table = [
            ("name", "", Some(1.0), None),
            ("at_least", "x", None, None),
            ("at_least", "x", Some(f64::NAN), None),
            ("at_most", "x", None, Some(f64::INFINITY)),
            ("at_most", "x", Some(2.0), Some(1.0)),
        ];
        for (field, name, least, most) in table {
            assert_eq!(GaugeRange::new(name.into(), least, most).unwrap_err().field, field);
        }
    }

    #[test]
    fn all_conditions_must_hold() {
        let mut instance = Instance::new(InstanceKey::default());
        instance.capacity.total = [("slots".to_owned(), 8)].into();
        let numbers = Numbers {
            min_available: [("slots".to_owned(), 4), ("gpu".to_owned(), 0)].into(),
            gauges: vec![GaugeRange::new("load".into(), None, Some(1.0)).unwrap()],
        };
        let report =
            |slots, load: f64| Report { available: [("slots".to_owned(), slots)].into(), ..self::load(load) };
        assert!(numbers.hold(&instance, Some(&report(4, 1.0))));
        assert!(numbers.hold(&instance, Some(&load(0.5))), "slots as registered");
        assert!(!numbers.hold(&instance, Some(&report(3, 0.5))));
        assert!(!numbers.hold(&instance, Some(&report(4, 1.5))));
        assert!(!numbers.hold(&instance, None));
        let negative = Numbers { min_available: [("slots".to_owned(), -1)].into(), ..Numbers::default() };
        assert_eq!(negative.validate().unwrap_err().field, "min_available.slots");
        assert_eq!(numbers.validate(), Ok(()));
    }
}
