//! The sections that become the core's settings: `[lease]`, `[preservation]`, `[overrides]`, `[tombstones]`,
//! `[registry]`.

use std::time::Duration;

use heureka_registry::{Preservation, PreservationMode};

use super::Config;
use super::setting::{Finding, Setting, setting};
use super::value::{Bytes, words};

/// `[lease]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeaseConfig {
    /// Count a renewed lease's duration twice, as the original server does.
    pub eureka_double: bool,
}

/// `[overrides]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OverridesConfig {
    /// Keep UP or `OUT_OF_SERVICE` against the owner's own change between the two, as the original does.
    pub eureka_rule4: bool,
}

/// `[tombstones]`.
#[derive(Clone, Debug, PartialEq)]
pub struct TombstonesConfig {
    /// How long a removed instance is remembered.
    pub ttl: Duration,
    /// How many are remembered at most.
    pub max: u32,
}

/// `[registry]`.
#[derive(Clone, Debug, PartialEq)]
pub struct RegistryConfig {
    /// Bytes of records above which new instances are refused.
    pub max_bytes: Bytes,
}

impl Default for TombstonesConfig {
    fn default() -> Self {
        Self { ttl: Duration::from_hours(1), max: 1_000_000 }
    }
}

impl Default for RegistryConfig {
    fn default() -> Self {
        Self { max_bytes: Bytes(4 << 30) }
    }
}

words!(
    PreservationMode,
    "`budget`, `eureka` or `off`",
    "budget" => Self::Budget,
    "eureka" => Self::Eureka,
    "off" => Self::Off,
);

pub(super) const SETTINGS: &[Setting] = &[
    setting!("lease.eureka_double", lease.eureka_double: bool, "Removes an instance only after twice its lease, as the original server does."),
    setting!("preservation.mode", preservation.mode: PreservationMode, "How lapsed leases are held back when many lapse at once: by a budget of removals per minute, by the original's arithmetic, or not at all."),
    setting!("preservation.threshold", preservation.threshold: f64, "Share of renewals that must arrive."),
    setting!("preservation.max_hold", preservation.max_hold: Duration, "Longest time that leases are held while nothing at all renews."),
    setting!("preservation.eureka_interval", preservation.eureka_interval: Duration, "Time between two sweeps in mode `eureka`."),
    setting!("overrides.eureka_rule4", overrides.eureka_rule4: bool, "Ignores an owner that changes itself between UP and OUT_OF_SERVICE, as the original does."),
    setting!("tombstones.ttl", tombstones.ttl: Duration, "How long a removed instance is remembered; never less than twice the longest live lease."),
    setting!("tombstones.max", tombstones.max: u32, "How many removed instances are remembered at most."),
    setting!("registry.max_bytes", registry.max_bytes: Bytes, "Size of all records above which new instances are refused."),
];

pub(super) fn check(config: &Config) -> impl Iterator<Item = Finding> {
    let Preservation { threshold, max_hold, eureka_interval, .. } = config.preservation;
    [
        Finding::unless(
            threshold > 0.0 && threshold < 1.0,
            "preservation.threshold",
            "must lie between 0 and 1",
        ),
        Finding::unless(max_hold >= SECOND, "preservation.max_hold", AT_LEAST_SECOND),
        Finding::unless(eureka_interval >= SECOND, "preservation.eureka_interval", AT_LEAST_SECOND),
        Finding::unless(config.tombstones.ttl >= SECOND, "tombstones.ttl", AT_LEAST_SECOND),
        Finding::unless(config.tombstones.max > 0, "tombstones.max", "must be at least 1"),
        Finding::unless(
            config.registry.max_bytes >= Bytes(1 << 20),
            "registry.max_bytes",
            "must be at least 1MiB",
        ),
    ]
    .into_iter()
    .flatten()
}

const SECOND: Duration = Duration::from_secs(1);
const AT_LEAST_SECOND: &str = "must be at least 1s";

impl Config {
    /// The settings of the core.
    #[must_use]
    pub fn core(&self) -> heureka_registry::Config {
        heureka_registry::Config {
            limits: self.limits.instance(),
            eureka_double_lease: self.lease.eureka_double,
            eureka_rule4: self.overrides.eureka_rule4,
            tombstone_ttl: self.tombstones.ttl,
            tombstone_max: usize::try_from(self.tombstones.max).unwrap_or(usize::MAX),
            max_bytes: self.registry.max_bytes.0,
            preservation: self.preservation.clone(),
            ..heureka_registry::Config::default()
        }
    }
}
