//! The cluster as the monitors see it.

use super::Server;
use crate::client::Client;
use crate::net::Lines;
use crate::observe::Seen;
use crate::plan::{Plan, Shape};

/// Everything at one moment.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) at: u64,
    pub(crate) servers: &'a [Server],
    pub(crate) clients: &'a [Client],
    pub(crate) lines: &'a Lines,
}

impl<'a> View<'a> {
    pub(crate) fn shape(&self) -> &'a Shape {
        &self.plan.shape
    }

    pub(crate) fn seen(&self, node: usize, key: usize) -> Option<Seen> {
        self.servers[node].seen[key]
    }

    /// What a server shows of a key.
    pub(crate) fn live(&self, node: usize, key: usize) -> Option<Seen> {
        self.seen(node, key).filter(Seen::is_live)
    }

    pub(crate) fn is_up(&self, node: usize) -> bool {
        self.servers[node].is_up()
    }

    /// Servers that work.
    pub(crate) fn up(&self) -> impl Iterator<Item = usize> + Clone + 'a {
        let servers = self.servers;
        (0..servers.len()).filter(|node| servers[*node].is_up())
    }

    /// Whether nothing has disturbed two servers and what they say to each other for so long.
    pub(crate) fn are_at_peace(&self, one: usize, other: usize, for_ms: u64) -> bool {
        let peace = |node: usize| self.is_up(node) && self.servers[node].disturbed + for_ms <= self.at;
        let clear = self.lines.is_clear(one, other) && self.lines.is_clear(other, one);
        peace(one) && peace(other) && clear
    }

    /// Whether what a server holds of a key has stood for so long.
    pub(crate) fn unchanged(&self, node: usize, key: usize, for_ms: u64) -> bool {
        self.servers[node].changed[key] + for_ms <= self.at
    }

    /// Whether a server still remembers that a key was removed.
    pub(crate) fn unforgotten(&self, node: usize, key: usize) -> bool {
        !self.unchanged(node, key, self.remembered())
    }

    /// How long a removal is remembered.
    pub(crate) fn remembered(&self) -> u64 {
        self.shape().tombstone_ttl.max(2 * self.shape().lease)
    }

    /// Two servers that show a key differently, and the key.
    pub(crate) fn differing(&self) -> Option<(usize, usize, usize)> {
        let mut up = self.up();
        let first = up.next()?;
        up.find_map(|node| Some((first, node, self.differing_between(first, node)?)))
    }

    /// A key that two servers show differently.
    pub(crate) fn differing_between(&self, one: usize, other: usize) -> Option<usize> {
        let shown = |node, key| self.live(node, key).map(|seen| (seen.version(), seen.overlay, seen.said));
        (0..self.shape().clients).find(|key| shown(one, *key) != shown(other, *key))
    }
}
