//! Reports and readings.

use std::sync::Arc;

use heureka_model::{Invalid, Reading, Report};

use super::time::{timestamp, wall};
use crate::v1;

impl From<v1::ReportRequest> for Report {
    /// Numbers and names are for [`Report::validate`] to judge.
    fn from(request: v1::ReportRequest) -> Self {
        Self { available: request.available, gauges: request.gauges }
    }
}

impl From<Reading> for v1::Reading {
    fn from(reading: Reading) -> Self {
        let (report, report_time) = reading.report.unzip();
        let report = report.map(|report| (*report).clone()).unwrap_or_default();
        Self {
            key: Some(reading.key.into()),
            available: report.available,
            gauges: report.gauges,
            suspect: reading.suspect,
            report_time: report_time.map(timestamp),
        }
    }
}

impl TryFrom<v1::Reading> for Reading {
    type Error = Invalid;

    /// What a client reads. Gauges that are no numbers are left out.
    fn try_from(wire: v1::Reading) -> Result<Self, Invalid> {
        let key = wire.key.ok_or_else(|| Invalid::missing("key"))?.into();
        let at = wire.report_time.as_ref().map(|time| wall("report_time", time)).transpose()?;
        let mut report = Report { available: wire.available, gauges: wire.gauges };
        report.gauges.retain(|_, value| value.is_finite());
        Ok(Self { key, report: at.map(|at| (Arc::new(report), at)), suspect: wire.suspect })
    }
}

#[cfg(test)]
mod tests {
    use heureka_model::{InstanceKey, Wall};

    use super::*;

    #[test]
    fn a_reading_tells_what_was_reported_and_when() {
        let report =
            Report { available: [("slots".to_owned(), 3)].into(), gauges: [("load".to_owned(), 0.5)].into() };
        let key = InstanceKey { namespace: String::new(), app: "WEB".into(), id: "n1".into() };
        let reading = |report| Reading { key: key.clone(), report, suspect: true };
        let wire = v1::Reading::from(reading(Some((Arc::new(report.clone()), Wall(1500)))));
        let told =
            v1::ReportRequest { key: None, available: wire.available.clone(), gauges: wire.gauges.clone() };
        assert_eq!(Report::from(told), report);
        assert_eq!(wire.report_time, Some(timestamp(Wall(1500))));
        assert!(wire.suspect && wire.key.is_some());
        assert_eq!(
            Reading::try_from(wire.clone()),
            Ok(reading(Some((Arc::new(report.clone()), Wall(1500)))))
        );
        let keyless = v1::Reading { key: None, ..wire.clone() };
        assert_eq!(Reading::try_from(keyless).unwrap_err().field, "key");
        let none = v1::Reading::from(reading(None));
        assert_eq!((none.report_time, none.available.len()), (None, 0));
    }
}
