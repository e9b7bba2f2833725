//! `[limits]`: what one connection, request or instance may cost.

use std::time::Duration;

use heureka_model::Limits;

use super::Config;
use super::setting::{Finding, Setting, setting};
use super::value::Bytes;

/// What one connection, request or instance may cost.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitsConfig {
    /// Open connections; 0: what the process may open, minus 512 but at least half of it.
    pub connections: u32,
    /// Time for the first request's first bytes and for a whole HTTP/2 preface.
    pub first_byte_timeout: Duration,
    /// Time for a request's header, from its first byte.
    pub header_timeout: Duration,
    /// Time that an HTTP/1.1 connection may rest between two requests.
    pub idle_timeout: Duration,
    /// Time without progress after which a request's body is given up.
    pub body_timeout: Duration,
    /// Age at which a connection is asked to end; each draws its own within 20 % of it.
    pub connection_age: Duration,
    /// Time between being asked to end and being cut.
    pub connection_grace: Duration,
    /// Headers of a request.
    pub header_count: u32,
    /// All headers of a request together.
    pub header_bytes: Bytes,
    /// Request target.
    pub uri_bytes: Bytes,
    /// Streams of one HTTP/2 connection.
    pub streams_per_connection: u32,
    /// Watches of one connection, fewer than streams so that renewals always find one.
    pub watches_per_connection: u32,
    /// Watches of this node.
    pub watches: u32,
    /// Body of a REST request, as sent and as inflated.
    pub rest_body: Bytes,
    /// Message of a unary call, as sent and as inflated.
    pub grpc_unary: Bytes,
    /// Message of a batch call, as sent and as inflated.
    pub grpc_batch: Bytes,
    /// One metadata value.
    pub metadata_value: Bytes,
    /// All texts of an instance.
    pub instance: Bytes,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            connections: 0,
            first_byte_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            body_timeout: Duration::from_secs(10),
            connection_age: Duration::from_mins(30),
            connection_grace: Duration::from_mins(1),
            header_count: 64,
            header_bytes: Bytes(16 << 10),
            uri_bytes: Bytes(8 << 10),
            streams_per_connection: 1024,
            watches_per_connection: 1000,
            watches: 20_000,
            rest_body: Bytes(1 << 20),
            grpc_unary: Bytes(1 << 20),
            grpc_batch: Bytes(4 << 20),
            metadata_value: Bytes(256 << 10),
            instance: Bytes(512 << 10),
        }
    }
}

impl LimitsConfig {
    /// The sizes of an instance.
    #[must_use]
    pub fn instance(&self) -> Limits {
        Limits {
            metadata_value: bytes_of(self.metadata_value),
            instance: bytes_of(self.instance),
            ..Limits::default()
        }
    }
}

/// A size in memory; what no memory can hold is no limit.
#[must_use]
pub fn bytes_of(bytes: Bytes) -> usize {
    usize::try_from(bytes.0).unwrap_or(usize::MAX)
}

pub(super) const SETTINGS: &[Setting] = &[
    setting!("limits.connections", limits.connections: u32, "Open connections; further ones are closed at once. 0: the files that the process may open, minus 512 but at least half of them. A limit of files that leaves few is told by a warning at the start."),
    setting!("limits.first_byte_timeout", limits.first_byte_timeout: Duration, "Time for a new connection to say which protocol it speaks, its TLS handshake included."),
    setting!("limits.header_timeout", limits.header_timeout: Duration, "Time for the header of a request from its first byte."),
    setting!("limits.idle_timeout", limits.idle_timeout: Duration, "Time that an HTTP/1.1 connection may rest between requests, or take in nothing of an answer."),
    setting!("limits.body_timeout", limits.body_timeout: Duration, "Time without any progress after which the body of an HTTP request is given up; after this time it must also have brought 1 KiB/s on average."),
    setting!("limits.connection_age", limits.connection_age: Duration, "Age, give or take a fifth, at which a connection is asked to end so that load spreads again after a restart."),
    setting!("limits.connection_grace", limits.connection_grace: Duration, "Time from that request until the connection is cut."),
    setting!("limits.header_count", limits.header_count: u32, "Headers of a request."),
    setting!("limits.header_bytes", limits.header_bytes: Bytes, "All headers of a request together."),
    setting!("limits.uri_bytes", limits.uri_bytes: Bytes, "Path and query of a request."),
    setting!("limits.streams_per_connection", limits.streams_per_connection: u32, "Open streams of one HTTP/2 connection."),
    setting!("limits.watches_per_connection", limits.watches_per_connection: u32, "Open watches of one connection; fewer than streams, so that renewals always find one."),
    setting!("limits.watches", limits.watches: u32, "Open watches of this node."),
    setting!("limits.rest_body", limits.rest_body: Bytes, "Body of a REST request, as sent and as inflated."),
    setting!("limits.grpc_unary", limits.grpc_unary: Bytes, "Message of a gRPC call, as sent and as inflated."),
    setting!("limits.grpc_batch", limits.grpc_batch: Bytes, "Message of a gRPC batch call, as sent and as inflated."),
    setting!("limits.metadata_value", limits.metadata_value: Bytes, "One metadata value."),
    setting!("limits.instance", limits.instance: Bytes, "All texts of an instance together."),
];

/// Key and place.
type Timeout = (&'static str, fn(&LimitsConfig) -> Duration);
const TIMEOUTS: [Timeout; 6] = [
    ("limits.first_byte_timeout", |l| l.first_byte_timeout),
    ("limits.header_timeout", |l| l.header_timeout),
    ("limits.idle_timeout", |l| l.idle_timeout),
    ("limits.body_timeout", |l| l.body_timeout),
    ("limits.connection_age", |l| l.connection_age),
    ("limits.connection_grace", |l| l.connection_grace),
];

/// Sizes that are limits of a protocol library or of good sense: key, place, least, most.
type Range = (&'static str, fn(&LimitsConfig) -> u64, u64, u64);
const RANGES: [Range; 12] = [
    ("limits.header_count", |l| l.header_count.into(), 8, 1024),
    ("limits.header_bytes", |l| l.header_bytes.0, 1 << 10, 1 << 20),
    ("limits.uri_bytes", |l| l.uri_bytes.0, 1 << 8, 32 << 10),
    ("limits.streams_per_connection", |l| l.streams_per_connection.into(), 1, 1 << 20),
    ("limits.watches_per_connection", |l| l.watches_per_connection.into(), 0, 1 << 20),
    ("limits.watches", |l| l.watches.into(), 0, u32::MAX as u64),
    ("limits.rest_body", |l| l.rest_body.0, 1 << 10, 1 << 30),
    ("limits.grpc_unary", |l| l.grpc_unary.0, 1 << 10, 1 << 30),
    ("limits.grpc_batch", |l| l.grpc_batch.0, 1 << 10, 1 << 30),
    ("limits.metadata_value", |l| l.metadata_value.0, 1, 1 << 30),
    ("limits.instance", |l| l.instance.0, 1 << 10, 1 << 30),
    ("limits.connections", |l| l.connections.into(), 0, u32::MAX as u64),
];

const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_hours(24);

pub(super) fn check(config: &Config) -> impl Iterator<Item = Finding> {
    let limits = &config.limits;
    let timeouts = TIMEOUTS.iter().filter_map(move |(key, read)| {
        Finding::unless((SHORTEST..=LONGEST).contains(&read(limits)), key, "must lie between 1ms and 24h")
    });
    let sizes = RANGES.iter().filter_map(move |(key, read, least, most)| {
        let value = read(limits);
        let message = format!("must lie between {least} and {most}");
        Finding::unless((*least..=*most).contains(&value), key, &message)
    });
    let fewer = Finding::unless(
        limits.watches_per_connection < limits.streams_per_connection,
        "limits.watches_per_connection",
        "must be less than limits.streams_per_connection, or renewals find no stream",
    );
    timeouts.chain(sizes).chain(fewer)
}
