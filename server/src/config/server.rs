//! `[server]` and `[drain]`: who this node is and where it answers.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use super::Config;
use super::setting::{Finding, Setting, setting};
use super::value::words;

/// Who this node is and where it answers.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerConfig {
    /// Address of the one listener.
    pub listen: SocketAddr,
    /// Name of this node in answers and logs; empty: drawn at the start.
    pub node_id: String,
    /// Name of the cluster, part of every resume token.
    pub cluster: String,
    /// Zone of this node.
    pub zone: String,
    /// Region of this node.
    pub region: String,
    /// Set of defaults for limits and access.
    pub profile: Profile,
    /// Prefix of every HTTP path, empty or `/like/this`.
    pub context_path: String,
    /// Whether the status page is served.
    pub page: bool,
    /// Addresses whose forwarding headers are believed.
    pub trusted_proxies: Vec<IpAddr>,
    /// Folder for what survives a restart; empty: nothing does.
    pub data_dir: String,
}

/// Sets of defaults for limits and access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Open to every client, as the original.
    Compat,
    /// Nobody without credentials.
    Secure,
}

words!(Profile, "`compat` or `secure`", "compat" => Self::Compat, "secure" => Self::Secure);

/// How the process ends.
#[derive(Clone, Debug, PartialEq)]
pub struct DrainConfig {
    /// Time from not being ready to telling clients and refusing new ones.
    pub notice: Duration,
    /// Longest time after that until the exit.
    pub grace: Duration,
    /// Time over which the connections of clients are told to go; at most half of the grace.
    pub spread: Duration,
    /// Longest time that a peer has for taking in what was written last.
    pub peer_wait: Duration,
}

/// Port of the registry, known from Eureka.
pub const DEFAULT_PORT: u16 = 8761;

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: (Ipv6Addr::UNSPECIFIED, DEFAULT_PORT).into(),
            node_id: String::new(),
            cluster: "heureka".into(),
            zone: String::new(),
            region: String::new(),
            profile: Profile::Compat,
            context_path: String::new(),
            page: true,
            trusted_proxies: Vec::new(),
            data_dir: String::new(),
        }
    }
}

impl Default for DrainConfig {
    fn default() -> Self {
        Self {
            notice: Duration::ZERO,
            grace: Duration::from_secs(30),
            spread: Duration::from_secs(10),
            peer_wait: Duration::from_secs(5),
        }
    }
}

pub(super) const SETTINGS: &[Setting] = &[
    setting!("server.listen", server.listen: SocketAddr, "Address and port of everything: gRPC, REST, metrics. Port 0 takes a free one; the bound address is printed on standard output. `[::]` takes IPv4 too."),
    setting!("server.node_id", server.node_id: String, "Name of this node; empty: drawn at the start."),
    setting!("server.cluster", server.cluster: String, "Name of the cluster. Resume tokens of another cluster are refused."),
    setting!("server.zone", server.zone: String, "Zone in which this node runs."),
    setting!("server.region", server.region: String, "Region in which this node runs."),
    setting!("server.profile", server.profile: Profile, "`compat` serves every client, as Eureka does. `secure` does not start before `auth.users` or `auth.tokens` name somebody."),
    setting!("server.context_path", server.context_path: String, "Prefix of every HTTP path, such as `/registry`. gRPC paths have no prefix."),
    setting!("server.page", server.page: bool, "Serves the status page at `/`, with what it shows as JSON below `/v1`."),
    setting!("server.trusted_proxies", server.trusted_proxies: Vec<IpAddr>, "Proxies whose requests keep the privileges of their address although they carry a forwarding header."),
    setting!("server.data_dir", server.data_dir: String, "Folder for what survives a restart, written in the background; it is created when it is missing. Empty: everything is in memory."),
    setting!("drain.notice", drain.notice: Duration, "Time after SIGTERM in which the server is not ready but serves as before, for a load balancer that has to notice."),
    setting!("drain.grace", drain.grace: Duration, "Longest time after the notice until the exit; what is still open then is cut."),
    setting!("drain.spread", drain.spread: Duration, "Time over which the HTTP/2 connections of clients are told to go elsewhere, so that they do not all come back at once; at most half of `drain.grace`."),
    setting!("drain.peer_wait", drain.peer_wait: Duration, "Longest time that a peer has for taking in what was written last before the exit."),
];

pub(super) fn check(config: &Config) -> impl Iterator<Item = Finding> {
    let ServerConfig { node_id, cluster, zone, region, profile, context_path, .. } = &config.server;
    let path = context_path;
    let path_holds = path.is_empty() || (path.starts_with('/') && path.split('/').skip(1).all(is_segment));
    [
        Finding::unless(is_name(node_id), "server.node_id", NAME),
        Finding::unless(is_name(cluster) && !cluster.is_empty(), "server.cluster", NAME),
        Finding::unless(is_name(zone), "server.zone", NAME),
        Finding::unless(is_name(region), "server.region", NAME),
        Finding::unless(
            *profile != Profile::Secure || config.auth.own().is_some(),
            "server.profile",
            "secure needs auth.users or auth.tokens",
        ),
        Finding::unless(
            path_holds,
            "server.context_path",
            "must be empty or look like /registry, without a slash at its end",
        ),
        Finding::unless(config.drain.notice <= Duration::from_hours(1), "drain.notice", "must be at most 1h"),
        Finding::unless(config.drain.grace <= Duration::from_hours(1), "drain.grace", "must be at most 1h"),
        Finding::unless(config.drain.spread <= Duration::from_hours(1), "drain.spread", "must be at most 1h"),
        Finding::unless(
            config.drain.peer_wait <= Duration::from_mins(5),
            "drain.peer_wait",
            "must be at most 5m",
        ),
        Finding::unless(
            !config.server.data_dir.contains('\0'),
            "server.data_dir",
            "must not hold a NUL byte",
        ),
    ]
    .into_iter()
    .flatten()
}

const NAME: &str = "must be at most 128 visible characters and not empty where a name is needed";

fn is_name(text: &str) -> bool {
    text.len() <= 128 && !text.chars().any(|c| c.is_control() || c.is_whitespace())
}

/// A path segment that needs no escaping and is no pattern of the router.
fn is_segment(segment: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
    !segment.is_empty() && !segment.chars().all(|c| c == '.') && segment.chars().all(plain)
}
