//! Who is connected, and what was taken in from whom.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use heureka_model::{InstanceKey, Mono, Now, Wall};

use super::inspection::Asker;
use super::{Applied, Declined, Hello, PeerStatus, State};

/// Streams at a time.
const LINKS: usize = 64;

/// Logs of others of which the position is remembered; the one heard of longest ago goes.
const LOGS: usize = 64;

/// A server that says nothing for so long is taken for gone when another comes under its name.
const SILENT: Duration = Duration::from_secs(3);

/// Keys waiting to be asked about, per stream. More run out of their leases together only when this server is cut
/// off, and then it holds them anyway.
const PROBES: usize = 100_000;

/// Streams and positions. Locked for moments, never while the registry is asked.
#[derive(Default)]
pub(super) struct Table {
    pub(super) links: BTreeMap<String, Entry>,
    pub(super) applied: VecDeque<Applied>,
    last_id: u64,
    /// A peer that knows all told all of it.
    pub(super) synced: bool,
    /// The stream that was asked for everything.
    puller: Option<u64>,
}

/// What others see of a stream.
pub(super) struct Entry {
    pub(super) id: u64,
    pub(super) boot: u64,
    pub(super) address: String,
    dialed: bool,
    since: Mono,
    pub(super) heard: Mono,
    pub(super) skew_ms: i64,
    pub(super) state: State,
    /// Position in this server's log that was sent and acknowledged.
    pub(super) sent: u64,
    pub(super) acked: u64,
    /// When the peer last had everything.
    pub(super) level: Mono,
    pub(super) probes: VecDeque<InstanceKey>,
    /// An operator who asks where the peer differs.
    pub(super) asker: Option<Asker>,
}

impl Table {
    pub(super) fn enter(&mut self, hello: &Hello, address: &str, dialed: bool, now: Now) -> u64 {
        self.last_id += 1;
        let address = if hello.address.is_empty() { address } else { &hello.address };
        let entry = Entry {
            id: self.last_id,
            boot: hello.boot,
            address: address.to_owned(),
            dialed,
            since: now.mono,
            heard: now.mono,
            skew_ms: skew(hello.wall, now.wall),
            state: State { ready: hello.ready, ..State::default() },
            sent: 0,
            acked: 0,
            level: now.mono,
            probes: VecDeque::new(),
            asker: None,
        };
        self.links.insert(hello.node.clone(), entry);
        self.last_id
    }

    /// Decides between a stream that is there and a new one of the same name. `own` is this server's boot.
    pub(super) fn admit(&self, hello: &Hello, dialed: bool, own: u64, now: Now) -> Result<(), Declined> {
        let Some(entry) = self.links.get(&hello.node) else {
            return if self.links.len() < LINKS { Ok(()) } else { Err(Declined::TooMany { limit: LINKS }) };
        };
        if entry.boot == hello.boot {
            // Both sides opened one: both keep the one that the server of the smaller id opened.
            let preferred = dialed == (own < hello.boot);
            return if preferred || entry.dialed == dialed { Ok(()) } else { Err(Declined::Duplicate) };
        }
        if now.mono.since(entry.heard) < SILENT {
            let address = entry.address.clone();
            return Err(Declined::NodeAlive { node: hello.node.clone(), address });
        }
        Ok(())
    }

    /// Takes a stream for the one that is asked for everything, if none is and that is still to be done.
    pub(super) fn pull(&mut self, id: u64) -> bool {
        let free = !self.synced && self.puller.is_none();
        if free {
            self.puller = Some(id);
        }
        free
    }

    /// A stream told everything; that counts if it was asked.
    pub(super) fn pulled(&mut self, id: u64) {
        self.synced |= self.puller.take_if(|puller| *puller == id).is_some();
    }

    /// A stream ended.
    pub(super) fn leave(&mut self, id: u64, node: &str) {
        self.puller.take_if(|puller| *puller == id);
        if self.links.get(node).is_some_and(|entry| entry.id == id) {
            self.links.remove(node);
        }
    }

    /// The entry of a stream, unless another has taken its place.
    pub(super) fn entry(&mut self, id: u64, node: &str) -> Option<&mut Entry> {
        self.links.get_mut(node).filter(|entry| entry.id == id)
    }

    /// Notes that a peer's log is taken in up to a revision.
    pub(super) fn apply(&mut self, applied: Applied) {
        let known = self.applied.iter().position(|known| known.boot == applied.boot);
        let before = known.and_then(|at| self.applied.remove(at)).map_or(0, |known| known.revision);
        if self.applied.len() == LOGS {
            self.applied.pop_front();
        }
        self.applied.push_back(Applied { revision: applied.revision.max(before), ..applied });
    }

    pub(super) fn ask(&mut self, lapsing: &[InstanceKey]) {
        for entry in self.links.values_mut() {
            let room = PROBES.saturating_sub(entry.probes.len());
            entry.probes.extend(lapsing.iter().take(room).cloned());
        }
    }
}

impl Entry {
    pub(super) fn status(&self, node: &str, head: u64, now: Now) -> PeerStatus {
        let backlog = head.saturating_sub(self.acked);
        PeerStatus {
            node: node.to_owned(),
            boot: self.boot,
            address: self.address.clone(),
            dialed: self.dialed,
            connected_for: now.mono.since(self.since),
            silent_for: now.mono.since(self.heard),
            backlog,
            lag: if self.acked >= self.sent { Duration::ZERO } else { now.mono.since(self.level) },
            skew_ms: self.skew_ms,
            state: self.state.clone(),
        }
    }
}

fn skew(theirs: Wall, ours: Wall) -> i64 {
    let distance = i64::try_from(theirs.0.abs_diff(ours.0)).unwrap_or(i64::MAX);
    if theirs >= ours { distance } else { -distance }
}
