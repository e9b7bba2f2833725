//! What an instance reports beside its record: free capacity and gauges. Never part of a version or a digest.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::instance::required;
use crate::{Instance, InstanceKey, Invalid, Limits, Problem, Wall};

/// One report, whole: it takes the place of the one before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Amounts still free, named as in [`Capacity::total`](crate::Capacity::total).
    pub available: BTreeMap<String, i64>,
    /// Named numbers, all finite.
    pub gauges: BTreeMap<String, f64>,
}

/// What is known of an instance beside its record, on one server at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// The instance.
    pub key: InstanceKey,
    /// The newest report, when there is one, and when it came.
    pub report: Option<(Arc<Report>, Wall)>,
    /// A sign of life is overdue.
    pub suspect: bool,
}

impl Report {
    /// Amounts in one report, and gauges in one.
    pub const MAX_NAMES: usize = 64;
    /// Bytes of all names of one report.
    pub const MAX_TEXTS: usize = 4096;

    /// Checks names, numbers and sizes.
    ///
    /// # Errors
    /// The first field at fault, named as in the native contract.
    pub fn validate(&self, limits: &Limits) -> Result<(), Invalid> {
        let few = |field: &str, actual: usize| at_most(field, actual, Self::MAX_NAMES);
        few("available", self.available.len())?;
        few("gauges", self.gauges.len())?;
        for (name, amount) in &self.available {
            required("available", name, limits.metadata_key)?;
            amount_of("available", name, *amount)?;
        }
        for (name, value) in &self.gauges {
            required("gauges", name, limits.metadata_key)?;
            if !value.is_finite() {
                return Err(Invalid::malformed(format!("gauges.{}", shown(name)), "is no finite number"));
            }
        }
        at_most("gauges", self.text_size(), Self::MAX_TEXTS)
    }

    /// Bytes of all names.
    #[must_use]
    pub fn text_size(&self) -> usize {
        self.available.keys().chain(self.gauges.keys()).map(String::len).sum()
    }

    /// The free amount of an instance by that name: as reported, else as registered, else 0.
    #[must_use]
    pub fn available(report: Option<&Self>, instance: &Instance, name: &str) -> i64 {
        let reported = report.and_then(|report| report.available.get(name));
        reported.or_else(|| instance.capacity.total.get(name)).copied().unwrap_or_default()
    }
}

/// Refuses an amount below 0.
pub(crate) fn amount_of(field: &str, name: &str, amount: i64) -> Result<(), Invalid> {
    if amount < 0 {
        let problem = Problem::OutOfRange { value: amount, min: 0, max: i64::MAX };
        return Err(Invalid::new(format!("{field}.{}", shown(name)), problem));
    }
    Ok(())
}

fn at_most(field: &str, actual: usize, limit: usize) -> Result<(), Invalid> {
    if actual > limit { Err(Invalid::new(field, Problem::TooLarge { limit, actual })) } else { Ok(()) }
}

/// A name as a message may show it.
fn shown(name: &str) -> String {
    name.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(amounts: &[(&str, i64)], gauges: &[(&str, f64)]) -> Report {
        let named = |name: &&str| (*name).to_owned();
        Report {
            available: amounts.iter().map(|(name, amount)| (named(name), *amount)).collect(),
            gauges: gauges.iter().map(|(name, value)| (named(name), *value)).collect(),
        }
    }

    #[test]
    fn each_fault_names_its_field() {
        let many = || (0..=Report::MAX_NAMES).map(|n| n.to_string());
        let long = "x".repeat(257);
        let table = [
            ("available.slots", report(&[("slots", -1)], &[])),
            ("available", report(&[("", 1)], &[])),
            ("available", report(&[(&long, 1)], &[])),
            ("available", Report { available: many().map(|name| (name, 1)).collect(), ..Report::default() }),
            ("gauges.load", report(&[], &[("load", f64::NAN)])),
            ("gauges.load", report(&[], &[("load", f64::NEG_INFINITY)])),
            ("gauges", report(&[], &[("", 1.0)])),
            ("gauges", report(&[], &[("a\nb", 1.0)])),
            ("gauges", Report { gauges: many().map(|name| (name, 1.0)).collect(), ..Report::default() }),
            (
                "gauges",
                Report { gauges: (0..17).map(|n| (format!("{n:0256}"), 1.0)).collect(), ..Report::default() },
            ),
        ];
        for (field, broken) in table {
            assert_eq!(broken.validate(&Limits::default()).unwrap_err().field, field);
        }
        let most = report(&[("slots", 0)], &[("load", -1.5)]);
        assert_eq!(most.validate(&Limits::default()), Ok(()));
    }

    #[test]
    fn what_was_not_reported_is_as_registered() {
        let mut instance = Instance::new(InstanceKey::default());
        instance.capacity.total = [("slots".to_owned(), 8), ("cpu".to_owned(), 4)].into();
        let report = report(&[("slots", 3), ("other", 7)], &[]);
        let free = |report, name| Report::available(report, &instance, name);
        assert_eq!((free(None, "slots"), free(None, "other")), (8, 0));
        let names = ["slots", "cpu", "other"];
        assert_eq!(names.map(|name| free(Some(&report), name)), [3, 4, 7]);
    }
}
