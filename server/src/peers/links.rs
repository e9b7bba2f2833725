//! Streams that are up, and what went over them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Servers whose traffic is remembered; when more come, those without a stream are forgotten.
const NODES: usize = 64;

/// Streams that are up.
#[derive(Default)]
pub(crate) struct Links {
    streams: Mutex<Streams>,
    /// Rises when a stream ends.
    ended: watch::Sender<u64>,
}

#[derive(Default)]
struct Streams {
    last_id: u64,
    up: BTreeMap<u64, Stream>,
    traffic: BTreeMap<String, Arc<Traffic>>,
}

struct Stream {
    node: String,
    remote: IpAddr,
    close: CancellationToken,
}

/// What went to one server and came from it.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) frames_sent: AtomicU64,
    pub(crate) frames_received: AtomicU64,
    pub(crate) bytes_sent: AtomicU64,
    pub(crate) bytes_received: AtomicU64,
}

/// A stream that is up for as long as this is held.
pub(super) struct Up {
    links: Arc<Links>,
    id: u64,
    pub(super) traffic: Arc<Traffic>,
}

impl Traffic {
    pub(super) fn sent(&self, bytes: usize) {
        self.frames_sent.fetch_add(1, Ordering::Relaxed);
        self.bytes_sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn received(&self, bytes: usize) {
        self.frames_received.fetch_add(1, Ordering::Relaxed);
        self.bytes_received.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl Links {
    /// A stream is up; `close` ends it.
    pub(super) fn enter(self: &Arc<Self>, node: &str, remote: IpAddr, close: CancellationToken) -> Up {
        let mut streams = self.streams.lock();
        streams.last_id += 1;
        let id = streams.last_id;
        streams.up.insert(id, Stream { node: node.to_owned(), remote, close });
        let traffic = streams.traffic_of(node);
        Up { links: Arc::clone(self), id, traffic }
    }

    /// Waits until there is no stream to a server.
    pub(super) async fn gone(&self, node: &str) {
        let mut ended = self.ended.subscribe();
        while self.is_up(node) {
            if ended.changed().await.is_err() {
                return;
            }
        }
    }

    /// Ends the streams to all addresses that do not satisfy a condition.
    pub(super) fn keep(&self, holds: impl Fn(IpAddr) -> bool) {
        let streams = self.streams.lock();
        streams.up.values().filter(|stream| !holds(stream.remote)).for_each(|stream| stream.close.cancel());
    }

    /// Names of the servers with a stream.
    pub(crate) fn nodes(&self) -> BTreeSet<String> {
        self.streams.lock().up.values().map(|stream| stream.node.clone()).collect()
    }

    /// Servers of which anything is known, with what went to and fro, and whether there is a stream.
    pub(crate) fn traffic(&self) -> Vec<(String, Arc<Traffic>, bool)> {
        let streams = self.streams.lock();
        let of =
            |(node, traffic): (&String, &Arc<Traffic>)| (node.clone(), traffic.clone(), streams.is_up(node));
        streams.traffic.iter().map(of).collect()
    }

    fn is_up(&self, node: &str) -> bool {
        self.streams.lock().is_up(node)
    }
}

impl Streams {
    fn is_up(&self, node: &str) -> bool {
        self.up.values().any(|stream| stream.node == node)
    }

    fn traffic_of(&mut self, node: &str) -> Arc<Traffic> {
        if self.traffic.len() >= NODES && !self.traffic.contains_key(node) {
            let up: Vec<_> = self.up.values().map(|stream| stream.node.clone()).collect();
            self.traffic.retain(|node, _| up.contains(node));
        }
        self.traffic.entry(node.to_owned()).or_default().clone()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        self.links.streams.lock().up.remove(&self.id);
        self.links.ended.send_modify(|ended| *ended += 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_end_of_the_last_stream_to_a_server_is_waited_for() {
        let links = Arc::new(Links::default());
        links.gone("b").await;
        let ip = "10.0.0.1".parse().unwrap();
        let (first, second) =
            (links.enter("b", ip, CancellationToken::new()), links.enter("b", ip, CancellationToken::new()));
        let waiting = tokio::spawn({
            let links = links.clone();
            async move { links.gone("b").await }
        });
        drop(first);
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(second);
        waiting.await.unwrap();
    }

    #[test]
    fn streams_to_addresses_that_are_peers_no_more_are_closed() {
        let links = Arc::new(Links::default());
        let (stays, goes) = (CancellationToken::new(), CancellationToken::new());
        let _up = [
            links.enter("b", "10.0.0.1".parse().unwrap(), stays.clone()),
            links.enter("c", "10.0.0.2".parse().unwrap(), goes.clone()),
        ];
        links.keep(|address| address.to_string() == "10.0.0.1");
        assert!(!stays.is_cancelled() && goes.is_cancelled());
    }

    #[test]
    fn traffic_outlives_its_stream_but_is_bounded() {
        let links = Arc::new(Links::default());
        let ip = "10.0.0.1".parse().unwrap();
        let kept = links.enter("kept", ip, CancellationToken::new());
        for number in 0..200 {
            let up = links.enter(&format!("n{number}"), ip, CancellationToken::new());
            up.traffic.sent(7);
        }
        let traffic = links.traffic();
        assert!(traffic.len() <= NODES && traffic.iter().any(|(node, _, up)| node == "kept" && *up));
        assert!(traffic.iter().any(|(node, traffic, up)| {
            node == "n199" && traffic.bytes_sent.load(Ordering::Relaxed) == 7 && !up
        }));
        drop(kept);
    }
}
