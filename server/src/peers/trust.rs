//! Whose calls are a peer's.

use std::collections::BTreeSet;
use std::net::IpAddr;

use parking_lot::RwLock;
use tonic::metadata::MetadataMap;

/// Headers of a request that came through somebody else.
const FORWARDING: [&str; 4] = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip"];

/// Addresses that may call as peers: those that are set, and those of the peers themselves.
#[derive(Debug, Default)]
pub(crate) struct Trust {
    fixed: BTreeSet<IpAddr>,
    proxies: BTreeSet<IpAddr>,
    resolved: RwLock<BTreeSet<IpAddr>>,
}

impl Trust {
    pub(crate) fn new(fixed: &[IpAddr], proxies: &[IpAddr]) -> Self {
        let shortest = |addresses: &[IpAddr]| addresses.iter().map(IpAddr::to_canonical).collect();
        Self { fixed: shortest(fixed), proxies: shortest(proxies), resolved: RwLock::default() }
    }

    /// From now on these are the addresses of the peers.
    pub(crate) fn resolve(&self, addresses: BTreeSet<IpAddr>) {
        *self.resolved.write() = addresses;
    }

    /// Whether the address is a peer's.
    pub(crate) fn holds(&self, address: IpAddr) -> bool {
        self.fixed.contains(&address) || self.resolved.read().contains(&address)
    }

    /// Whether a call is a peer's. One that was forwarded is its sender's only by a trusted proxy's word.
    pub(crate) fn admits(&self, address: IpAddr, headers: &MetadataMap) -> bool {
        let forwarded = FORWARDING.iter().any(|name| headers.contains_key(*name));
        self.holds(address) && (!forwarded || self.proxies.contains(&address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn set_and_resolved_addresses_are_peers_and_nobody_else() {
        let trust = Trust::new(&[ip("::ffff:10.0.0.1"), ip("10.0.0.9")], &[ip("10.0.0.9")]);
        trust.resolve(BTreeSet::from([ip("10.0.0.2")]));
        let plain = MetadataMap::new();
        let mut forwarded = MetadataMap::new();
        forwarded.insert("x-forwarded-for", "10.0.0.1".parse().unwrap());
        let table = [
            ("10.0.0.1", &plain, true),
            ("10.0.0.2", &plain, true),
            ("10.0.0.3", &plain, false),
            ("10.0.0.1", &forwarded, false),
            ("10.0.0.9", &forwarded, true),
        ];
        for (address, headers, admitted) in table {
            assert_eq!(trust.admits(ip(address), headers), admitted, "{address}");
        }
        trust.resolve(BTreeSet::new());
        assert!(!trust.holds(ip("10.0.0.2")) && trust.holds(ip("10.0.0.1")));
    }
}
