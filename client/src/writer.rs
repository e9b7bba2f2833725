//! The order of this process's own writes.

use std::collections::HashMap;

use bytes::Bytes;
use heureka_model::{InstanceKey, Wall};
use heureka_proto::v1;

/// Who writes, and what was written. Versions start from the wall clock, so that they outrank those of an earlier
/// life even on a server that never saw it. A key that a server holds at a greater one continues from there, so that
/// a wrong clock does not matter for long; the versions of other keys do not follow it.
#[derive(Debug)]
pub(crate) struct Writer {
    incarnation: Bytes,
    /// Greatest version that came from the clock.
    last: u64,
    /// Greatest version used or returned, of keys for which that is above `last`.
    raised: HashMap<InstanceKey, u64>,
    first: bool,
}

impl Writer {
    pub(crate) fn new(incarnation: [u8; 16]) -> Self {
        let incarnation = Bytes::copy_from_slice(&incarnation);
        Self { incarnation, last: 0, raised: HashMap::new(), first: true }
    }

    /// The next write of a key; nothing when no version is left above that which is stored.
    pub(crate) fn next(&mut self, key: &InstanceKey, now: Wall) -> Option<v1::Writer> {
        self.last = self.last.saturating_add(1).max(now.0);
        let above = self.raised.get(key).map_or(Some(0), |stored| stored.checked_add(1))?;
        if above > self.last {
            self.raised.insert(key.clone(), above);
        } else {
            self.raised.remove(key);
        }
        Some(self.at(above.max(self.last)))
    }

    /// The write that was acknowledged with this version, as a renewal states it.
    pub(crate) fn at(&self, version: u64) -> v1::Writer {
        v1::Writer { incarnation: self.incarnation.clone(), version, first: self.first }
    }

    /// A server took a write of the key, and stores or remembers this version.
    pub(crate) fn acknowledge(&mut self, key: &InstanceKey, owner: u64) {
        self.raise(key, owner);
        self.first = false;
    }

    /// Somebody else holds the key at this version: the next one of it has to be greater.
    pub(crate) fn raise(&mut self, key: &InstanceKey, owner: u64) {
        if owner > self.last {
            let raised = self.raised.entry(key.clone()).or_default();
            *raised = owner.max(*raised);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::key;

    fn version(writer: &mut Writer, id: &str, now: u64) -> Option<u64> {
        writer.next(&key(id), Wall(now)).map(|write| write.version)
    }

    #[test]
    fn versions_of_a_key_rise_above_whatever_was_returned_for_it() {
        let mut writer = Writer::new([7; 16]);
        let first = writer.next(&key("a"), Wall(7)).unwrap();
        assert_eq!(first.version, 7);
        assert!(first.first && first.incarnation.len() == 16);
        writer.acknowledge(&key("a"), 1000);
        let second = writer.next(&key("a"), Wall(8)).unwrap();
        assert_eq!((second.version, second.first), (1001, false));
        writer.raise(&key("a"), 5);
        assert_eq!(version(&mut writer, "a", 0), Some(1002));
        assert_eq!(version(&mut writer, "a", 5000), Some(5000));
        assert!(writer.raised.is_empty());
    }

    #[test]
    fn a_key_at_the_top_raises_no_other() {
        let mut writer = Writer::new([7; 16]);
        assert_eq!(version(&mut writer, "a", 7), Some(7));
        writer.raise(&key("a"), u64::MAX - 1);
        assert_eq!(version(&mut writer, "a", 8), Some(u64::MAX));
        assert_eq!(version(&mut writer, "a", 9), None);
        assert_eq!([version(&mut writer, "b", 20), version(&mut writer, "b", 20)], [Some(20), Some(21)]);
    }

    #[test]
    fn a_write_counts_as_the_first_until_one_is_acknowledged() {
        let mut writer = Writer::new([7; 16]);
        writer.raise(&key("a"), 1000);
        assert!(writer.next(&key("a"), Wall(0)).unwrap().first);
        writer.acknowledge(&key("a"), 1001);
        assert_eq!((writer.at(1001).version, writer.at(1001).first), (1001, false));
    }
}
