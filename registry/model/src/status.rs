//! The five statuses and how an operator's override combines with the owner's report.

use std::fmt;

/// Lifecycle status of an instance, in Eureka's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// A health check of the owner failed.
    Down,
    /// Taken out of rotation on purpose.
    OutOfService,
    /// Booting.
    Starting,
    /// The owner does not know.
    Unknown,
    /// Accepts traffic.
    Up,
}

impl Status {
    /// All statuses, in alphabetical order of their wire names: the order of the reconcile hash.
    pub const ALL: [Self; 5] = [Self::Down, Self::OutOfService, Self::Starting, Self::Unknown, Self::Up];

    /// Name on both wires.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Down => "DOWN",
            Self::OutOfService => "OUT_OF_SERVICE",
            Self::Starting => "STARTING",
            Self::Unknown => "UNKNOWN",
            Self::Up => "UP",
        }
    }

    /// The status of that exact name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Status that readers see.
///
/// An owner that reports anything but UP or `OUT_OF_SERVICE` is believed; otherwise the override decides.
/// So an operator can take an instance out, but cannot make a failing one look healthy.
#[must_use]
pub fn effective_status(reported: Status, override_: Option<Status>) -> Status {
    match reported {
        Status::Up | Status::OutOfService => override_.unwrap_or(reported),
        Status::Down | Status::Starting | Status::Unknown => reported,
    }
}

/// Number of instances in each status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatusCounts([u32; 5]);

impl StatusCounts {
    /// Counts one more.
    pub fn add(&mut self, status: Status) {
        self.0[status as usize] += 1;
    }

    /// Counts one less.
    pub fn remove(&mut self, status: Status) {
        self.0[status as usize] = self.0[status as usize].saturating_sub(1);
    }

    /// Adds every count of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }

    /// Count of one status.
    #[must_use]
    pub fn get(&self, status: Status) -> u32 {
        self.0[status as usize]
    }

    /// Count of all statuses.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.0.iter().sum()
    }

    /// Eureka's reconcile hash: each status that occurs, in alphabetical order, as `NAME_COUNT_`.
    #[must_use]
    pub fn hash_code(&self) -> String {
        let mut text = String::new();
        for status in Status::ALL.into_iter().filter(|status| self.get(*status) > 0) {
            text.push_str(status.as_str());
            text.push('_');
            text.push_str(&self.get(status).to_string());
            text.push('_');
        }
        text
    }
}

impl FromIterator<Status> for StatusCounts {
    fn from_iter<I: IntoIterator<Item = Status>>(statuses: I) -> Self {
        let mut counts = Self::default();
        statuses.into_iter().for_each(|status| counts.add(status));
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::Status::{Down, OutOfService, Starting, Unknown, Up};
    use super::*;

    #[test]
    fn an_override_decides_only_between_up_and_out_of_service() {
        let table = [
            (Up, None, Up),
            (Up, Some(OutOfService), OutOfService),
            (OutOfService, Some(Up), Up),
            (Up, Some(Down), Down),
            (Down, Some(OutOfService), Down),
            (Starting, Some(Up), Starting),
            (Unknown, Some(Up), Unknown),
            (OutOfService, None, OutOfService),
        ];
        for (reported, override_, expected) in table {
            assert_eq!(effective_status(reported, override_), expected, "{reported} with {override_:?}");
        }
    }

    #[test]
    fn hash_code_lists_occurring_statuses_in_alphabetical_order() {
        let counts: StatusCounts = [Up, Down, Up].into_iter().collect();
        assert_eq!(counts.hash_code(), "DOWN_1_UP_2_");
        assert_eq!(StatusCounts::default().hash_code(), "");
        let all: StatusCounts = Status::ALL.into_iter().collect();
        assert_eq!(all.hash_code(), "DOWN_1_OUT_OF_SERVICE_1_STARTING_1_UNKNOWN_1_UP_1_");
    }

    #[test]
    fn names_round_trip_and_are_case_sensitive() {
        for status in Status::ALL {
            assert_eq!(Status::from_name(status.as_str()), Some(status));
        }
        assert_eq!(Status::from_name("up"), None);
    }
}
