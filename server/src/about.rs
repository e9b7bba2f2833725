//! What the server tells readers of the Eureka surface's `status` about itself.

use std::fs;
use std::num::NonZero;
use std::sync::Arc;
use std::thread;

use heureka_compat_http::{About, Replica, ServerStatus};
use heureka_model::{Clock, Instance, InstanceKey, Port, Status};
use heureka_proto::admin::v1::Peer;
use heureka_registry::replication::Identity;

use crate::life::{Known, Life};

/// Name of the application that the server calls itself.
const APP: &str = "HEUREKA";

/// The server from now on, by the name and address that its peers know.
pub(crate) fn about(
    identity: &Identity,
    is_secure: bool,
    known: Known,
    life: Arc<Life>,
    clock: Arc<dyn Clock>,
) -> About {
    let environment = identity.cluster.clone();
    let instance = instance(&identity.node, &identity.address, is_secure);
    let started = clock.now();
    About::new(move || {
        let now = clock.now();
        let status = if life.serves_readers() { Status::Up } else { Status::Starting };
        ServerStatus {
            environment: environment.clone(),
            processors: thread::available_parallelism().map_or(0, NonZero::get),
            memory_total: kilobytes("/proc/meminfo", "MemTotal:"),
            memory_used: kilobytes("/proc/self/status", "VmRSS:"),
            uptime: now.mono.since(started.mono),
            replicas: known(now).into_iter().map(|peer| replica(peer, is_secure)).collect(),
            instance: Some(Instance { status, last_dirty: Some(started.wall), ..instance.clone() }),
        }
    })
}

/// What a server of Netflix's kind would tell of itself. One that listens on every address has none to tell.
fn instance(node: &str, address: &str, is_secure: bool) -> Instance {
    let key = InstanceKey { app: APP.into(), id: node.into(), ..InstanceKey::default() };
    let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
    let host = if host.is_empty() { node } else { host.trim_matches(['[', ']']) };
    let port = port.parse().ok().map(|number| Port { number, enabled: true });
    let (port, secure_port) = if is_secure { (None, port) } else { (port, None) };
    let vip_address = APP.to_lowercase();
    let (host_name, ip_address) = (host.into(), host.into());
    Instance { host_name, ip_address, port, secure_port, vip_address, ..Instance::new(key) }
}

/// Servers of one cluster are called alike.
fn replica(peer: Peer, is_secure: bool) -> Replica {
    let scheme = if is_secure { "https" } else { "http" };
    let url = if peer.uri.contains("://") { peer.uri } else { format!("{scheme}://{}/eureka/", peer.uri) };
    Replica { url, available: peer.connected }
}

/// Bytes on a line of one of Linux's files; nothing elsewhere.
pub(crate) fn kilobytes(file: &str, line: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let value = text.lines().find_map(|one| one.strip_prefix(line))?;
    let kilobytes: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_an_instance_by_the_address_that_it_has() {
        for (address, host, port) in [
            ("10.0.0.1:8761", "10.0.0.1", Some(8761)),
            ("[2001:db8::1]:8761", "2001:db8::1", Some(8761)),
            ("eureka.example:80", "eureka.example", Some(80)),
            (":8761", "node-1", Some(8761)),
            ("", "node-1", None),
        ] {
            let told = instance("node-1", address, false);
            assert_eq!((told.key.id.as_str(), told.host_name.as_str()), ("node-1", host), "{address}");
            assert_eq!(told.port.map(|port| port.number), port, "{address}");
            let secure = instance("node-1", address, true);
            assert_eq!((secure.port, secure.secure_port), (None, told.port), "{address}");
        }
    }

    #[test]
    fn servers_of_either_kind_are_told_by_a_url() {
        let peer = |uri: &str| Peer { uri: uri.into(), connected: true, ..Peer::default() };
        let told = |uri: &str| replica(peer(uri), false);
        assert_eq!(told("10.0.0.2:8761").url, "http://10.0.0.2:8761/eureka/");
        assert_eq!(replica(peer("10.0.0.2:8761"), true).url, "https://10.0.0.2:8761/eureka/");
        assert_eq!(told("https://host/eureka/").url, "https://host/eureka/");
        assert!(told("host:1").available);
    }
}
