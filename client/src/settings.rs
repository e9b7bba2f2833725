//! What an application may set.

use std::time::Duration;

/// Settings of a client. Every field has a default that fits most applications:
///
/// ```
/// # use std::time::Duration;
/// let settings = heureka_client::Settings { bookmark_interval: Duration::from_secs(3), ..Default::default() };
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Longest time that one call may take on one server, the repetition of a write that was overtaken included; 5 s.
    pub call_timeout: Duration,
    /// How often the server shows a sign of life on a watch, 1 s to 60 s; 5 s. After three of them in silence the
    /// client goes to another server. Ask for less where a proxy cuts quiet streams.
    pub bookmark_interval: Duration,
    /// Longest time that a cache holds a suspicious snapshot back, counted from the first one; 5 min. Zero takes
    /// every snapshot at once. See [`Cache`](crate::Cache).
    pub snapshot_hold: Duration,
    /// What operators see on the server, at most 256 bytes; name and version of this crate.
    pub client_name: String,
    /// Certificates, as PEM, of those who vouch for servers at addresses with `https`; none. Nobody else is believed,
    /// the system's own list included. Such addresses are taken with the feature `tls` only.
    pub ca: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            call_timeout: Duration::from_secs(5),
            bookmark_interval: Duration::from_secs(5),
            snapshot_hold: Duration::from_mins(5),
            client_name: concat!("heureka-client/", env!("CARGO_PKG_VERSION")).to_owned(),
            ca: String::new(),
        }
    }
}

impl Settings {
    /// Silence after which a stream counts as dead.
    pub(crate) fn silence(&self) -> Duration {
        self.bookmark_interval.saturating_mul(3)
    }
}
