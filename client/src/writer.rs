//! The order of this process's own writes.

use bytes::Bytes;
use heureka_model::Wall;
use heureka_proto::v1;

/// Who writes, and what was written. Versions start from the wall clock, so that they outrank those of an earlier
/// life even on a server that never saw it, and continue from what servers return, so that a wrong clock does not
/// matter for long.
#[derive(Debug)]
pub(crate) struct Writer {
    incarnation: Bytes,
    /// Greatest version used or returned.
    last: u64,
    first: bool,
}

impl Writer {
    pub(crate) fn new(incarnation: [u8; 16]) -> Self {
        Self { incarnation: Bytes::copy_from_slice(&incarnation), last: 0, first: true }
    }

    /// The next write.
    pub(crate) fn next(&mut self, now: Wall) -> v1::Writer {
        self.last = self.last.saturating_add(1).max(now.0);
        self.at(self.last)
    }

    /// The write that was acknowledged with this version, as a renewal states it.
    pub(crate) fn at(&self, version: u64) -> v1::Writer {
        v1::Writer { incarnation: self.incarnation.clone(), version, first: self.first }
    }

    /// A server took a write, and stores or remembers this version.
    pub(crate) fn acknowledge(&mut self, owner: u64) {
        self.raise(owner);
        self.first = false;
    }

    /// Somebody else holds this version: the next one has to be greater.
    pub(crate) fn raise(&mut self, owner: u64) {
        self.last = self.last.max(owner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_rise_above_whatever_was_returned() {
        let mut writer = Writer::new([7; 16]);
        let first = writer.next(Wall(7));
        assert_eq!(first.version, 7);
        assert!(first.first && first.incarnation.len() == 16);
        writer.acknowledge(1000);
        let second = writer.next(Wall(8));
        assert_eq!((second.version, second.first), (1001, false));
        writer.raise(5);
        assert_eq!(writer.next(Wall(0)).version, 1002);
        assert_eq!(writer.next(Wall(5000)).version, 5000);
    }

    #[test]
    fn a_write_counts_as_the_first_until_one_is_acknowledged() {
        let mut writer = Writer::new([7; 16]);
        writer.raise(1000);
        assert!(writer.next(Wall(0)).first);
        writer.acknowledge(1001);
        assert_eq!((writer.at(1001).version, writer.at(1001).first), (1001, false));
    }
}
