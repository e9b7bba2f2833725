//! What self-preservation found at the last tick and what it will do next, for people.

use std::time::Duration;

use crate::PreservationMode;

/// Self-preservation as it stood at the last tick.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outlook {
    /// The way in force; nothing while no lease at all may be removed.
    pub mode: Option<PreservationMode>,
    /// Leases, those that ran out and were not removed included.
    pub live: u64,
    /// Leases that ran out and stay for now.
    pub held: u64,
    /// Protected leases that may go within a minute, or at one sweep of the original's arithmetic.
    pub budget: u64,
    /// Protected leases that went within the last minute.
    pub removed: u64,
    /// Renewals per minute that the leases that hold promise.
    pub expected_per_minute: f64,
    /// The part of them whose owners were heard in time.
    pub heard_per_minute: f64,
    /// For how long leases have been held back; nothing while none is.
    pub held_for: Option<Duration>,
    /// What happens to leases that run out.
    pub next: Next,
}

/// What self-preservation does next. Times count from the last tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Next {
    /// Leases go as soon as they run out.
    #[default]
    AtOnce,
    /// Nothing goes as long as the others are silent too: this server is more likely cut off.
    WhileOthersAreSilent,
    /// The others renew again; after this time whoever is silent goes at the rate of the budget.
    AfterOthersRenewed(Duration),
    /// Whoever was silent for this long beyond its lease goes, no more within a minute than the budget has.
    Gradually(Duration),
    /// Nobody renews at all; after this time leases go at the rate of the budget.
    AfterHold(Duration),
    /// The original's arithmetic: at the sweep after this time as many go as the budget has.
    AtSweep(Duration),
    /// The original's arithmetic: nothing goes until more renewals than this come within a minute.
    UntilRenewals(u64),
    /// Nothing goes, whatever happens.
    Never,
}
