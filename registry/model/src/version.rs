//! The order that every server agrees on for the content of one key.

/// Position of one write among the writes of one server process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// Hybrid logical clock of the accepting server: 48 bits milliseconds, 16 bits counter.
    pub clock: u64,
    /// Random id of that server's process start; makes equal clocks of two lives differ.
    pub boot: u64,
}

/// Version of what is delivered for a key.
///
/// Compared field by field in the order written: the owner's statements outrank any server's clock, the
/// operator's overlay breaks the rest. Equal versions mean equal content, except for lease times, the last
/// dirty and last updated times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Version the owner gave, made monotone by the server that accepted the write.
    pub owner: u64,
    /// The accepting server's position of the last write to the owner's record.
    pub written: Stamp,
    /// Position of the last write to the operator's overlay; zero until the first.
    pub overlay: Stamp,
}

impl Version {
    /// The five parts in the order in which they compare, as they stand in digests.
    #[must_use]
    pub fn parts(&self) -> [u64; 5] {
        [self.owner, self.written.clock, self.written.boot, self.overlay.clock, self.overlay.boot]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_outranks_every_clock() {
        let late =
            Version { owner: 1, written: Stamp { clock: 9, boot: 9 }, overlay: Stamp { clock: 9, boot: 9 } };
        let newer = Version { owner: 2, ..Version::default() };
        assert!(newer > late);
    }

    #[test]
    fn an_overlay_write_makes_a_newer_version_of_the_same_record() {
        let before = Version { owner: 1, written: Stamp { clock: 5, boot: 1 }, overlay: Stamp::default() };
        let after = Version { overlay: Stamp { clock: 4, boot: 1 }, ..before };
        assert!(after > before);
    }
}
