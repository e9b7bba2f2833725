//! What an operator may set about the core. Defaults are the product's.

use std::time::Duration;

use heureka_model::Limits;

/// Settings of the core.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// How large an instance may be.
    pub limits: Limits,
    /// Count a renewed lease's duration twice, as the original server does.
    pub eureka_double_lease: bool,
    /// Keep UP or `OUT_OF_SERVICE` against the owner's own change between the two, as the original does.
    pub eureka_rule4: bool,
    /// How long a removed instance is remembered; never less than twice the longest live lease.
    pub tombstone_ttl: Duration,
    /// How many removed instances are remembered at most; the oldest go first.
    pub tombstone_max: usize,
    /// How long an override outlives the expiry of its instance.
    pub override_outlives: Duration,
    /// How far back the Eureka delta reaches.
    pub delta_window: Duration,
    /// Bytes of records above which new instances are refused.
    pub max_bytes: u64,
    /// Self-preservation.
    pub preservation: Preservation,
    /// Other servers may have heard from an instance later: a lapsed lease is removed one tick after it was found,
    /// and they are asked meanwhile.
    pub asks_peers: bool,
    /// Time in which readers are told of one report of an instance.
    pub report_interval: Duration,
}

/// When lapsed leases are held back.
#[derive(Clone, Debug, PartialEq)]
pub struct Preservation {
    /// Way of working.
    pub mode: PreservationMode,
    /// Share of renewals that must arrive; one minus it is the budget of removals per minute.
    pub threshold: f64,
    /// Longest time that leases are held while nothing at all renews.
    pub max_hold: Duration,
    /// Time between two sweeps in mode `eureka`.
    pub eureka_interval: Duration,
}

/// Whether lapsed leases are removed as configured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Removals {
    /// They are.
    #[default]
    Configured,
    /// In another mode of self-preservation.
    As(PreservationMode),
    /// None is.
    Frozen,
}

/// Ways of self-preservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreservationMode {
    /// Removals within a budget per minute, with an exit rule.
    Budget,
    /// The original's arithmetic.
    Eureka,
    /// Every lapsed lease is removed.
    Off,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            eureka_double_lease: false,
            eureka_rule4: false,
            tombstone_ttl: Duration::from_hours(1),
            tombstone_max: 1_000_000,
            override_outlives: Duration::from_hours(1),
            delta_window: Duration::from_mins(3),
            max_bytes: 4 << 30,
            preservation: Preservation::default(),
            asks_peers: false,
            report_interval: Duration::from_secs(1),
        }
    }
}

impl Default for Preservation {
    fn default() -> Self {
        Self {
            mode: PreservationMode::Budget,
            threshold: 0.85,
            max_hold: Duration::from_mins(30),
            eureka_interval: Duration::from_mins(1),
        }
    }
}

/// Randomness, chosen once by whoever starts the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seeds {
    /// Id of this life of the server; part of every version it writes. Never zero.
    pub boot: u64,
    /// Key of the index's hash, so that no caller can aim at one bucket.
    pub hash: u64,
    /// Order in which lapsed leases are removed.
    pub shuffle: u64,
}
