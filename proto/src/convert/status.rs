//! The five statuses.

use heureka_model::{Invalid, Problem, Status};

use crate::v1::InstanceStatus;

impl From<Status> for InstanceStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Up => Self::Up,
            Status::Down => Self::Down,
            Status::Starting => Self::Starting,
            Status::OutOfService => Self::OutOfService,
            Status::Unknown => Self::Unknown,
        }
    }
}

/// Number of an optional status; 0 stands for none.
#[must_use]
pub fn status_number(status: Option<Status>) -> i32 {
    status.map_or(InstanceStatus::Unspecified, InstanceStatus::from).into()
}

/// Status of a number; none when the field was not set.
///
/// # Errors
/// The number has no meaning here.
pub fn status(field: &str, number: i32) -> Result<Option<Status>, Invalid> {
    match InstanceStatus::try_from(number) {
        Ok(InstanceStatus::Unspecified) => Ok(None),
        Ok(InstanceStatus::Up) => Ok(Some(Status::Up)),
        Ok(InstanceStatus::Down) => Ok(Some(Status::Down)),
        Ok(InstanceStatus::Starting) => Ok(Some(Status::Starting)),
        Ok(InstanceStatus::OutOfService) => Ok(Some(Status::OutOfService)),
        Ok(InstanceStatus::Unknown) => Ok(Some(Status::Unknown)),
        Err(_) => Err(Invalid::new(field, Problem::OutOfRange { value: i64::from(number), min: 0, max: 5 })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_one_number_and_other_numbers_are_refused() {
        for known in Status::ALL {
            assert_eq!(status("status", status_number(Some(known))), Ok(Some(known)));
        }
        assert_eq!(status("status", 0), Ok(None));
        for number in [-1, 6, i32::MAX, i32::MIN] {
            assert_eq!(status("status", number).unwrap_err().field, "status");
        }
    }
}
