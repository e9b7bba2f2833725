//! `[eureka]`: servers of Netflix's kind beside this one.

use std::fmt;
use std::time::Duration;

use super::Config;
use super::auth::{basic, unescaped};
use super::peer::authority;
use super::setting::{Finding, Setting, setting};
use super::value::{Raw, Value, secrets};

/// `[eureka]`: servers of Netflix's kind beside this one.
#[derive(Clone, Debug, PartialEq)]
pub struct EurekaConfig {
    /// Servers to exchange instances with.
    pub peers: Vec<EurekaUrl>,
    /// Server to follow and compare with, without writing to it.
    pub shadow: Vec<EurekaUrl>,
    /// Servers of other regions, the first of each name before the next.
    pub regions: Vec<RegionUrl>,
    /// Longest time until a connection is open.
    pub connect_timeout: Duration,
    /// Longest time without a byte of an answer.
    pub read_timeout: Duration,
    /// Time between two looks at what a peer holds, and between two polls of a shadowed server.
    pub check_interval: Duration,
}

/// Address of a server of Netflix's kind.
#[derive(Clone, PartialEq, Eq)]
pub struct EurekaUrl {
    /// Name, or an address without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// It is called over TLS.
    pub is_secure: bool,
    /// Prefix of every path, with a slash at both ends.
    pub path: String,
    /// Value of the header `Authorization`, when the address names a user.
    pub authorization: Option<String>,
}

/// A server of another region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionUrl {
    /// Name of the region, in lower case.
    pub name: String,
    /// How the server is read.
    pub source: RegionSource,
}

/// How a server of another region is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegionSource {
    /// By its lists and deltas; any server of Netflix's kind, and ours.
    Lists(EurekaUrl),
    /// By a watch of the native contract, of a server of ours.
    Watch(WatchUrl),
}

/// Address of a server of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchUrl {
    /// Name, or an address without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// It is called over TLS.
    pub is_secure: bool,
}

impl WatchUrl {
    fn read(text: &str) -> Result<Self, String> {
        let (place, is_secure) = match text.strip_prefix("grpcs://") {
            Some(place) => (place, true),
            None => (text.strip_prefix("grpc://").unwrap_or(text), false),
        };
        let (host, port) = host_and_port(place.trim_end_matches('/')).ok_or(REGION)?;
        Ok(Self { host: host.to_owned(), port, is_secure })
    }

    /// Host and port as one text.
    #[must_use]
    pub fn authority(&self) -> String {
        authority(&self.host, self.port)
    }
}

impl fmt::Display for WatchUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.is_secure { "grpcs" } else { "grpc" }, self.authority())
    }
}

const REGION: &str =
    "expected name=grpc://host:port or name=http://host:port/eureka/, or either over TLS with grpcs or https";

impl RegionUrl {
    /// Understands `name=grpc://host:port` and `name=http://user:password@host:port/eureka/`, and `grpcs` and `https`.
    /// # Errors
    /// What was expected; never the credentials.
    pub fn read(text: &str) -> Result<Self, String> {
        let (name, url) = text.trim().split_once('=').ok_or(REGION)?;
        let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(c);
        if name.is_empty() || !name.chars().all(is_part) {
            return Err("the name of a region holds a-z, 0-9, -, _ and .".into());
        }
        let source = if url.starts_with("grpc://") || url.starts_with("grpcs://") {
            RegionSource::Watch(WatchUrl::read(url)?)
        } else {
            RegionSource::Lists(EurekaUrl::read(url)?)
        };
        Ok(Self { name: name.to_owned(), source })
    }
}

impl RegionSource {
    fn is_secure(&self) -> bool {
        match self {
            Self::Lists(url) => url.is_secure,
            Self::Watch(url) => url.is_secure,
        }
    }
}

/// Credentials stay out of it.
impl fmt::Display for RegionSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lists(url) => url.fmt(f),
            Self::Watch(url) => url.fmt(f),
        }
    }
}

impl EurekaUrl {
    /// Understands `http://user:password@host:port/eureka/`, and `https`.
    /// # Errors
    /// What was expected; never the credentials.
    pub fn read(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (rest, is_secure) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
            (Some(rest), _) => (rest, false),
            (_, Some(rest)) => (rest, true),
            _ => return Err("expected http://host:port/eureka/ or https://host:port/eureka/".to_owned()),
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, "eureka/"));
        let (user, place) = match authority.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, authority),
        };
        let (host, port) = host_and_port(place).ok_or("expected a host and a port after the scheme")?;
        let plain = |c: char| c.is_ascii_graphic() && !"?#\\\"<>".contains(c);
        if !path.chars().all(plain) {
            return Err("the path holds characters that need escaping".into());
        }
        let slash = if path.is_empty() || path.ends_with('/') { "" } else { "/" };
        let authorization = user.map(authorization).transpose()?;
        Ok(Self { host: host.to_owned(), port, is_secure, path: format!("/{path}{slash}"), authorization })
    }

    /// Host and port as a request names them.
    #[must_use]
    pub fn authority(&self) -> String {
        authority(&self.host, self.port)
    }
}

/// Credentials stay out of texts: what is shown does not lead back to them.
impl fmt::Display for EurekaUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = if self.authorization.is_some() { "***@" } else { "" };
        let scheme = if self.is_secure { "https" } else { "http" };
        write!(f, "{scheme}://{user}{}{}", self.authority(), self.path)
    }
}

impl fmt::Debug for EurekaUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn host_and_port(place: &str) -> Option<(&str, u16)> {
    let (host, port) = match place.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            (host, after.strip_prefix(':').unwrap_or("8761"))
        }
        None => place.split_once(':').unwrap_or((place, "8761")),
    };
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    let port = port.parse().ok().filter(|port| *port != 0)?;
    (!host.is_empty() && host.chars().all(is_part)).then_some((host, port))
}

fn authorization(user: &str) -> Result<String, String> {
    let (name, password) = user.split_once(':').unwrap_or((user, ""));
    match (unescaped(name), unescaped(password)) {
        (Some(name), Some(password)) => Ok(basic(&name, &password)),
        _ => Err("user and password must be UTF-8, escaped with %".into()),
    }
}

impl Value for Vec<EurekaUrl> {
    const KIND: &'static str = "list of `http://user:password@host:port/eureka/`";

    fn parse(raw: &Raw) -> Result<Self, String> {
        secrets(raw, EurekaUrl::read)
    }

    fn show(&self) -> toml::Value {
        toml::Value::Array(self.iter().map(|url| url.to_string().into()).collect())
    }
}

impl Value for Vec<RegionUrl> {
    const KIND: &'static str =
        "list of `region=grpc://host:port` or `region=http://user:password@host:port/eureka/`";

    fn parse(raw: &Raw) -> Result<Self, String> {
        secrets(raw, RegionUrl::read)
    }

    fn show(&self) -> toml::Value {
        toml::Value::Array(self.iter().map(|one| format!("{}={}", one.name, one.source).into()).collect())
    }
}

impl Default for EurekaConfig {
    fn default() -> Self {
        Self {
            peers: Vec::new(),
            shadow: Vec::new(),
            regions: Vec::new(),
            connect_timeout: Duration::from_secs(1),
            read_timeout: Duration::from_secs(5),
            check_interval: Duration::from_secs(30),
        }
    }
}

pub(super) const SETTINGS: &[Setting] = &[
    setting!("eureka.peers", eureka.peers: Vec<EurekaUrl>, "Servers of Netflix's kind with which this one exchanges instances in both directions; each must list this one as its peer, too. The list of one of them is taken in before readers are served, for which `startup.peer_wait` counts. Their addresses are trusted like those of `peer.trusted`. User and password are escaped with `%` and never shown: `--print-config` prints `***` in their place. `https` needs `tls.ca`."),
    setting!("eureka.shadow", eureka.shadow: Vec<EurekaUrl>, "Server of Netflix's kind, at most one, that is followed without writing to it; every difference is reported."),
    setting!("eureka.regions", eureka.regions: Vec<RegionUrl>, "Servers of other regions whose instances are told to readers that name the region in `?regions=`: ours by a watch (`grpc://`), those of Netflix's kind by their lists (`http://`); `grpcs://` and `https://` over TLS. Of several with one name the first that answers is followed."),
    setting!("eureka.connect_timeout", eureka.connect_timeout: Duration, "Longest time until a connection to such a server is open."),
    setting!("eureka.read_timeout", eureka.read_timeout: Duration, "Longest time without a byte of its answer."),
    setting!("eureka.check_interval", eureka.check_interval: Duration, "Time between two looks at what such a peer holds, and between two polls of a shadowed server or another region."),
];

const UNKNOWN: &str = "needs tls.ca, the certificates by which servers that are called over TLS are known";

pub(super) fn check(config: &Config) -> impl Iterator<Item = Finding> {
    let EurekaConfig { peers, shadow, connect_timeout, read_timeout, check_interval, .. } = &config.eureka;
    let timeout = |value: &Duration| (Duration::from_millis(1)..=Duration::from_mins(5)).contains(value);
    let is_believed = |is_secure: bool| !is_secure || !config.tls.ca.is_empty();
    let (peer, followed) = (peers.iter().any(|url| url.is_secure), shadow.iter().any(|url| url.is_secure));
    let region = config.eureka.regions.iter().any(|one| one.source.is_secure());
    let repeated = peers.iter().enumerate().any(|(place, url)| peers[..place].contains(url));
    [
        Finding::unless(!repeated, "eureka.peers", "names a server twice"),
        Finding::unless(shadow.len() <= 1, "eureka.shadow", "must name at most one server"),
        Finding::unless(
            shadow.is_empty() || peers.is_empty(),
            "eureka.shadow",
            "excludes eureka.peers: who shadows writes to nobody",
        ),
        Finding::unless(is_believed(peer), "eureka.peers", UNKNOWN),
        Finding::unless(is_believed(followed), "eureka.shadow", UNKNOWN),
        Finding::unless(is_believed(region), "eureka.regions", UNKNOWN),
        Finding::unless(timeout(connect_timeout), "eureka.connect_timeout", "must lie between 1ms and 5m"),
        Finding::unless(timeout(read_timeout), "eureka.read_timeout", "must lie between 1ms and 5m"),
        Finding::unless(
            (Duration::from_millis(100)..=Duration::from_hours(1)).contains(check_interval),
            "eureka.check_interval",
            "must lie between 100ms and 1h",
        ),
    ]
    .into_iter()
    .flatten()
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    #[test]
    fn addresses_are_read_and_credentials_never_shown() {
        let url = EurekaUrl::read("http://us%40er:p%3Aw@host:8762/eureka").unwrap();
        assert_eq!((url.host.as_str(), url.port, url.path.as_str()), ("host", 8762, "/eureka/"));
        assert_eq!(url.authorization.as_deref(), Some(&*format!("Basic {}", STANDARD.encode("us@er:p:w"))));
        assert_eq!(format!("{url} {url:?}"), "http://***@host:8762/eureka/ http://***@host:8762/eureka/");
        for (text, shown) in [
            ("http://h", "http://h:8761/eureka/"),
            ("http://h/", "http://h:8761/"),
            ("http://[::1]:80/eureka/v2/", "http://[::1]:80/eureka/v2/"),
            ("https://u:secret@h", "https://***@h:8761/eureka/"),
            (" http://10.0.0.1/eureka/ ", "http://10.0.0.1:8761/eureka/"),
        ] {
            assert_eq!(EurekaUrl::read(text).unwrap().to_string(), shown);
        }
    }

    #[test]
    fn regions_have_a_name_and_an_address() {
        let region = RegionUrl::read("us-east=http://u:secret@h/eureka/").unwrap();
        assert_eq!(
            (region.name.as_str(), region.source.to_string().as_str()),
            ("us-east", "http://***@h:8761/eureka/")
        );
        let watched = RegionUrl::read("eu=grpc://[::1]:9000").unwrap();
        assert_eq!(watched.source.to_string(), "grpc://[::1]:9000");
        for (text, shown) in [("eu=grpcs://h", "grpcs://h:8761"), ("eu=https://h:1/", "https://h:1/")] {
            let source = RegionUrl::read(text).unwrap().source;
            assert!(source.is_secure() && source.to_string() == shown, "{source}");
        }
        for text in [
            "eu=grpc://",
            "eu=grpc://h:x",
            "",
            "http://h/",
            "US=http://h/",
            "=http://h/",
            "us east=http://h/",
            "us=h",
        ] {
            assert!(RegionUrl::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_without_telling_secrets() {
        for text in [
            "",
            "host:1",
            "ftp://h/",
            "https://u:secret@/",
            "http://",
            "http://h:0/",
            "http://h:x/",
            "http://u:secret@/",
            "http://h/a b",
            "http://u:sec%ffret@h/",
            "http://u:secret@h h/",
        ] {
            let refusal = EurekaUrl::read(text).unwrap_err();
            assert!(!refusal.contains("sec"), "{text}: {refusal}");
        }
    }
}
