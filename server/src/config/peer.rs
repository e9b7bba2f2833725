//! `[peer]`: other servers of the cluster.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use super::setting::{Finding, Setting, setting};
use super::value::{Raw, Value};
use super::{Config, DEFAULT_PORT};

/// `[peer]`: other servers of the cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct PeerConfig {
    /// Where they are.
    pub list: Vec<PeerAddress>,
    /// File with one of them per line, read again when it changes; empty: none.
    pub file: String,
    /// Where they reach this server; empty: at the address of the socket and the port of the listener.
    pub advertise: String,
    /// Addresses that are trusted as peers beside those of the peers themselves.
    pub trusted: Vec<IpAddr>,
    /// Time between two look-ups of their names.
    pub refresh: Duration,
    /// Longest time that a write waits until one of them has it.
    pub ack_wait: Duration,
}

/// Where to look for peers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PeerAddress {
    /// Every address of a host, on one port.
    Host {
        /// Name, or an address without brackets.
        host: String,
        /// Port.
        port: u16,
        /// It is called over TLS.
        is_secure: bool,
    },
    /// Every host and port that an SRV record names.
    Srv {
        /// Name of the record.
        name: String,
        /// They are called over TLS.
        is_secure: bool,
    },
}

impl PeerAddress {
    /// Understands `host`, `host:port`, `http://host:port`, `https://host:port`, `srv://name` and `srvs://name`.
    /// # Errors
    /// What was expected.
    pub fn read(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let expected = || {
            format!(
                "expected host:port, http://host:port, https://host:port, srv://name or srvs://name, got {text:?}"
            )
        };
        for (scheme, is_secure) in [("srv://", false), ("srvs://", true)] {
            if let Some(name) = text.strip_prefix(scheme) {
                let srv = Self::Srv { name: name.to_owned(), is_secure };
                return if is_host(name) { Ok(srv) } else { Err(expected()) };
            }
        }
        let (rest, is_secure) = match text.strip_prefix("https://") {
            Some(rest) => (rest, true),
            None => (text.strip_prefix("http://").unwrap_or(text), false),
        };
        let (host, port) = host_and_port(rest.strip_suffix('/').unwrap_or(rest)).ok_or_else(expected)?;
        let holds = port != 0 && (host.parse::<IpAddr>().is_ok() || is_host(host));
        if holds { Ok(Self::Host { host: host.to_owned(), port, is_secure }) } else { Err(expected()) }
    }

    /// The name that its certificate has to bear; nothing when it is called without TLS. For SRV records that is the
    /// domain in which the service was looked for, since whoever answers for the records may name any host.
    #[must_use]
    pub fn certified(&self) -> Option<&str> {
        match self {
            Self::Host { host, is_secure, .. } => is_secure.then_some(host),
            Self::Srv { name, is_secure } => is_secure.then(|| domain(name)),
        }
    }
}

/// `_heureka._tcp.example.com` without its labels for a service.
fn domain(name: &str) -> &str {
    let mut rest = name;
    while let Some((_, parent)) = rest.split_once('.').filter(|(label, _)| label.starts_with('_')) {
        rest = parent;
    }
    rest
}

fn host_and_port(text: &str) -> Option<(&str, u16)> {
    if text.parse::<Ipv6Addr>().is_ok() {
        return Some((text, DEFAULT_PORT));
    }
    let Some((host, port)) = text.rsplit_once(':') else {
        return Some((text.trim_matches(['[', ']']), DEFAULT_PORT));
    };
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    if let Some(bare) = bare {
        return Some((bare, port.parse().ok()?));
    }
    if text.starts_with('[') && text.ends_with(']') {
        return Some((text.trim_matches(['[', ']']), DEFAULT_PORT));
    }
    Some((host, port.parse().ok()?))
}

/// Host and port as one text.
pub(super) fn authority(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Letters of host names, and the underscore of service names.
fn is_host(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !text.is_empty() && text.len() <= 253 && text.chars().all(plain)
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Srv { name, is_secure } => {
                write!(f, "{}://{name}", if *is_secure { "srvs" } else { "srv" })
            }
            Self::Host { host, port, is_secure } => {
                let scheme = if *is_secure { "https://" } else { "" };
                write!(f, "{scheme}{}", authority(host, *port))
            }
        }
    }
}

/// A list: a TOML array, or items between commas.
impl Value for Vec<PeerAddress> {
    const KIND: &'static str = "list of `host:port`, `https://host:port`, `srv://name` or `srvs://name`";

    fn parse(raw: &Raw) -> Result<Self, String> {
        raw.items()?.iter().map(|item| PeerAddress::read(item)).collect()
    }

    fn show(&self) -> toml::Value {
        toml::Value::Array(self.iter().map(|peer| peer.to_string().into()).collect())
    }
}

impl Default for PeerConfig {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            file: String::new(),
            advertise: String::new(),
            trusted: Vec::new(),
            refresh: Duration::from_secs(30),
            ack_wait: Duration::from_millis(50),
        }
    }
}

impl PeerConfig {
    /// The server is meant to be one of several.
    #[must_use]
    pub fn is_cluster(&self) -> bool {
        !self.list.is_empty() || !self.file.is_empty()
    }
}

pub(super) const SETTINGS: &[Setting] = &[
    setting!("peer.list", peer.list: Vec<PeerAddress>, "The other servers of the cluster; this one may stand among them. A name stands for all its addresses, `srv://name` for all hosts and ports of its SRV records. Without a port: 8761. With `https` and `srvs` a peer is called over TLS and has to show a certificate from `tls.ca` for the host that is named here, or for the domain of the record (`example.com` for `srvs://_heureka._tcp.example.com`)."),
    setting!("peer.file", peer.file: String, "File with one peer per line, `#` before a remark. Looked at every second; a file that cannot be read or understood leaves the peers as they were."),
    setting!("peer.advertise", peer.advertise: String, "`host:port` under which the others know this server; empty: the address they see, with the port of the listener."),
    setting!("peer.trusted", peer.trusted: Vec<IpAddr>, "Addresses whose `x-netflix-discovery-replication` header counts, beside those of `eureka.peers`. Replication streams are taken from them, too, beside those of the peers above."),
    setting!("peer.refresh", peer.refresh: Duration, "Time between two look-ups of the peers' names. A look-up that fails or finds nothing leaves the addresses as they were."),
    setting!("peer.ack_wait", peer.ack_wait: Duration, "How long a register, cancel, override or metadata call waits until one other server has the change. After that it is answered and counted."),
];

pub(super) fn check(config: &Config) -> impl Iterator<Item = Finding> {
    let PeerConfig { list, advertise, refresh, ack_wait, .. } = &config.peer;
    let advertised = advertise.is_empty()
        || matches!(PeerAddress::read(advertise), Ok(PeerAddress::Host { is_secure: false, .. }));
    let believed = !config.tls.ca.is_empty() || list.iter().all(|peer| peer.certified().is_none());
    let refreshed = (Duration::from_secs(1)..=Duration::from_hours(24)).contains(refresh);
    [
        Finding::unless(
            believed,
            "peer.list",
            "needs tls.ca, the certificates by which https and srvs peers are known",
        ),
        Finding::unless(advertised, "peer.advertise", "must be empty or look like host:port"),
        Finding::unless(refreshed, "peer.refresh", "must lie between 1s and 24h"),
        Finding::unless(*ack_wait <= Duration::from_secs(5), "peer.ack_wait", "must be at most 5s"),
    ]
    .into_iter()
    .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_read_in_every_usual_form() {
        let table = [
            ("10.0.0.1:99", "10.0.0.1:99"),
            ("b.example", "b.example:8761"),
            (" http://b.example:1/ ", "b.example:1"),
            ("[::1]:99", "[::1]:99"),
            ("[::1]", "[::1]:8761"),
            ("::1", "[::1]:8761"),
            ("srv://_heureka._tcp.example.com", "srv://_heureka._tcp.example.com"),
            ("https://b.example/", "https://b.example:8761"),
            ("https://[::1]:99", "https://[::1]:99"),
            ("srvs://_heureka._tcp.example.com", "srvs://_heureka._tcp.example.com"),
        ];
        for (text, shown) in table {
            let peer = PeerAddress::read(text).unwrap();
            assert_eq!(peer.to_string(), shown, "{text}");
            assert_eq!(PeerAddress::read(shown), Ok(peer));
        }
    }

    #[test]
    fn what_is_no_peer_is_refused() {
        for text in [
            "",
            ":1",
            "a b:1",
            "a:0",
            "a:65536",
            "a:b",
            "http://",
            "ftp://a:1",
            "a:1/x",
            "srv://",
            "srvs://",
            "https://",
            "[a:1",
        ] {
            assert!(PeerAddress::read(text).unwrap_err().contains("expected"), "{text}");
        }
    }

    #[test]
    fn who_is_called_over_tls_has_to_bear_its_name() {
        let table = [
            ("b.example:1", None),
            ("srv://_heureka._tcp.example.com", None),
            ("https://b.example:1", Some("b.example")),
            ("https://[::1]:1", Some("::1")),
            ("srvs://_heureka._tcp.example.com", Some("example.com")),
            ("srvs://example.com", Some("example.com")),
        ];
        for (text, name) in table {
            assert_eq!(PeerAddress::read(text).unwrap().certified(), name, "{text}");
        }
    }
}
