//! Faults that tests plant on purpose, to see that they are found.
//!
//! Without the feature `seeded-bugs` nothing can be planted and [`planted`] is a constant. With it, whoever drives
//! the core chooses one fault at a time.

#[cfg(feature = "seeded-bugs")]
use std::cell::Cell;
use std::sync::Arc;
#[cfg(feature = "seeded-bugs")]
use std::sync::atomic::{AtomicU8, Ordering};

use heureka_model::Registration;

/// A fault, by the number under which reports name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Bug {
    /// A renewed lease counts twice.
    LeaseDoubled = 1,
    /// A lapsed lease is removed without a second look.
    RemovedUnseen = 2,
    /// A cancel is not remembered.
    CancelForgotten = 3,
    /// Removals are remembered for 30 s.
    ShortMemory = 4,
    /// An override goes by the instance's id alone.
    OverrideById = 5,
    /// A change of metadata makes no version.
    MetadataUnversioned = 6,
    /// A stamp below the stored one loses although the instance moved.
    MoveIgnored = 7,
    /// A stamp below the stored one always wins.
    LateAccepted = 8,
    /// A cursor into the log that lags jumps to its head.
    CursorJumps = 9,
    /// One bad record costs the frame.
    FrameDropped = 10,
    /// Stamps do not tell lives of servers apart.
    StampsReused = 11,
    /// A peer's eviction is believed by whoever heard from the instance.
    EvictionBelieved = 12,
    /// An eviction is told as a cancel.
    EvictedAsCancelled = 13,
    /// The digest leaves overrides out.
    DigestWithoutOverride = 14,
    /// A watch that began with everything goes on from the head of the moment at which all of that was read.
    FollowsLate = 15,
    /// The end of the initial part comes before its last changes.
    EndsEarly = 16,
    /// Bookmarks tell the head, whatever is still to be told.
    MarksAhead = 17,
    /// A place of the ring is read without a look at whose it is by now.
    RingWraps = 18,
    /// A token of another life leads on in this server's log.
    ForeignResumed = 19,
    /// Whether a change concerns a watcher is asked of the new content only.
    LeavingUntold = 20,
    /// Snapshots that lack most of a cache are believed.
    ShrinkBelieved = 21,
    /// What removed instances promised is still expected.
    ExpectationKept = 22,
    /// Pauses of the server count against leases.
    PausesCounted = 23,
    /// A server that is learning refuses renewals of what it does not know.
    LearningRefuses = 24,
    /// A renewal of a removed instance is answered OK.
    RemovedRenewed = 25,
    /// Whoever claims at the REST edge to pass on what it was told is believed.
    StrangerBelieved = 26,
    /// Instances that nobody heard from are adopted.
    LapsedAdopted = 27,
    /// What a watcher is told waits for it in a queue without a bound.
    QueueUnbounded = 28,
    /// A change near the head comes with the metadata of the version before.
    ChangeTorn = 29,
    /// What a peer tells takes the place of what is newer here.
    OlderMerged = 30,
    /// A client shows whatever a server tells, older than what it showed or not.
    OlderShown = 31,
    /// A report that comes before its turn is not told when that has come.
    TurnMissed = 32,
    /// Readers are told of every report at once.
    TurnIgnored = 33,
    /// Views do not hear of reports.
    NumbersUnseen = 34,
}

impl Bug {
    /// Those that concern what servers hold and tell each other.
    pub const OF_CLUSTERS: [Self; 21] = [
        Self::LeaseDoubled,
        Self::RemovedUnseen,
        Self::CancelForgotten,
        Self::ShortMemory,
        Self::OverrideById,
        Self::MetadataUnversioned,
        Self::MoveIgnored,
        Self::LateAccepted,
        Self::CursorJumps,
        Self::FrameDropped,
        Self::StampsReused,
        Self::EvictionBelieved,
        Self::EvictedAsCancelled,
        Self::DigestWithoutOverride,
        Self::ExpectationKept,
        Self::PausesCounted,
        Self::LearningRefuses,
        Self::RemovedRenewed,
        Self::StrangerBelieved,
        Self::LapsedAdopted,
        Self::OlderMerged,
    ];

    /// Those that concern what watchers are told and make of it.
    pub const OF_WATCHES: [Self; 14] = [
        Self::FollowsLate,
        Self::EndsEarly,
        Self::MarksAhead,
        Self::RingWraps,
        Self::ForeignResumed,
        Self::LeavingUntold,
        Self::ShrinkBelieved,
        Self::QueueUnbounded,
        Self::ChangeTorn,
        Self::OlderMerged,
        Self::OlderShown,
        Self::TurnMissed,
        Self::TurnIgnored,
        Self::NumbersUnseen,
    ];
}

#[cfg(feature = "seeded-bugs")]
static PLANTED: AtomicU8 = AtomicU8::new(0);

/// Plants a fault in the whole process, or takes away the one that is there; false when this build cannot.
#[cfg(feature = "seeded-bugs")]
pub fn plant(bug: Option<Bug>) -> bool {
    PLANTED.store(bug.map_or(0, |bug| bug as u8), Ordering::Relaxed);
    true
}

/// Plants a fault in the whole process; false when this build cannot: it cannot.
#[cfg(not(feature = "seeded-bugs"))]
pub const fn plant(_bug: Option<Bug>) -> bool {
    false
}

/// Whether a fault is planted.
#[cfg(feature = "seeded-bugs")]
#[must_use]
pub fn planted(bug: Bug) -> bool {
    PLANTED.load(Ordering::Relaxed) == bug as u8
}

/// Whether a fault is planted: none can be.
#[cfg(not(feature = "seeded-bugs"))]
#[must_use]
pub const fn planted(_bug: Bug) -> bool {
    false
}

#[cfg(feature = "seeded-bugs")]
thread_local! {
    static RING: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Sets how many recent changes the servers that this thread starts from now on keep, so that watchers fall behind them
/// within a short run; nothing for as many as always.
#[cfg(feature = "seeded-bugs")]
pub fn shorten_ring(changes: Option<usize>) {
    RING.set(changes);
}

/// How many recent changes are kept, if that was set.
#[cfg(feature = "seeded-bugs")]
pub(crate) fn ring() -> Option<usize> {
    RING.get()
}

/// How many recent changes are kept, if that was set: it cannot be.
#[cfg(not(feature = "seeded-bugs"))]
pub(crate) const fn ring() -> Option<usize> {
    None
}

/// The newest revision that shares its place in the ring with this one, where it is read without a look.
#[cfg(feature = "seeded-bugs")]
pub(crate) fn place_of(revision: u64, head: u64) -> u64 {
    let newest = |ring: u64| revision + head.saturating_sub(revision) / ring * ring;
    ring().filter(|_| planted(Bug::RingWraps)).map_or(revision, |ring| newest(ring as u64))
}

/// The revision itself: no place of the ring is read without a look.
#[cfg(not(feature = "seeded-bugs"))]
pub(crate) const fn place_of(revision: u64, _head: u64) -> u64 {
    revision
}

/// What a reader is told of an instance that changed: a change that is torn has the metadata of before.
#[cfg(feature = "seeded-bugs")]
pub(crate) fn torn(old: Option<&Arc<Registration>>, new: &Arc<Registration>) -> Arc<Registration> {
    let Some(old) = old.filter(|_| planted(Bug::ChangeTorn)) else { return Arc::clone(new) };
    let mut torn = Registration::clone(new);
    torn.instance.metadata = old.instance.metadata.clone();
    Arc::new(torn)
}

/// What a reader is told of an instance that changed: as it is.
#[cfg(not(feature = "seeded-bugs"))]
pub(crate) fn torn(_old: Option<&Arc<Registration>>, new: &Arc<Registration>) -> Arc<Registration> {
    Arc::clone(new)
}
