//! Who calls: an ordinary client, or a peer whose copies are believed.

use std::net::IpAddr;

use heureka_registry::{Origin, Surface};
use http::HeaderMap;
use http::request::Parts;

use crate::config::RemoteAddr;

/// Header by which a Eureka server says that it passes on what it was told.
const REPLICATION: &str = "x-netflix-discovery-replication";
/// Headers of a proxy: behind one, the socket's address tells nothing about the caller.
const FORWARDING: [&str; 4] = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip"];

/// Addresses whose replication header is believed, each in its shortest form.
#[derive(Debug)]
pub(crate) struct TrustedPeers(Vec<IpAddr>);

impl TrustedPeers {
    pub(crate) fn new(addresses: &[IpAddr]) -> Self {
        Self(addresses.iter().map(IpAddr::to_canonical).collect())
    }

    fn contains(&self, address: Option<IpAddr>) -> bool {
        address.is_some_and(|address| self.0.contains(&address))
    }
}

/// The caller of one request.
#[derive(Debug)]
pub(crate) struct Caller {
    /// Cause of the changes that it makes.
    pub(crate) origin: Origin,
    /// It claimed to be a peer and is not trusted as one.
    pub(crate) claim_ignored: bool,
}

impl Caller {
    /// Tells the caller by socket and headers.
    pub(crate) fn of(parts: &Parts, trusted: &TrustedPeers) -> Self {
        let address = parts.extensions.get::<RemoteAddr>().map(|remote| remote.0.ip().to_canonical());
        let claims = claims_to_be_a_peer(&parts.headers);
        if claims && trusted.contains(address) && !is_forwarded(&parts.headers) {
            return Self { origin: Origin::Peer, claim_ignored: false };
        }
        let origin = Origin::Client { surface: Surface::Rest, principal: None, address };
        Self { origin, claim_ignored: claims }
    }

    /// The caller is a trusted peer that passes on what it was told.
    pub(crate) fn is_peer(&self) -> bool {
        self.origin == Origin::Peer
    }
}

/// Exactly `true`, as the original asks for.
fn claims_to_be_a_peer(headers: &HeaderMap) -> bool {
    headers.get(REPLICATION).is_some_and(|value| value.as_bytes() == b"true")
}

fn is_forwarded(headers: &HeaderMap) -> bool {
    FORWARDING.iter().any(|name| headers.contains_key(*name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn caller(remote: Option<&str>, headers: &[(&str, &str)]) -> Caller {
        let trusted = TrustedPeers::new(&["10.0.0.1".parse().unwrap(), "::ffff:10.0.0.2".parse().unwrap()]);
        let mut request = Request::builder();
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(()).unwrap();
        if let Some(remote) = remote {
            request.extensions_mut().insert(RemoteAddr(remote.parse().unwrap()));
        }
        Caller::of(&request.into_parts().0, &trusted)
    }

    const CLAIM: (&str, &str) = ("x-netflix-discovery-replication", "true");

    #[test]
    fn a_peer_is_trusted_by_its_socket_in_either_family() {
        for remote in ["10.0.0.1:1", "[::ffff:10.0.0.1]:1", "10.0.0.2:9", "[::ffff:10.0.0.2]:1"] {
            assert!(caller(Some(remote), &[CLAIM]).is_peer(), "{remote}");
        }
    }

    #[test]
    fn nobody_else_is_a_peer() {
        for (remote, headers) in [
            (Some("10.0.0.3:1"), vec![CLAIM]),
            (None, vec![CLAIM]),
            (Some("10.0.0.1:1"), vec![CLAIM, ("x-forwarded-for", "10.0.0.1")]),
            (Some("10.0.0.1:1"), vec![CLAIM, ("forwarded", "for=10.0.0.1")]),
        ] {
            let caller = caller(remote, &headers);
            assert!(!caller.is_peer() && caller.claim_ignored, "{remote:?} {headers:?}");
        }
        for value in ["TRUE", "1", "false"] {
            let caller = caller(Some("10.0.0.1:1"), &[("x-netflix-discovery-replication", value)]);
            assert!(!caller.is_peer() && !caller.claim_ignored, "{value}");
        }
    }
}
