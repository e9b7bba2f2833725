//! Who calls: an ordinary client, or a peer whose copies are believed.

use std::net::IpAddr;

use heureka_registry::seeded::{Bug, planted};
use heureka_registry::{Origin, Surface};
use http::HeaderMap;
use http::request::Parts;

use crate::config::{Config, PeerAddresses, RemoteAddr};
use crate::intake::PEER;

/// Header by which a Eureka server says that it passes on what it was told.
const REPLICATION: &str = "x-netflix-discovery-replication";
/// Headers of a proxy: behind one, the socket's address tells nothing about the caller.
pub const FORWARDING: [&str; 4] = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip"];

/// Addresses with privileges, each in its shortest form.
#[derive(Debug)]
pub(crate) struct Trusted {
    peers: Vec<IpAddr>,
    /// What the names of the peers mean today.
    resolved: PeerAddresses,
    proxies: Vec<IpAddr>,
}

impl Trusted {
    /// Peers' replication headers are believed; a proxy's forwarding header takes nothing from its address.
    pub(crate) fn new(config: &Config) -> Self {
        let shortest = |addresses: &[IpAddr]| addresses.iter().map(IpAddr::to_canonical).collect();
        Self {
            peers: shortest(&config.trusted_peers),
            resolved: config.resolved_peers.clone(),
            proxies: shortest(&config.trusted_proxies),
        }
    }

    fn is_peer(&self, address: Option<IpAddr>, forwarded: bool) -> bool {
        address.is_some_and(|address| {
            self.is_peer_address(address) && (!forwarded || self.proxies.contains(&address))
        })
    }

    fn is_peer_address(&self, address: IpAddr) -> bool {
        self.peers.contains(&address) || self.resolved.contains(address)
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
    pub(crate) fn of(parts: &Parts, trusted: &Trusted) -> Self {
        let address = address(parts);
        let claims = claims_to_be_a_peer(&parts.headers);
        let believed = trusted.is_peer(address, is_forwarded(&parts.headers));
        if claims && (believed || planted(Bug::StrangerBelieved)) {
            return Self { origin: PEER, claim_ignored: false };
        }
        let origin = Origin::Client { surface: Surface::Rest, principal: None, address };
        Self { origin, claim_ignored: claims }
    }

    /// Who calls, when it is no trusted peer; for what only peers may send, whatever its headers say.
    pub(crate) fn stranger(parts: &Parts, trusted: &Trusted) -> Option<String> {
        let address = address(parts);
        let shown = || address.map_or_else(|| "unknown".to_owned(), |address| address.to_string());
        (!trusted.is_peer(address, is_forwarded(&parts.headers))).then(shown)
    }

    /// The caller is a trusted peer that passes on what it was told.
    pub(crate) fn is_peer(&self) -> bool {
        self.origin == PEER
    }
}

fn address(parts: &Parts) -> Option<IpAddr> {
    parts.extensions.get::<RemoteAddr>().map(|remote| remote.0.ip().to_canonical())
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
        let address = |text: &str| text.parse().unwrap();
        let peers = [address("10.0.0.1"), address("::ffff:10.0.0.2"), address("10.0.0.9")];
        let trusted = Trusted::new(&Config {
            trusted_peers: peers.to_vec(),
            trusted_proxies: vec![address("::ffff:10.0.0.9"), address("10.0.0.3")],
            ..Config::default()
        });
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
    fn a_peer_behind_a_trusted_proxy_stays_one() {
        assert!(caller(Some("10.0.0.9:1"), &[CLAIM, ("x-forwarded-for", "1.2.3.4")]).is_peer());
    }

    #[test]
    fn nobody_else_is_a_peer() {
        for (remote, headers) in [
            (Some("10.0.0.3:1"), vec![CLAIM]),
            (Some("10.0.0.3:1"), vec![CLAIM, ("x-forwarded-for", "10.0.0.1")]),
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
