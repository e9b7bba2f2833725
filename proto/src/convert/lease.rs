//! Leases.

use std::time::Duration;

use heureka_model::{Invalid, LeaseTerms, LeaseTimes, Wall};

use super::time::{duration, timestamp, wall, wire_duration};
use crate::v1;

impl From<LeaseTerms> for v1::Lease {
    fn from(terms: LeaseTerms) -> Self {
        Self {
            renewal_interval: Some(wire_duration(terms.renewal_interval())),
            duration: Some(wire_duration(terms.duration())),
            ..Self::default()
        }
    }
}

impl TryFrom<&v1::Lease> for LeaseTerms {
    type Error = Invalid;

    /// Unset terms read as Eureka's, but who asks for a short lease alone renews three times in it. Others are
    /// clamped, negative ones refused.
    fn try_from(lease: &v1::Lease) -> Result<Self, Invalid> {
        let default = Self::default();
        let duration = term("lease.duration", lease.duration.as_ref(), default.duration())?;
        let often = default.renewal_interval().min(duration / 3);
        let renewal_interval = term("lease.renewal_interval", lease.renewal_interval.as_ref(), often)?;
        Ok(Self::clamped(renewal_interval, duration))
    }
}

fn term(field: &str, sent: Option<&prost_types::Duration>, default: Duration) -> Result<Duration, Invalid> {
    sent.map_or(Ok(default), |sent| duration(field, sent))
}

/// A lease with what the server saw of it.
pub(super) fn lease(terms: LeaseTerms, times: &LeaseTimes) -> v1::Lease {
    v1::Lease {
        registration_time: Some(timestamp(times.registered)),
        last_renewal_time: Some(timestamp(times.renewed)),
        service_up_time: times.service_up.map(timestamp),
        ..terms.into()
    }
}

/// What a server saw of a lease, as a client reads it.
pub(super) fn lease_times(instance: &v1::Instance) -> Result<LeaseTimes, Invalid> {
    let optional = |field: &str, time: &Option<prost_types::Timestamp>| -> Result<Option<Wall>, Invalid> {
        time.as_ref().map(|time| wall(field, time)).transpose()
    };
    let lease = instance.lease.unwrap_or_default();
    Ok(LeaseTimes {
        registered: optional("lease.registration_time", &lease.registration_time)?.unwrap_or_default(),
        renewed: optional("lease.last_renewal_time", &lease.last_renewal_time)?.unwrap_or_default(),
        service_up: optional("lease.service_up_time", &lease.service_up_time)?,
        evicted: None,
        updated: optional("last_updated_time", &instance.last_updated_time)?.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use heureka_model::{LEASE_MAX, LEASE_MIN};

    use super::*;

    fn terms(renewal_interval: Option<i64>, length: Option<i64>) -> Result<LeaseTerms, Invalid> {
        let seconds = |seconds| prost_types::Duration { seconds, nanos: 0 };
        let lease = v1::Lease {
            renewal_interval: renewal_interval.map(seconds),
            duration: length.map(seconds),
            ..v1::Lease::default()
        };
        LeaseTerms::try_from(&lease)
    }

    #[test]
    fn unset_terms_are_eurekas() {
        assert_eq!(terms(None, None), Ok(LeaseTerms::default()));
        assert_eq!(terms(Some(5), None).unwrap().duration(), Duration::from_secs(90));
    }

    #[test]
    fn a_short_lease_alone_is_renewed_three_times_in_it() {
        for (duration, interval) in [(9, 3), (90, 30), (3600, 30), (1, 1)] {
            let terms = terms(None, Some(duration)).unwrap();
            assert_eq!(terms.renewal_interval(), Duration::from_secs(interval), "{duration}");
        }
    }

    #[test]
    fn negative_terms_are_refused_and_others_clamped() {
        assert_eq!(terms(Some(-1), None).unwrap_err().field, "lease.renewal_interval");
        assert_eq!(terms(None, Some(-1)).unwrap_err().field, "lease.duration");
        let clamped = terms(Some(0), Some(1_000_000)).unwrap();
        assert_eq!((clamped.renewal_interval(), clamped.duration()), (LEASE_MIN, LEASE_MAX));
    }
}
