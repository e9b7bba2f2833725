//! What a server stored before it ended, when it starts again.

use heureka_model::{Now, Stamp};

use crate::leases::{Heard, Sign};
use crate::replication::is_broken;
use crate::{KeyState, Merged, Refused, Registry};

impl Registry {
    /// Takes in what this server knew of a key before its restart. What is known by now and newer stays.
    ///
    /// An instance gets a whole lease from now, so that its owner has the time to find the server again. That lease
    /// is no sign of life: peers are not told of it, and the instance goes when one of them removed it. A row with a
    /// clock that is too far ahead to be right is left out, as [`Merged::Lapsed`].
    ///
    /// # Errors
    /// [`Refused::Full`].
    pub fn restore(&self, stored: KeyState, now: Now) -> Result<Merged, Refused> {
        let clock = stored.owner.written.clock.max(stored.overlay_stamp.clock);
        if is_broken(clock, now) {
            return Ok(Merged::Lapsed);
        }
        // Who was stored as alive was beating; a lease never renewed would be the first to go.
        let sign = Sign { at: self.moment(now), heard: Heard::Nobody, beaten: true };
        self.merge_signed(stored, sign, false, now)
    }

    /// Keeps this server's clock ahead of one that it showed before its restart, unless that is too far ahead to be
    /// right.
    pub fn restore_clock(&self, clock: u64, now: Now) {
        if !is_broken(clock, now) {
            self.log.observe(Stamp { clock, ..Stamp::default() });
        }
    }

    /// This server's clock: no write that it made or took in is above it.
    #[must_use]
    pub fn clock(&self) -> u64 {
        self.log.hold().position().1
    }
}
