//! What is known from the whole recording, before its streams are judged one step after the other.

use std::collections::HashMap;

use heureka_model::{InstanceKey, Selectors, Version};
use heureka_proto::v1;
use heureka_proto::v1::watch_event::Event;
use prost::Message as _;

use crate::heard::Heard;
use crate::recording::{Recording, What};
use crate::set::Set;
use crate::wrote::{State, Write};

/// Acknowledged writes, and removals that anybody was told of.
#[derive(Debug, Default)]
pub(crate) struct Facts<'a> {
    /// By life of the server.
    writes: HashMap<u64, HashMap<&'a InstanceKey, Vec<&'a Write>>>,
    removals: HashMap<InstanceKey, Version>,
}

impl<'a> Facts<'a> {
    pub(crate) fn gather(recording: &'a Recording) -> Self {
        let mut facts = Self::default();
        for step in recording.steps() {
            match &step.what {
                What::Wrote(wrote) => wrote.writes().iter().for_each(|write| facts.wrote(write)),
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
    ) -> Vec<&'a Write> {
        let Some(keys) = self.writes.get(&set.boot) else { return Vec::new() };
        let newest = keys.values().filter_map(|writes| {
            let covered = writes.iter().rposition(|write| write.revision <= revision)?;
            let last = covered + 1 == writes.len();
            (settled || last).then(|| writes[covered])
        });
        newest.filter(|write| self.is_missing(write, set, selectors)).collect()
    }

    fn is_missing(&self, write: &Write, set: &Set, selectors: &Selectors) -> bool {
        let Some(held) = set.version(&write.key) else {
            let wanted = matches!(&write.state, State::Live(live) if selectors.matches(live));
            let since = self.removals.get(&write.key);
            // What a part of a set lacks may have been told before it.
            return set.is_whole() && wanted && since.is_none_or(|removed| *removed <= write.version);
        };
        held < write.version
    }

    fn wrote(&mut self, write: &'a Write) {
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
                *known = heard.version.max(*known);
            }
        }
    }
}
