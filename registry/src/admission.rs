//! Who wins when two writers disagree about one key. Pure: what is stored and what is claimed go in, a decision
//! comes out; the rules are those of `docs/leases.md`, in their order.

use std::time::Duration;

use heureka_model::{Version, Wall};

use crate::apply::Held;
use crate::record::Life;
use crate::seeded::{Bug, planted};
use crate::{Claim, Refused, Writer};

/// A stored stamp further ahead of this server's clock than this refuses nobody.
const STAMP_AHEAD: Duration = Duration::from_mins(1);

/// A version this far ahead of the wall clock does not lift the versions that this server gives.
const OWNER_AHEAD: Duration = Duration::from_hours(24);

/// How far a cancel without a version of its own goes beyond what is known: further than what other servers may write
/// for the same instance before they hear of it, so that none of that brings the instance back.
const CANCEL_STEP: u64 = 256;

/// Consecutive heartbeats of a lower stamp after which its record is believed.
const BELIEVED_BEATS: u8 = 2;

/// What is known of a key, as far as admission asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) life: Life,
    pub(crate) version: Version,
    /// Writing process folded to a word; 0 when no native writer.
    pub(crate) incarnation: u64,
    pub(crate) dirty: Option<Wall>,
    /// The incoming record says the same.
    pub(crate) same_content: bool,
    /// The incoming record has the same host, address and ports.
    pub(crate) same_address: bool,
    /// Consecutive heartbeats that carried the incoming record's lower stamp.
    pub(crate) lower_beats: u8,
}

impl Stored {
    /// What is held, compared with nothing yet.
    pub(crate) fn of(held: &Held) -> Self {
        let head = held.record.head();
        Self {
            life: head.life,
            version: held.record.version(),
            incarnation: head.incarnation,
            dirty: head.dirty,
            same_content: false,
            same_address: false,
            lower_beats: 0,
        }
    }

    /// As [`Head::latest`](crate::record::Head::latest).
    fn latest(&self) -> u64 {
        self.version.owner.max(self.dirty.unwrap_or_default().0)
    }
}

impl Claim {
    /// The writing process folded to a word; 0 when it named none.
    pub(crate) fn incarnation(self) -> u64 {
        match self {
            Self::Writer(writer) => fold(writer.incarnation),
            Self::Next | Self::Stamp | Self::PeerStamp => 0,
        }
    }
}

/// What becomes of a registration.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Admission {
    /// It is the record from now on, at this owner version.
    Accept {
        owner: u64,
    },
    /// It says what is stored: only the lease is renewed, and the stamp raised to the greater one.
    Renew,
    /// It is a late copy: the stored record stays; a live one is renewed when the owner itself sent it.
    Late {
        renew: bool,
    },
    Refuse(Refused),
}

/// Decides a registration.
pub(crate) fn register(stored: Option<&Stored>, claim: Claim, stamp: Option<Wall>, now: Wall) -> Admission {
    let Some(stored) = stored else {
        return Admission::Accept { owner: first_owner(claim, stamp, now) };
    };
    match claim {
        Claim::Next => next(stored, now),
        Claim::Writer(writer) => native(stored, writer),
        Claim::Stamp => stamped(stored, stamp, now),
        Claim::PeerStamp => from_peer(stored, stamp, now),
    }
}

/// Owner version of a cancel; nothing when there is nothing to change.
pub(crate) fn cancel(
    stored: Option<&Stored>,
    claim: Claim,
    highest: u64,
    now: Wall,
) -> Result<Option<u64>, Refused> {
    let next = stored.map_or(0, |stored| stored.version.owner.saturating_add(1));
    let cancelled = stored.is_some_and(|stored| stored.life == Life::Cancelled);
    let Claim::Writer(writer) = claim else {
        if cancelled {
            return Ok(None);
        }
        let beyond = stored.map_or(0, |stored| stored.version.owner.saturating_add(CANCEL_STEP));
        let seen = highest.saturating_add(CANCEL_STEP).min(now.plus(OWNER_AHEAD).0);
        return Ok(Some(beyond.max(now.0).max(seen)));
    };
    match stored.map(|stored| native_order(stored, writer)) {
        Some(Order::Equal) if cancelled => Ok(None),
        Some(Order::Late) => Ok(None),
        Some(Order::Stale) => Err(stale(stored.map_or(Version::default(), |stored| stored.version))),
        Some(Order::Equal | Order::Newer) | None => Ok(Some(writer.version.max(next))),
    }
}

/// Folds an incarnation to a word that is never 0.
pub(crate) fn fold(incarnation: [u8; 16]) -> u64 {
    let word = u128::from_le_bytes(incarnation);
    let (high, low) = ((word >> 64) as u64, word as u64);
    (high.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ low).max(1)
}

/// Where a native write stands in the order of the owner's writes.
enum Order {
    Late,
    Equal,
    Newer,
    Stale,
}

fn native_order(stored: &Stored, writer: Writer) -> Order {
    let own = stored.incarnation == fold(writer.incarnation);
    match writer.version.cmp(&stored.version.owner) {
        std::cmp::Ordering::Less if own => Order::Late,
        std::cmp::Ordering::Equal if own => Order::Equal,
        std::cmp::Ordering::Greater => Order::Newer,
        _ if !own && writer.first => Order::Newer,
        _ => Order::Stale,
    }
}

fn native(stored: &Stored, writer: Writer) -> Admission {
    match (native_order(stored, writer), stored.life) {
        (Order::Late, Life::Expired) => Admission::Refuse(stale(stored.version)),
        (Order::Late, _) => Admission::Late { renew: false },
        (Order::Equal, Life::Live) if stored.same_content => Admission::Renew,
        (Order::Equal, Life::Live) => Admission::Late { renew: false },
        (Order::Equal, Life::Cancelled) | (Order::Stale, _) => Admission::Refuse(stale(stored.version)),
        (Order::Equal, Life::Expired) | (Order::Newer, _) => {
            Admission::Accept { owner: writer.version.max(stored.version.owner.saturating_add(1)) }
        }
    }
}

fn next(stored: &Stored, now: Wall) -> Admission {
    if stored.life == Life::Live && stored.same_content {
        return Admission::Renew;
    }
    let owner = stored.version.owner.saturating_add(1);
    Admission::Accept { owner: if stored.life == Life::Live { owner } else { owner.max(now.0) } }
}

fn stamped(stored: &Stored, stamp: Option<Wall>, now: Wall) -> Admission {
    let after = |stamp: Wall| Admission::Accept { owner: stamp.0.max(stored.latest().saturating_add(1)) };
    if stored.life != Life::Live {
        return after(stamp.unwrap_or(now));
    }
    let Some(stamp) = stamp else {
        return if stored.same_content { Admission::Renew } else { after(now) };
    };
    let known = stored.dirty.unwrap_or_default();
    if stamp >= known {
        return if stored.same_content { Admission::Renew } else { after(stamp) };
    }
    let same_address = stored.same_address || planted(Bug::MoveIgnored);
    let late = !is_ahead(known, now) && same_address && stored.lower_beats < BELIEVED_BEATS;
    let late = late && !planted(Bug::LateAccepted);
    if late { Admission::Late { renew: true } } else { after(stamp) }
}

fn from_peer(stored: &Stored, stamp: Option<Wall>, now: Wall) -> Admission {
    let stamp = stamp.unwrap_or(now).0;
    let known = stored.version.owner;
    match stored.life {
        // Here the owner's stamp counts as well: it may have said the same again since.
        Life::Live if stamp == stored.latest() && stored.same_content => Admission::Renew,
        Life::Live if stamp < stored.latest() => Admission::Late { renew: true },
        Life::Cancelled if stamp <= known => Admission::Late { renew: false },
        Life::Expired if stamp < known => Admission::Late { renew: false },
        _ => Admission::Accept { owner: stamp },
    }
}

/// Whether a stored stamp lies too far ahead to be compared with.
pub(crate) fn is_ahead(stamp: Wall, now: Wall) -> bool {
    stamp > now.plus(STAMP_AHEAD)
}

fn first_owner(claim: Claim, stamp: Option<Wall>, now: Wall) -> u64 {
    match claim {
        Claim::Next => now.0.max(1),
        Claim::Writer(writer) => writer.version,
        Claim::Stamp | Claim::PeerStamp => stamp.unwrap_or(now).0,
    }
}

fn stale(stored: Version) -> Refused {
    Refused::Stale { stored }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Wall = Wall(1_000_000);

    fn stored(life: Life, owner: u64, dirty: u64) -> Stored {
        Stored {
            life,
            version: Version { owner, ..Version::default() },
            incarnation: fold([1; 16]),
            dirty: Some(Wall(dirty)),
            same_content: false,
            same_address: true,
            lower_beats: 0,
        }
    }

    fn writer(incarnation: u8, version: u64, first: bool) -> Claim {
        Claim::Writer(Writer { incarnation: [incarnation; 16], version, first })
    }

    const fn accept(owner: u64) -> Admission {
        Admission::Accept { owner }
    }

    fn refuse(owner: u64) -> Admission {
        Admission::Refuse(stale(Version { owner, ..Version::default() }))
    }

    #[test]
    fn native_writers() {
        let late = Admission::Late { renew: false };
        let table = [
            ("an older write of its own is a late copy", Life::Live, writer(1, 4, false), late.clone()),
            ("so it is after its cancel", Life::Cancelled, writer(1, 4, false), late.clone()),
            ("an equal write with other content is one too", Life::Live, writer(1, 5, false), late),
            ("a cancelled write does not come back", Life::Cancelled, writer(1, 5, false), refuse(5)),
            ("an expired one does, as a newer version", Life::Expired, writer(1, 5, false), accept(6)),
            ("an expired one is told to raise its version", Life::Expired, writer(1, 4, false), refuse(5)),
            ("a newer write wins", Life::Live, writer(1, 9, false), accept(9)),
            ("another process with an older version is stale", Life::Live, writer(2, 5, false), refuse(5)),
            ("unless it is its first write", Life::Live, writer(2, 3, true), accept(6)),
            ("a first write also follows a cancel", Life::Cancelled, writer(2, 3, true), accept(6)),
            ("another process with a newer version wins", Life::Live, writer(2, 9, false), accept(9)),
        ];
        for (rule, life, claim, expected) in table {
            assert_eq!(register(Some(&stored(life, 5, 5)), claim, None, NOW), expected, "{rule}");
        }
        let same = Stored { same_content: true, ..stored(Life::Live, 5, 5) };
        assert_eq!(register(Some(&same), writer(1, 5, false), None, NOW), Admission::Renew);
        assert_eq!(register(None, writer(1, 5, true), None, NOW), accept(5));
    }

    #[test]
    fn writers_without_a_version_are_given_the_next() {
        assert_eq!(register(None, Claim::Next, None, NOW), accept(NOW.0));
        assert_eq!(register(Some(&stored(Life::Live, 5, 5)), Claim::Next, None, NOW), accept(6));
        assert_eq!(register(Some(&stored(Life::Cancelled, 5, 5)), Claim::Next, None, NOW), accept(NOW.0));
        let same = Stored { same_content: true, ..stored(Life::Live, 5, 5) };
        assert_eq!(register(Some(&same), Claim::Next, None, NOW), Admission::Renew);
    }

    #[test]
    fn eureka_stamps() {
        let live = stored(Life::Live, 100, 100);
        let same = Stored { same_content: true, ..live };
        let moved = Stored { same_address: false, ..live };
        let believed = Stored { lower_beats: 2, ..live };
        let raised = Stored { dirty: Some(Wall(200)), ..moved };
        let ahead = Stored { dirty: Some(Wall(NOW.0 + 60_001)), ..live };
        let barely = Stored { dirty: Some(Wall(NOW.0 + 60_000)), ..live };
        let late = Admission::Late { renew: true };
        let table = [
            ("a newer stamp wins", live, Some(101), accept(101)),
            ("an equal stamp with other content wins", live, Some(100), accept(101)),
            ("an older stamp is a late copy", live, Some(99), late.clone()),
            ("from another address it is a new incarnation", moved, Some(99), accept(101)),
            ("two heartbeats of it are believed", believed, Some(99), accept(101)),
            ("its version is above what other servers may know", raised, Some(99), accept(201)),
            ("a stored stamp far ahead refuses nobody", ahead, Some(99), accept(NOW.0 + 60_002)),
            ("one within a minute does", barely, Some(99), late),
            ("the same content renews", same, Some(100), Admission::Renew),
            ("the same content with a newer stamp renews", same, Some(200), Admission::Renew),
            ("the same content without a stamp renews", same, None, Admission::Renew),
            ("other content without a stamp counts as now", live, None, accept(NOW.0)),
            (
                "after a cancel it is a new incarnation",
                stored(Life::Cancelled, 200, 100),
                Some(100),
                accept(201),
            ),
            ("so it is after expiry", stored(Life::Expired, 100, 100), Some(50), accept(101)),
        ];
        for (rule, stored, stamp, expected) in table {
            assert_eq!(register(Some(&stored), Claim::Stamp, stamp.map(Wall), NOW), expected, "{rule}");
        }
        assert_eq!(register(None, Claim::Stamp, Some(Wall(7)), NOW), accept(7));
        assert_eq!(register(None, Claim::Stamp, None, NOW), accept(NOW.0));
    }

    #[test]
    fn copies_from_eureka_peers() {
        let live = stored(Life::Live, 100, 100);
        let raised = stored(Life::Live, 100, 200);
        let same = Stored { same_content: true, ..live };
        let table = [
            ("newer wins", live, 101, accept(101)),
            ("equal with other content wins", live, 100, accept(100)),
            ("equal with the same content renews", same, 100, Admission::Renew),
            ("older renews what is stored", live, 99, Admission::Late { renew: true }),
            ("also when only the stamp was raised since", raised, 150, Admission::Late { renew: true }),
            ("the raised stamp with other content wins", raised, 200, accept(200)),
            ("a stamp above it wins", raised, 201, accept(201)),
            (
                "a tombstone stands against its own stamp",
                stored(Life::Cancelled, 100, 1),
                100,
                Admission::Late { renew: false },
            ),
            ("a newer life follows it", stored(Life::Cancelled, 100, 1), 101, accept(101)),
            (
                "life with the stamp of an expired record revives it",
                stored(Life::Expired, 100, 1),
                100,
                accept(100),
            ),
            ("an older copy does not", stored(Life::Expired, 100, 1), 99, Admission::Late { renew: false }),
        ];
        for (rule, stored, stamp, expected) in table {
            assert_eq!(register(Some(&stored), Claim::PeerStamp, Some(Wall(stamp)), NOW), expected, "{rule}");
        }
    }

    #[test]
    fn cancels_outrank_what_is_stored() {
        let live = stored(Life::Live, 100, 100);
        assert_eq!(cancel(Some(&live), writer(1, 101, false), 0, NOW), Ok(Some(101)));
        assert_eq!(cancel(Some(&live), writer(1, 100, false), 0, NOW), Ok(Some(101)));
        assert_eq!(cancel(Some(&live), writer(1, 99, false), 0, NOW), Ok(None));
        assert!(cancel(Some(&live), writer(2, 100, false), 0, NOW).is_err());
        assert_eq!(cancel(Some(&stored(Life::Cancelled, 100, 1)), writer(1, 100, false), 0, NOW), Ok(None));
        assert_eq!(cancel(None, writer(2, 7, false), 0, NOW), Ok(Some(7)));
        assert_eq!(cancel(None, Claim::Next, 0, NOW), Ok(Some(NOW.0)));
        assert_eq!(
            cancel(None, Claim::Next, NOW.0 + 5, NOW),
            Ok(Some(NOW.0 + 5 + CANCEL_STEP)),
            "above every version seen"
        );
        let ahead = stored(Life::Live, NOW.0 + 100, 100);
        assert_eq!(
            cancel(Some(&ahead), Claim::Next, 0, NOW),
            Ok(Some(NOW.0 + 100 + CANCEL_STEP)),
            "above what others write for it meanwhile"
        );
        let day = NOW.plus(OWNER_AHEAD).0;
        assert_eq!(cancel(None, Claim::Next, u64::MAX - 1, NOW), Ok(Some(day)), "but not above a day ahead");
    }
}
