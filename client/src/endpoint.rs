//! Where an instance is called.

use std::fmt;
use std::net::Ipv6Addr;
use std::sync::Arc;

use heureka_model::{Port, Registration};

use crate::Error;

/// Address of an instance by the port rule: an enabled secure port means https, otherwise an enabled plain port means
/// http. The host is the host name, or the IP address when there is none.
///
/// Displayed as a URL without a path: `https://n7.lan:8443`.
#[derive(Clone, Debug, PartialEq)]
pub struct Endpoint {
    registration: Arc<Registration>,
    is_secure: bool,
    port: u16,
}

impl Endpoint {
    /// The endpoint of an instance.
    ///
    /// # Errors
    /// [`Error::NoEndpoint`] names an instance without an enabled port, or without a host.
    pub fn of(registration: Arc<Registration>) -> Result<Self, Error> {
        let instance = &registration.instance;
        let is_enabled = |port: &Option<Port>| port.filter(|port| port.enabled).map(|port| port.number);
        let secure = is_enabled(&instance.secure_port);
        let has_host = !instance.host_name.is_empty() || !instance.ip_address.is_empty();
        match secure.or_else(|| is_enabled(&instance.port)) {
            Some(port) if has_host => Ok(Self { is_secure: secure.is_some(), port, registration }),
            _ => Err(Error::NoEndpoint(instance.key.clone())),
        }
    }

    /// The instance, with its labels and its additional ports.
    #[must_use]
    pub fn registration(&self) -> &Arc<Registration> {
        &self.registration
    }

    /// `https` or `http`.
    #[must_use]
    pub fn scheme(&self) -> &'static str {
        if self.is_secure { "https" } else { "http" }
    }

    /// Host name or IP address.
    #[must_use]
    pub fn host(&self) -> &str {
        let instance = &self.registration.instance;
        if instance.host_name.is_empty() { &instance.ip_address } else { &instance.host_name }
    }

    /// Port number.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, host, port) = (self.scheme(), self.host(), self.port);
        if host.parse::<Ipv6Addr>().is_ok() {
            write!(f, "{scheme}://[{host}]:{port}")
        } else {
            write!(f, "{scheme}://{host}:{port}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::registration;

    fn endpoint(plain: Option<(u16, bool)>, secure: Option<(u16, bool)>, host: &str, ip: &str) -> String {
        let port = |port: Option<(u16, bool)>| port.map(|(number, enabled)| Port { number, enabled });
        let mut registration = Arc::unwrap_or_clone(registration("s1", 1));
        registration.instance.port = port(plain);
        registration.instance.secure_port = port(secure);
        registration.instance.host_name = host.into();
        registration.instance.ip_address = ip.into();
        Endpoint::of(Arc::new(registration)).map_or_else(|error| error.to_string(), |to| to.to_string())
    }

    #[test]
    fn an_enabled_secure_port_wins_over_an_enabled_plain_one() {
        let table = [
            (Some((8080, false)), Some((8443, true)), "https://h:8443"),
            (Some((8080, true)), Some((8443, true)), "https://h:8443"),
            (Some((8080, true)), Some((8443, false)), "http://h:8080"),
            (Some((8080, true)), None, "http://h:8080"),
            (Some((8080, false)), Some((8443, false)), "WEB/s1 has no enabled port or no host"),
            (None, None, "WEB/s1 has no enabled port or no host"),
        ];
        for (plain, secure, expected) in table {
            assert_eq!(endpoint(plain, secure, "h", "10.0.0.1"), expected);
        }
    }

    #[test]
    fn the_host_is_a_name_or_else_an_address() {
        let port = Some((80, true));
        assert_eq!(endpoint(port, None, "", "10.0.0.1"), "http://10.0.0.1:80");
        assert_eq!(endpoint(port, None, "", "fd00::1"), "http://[fd00::1]:80");
        assert_eq!(endpoint(port, None, "", ""), "WEB/s1 has no enabled port or no host");
    }
}
