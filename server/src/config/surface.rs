//! The small sections: `[compat]`, `[log]`.

use std::time::Duration;

use heureka_compat_http::SyncingStatus;

use super::setting::{Finding, Setting, setting};
use super::value::{Bytes, Value, words};
use super::{Config, bytes_of};

/// `[compat]`: the Eureka surface.
#[derive(Clone, Debug, PartialEq)]
pub struct CompatConfig {
    /// Shortest time between two encodings of a changed answer; nothing: 0 up to 10,000 instances, 100 ms above.
    pub cache_min_interval: Interval,
    /// Bytes of encoded answers.
    pub cache_max_bytes: Bytes,
    /// How a reader is refused while the server is catching up.
    pub syncing_status: SyncingStatus,
}

/// A duration, or the server's own choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interval {
    /// By the size of the registry.
    #[default]
    Auto,
    /// Always this.
    Fixed(Duration),
}

/// `[log]`.
#[derive(Clone, Debug, PartialEq)]
pub struct LogConfig {
    /// Level, or `target=level` pairs.
    pub filter: String,
    /// Look of a line.
    pub format: LogFormat,
    /// Lines per second; what goes beyond is counted and the count logged.
    pub max_lines_per_second: u32,
}

/// Looks of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object.
    Json,
}

words!(
    SyncingStatus,
    "`503` or `403`",
    "503" => Self::Unavailable,
    "403" => Self::Forbidden,
);

words!(LogFormat, "`text` or `json`", "text" => Self::Text, "json" => Self::Json);

impl Value for Interval {
    const KIND: &'static str = "duration, or `auto`";

    fn parse(raw: &super::value::Raw) -> Result<Self, String> {
        if String::parse(raw)? == "auto" { Ok(Self::Auto) } else { Duration::parse(raw).map(Self::Fixed) }
    }

    fn show(&self) -> toml::Value {
        match self {
            Self::Auto => "auto".into(),
            Self::Fixed(duration) => duration.show(),
        }
    }
}

impl Default for CompatConfig {
    fn default() -> Self {
        Self {
            cache_min_interval: Interval::Auto,
            cache_max_bytes: Bytes(64 << 20),
            syncing_status: SyncingStatus::default(),
        }
    }
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { filter: "info".into(), format: LogFormat::Text, max_lines_per_second: 100 }
    }
}

pub(super) const SETTINGS: &[Setting] = &[
    setting!("compat.cache_min_interval", compat.cache_min_interval: Interval, "Shortest time between two encodings of a changed REST answer. `auto`: none up to 10,000 instances, 100 ms above."),
    setting!("compat.cache_max_bytes", compat.cache_max_bytes: Bytes, "Size of all encoded REST answers that are kept. As much again, but at least 16 MiB, may be built for single readers and wait to be sent; beyond it large answers are a 503."),
    setting!("compat.syncing_status", compat.syncing_status: SyncingStatus, "Answer to REST readers while the server is catching up after its start: 503, after which every client asks the next server, or 403 as the original."),
    setting!("log.filter", log.filter: String, "`error`, `warn`, `info`, `debug`, `trace` or `off`, also per module: `info,heureka_server=debug`."),
    setting!("log.format", log.format: LogFormat, "Lines for people or JSON objects; both on standard error."),
    setting!("log.max_lines_per_second", log.max_lines_per_second: u32, "Lines per second under any load. What goes beyond is dropped and counted, and the count is logged."),
];

impl Config {
    /// The settings of the Eureka surface.
    #[must_use]
    pub fn rest(&self) -> heureka_compat_http::Config {
        heureka_compat_http::Config {
            context_path: self.server.context_path.clone(),
            trusted_peers: self.peer.trusted.clone(),
            trusted_proxies: self.server.trusted_proxies.clone(),
            body_wire_max: bytes_of(self.limits.rest_body),
            body_decoded_max: bytes_of(self.limits.rest_body),
            cache_max_bytes: bytes_of(self.compat.cache_max_bytes),
            syncing_status: self.compat.syncing_status,
            cache_min_interval: match self.compat.cache_min_interval {
                Interval::Auto => None,
                Interval::Fixed(interval) => Some(interval),
            },
            ack_wait: self.peer.ack_wait,
            ..heureka_compat_http::Config::default()
        }
    }
}

pub(super) fn check(config: &Config) -> impl Iterator<Item = Finding> {
    let filter: Result<tracing_subscriber::filter::Targets, _> = config.log.filter.parse();
    let holds = filter.is_ok() && !config.log.filter.is_empty();
    [
        Finding::unless(holds, "log.filter", "must be a level or target=level pairs between commas"),
        Finding::unless(
            config.log.max_lines_per_second > 0,
            "log.max_lines_per_second",
            "must be at least 1",
        ),
    ]
    .into_iter()
    .flatten()
}
