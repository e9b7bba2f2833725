//! Where two servers differ, for an operator who asks. Nothing is repaired by it.

use std::collections::{BTreeMap, VecDeque};

use heureka_model::{InstanceKey, Version};
use tokio::sync::oneshot;

use super::replicator::Replicator;
use super::{FRAME_KEYS, Frame, Versions};

/// A key on which two servers differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Key.
    pub key: InstanceKey,
    /// Version of the live instance here, when there is one.
    pub local: Option<Version>,
    /// The same at the peer.
    pub remote: Option<Version>,
}

/// Who is told the differences.
pub(super) type Asker = oneshot::Sender<Vec<Difference>>;

/// The questions of one stream, in both directions.
#[derive(Default)]
pub(super) struct Inspection {
    asking: Option<Asking>,
    owing: Option<Owing>,
}

struct Asking {
    asker: Asker,
    theirs: BTreeMap<InstanceKey, Version>,
}

/// What is still to be told to the peer.
struct Owing {
    groups: Vec<u16>,
    versions: VecDeque<(InstanceKey, Version)>,
}

impl Inspection {
    /// Whether an operator's question is under way.
    pub(super) fn is_asking(&self) -> bool {
        self.asking.is_some()
    }

    /// Versions kept of an answer that is under way.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.asking.as_ref().map_or(0, |asking| asking.theirs.len())
    }

    /// Asks for an operator.
    pub(super) fn ask(&mut self, asker: Asker, shared: &Replicator) -> Frame {
        self.asking = Some(Asking { asker, theirs: BTreeMap::new() });
        Frame::Inspect(shared.digest().groups())
    }

    /// A peer asks.
    pub(super) fn asked(&mut self, theirs: &[u64], shared: &Replicator) {
        let groups = shared.digest().groups_unlike(theirs);
        let versions = versions(shared, &groups).collect();
        self.owing = Some(Owing { groups, versions });
    }

    /// The next part of the answer to a peer.
    pub(super) fn next(&mut self) -> Option<Frame> {
        let owing = self.owing.as_mut()?;
        let versions = owing.versions.drain(..owing.versions.len().min(FRAME_KEYS)).collect();
        let over = owing.versions.is_empty().then(|| self.owing.take()).flatten();
        let complete = over.is_some();
        let groups = over.map_or_else(Vec::new, |owing| owing.groups);
        Some(Frame::Versions(Versions { versions, complete, groups }))
    }

    /// A part of the answer came.
    pub(super) fn told(&mut self, told: Versions, shared: &Replicator) {
        let Some(asking) = &mut self.asking else { return };
        if asking.asker.is_closed() {
            // Nobody waits any more. The rest of the answer is still to be told apart from the next one.
            asking.theirs.clear();
        } else {
            asking.theirs.extend(told.versions);
        }
        if told.complete
            && let Some(asking) = self.asking.take()
        {
            let ours = versions(shared, &told.groups).collect();
            // Nobody may wait any more.
            let _ = asking.asker.send(differences(ours, asking.theirs));
        }
    }
}

/// Versions of the live instances of some groups.
fn versions(shared: &Replicator, groups: &[u16]) -> impl Iterator<Item = (InstanceKey, Version)> {
    let slots = shared.digest().slots_of(groups);
    let version = |slot| shared.registry.slots.record(slot).filter(|(_, record)| record.is_live());
    slots.into_iter().filter_map(version).map(|(_, record)| (record.key(), record.version()))
}

fn differences(
    ours: BTreeMap<InstanceKey, Version>,
    mut theirs: BTreeMap<InstanceKey, Version>,
) -> Vec<Difference> {
    let mut differences = Vec::new();
    for (key, local) in ours {
        let remote = theirs.remove(&key);
        if remote != Some(local) {
            differences.push(Difference { key, local: Some(local), remote });
        }
    }
    differences.extend(theirs.into_iter().map(|(key, remote)| Difference {
        key,
        local: None,
        remote: Some(remote),
    }));
    differences
}
