//! `[tls]`: how connections are encrypted.

use super::Config;
use super::setting::{Finding, Setting, setting};

/// `[tls]`: how connections are encrypted. Paths of PEM files; they are read again when they change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsConfig {
    /// Certificate of this server, followed by those between it and its root; empty: connections are plain.
    pub certificate: String,
    /// The private key to it.
    pub key: String,
    /// Certificates of those who vouch for servers that this one calls over `https`.
    pub ca: String,
}

impl TlsConfig {
    /// Whoever connects has to speak TLS.
    #[must_use]
    pub fn is_served(&self) -> bool {
        !self.certificate.is_empty()
    }

    /// There are files that may change.
    #[must_use]
    pub fn is_reloaded(&self) -> bool {
        self.is_served() || !self.ca.is_empty()
    }
}

pub(super) const SETTINGS: &[Setting] = &[
    setting!("tls.certificate", tls.certificate: String, "PEM file with the certificate of this server, then those of its issuers. With it the one port speaks TLS 1.2 and 1.3 and nothing else. Looked at every second, and at once at SIGHUP: new connections begin with a new one, and one that cannot be used leaves the last in force. Empty: connections are plain."),
    setting!("tls.key", tls.key: String, "PEM file with the private key to it (PKCS#8, PKCS#1 or SEC1, not encrypted). Both are named or neither."),
    setting!("tls.ca", tls.ca: String, "PEM file with the certificates of those who vouch for other servers: peers, servers of Netflix's kind and other regions that are named with `https`, `srvs` or `grpcs`. Nobody else is believed, the system's own list included. Looked at as above."),
];

pub(super) fn check(config: &Config) -> impl Iterator<Item = Finding> {
    let TlsConfig { certificate, key, ca } = &config.tls;
    [
        Finding::unless(
            certificate.is_empty() || !key.is_empty(),
            "tls.key",
            "is missing: tls.certificate needs the private key to it",
        ),
        Finding::unless(
            key.is_empty() || !certificate.is_empty(),
            "tls.certificate",
            "is missing: tls.key is the key to a certificate",
        ),
        Finding::unless(is_path(certificate), "tls.certificate", NO_PATH),
        Finding::unless(is_path(key), "tls.key", NO_PATH),
        Finding::unless(is_path(ca), "tls.ca", NO_PATH),
    ]
    .into_iter()
    .flatten()
}

const NO_PATH: &str = "must be the path of a file, not what the file holds";

/// A key in the place of its path must not get into a message that shows the path.
fn is_path(text: &str) -> bool {
    !text.contains("-----") && !text.contains(char::is_control)
}
