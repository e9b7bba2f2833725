//! What is known from the whole recording, before its streams are judged one step after the other.

use std::collections::HashMap;

use heureka_model::{InstanceKey, Selectors, Stamp, Version};
use heureka_proto::v1;
use heureka_proto::v1::watch_event::Event;
use prost::Message as _;

use crate::heard::Heard;
use crate::recording::{Recording, What};
use crate::set::Set;
use crate::wrote::{State, Write};

/// Lines after a mark in which writes are answered that servers had before it.
const UNDER_WAY: usize = 100;

/// Acknowledged writes, and removals that anybody was told of.
#[derive(Debug, Default)]
pub(crate) struct Facts<'a> {
    /// By life of the server.
    writes: HashMap<u64, HashMap<&'a InstanceKey, Vec<&'a Write>>>,
    /// The same by key, with the line of the answer.
    answered: HashMap<&'a InstanceKey, Vec<(usize, &'a Write)>>,
    removals: HashMap<InstanceKey, Version>,
}

impl<'a> Facts<'a> {
    pub(crate) fn gather(recording: &'a Recording) -> Self {
        let mut facts = Self::default();
        for (index, step) in recording.steps().iter().enumerate() {
            match &step.what {
                What::Wrote(wrote) => wrote.writes().iter().for_each(|write| facts.wrote(index + 1, write)),
                What::Forgot(key) => facts.forgot(key),
                What::Message(bytes) => facts.heard(bytes),
                _ => {}
            }
        }
        let all = facts.writes.values_mut().flat_map(HashMap::values_mut);
        all.for_each(|writes| writes.sort_by_key(|write| write.version));
        facts
    }

    pub(crate) fn count(&self) -> usize {
        self.writes.values().flat_map(HashMap::values).map(Vec::len).sum()
    }

    /// Writes that a mark covers and `set` knows nothing of. A mark without a digest may stand where the log is
    /// ahead: then only keys that were not written again have to be told.
    pub(crate) fn missing(
        &self,
        set: &Set,
        selectors: &Selectors,
        revision: u64,
        settled: bool,
        line: usize,
    ) -> Vec<&'a Write> {
        let Some(keys) = self.writes.get(&set.boot) else { return Vec::new() };
        let newest = keys.values().filter_map(|writes| {
            let covered = writes.iter().rposition(|write| write.revision <= revision)?;
            let last = covered + 1 == writes.len();
            (settled || last).then(|| writes[covered])
        });
        newest.filter(|write| self.is_missing(write, set, selectors, line)).collect()
    }

    fn is_missing(&self, write: &Write, set: &Set, selectors: &Selectors, line: usize) -> bool {
        let Some(held) = set.version(&write.key) else {
            let wanted = matches!(&write.state, State::Live(live) if selectors.matches(live));
            let since = self.removals.get(&write.key);
            // What a part of a set lacks may have been told before it.
            let is_removed = since.is_some_and(|removed| overtakes(removed, &write.version));
            return set.is_whole() && wanted && !is_removed && !self.is_overtaken(write, line);
        };
        held < write.version
    }

    /// Whether another server took a write of the key by then that is newer in one of its parts. It is on its way to
    /// this one, or was merged there with what was written here: then what became of both is nobody's write.
    fn is_overtaken(&self, write: &Write, line: usize) -> bool {
        let mut answered = self.answered.get(&write.key).into_iter().flatten();
        answered.any(|(at, other)| {
            *at <= line + UNDER_WAY && other.boot != write.boot && overtakes(&other.version, &write.version)
        })
    }

    fn wrote(&mut self, line: usize, write: &'a Write) {
        self.answered.entry(&write.key).or_default().push((line, write));
        self.writes.entry(write.boot).or_default().entry(&write.key).or_default().push(write);
    }

    fn forgot(&mut self, key: &InstanceKey) {
        self.writes.values_mut().for_each(|keys| drop(keys.remove(key)));
    }

    fn heard(&mut self, bytes: &bytes::Bytes) {
        let Ok(response) = v1::WatchResponse::decode(bytes.clone()) else { return };
        let Some(Event::Changes(batch)) = response.event.and_then(|event| event.event) else { return };
        for heard in batch.changes.into_iter().filter_map(|change| Heard::read(change).ok()) {
            if heard.live.is_none() {
                let known = self.removals.entry(heard.key).or_default();
                *known = newest_parts(known, &heard.version);
            }
        }
    }
}

/// Whether one version is newer in one of its parts. Owner and operator write theirs apart, and servers merge them:
/// an override that took an instance from a set does so for what its owner wrote meanwhile at another server, too.
fn overtakes(other: &Version, written: &Version) -> bool {
    owners(other) > owners(written) || other.overlay > written.overlay
}

fn newest_parts(one: &Version, other: &Version) -> Version {
    let newest = if owners(one) >= owners(other) { one } else { other };
    Version { overlay: one.overlay.max(other.overlay), ..*newest }
}

/// The owner's part.
fn owners(version: &Version) -> (u64, Stamp) {
    (version.owner, version.written)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(owner: u64, overlay: u64) -> Version {
        let stamp = |clock| Stamp { clock, boot: 1 };
        Version { owner, written: stamp(owner), overlay: stamp(overlay) }
    }

    #[test]
    fn a_removal_overtakes_a_write_by_either_part() {
        for (removed, overtakes_it) in
            [((2, 1), true), ((1, 2), true), ((1, 1), false), ((0, 1), false), ((1, 0), false)]
        {
            let removed = version(removed.0, removed.1);
            assert_eq!(overtakes(&removed, &version(1, 1)), overtakes_it, "{removed:?}");
        }
        assert_eq!(newest_parts(&version(3, 1), &version(2, 5)), version(3, 5));
        assert_eq!(newest_parts(&version(2, 5), &version(3, 1)), version(3, 5));
    }
}
